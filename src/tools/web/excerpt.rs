//! What a model reads of a page that is too long for it.

use std::fmt::Write as _;
use std::ops::Range;

use excerpts::fitness_of_parts;

/// The most characters of a page that a model reads, unless somebody wants others.
pub const EXCERPT_CHARS: usize = 12_000;

/// A part ends with a paragraph once it has this many bytes, and anywhere once it has that many.
const PART_BYTES: usize = 400;
const MAX_PART_BYTES: usize = 1_600;
/// The characters of a line that says how much was left out, with the ends of lines around it.
const GAP_CHARS: usize = 52;

/// What a model reads of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageExcerpt {
    /// Parts of the page, in its order, with lines that say how much is left out between them.
    pub text: String,
    /// How many characters of the page it does not have.
    pub left_out: usize,
    /// The character after the excerpt, to read on from; `None` for parts that a query has chosen,
    /// and at the end.
    pub next: Option<usize>,
}

/// At most `most` characters of a page, from the character `from` on: those parts that fit the
/// query best, or the beginning if there is no query or nothing fits.
pub fn excerpt(markdown: &str, query: &str, from: usize, most: usize) -> PageExcerpt {
    let (before, rest) = split_at_char(markdown, from);
    let before_chars = before.chars().count();
    let mut text = String::new();
    push_gap(&mut text, before);
    let most = most.saturating_sub(text.chars().count());
    let chars = rest.chars().count();
    let (shown, next) = if chars <= most {
        text.push_str(rest);
        (chars, None)
    } else if let Some(shown) = push_fitting_parts(&mut text, rest, query, most) {
        (shown, None)
    } else {
        let shown = push_beginning(&mut text, rest, most);
        (shown, (shown > 0).then_some(before_chars + shown))
    };
    PageExcerpt {
        text,
        left_out: before_chars + chars - shown,
        next,
    }
}

/// The first `chars` characters, and the others.
fn split_at_char(text: &str, chars: usize) -> (&str, &str) {
    let cut = text.char_indices().nth(chars);
    cut.and_then(|(at, _)| text.split_at_checked(at))
        .unwrap_or((text, ""))
}

/// Adds the parts of a page that fit the query best, in at most `most` characters. Returns how many
/// characters of the page these are; `None` if nothing fits.
fn push_fitting_parts(
    text: &mut String,
    markdown: &str,
    query: &str,
    most: usize,
) -> Option<usize> {
    let parts = parts(markdown);
    let mut ranked: Vec<(u32, usize)> = fitness_of_parts(markdown, &parts, query)
        .into_iter()
        .zip(0..)
        .collect();
    if ranked.iter().all(|(fitness, _)| *fitness == 0) {
        return None;
    }
    ranked.sort_by_key(|(fitness, at)| (std::cmp::Reverse(*fitness), *at));
    let mut room = most.saturating_sub(GAP_CHARS);
    let mut shown = 0;
    let mut places: Vec<(usize, &Range<usize>)> = Vec::new();
    for (_, at) in ranked {
        let Some(part) = parts.get(at) else { continue };
        let chars = markdown
            .get(part.clone())
            .map_or(0, |it| it.chars().count());
        if let Some(left) = room.checked_sub(chars + GAP_CHARS) {
            room = left;
            shown += chars;
            places.push((at, part));
        }
    }
    if places.is_empty() {
        return None;
    }
    places.sort_unstable_by_key(|(at, _)| *at);
    let mut end = 0;
    for (_, part) in places {
        push_gap(text, markdown.get(end..part.start).unwrap_or_default());
        text.push_str(markdown.get(part.clone()).unwrap_or_default());
        end = part.end;
    }
    push_gap(text, markdown.get(end..).unwrap_or_default());
    Some(shown)
}

/// Adds the beginning of a page. Returns how many characters it has.
fn push_beginning(text: &mut String, markdown: &str, most: usize) -> usize {
    let shown = most.saturating_sub(GAP_CHARS);
    let (begin, rest) = split_at_char(markdown, shown);
    text.push_str(begin);
    push_gap(text, rest);
    shown
}

/// Says how much is left out, if it is anything.
fn push_gap(text: &mut String, left_out: &str) {
    if left_out.is_empty() {
        return;
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let chars = left_out.chars().count();
    let _ = writeln!(text, "[... {chars} characters left out ...]");
}

/// The parts of a page: paragraphs, small ones together, each behind its heading. A block of code
/// is one part if it is not too long.
fn parts(markdown: &str) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    let mut is_code = false;
    let mut has_text = false;
    for line in markdown.split_inclusive('\n') {
        let is_heading = !is_code && line.starts_with('#');
        if at > start && (is_heading && has_text || at - start + line.len() > MAX_PART_BYTES) {
            parts.push(start..at);
            (start, has_text) = (at, false);
        }
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        has_text |= !is_heading && !line.trim().is_empty();
        let end = at + line.len();
        // A line of any length.
        while end - start > MAX_PART_BYTES {
            let cut = markdown.floor_char_boundary(start + MAX_PART_BYTES);
            parts.push(start..cut);
            start = cut;
        }
        at = end;
        if !is_code && line.trim().is_empty() && at - start >= PART_BYTES {
            parts.push(start..at);
            (start, has_text) = (at, false);
        }
    }
    if at > start {
        parts.push(start..at);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn page() -> String {
        let filler = |number: usize| {
            format!("## Section {number}\n\nThe harbour master wrote about barges and tides.\n\n")
        };
        let mut page: String = (0..900).map(filler).collect();
        let mut headings = page.match_indices("## ").map(|(at, _)| at);
        let at = headings.find(|at| *at > 40_000).unwrap();
        page.insert_str(
            at,
            "## Retries\n\nThe retry_limit setting of the scheduler is 7.\n\n",
        );
        page
    }

    /// Promise: A model reads at most 12,000 characters of a page, and of a longer one those parts
    /// that fit what it searched for, wherever in the page they are.
    #[test]
    fn what_was_searched_for_is_shown_wherever_it_is() {
        let page = page();
        let found = excerpt(&page, "scheduler retry limit", 0, EXCERPT_CHARS);
        assert!(found.text.contains("retry_limit setting"), "{}", found.text);
        assert!(found.text.contains("## Retries"), "{}", found.text);
        assert!(found.text.chars().count() <= EXCERPT_CHARS);
        let begin = excerpt(&page, "", 0, EXCERPT_CHARS);
        assert!(begin.text.starts_with("## Section 0\n"), "{}", begin.text);
        assert!(!begin.text.contains("retry_limit"));
        let nothing = excerpt(&page, "xylophone", 0, EXCERPT_CHARS);
        assert_eq!(nothing, begin);
    }

    /// Promise: An excerpt of a page says how many characters it leaves out, and where.
    #[test]
    fn gaps_say_how_much_is_left_out() {
        let page = page();
        for query in ["", "scheduler retry limit"] {
            let found = excerpt(&page, query, 0, 3_000);
            let gaps = found.text.lines().filter_map(|line| {
                let gap = line.strip_prefix("[... ")?;
                let gap = gap.strip_suffix(" characters left out ...]")?;
                gap.parse::<usize>().ok()
            });
            assert_eq!(gaps.sum::<usize>(), found.left_out, "{query}");
            assert!(found.left_out > page.chars().count() - 3_000);
        }
        let short = excerpt("Short.", "anything", 0, 100);
        assert_eq!((short.text.as_str(), short.left_out), ("Short.", 0));
    }

    /// Promise: Text in Chinese or Japanese is searched and cut between characters.
    #[test]
    fn scripts_without_spaces_are_searched_and_cut_between_characters() {
        let mut page: String = "港长写了关于驳船和潮汐的文章。\n\n".repeat(2_000);
        page.push_str("重试次数的上限是七次。\n\n");
        page.push_str(&"港长写了关于驳船和潮汐的文章。\n\n".repeat(2_000));
        let found = excerpt(&page, "重试次数", 0, 12_000);
        assert!(found.text.contains("上限是七次"));
        let line: String = "潮汐".repeat(20_000);
        for query in ["", "潮汐"] {
            let found = excerpt(&line, query, 0, 12_000);
            let chars = found.text.chars().count();
            assert!((9_000..=12_000).contains(&chars), "{chars}");
        }
    }

    /// Promise: A long page is read on where the excerpt before ended, and nothing of it is missed.
    #[test]
    fn a_page_is_read_to_its_end() {
        let page = format!("{}港。", page());
        let mut read = String::new();
        let mut from = 0;
        loop {
            let part = excerpt(&page, "", from, 5_000);
            assert!(part.text.chars().count() <= 5_000);
            let gap = |line: &&str| line.starts_with("[... ");
            let lines = part.text.split_inclusive('\n');
            let shown: String = lines.filter(|line| !gap(line)).collect();
            let Some(next) = part.next else {
                read.push_str(&shown);
                break;
            };
            assert!(next > from);
            let shown: String = shown.chars().take(next - from).collect();
            read.push_str(&shown);
            from = next;
        }
        assert_eq!(read, page);
        let found = excerpt(&page, "scheduler retry limit", from, 5_000);
        assert!(!found.text.contains("retry_limit"), "{}", found.text);
    }

    proptest! {
        #[test]
        fn no_excerpt_is_too_long(page in "(#? ?[a-z重]{0,30}\n{0,2}){0,80}", query in "[a-z重 ]{0,9}", from in 0_usize..900, most in 0_usize..900) {
            let found = excerpt(&page, &query, from, most);
            prop_assert!(found.text.chars().count() <= most.max(2 * GAP_CHARS));
            let parts = parts(&page);
            let texts = parts.iter().map(|part| page.get(part.clone()).unwrap());
            let whole: String = texts.collect();
            prop_assert_eq!(whole, page);
        }
    }
}
