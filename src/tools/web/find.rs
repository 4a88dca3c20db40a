//! Finds a text in a page.

use std::fmt::Write as _;

use regex::{Regex, RegexBuilder};

/// The lines around one that has the text.
const CONTEXT: usize = 2;
/// The most lines with the text that are shown.
const MAX_SHOWN: usize = 20;
/// The most characters of a line that are shown.
const MAX_LINE_CHARS: usize = 300;
/// The most characters that are looked for.
const MAX_TEXT_CHARS: usize = 200;

/// Where a page has a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundInPage {
    /// How many lines have it.
    pub lines: usize,
    /// How many of them are shown: the first.
    pub shown: usize,
    /// These lines as `12: line`, lines around them as `11- line`, and `--` between groups.
    pub text: String,
}

/// The lines of a page that have a text, in small or capital letters, each with two lines around
/// it. The text is one for people: marks of the Markdown and the width of spaces do not count.
pub fn find_in_page(markdown: &str, text: &str) -> FoundInPage {
    let mut found = FoundInPage::default();
    let text: String = text.chars().take(MAX_TEXT_CHARS).collect();
    let Some(pattern) = text_pattern(&text) else {
        return found;
    };
    let lines: Vec<&str> = markdown.lines().collect();
    let mut matches = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(place) = pattern.find(line) {
            found.lines += 1;
            if matches.len() < MAX_SHOWN {
                matches.push((at, place.start()));
            }
        }
    }
    found.shown = matches.len();
    let mut next = 0;
    let mut rest = matches.iter().peekable();
    while let Some((at, place)) = rest.next() {
        let from = at.saturating_sub(CONTEXT).max(next);
        if from > next && next > 0 {
            found.text.push_str("--\n");
        }
        let until = at + 1 + CONTEXT;
        let until = rest.peek().map_or(until, |(next, _)| until.min(*next));
        for (number, line) in lines.iter().enumerate().take(until).skip(from) {
            let (sign, place) = if number == *at {
                (':', *place)
            } else {
                ('-', 0)
            };
            let shown = around(line, place);
            let _ = writeln!(found.text, "{}{sign} {shown}", number + 1);
        }
        next = until.min(lines.len());
    }
    found
}

/// Finds the words of a text in Markdown: in small or capital letters, with any white space or
/// marks between them, and with or without backslashes before their punctuation. `None` for a text
/// without words.
pub(super) fn text_pattern(text: &str) -> Option<Regex> {
    let words = text.split_whitespace().map(|word| {
        let mut pattern = String::new();
        for char in word.chars() {
            if char.is_ascii_punctuation() {
                pattern.push_str(r"\\?");
            }
            pattern.push_str(&regex::escape(char.encode_utf8(&mut [0; 4])));
        }
        pattern
    });
    let words: Vec<String> = words.collect();
    let pattern = RegexBuilder::new(&words.join(r"[\s*_`\\]+"))
        .case_insensitive(true)
        .build();
    pattern.ok().filter(|_| !words.is_empty())
}

/// A line, or the part of a long one around a place.
fn around(line: &str, place: usize) -> String {
    if line.chars().count() <= MAX_LINE_CHARS {
        return line.to_owned();
    }
    let before = line.get(..place).unwrap_or_default().chars().count();
    let skipped = before.saturating_sub(MAX_LINE_CHARS / 3);
    let begin = if skipped > 0 { "..." } else { "" };
    let shown: String = line.chars().skip(skipped).take(MAX_LINE_CHARS).collect();
    format!("{begin}{shown}...")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: A text is found in a page in small or capital letters, with the numbers of the
    /// lines and two lines around each.
    #[test]
    fn lines_with_a_text_are_shown_with_lines_around_them() {
        let page = "one\ntwo\nthree\nThe RETRY\\_limit  is 7\nfive\nsix\nseven\neight\nnine\nretry_limit is\nend";
        let found = find_in_page(page, " retry_limit  IS");
        assert_eq!((found.lines, found.shown), (2, 2));
        assert_eq!(
            found.text,
            "2- two\n3- three\n4: The RETRY\\_limit  is 7\n5- five\n6- six\n--\n8- eight\n9- nine\n\
             10: retry_limit is\n11- end\n"
        );
        let close = find_in_page("a\nb\na\na", "A");
        assert_eq!(close.text, "1: a\n2- b\n3: a\n4: a\n");
        assert_eq!(find_in_page("ÄÖÜ\n", "äöü").lines, 1);
        assert_eq!(
            find_in_page(
                "a **cargo build** \\_x `--release`",
                "cargo build _x --release"
            )
            .lines,
            1
        );
        for nothing in ["", "  ", "absent"] {
            assert_eq!(find_in_page(page, nothing), FoundInPage::default());
        }
    }

    #[test]
    fn what_is_shown_is_bounded() {
        let page = "word ".repeat(20_000) + "needle" + &" word".repeat(20_000);
        let page = format!("{page}\n").repeat(50);
        let found = find_in_page(&page, "needle");
        assert_eq!((found.lines, found.shown), (50, MAX_SHOWN));
        assert!(found.text.len() < 10_000, "{}", found.text.len());
        assert_eq!(found.text.matches("needle").count(), MAX_SHOWN);
        let long = find_in_page(&"x".repeat(5_000), &"x".repeat(4_000));
        assert_eq!(long.lines, 1);
    }
}
