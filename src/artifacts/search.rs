//! Searches a text line by line, like grep with line numbers.
//!
//! Minified files have very long lines. Such a line is searched match by match, and only
//! the surroundings of each match are shown.

use std::collections::VecDeque;
use std::fmt::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

/// The maximum number of context lines on each side of a match.
pub const MAX_CONTEXT_LINES: usize = 20;

/// A line with more bytes is a long line.
const MAX_SHORT_LINE: usize = 600;

/// The bytes of a long line that are shown on each side of a match.
const BYTES_AROUND_MATCH: usize = 200;

/// The maximum bytes of a pattern.
const MAX_PATTERN: usize = 2_000;

/// The maximum bytes of a compiled expression, and of the cache that it runs with.
const MAX_COMPILED: usize = 1 << 20;

/// A search for a text or a regular expression.
#[derive(Clone, Debug)]
pub struct SearchQuery {
    finder: Regex,
    /// Lines to show before and after each match, at most [`MAX_CONTEXT_LINES`].
    pub context: usize,
    /// How much to show.
    pub limits: SearchLimits,
    /// Matches that begin before this byte are skipped.
    pub from_byte: u64,
}

/// The limits of what a search shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchLimits {
    /// The maximum number of matches.
    pub matches: usize,
    /// The maximum bytes of all lines together. The first match is shown even if it is longer.
    pub bytes: usize,
}

/// A pattern that cannot be searched for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQuery {
    /// The pattern is empty.
    #[error("the text to search for is empty")]
    Empty,
    /// The pattern is too long.
    #[error("the text to search for is longer than {MAX_PATTERN} bytes")]
    TooLong,
    /// The pattern is not a regular expression; contains the reason.
    #[error("this is no regular expression: {0}")]
    Syntax(String),
    /// The compiled expression would take too much memory.
    #[error("this regular expression is too large; use smaller repetitions")]
    TooLarge,
}

/// The result of a search. The default is the result of a search that found nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchResult {
    /// The number of matches from [`SearchQuery::from_byte`] on. A short line counts once,
    /// a long line once for each match that is not within the surroundings of another.
    pub matches: u64,
    /// How many of them are shown.
    pub shown: u64,
    /// The matching lines and their context, in the order of the text.
    pub lines: Vec<FoundLine>,
    /// The byte at which the first match begins that is not shown.
    pub next_byte: Option<u64>,
}

/// A line in a search result, or the shown part of a long line.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(expecting = "struct Line")]
pub struct FoundLine {
    /// The number of the line; the first line is 1.
    pub line: u64,
    /// The byte of the whole text at which the shown part begins.
    pub byte: u64,
    /// Whether it matches; else it is context.
    pub matches: bool,
    /// The text without the line end. Markers tell how many bytes are left out.
    pub text: String,
}

impl SearchQuery {
    /// A query for a literal text, or for a regular expression in the syntax of the
    /// `regex` crate, whose searches take time linear in the text. It has default limits.
    pub fn new(pattern: &str, regex: bool, ignore_case: bool) -> Result<Self, InvalidQuery> {
        if pattern.is_empty() {
            return Err(InvalidQuery::Empty);
        }
        if pattern.len() > MAX_PATTERN {
            return Err(InvalidQuery::TooLong);
        }
        let escaped;
        let expression = if regex {
            pattern
        } else {
            escaped = regex::escape(pattern);
            &escaped
        };
        let finder = RegexBuilder::new(expression)
            .case_insensitive(ignore_case)
            .size_limit(MAX_COMPILED)
            .dfa_size_limit(MAX_COMPILED)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => InvalidQuery::TooLarge,
                // The last line is the reason; the lines above it quote the expression.
                error => InvalidQuery::Syntax(
                    error
                        .to_string()
                        .lines()
                        .last()
                        .unwrap_or_default()
                        .trim_start_matches("error: ")
                        .to_owned(),
                ),
            })?;
        Ok(Self {
            finder,
            context: 0,
            limits: SearchLimits {
                matches: 50,
                bytes: 20_000,
            },
            from_byte: 0,
        })
    }
}

/// Searches a text in one pass. When `stop` is set, it ends early and returns what it has
/// found so far.
pub fn search(text: &str, query: &SearchQuery, stop: &AtomicBool) -> SearchResult {
    let mut pass = SearchPass {
        query,
        stop,
        result: SearchResult::default(),
        bytes: 0,
        before: VecDeque::new(),
        context_left: 0,
    };
    let mut start = 0;
    for (number, whole) in (1..).zip(text.split_inclusive('\n')) {
        let line = TextLine {
            number,
            start,
            text: whole.trim_end_matches(['\n', '\r']),
        };
        pass.search_line(line);
        if stop.load(Ordering::Relaxed) {
            break;
        }
        start += whole.len();
    }
    pass.result
}

/// A line of the searched text, without its line end.
#[derive(Clone, Copy)]
struct TextLine<'a> {
    number: u64,
    /// The byte of the text at which it begins.
    start: usize,
    text: &'a str,
}

/// The state of a search while it goes through the text.
struct SearchPass<'a> {
    query: &'a SearchQuery,
    stop: &'a AtomicBool,
    result: SearchResult,
    bytes: usize,
    /// The last lines that were not shown, for the context of the next match.
    before: VecDeque<TextLine<'a>>,
    /// How many lines of context to show after the last match.
    context_left: usize,
}

impl<'a> SearchPass<'a> {
    fn search_line(&mut self, line: TextLine<'a>) {
        let matched = if line.text.len() <= MAX_SHORT_LINE {
            self.search_short_line(line)
        } else {
            self.search_long_line(line)
        };
        if matched {
            return;
        }
        if self.context_left > 0 {
            self.context_left -= 1;
            if self.show_context(line) {
                return;
            }
        }
        let context = self.query.context.min(MAX_CONTEXT_LINES);
        if context > 0 {
            if self.before.len() == context {
                self.before.pop_front();
            }
            self.before.push_back(line);
        }
    }

    /// Returns whether the line matches.
    fn search_short_line(&mut self, line: TextLine<'a>) -> bool {
        let Some(first) = self.query.finder.find(line.text) else {
            return false;
        };
        self.add_match(line, first.start(), 0..line.text.len());
        true
    }

    /// Returns whether the line matches.
    fn search_long_line(&mut self, line: TextLine<'a>) -> bool {
        let query = self.query;
        let mut matched = false;
        let mut shown_to = 0;
        for found in query.finder.find_iter(line.text) {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let first = !matched;
            matched = true;
            // The part shown for an earlier match includes this one.
            if !first && found.end() <= shown_to {
                continue;
            }
            let end = found
                .end()
                .min(found.start().saturating_add(BYTES_AROUND_MATCH));
            let part = found.start().saturating_sub(BYTES_AROUND_MATCH)
                ..end.saturating_add(BYTES_AROUND_MATCH);
            let part = on_chars(line.text, part);
            shown_to = part.end;
            self.add_match(line, found.start(), part);
        }
        matched
    }

    /// Counts a match at byte `at` of the line, and shows `part` of the line if the limits
    /// allow it.
    fn add_match(&mut self, line: TextLine<'a>, at: usize, part: Range<usize>) {
        let begins = (line.start + at) as u64;
        if begins < self.query.from_byte {
            return;
        }
        self.result.matches += 1;
        let fits = self.result.next_byte.is_none()
            && self.result.shown < self.query.limits.matches as u64
            // The first match is always shown; the size of its part is bounded.
            && (self.result.shown == 0 || self.bytes + part.len() <= self.query.limits.bytes);
        if !fits {
            self.result.next_byte.get_or_insert(begins);
            self.context_left = 0;
            return;
        }
        for line in std::mem::take(&mut self.before) {
            if self.bytes + line.text.len().min(MAX_SHORT_LINE) + part.len()
                <= self.query.limits.bytes
            {
                self.show_context(line);
            }
        }
        self.push(line, part, true);
        self.result.shown += 1;
        self.context_left = self.query.context.min(MAX_CONTEXT_LINES);
    }

    /// Shows a line of context if the limits allow it. Returns whether it did.
    fn show_context(&mut self, line: TextLine<'_>) -> bool {
        let part = 0..line.text.len().min(MAX_SHORT_LINE);
        let fits = self.bytes + part.len() <= self.query.limits.bytes;
        if fits {
            self.push(line, part, false);
        }
        fits
    }

    fn push(&mut self, line: TextLine<'_>, part: Range<usize>, matches: bool) {
        let part = on_chars(line.text, part);
        let text = cut_line(line.text, &part);
        self.bytes += text.len();
        self.result.lines.push(FoundLine {
            line: line.number,
            byte: (line.start + part.start) as u64,
            matches,
            text,
        });
    }
}

/// The range, widened to whole characters of the text.
fn on_chars(text: &str, range: Range<usize>) -> Range<usize> {
    text.floor_char_boundary(range.start)..text.ceil_char_boundary(range.end)
}

/// A part of a line, with markers that tell how many bytes are left out.
fn cut_line(line: &str, part: &Range<usize>) -> String {
    let mut text = String::new();
    if part.start > 0 {
        text = format!("[... {} bytes] ", part.start);
    }
    text.push_str(line.get(part.clone()).unwrap_or_default());
    if part.end < line.len() {
        // Writing to a String cannot fail.
        let _ = write!(text, " [{} bytes ...]", line.len() - part.end);
    }
    text
}

/// Lines as grep prints them: `12: a match`, `13- its context`, and `--` where lines are
/// left out in between. A part of a long line begins with `12 byte 4711:`, because the
/// line number alone does not locate it.
pub fn format_lines(lines: &[FoundLine]) -> String {
    let mut out = String::new();
    let mut last = None;
    for line in lines {
        if last.is_some_and(|last| line.line > last + 1) {
            out.push_str("--\n");
        }
        last = Some(line.line);
        let mark = if line.matches { ':' } else { '-' };
        let position = if line.text.starts_with("[... ") || line.text.ends_with(" bytes ...]") {
            format!("{} byte {}", line.line, line.byte)
        } else {
            line.line.to_string()
        };
        let _ = writeln!(out, "{position}{mark} {}", line.text);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(text: &str, query: &SearchQuery) -> SearchResult {
        super::search(text, query, &AtomicBool::new(false))
    }

    const TEXT: &str = "one\ntwo Error\nthree\nfour\nfive error\r\nsix\nseven\nerror eight";

    fn query(pattern: &str) -> SearchQuery {
        SearchQuery::new(pattern, false, false).unwrap()
    }

    fn shown(text: &str, query: &SearchQuery) -> String {
        format_lines(&search(text, query).lines)
    }

    // S2-Dc
    #[test]
    fn lines_are_found_with_their_numbers() {
        let found = search(TEXT, &query("error"));
        assert_eq!((found.matches, found.shown, found.next_byte), (2, 2, None));
        assert_eq!(
            format_lines(&found.lines),
            "5: five error\n--\n8: error eight\n"
        );
        for line in &found.lines {
            let at = usize::try_from(line.byte).unwrap();
            assert!(TEXT.get(at..).unwrap().starts_with(&line.text), "{line:?}");
        }
        assert_eq!(search(TEXT, &query("absent")), SearchResult::default());
        assert_eq!(search("", &query("x")), SearchResult::default());
    }

    #[test]
    fn case_is_ignored_where_asked() {
        let any = SearchQuery::new("ERROR", false, true).unwrap();
        assert_eq!(search(TEXT, &any).matches, 3);
        assert_eq!(search(TEXT, &query("ERROR")).matches, 0);
    }

    #[test]
    fn literal_texts_are_not_expressions() {
        assert_eq!(shown("a.c\nabc", &query("a.c")), "1: a.c\n");
        let regex = SearchQuery::new("^a.c$", true, false).unwrap();
        assert_eq!(shown("a.c\nabc\nxabc", &regex), "1: a.c\n2: abc\n");
    }

    #[test]
    fn context_is_shown_once() {
        let mut query = query("error");
        query.context = 2;
        assert_eq!(
            shown(TEXT, &query),
            "3- three\n4- four\n5: five error\n6- six\n7- seven\n8: error eight\n"
        );
        query.context = 1;
        assert_eq!(
            shown(TEXT, &query),
            "4- four\n5: five error\n6- six\n7- seven\n8: error eight\n"
        );
    }

    #[test]
    fn a_search_can_continue_at_the_first_match_not_shown() {
        let text: String = "a line\n".repeat(100);
        let mut query = query("line");
        query.limits.matches = 30;
        let mut seen = Vec::new();
        loop {
            let found = search(&text, &query);
            assert_eq!(found.matches, 100 - seen.len() as u64);
            seen.extend(found.lines.iter().map(|line| line.line));
            let Some(next) = found.next_byte else { break };
            query.from_byte = next;
        }
        assert_eq!(seen, (1..=100).collect::<Vec<_>>());
        query.from_byte = 0;
        query.limits.bytes = 100;
        let found = search(&text, &query);
        assert!(found.shown < 30);
        assert!(
            found
                .lines
                .iter()
                .map(|line| line.text.len())
                .sum::<usize>()
                <= 100
        );
    }

    #[test]
    fn long_lines_are_cut_around_each_match() {
        let text = format!(
            "{}needle{}needle{}",
            "x".repeat(5000),
            "é".repeat(5000),
            "y".repeat(700)
        );
        let found = search(&text, &query("needle"));
        assert_eq!((found.matches, found.lines.len()), (2, 2));
        for line in &found.lines {
            assert!(line.text.contains("needle"), "{line:?}");
            assert!(line.text.len() < 600, "{line:?}");
            assert!(line.text.starts_with("[... ") && line.text.ends_with(" bytes ...]"));
        }
        assert_eq!(found.lines[0].byte, 4800);
        assert!(format_lines(&found.lines).starts_with("1 byte 4800: [... 4800 bytes] xxx"));
        let mut near = query("needle");
        near.limits.matches = 1;
        near.from_byte = search(&text, &near).next_byte.unwrap();
        assert_eq!(search(&text, &near).lines[0].byte, found.lines[1].byte);
    }

    #[test]
    fn matches_next_to_each_other_are_shown_together() {
        let text = format!("{}ab ab ab{}", "x".repeat(2000), "y".repeat(2000));
        let found = search(&text, &query("ab"));
        assert_eq!((found.matches, found.lines.len()), (1, 1));
        // A match of any length is shown in bounds.
        let all = SearchQuery::new(".*", true, false).unwrap();
        assert!(search(&text, &all).lines[0].text.len() < 700);
    }

    #[test]
    fn invalid_expressions_are_refused() {
        let refused = |pattern: &str| SearchQuery::new(pattern, true, false).unwrap_err();
        assert_eq!(refused(""), InvalidQuery::Empty);
        assert_eq!(refused(&"x".repeat(3000)), InvalidQuery::TooLong);
        assert_eq!(refused(r"\w{1000}{1000}"), InvalidQuery::TooLarge);
        assert_eq!(
            refused("a(b").to_string(),
            "this is no regular expression: unclosed group"
        );
    }

    #[test]
    fn hostile_expressions_end_soon() {
        let text = "a".repeat(200_000);
        let query = SearchQuery::new("(a*)*b", true, false).unwrap();
        assert_eq!(search(&text, &query).matches, 0);
    }

    #[test]
    fn a_stopped_search_ends_early() {
        let stop = AtomicBool::new(true);
        for text in ["x\n".repeat(1000), "x".repeat(1000)] {
            assert!(super::search(&text, &query("x"), &stop).matches <= 1);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_searched_within_the_limits(
            text in "(\\PC|\n|\r){0,400}", pattern in "\\PC{1,3}", context in 0_usize..4, bytes in 0_usize..300
        ) {
            let mut query = query(&pattern);
            query.context = context;
            query.limits = SearchLimits { matches: 5, bytes };
            let found = search(&text, &query);
            let lines = text.split('\n').filter(|line| line.trim_end_matches('\r').contains(&pattern));
            proptest::prop_assert_eq!(found.matches, lines.count() as u64);
            proptest::prop_assert_eq!(found.next_byte.is_some(), found.matches > found.shown);
            let numbers: Vec<u64> = found.lines.iter().map(|line| line.line).collect();
            proptest::prop_assert!(numbers.is_sorted());
        }
    }
}
