//! Searches a text line by line, like grep with line numbers.
//!
//! A line that is too long to be shown, as in minified files, is searched match by
//! match, and what is shown of it is cut around each match.

use std::collections::VecDeque;
use std::fmt::Write;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

/// Bytes of a line that is shown whole.
const LONG: usize = 600;

/// Bytes of a long line that are shown on each side of a match.
const AROUND: usize = 200;

/// Bytes of a query at most.
const QUERY: usize = 2_000;

/// Bytes that a compiled expression may take, and the cache that it runs with.
const COMPILED: usize = 1 << 20;

/// Lines of context on each side at most.
pub const CONTEXT: usize = 20;

/// What is searched for.
#[derive(Clone, Debug)]
pub struct Query {
    finder: Regex,
    /// Lines that are shown before and after each match, at most [`CONTEXT`].
    pub context: usize,
    /// Bounds of what is shown.
    pub limits: Limits,
    /// Matches that begin before this byte are not shown.
    pub from: u64,
}

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Matches.
    pub matches: usize,
    /// Bytes of all lines together.
    pub bytes: usize,
}

/// A pattern that cannot be searched for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadQuery {
    /// There is nothing to search for.
    #[error("the text to search for is empty")]
    Empty,
    /// It is too long.
    #[error("the text to search for is longer than {QUERY} bytes")]
    TooLong,
    /// The regular expression is none, with what is wrong with it.
    #[error("this is no regular expression: {0}")]
    Syntax(String),
    /// The regular expression would take too much memory.
    #[error("this regular expression is too large; use smaller repetitions")]
    TooLarge,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// All matches, those before [`Query::from`] aside: matching lines, and of long
    /// lines each match.
    pub matches: u64,
    /// How many of them are shown.
    pub shown: u64,
    /// What is shown, in the order of the text.
    pub lines: Vec<Line>,
    /// Where the first match begins that is not shown.
    pub next: Option<u64>,
}

/// A line that is shown, or what is shown of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Line {
    /// Its number; the first line is 1.
    pub line: u64,
    /// The byte of the whole text with which the shown part begins.
    pub byte: u64,
    /// It matches; else it is context.
    pub matches: bool,
    /// Its text without line end. What is left out of it is told by markers.
    pub text: String,
}

impl Query {
    /// A query for a literal text, or for a regular expression in the syntax of the
    /// `regex` crate, which takes time linear in the text.
    pub fn new(pattern: &str, regex: bool, ignore_case: bool) -> Result<Self, BadQuery> {
        if pattern.is_empty() {
            return Err(BadQuery::Empty);
        }
        if pattern.len() > QUERY {
            return Err(BadQuery::TooLong);
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
            .size_limit(COMPILED)
            .dfa_size_limit(COMPILED)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => BadQuery::TooLarge,
                // The last line says what is wrong; those above draw it.
                error => BadQuery::Syntax(
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
            limits: Limits {
                matches: 50,
                bytes: 20_000,
            },
            from: 0,
        })
    }
}

/// Searches a text, until somebody says stop: then there may be more. One pass; what
/// is kept of it is what is shown.
pub fn search(text: &str, query: &Query, stop: &AtomicBool) -> Found {
    let mut pass = Pass {
        query,
        stop,
        found: Found::default(),
        bytes: 0,
        before: VecDeque::new(),
        after: 0,
    };
    let mut start = 0;
    for (number, whole) in (1..).zip(text.split_inclusive('\n')) {
        let line = Place {
            number,
            start,
            text: whole.trim_end_matches(['\n', '\r']),
        };
        pass.line(line);
        if stop.load(Ordering::Relaxed) {
            break;
        }
        start += whole.len();
    }
    pass.found
}

/// A line of the text that is searched.
#[derive(Clone, Copy)]
struct Place<'a> {
    number: u64,
    start: usize,
    text: &'a str,
}

struct Pass<'a> {
    query: &'a Query,
    stop: &'a AtomicBool,
    found: Found,
    bytes: usize,
    /// The lines before this one that were not shown.
    before: VecDeque<Place<'a>>,
    /// How many lines of context are still to be shown.
    after: usize,
}

impl<'a> Pass<'a> {
    fn line(&mut self, line: Place<'a>) {
        let matched = if line.text.len() <= LONG {
            self.short(line)
        } else {
            self.long(line)
        };
        if matched {
            return;
        }
        if self.after > 0 {
            self.after -= 1;
            if self.show(line, 0..line.text.len().min(LONG), false) {
                return;
            }
        }
        let context = self.query.context.min(CONTEXT);
        if context > 0 {
            if self.before.len() == context {
                self.before.pop_front();
            }
            self.before.push_back(line);
        }
    }

    /// Whether it matches.
    fn short(&mut self, line: Place<'a>) -> bool {
        let Some(first) = self.query.finder.find(line.text) else {
            return false;
        };
        self.hit(line, first.start(), 0..line.text.len());
        true
    }

    fn long(&mut self, line: Place<'a>) -> bool {
        let query = self.query;
        let mut matched = false;
        let mut shown_to = 0;
        for found in query.finder.find_iter(line.text) {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let first = !matched;
            matched = true;
            // What the last part shows is not shown again.
            if !first && found.end() <= shown_to {
                continue;
            }
            let end = found.end().min(found.start().saturating_add(AROUND));
            let part = found.start().saturating_sub(AROUND)..end.saturating_add(AROUND);
            let part = on_chars(line.text, part);
            shown_to = part.end;
            self.hit(line, found.start(), part);
        }
        matched
    }

    /// Counts a match at this byte of the line, and shows this part if there is room.
    fn hit(&mut self, line: Place<'a>, at: usize, part: Range<usize>) {
        let begins = (line.start + at) as u64;
        if begins < self.query.from {
            return;
        }
        self.found.matches += 1;
        let room = self.found.next.is_none()
            && self.found.shown < self.query.limits.matches as u64
            // One is always shown: its size is bounded.
            && (self.found.shown == 0 || self.bytes + part.len() <= self.query.limits.bytes);
        if !room {
            self.found.next.get_or_insert(begins);
            self.after = 0;
            return;
        }
        for line in std::mem::take(&mut self.before) {
            if self.bytes + line.text.len().min(LONG) + part.len() <= self.query.limits.bytes {
                self.show(line, 0..line.text.len().min(LONG), false);
            }
        }
        self.push(line, part, true);
        self.found.shown += 1;
        self.after = self.query.context.min(CONTEXT);
    }

    /// Shows a line of context if there is room.
    fn show(&mut self, line: Place<'_>, part: Range<usize>, matches: bool) -> bool {
        let room = self.bytes + part.len() <= self.query.limits.bytes;
        if room {
            self.push(line, part, matches);
        }
        room
    }

    fn push(&mut self, line: Place<'_>, part: Range<usize>, matches: bool) {
        let part = on_chars(line.text, part);
        let text = cut(line.text, &part);
        self.bytes += text.len();
        self.found.lines.push(Line {
            line: line.number,
            byte: (line.start + part.start) as u64,
            matches,
            text,
        });
    }
}

/// The range within the text, widened to whole characters.
fn on_chars(text: &str, range: Range<usize>) -> Range<usize> {
    let mut start = range.start.min(text.len());
    while !text.is_char_boundary(start) {
        start -= 1;
    }
    let mut end = range.end.min(text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    start..end
}

/// A part of a line, with markers that tell how much of it is left out.
fn cut(line: &str, part: &Range<usize>) -> String {
    let mut text = String::new();
    if part.start > 0 {
        text = format!("[... {} bytes] ", part.start);
    }
    text.push_str(line.get(part.clone()).unwrap_or_default());
    if part.end < line.len() {
        // Writing to a string cannot fail.
        let _ = write!(text, " [{} bytes ...]", line.len() - part.end);
    }
    text
}

/// Found lines as grep prints them: `12: a match`, `13- its context`, `--` where
/// lines are left out between two of them. Long lines say `12 byte 4711:`, since a
/// line number alone does not lead there.
pub fn printed(lines: &[Line]) -> String {
    let mut out = String::new();
    let mut last = None;
    for line in lines {
        if last.is_some_and(|last| line.line > last + 1) {
            out.push_str("--\n");
        }
        last = Some(line.line);
        let mark = if line.matches { ':' } else { '-' };
        let place = if line.text.starts_with("[... ") || line.text.ends_with(" bytes ...]") {
            format!("{} byte {}", line.line, line.byte)
        } else {
            line.line.to_string()
        };
        let _ = writeln!(out, "{place}{mark} {}", line.text);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(text: &str, query: &Query) -> Found {
        super::search(text, query, &AtomicBool::new(false))
    }

    const TEXT: &str = "one\ntwo Error\nthree\nfour\nfive error\r\nsix\nseven\nerror eight";

    fn query(pattern: &str) -> Query {
        Query::new(pattern, false, false).unwrap()
    }

    fn shown(text: &str, query: &Query) -> String {
        printed(&search(text, query).lines)
    }

    // S2-Dc
    #[test]
    fn lines_are_found_with_their_numbers() {
        let found = search(TEXT, &query("error"));
        assert_eq!((found.matches, found.shown, found.next), (2, 2, None));
        assert_eq!(printed(&found.lines), "5: five error\n--\n8: error eight\n");
        for line in &found.lines {
            let at = usize::try_from(line.byte).unwrap();
            assert!(TEXT.get(at..).unwrap().starts_with(&line.text), "{line:?}");
        }
        assert_eq!(search(TEXT, &query("absent")), Found::default());
        assert_eq!(search("", &query("x")), Found::default());
    }

    #[test]
    fn case_is_ignored_where_asked() {
        let any = Query::new("ERROR", false, true).unwrap();
        assert_eq!(search(TEXT, &any).matches, 3);
        assert_eq!(search(TEXT, &query("ERROR")).matches, 0);
    }

    #[test]
    fn literal_texts_are_no_expressions() {
        assert_eq!(shown("a.c\nabc", &query("a.c")), "1: a.c\n");
        let regex = Query::new("^a.c$", true, false).unwrap();
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
    fn what_is_not_shown_is_counted_and_found_from_there() {
        let text: String = "a line\n".repeat(100);
        let mut query = query("line");
        query.limits.matches = 30;
        let mut seen = Vec::new();
        loop {
            let found = search(&text, &query);
            assert_eq!(found.matches, 100 - seen.len() as u64);
            seen.extend(found.lines.iter().map(|line| line.line));
            let Some(next) = found.next else { break };
            query.from = next;
        }
        assert_eq!(seen, (1..=100).collect::<Vec<_>>());
        query.from = 0;
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
        assert!(printed(&found.lines).starts_with("1 byte 4800: [... 4800 bytes] xxx"));
        let mut near = query("needle");
        near.limits.matches = 1;
        near.from = search(&text, &near).next.unwrap();
        assert_eq!(search(&text, &near).lines[0].byte, found.lines[1].byte);
    }

    #[test]
    fn matches_that_stand_together_are_shown_together() {
        let text = format!("{}ab ab ab{}", "x".repeat(2000), "y".repeat(2000));
        let found = search(&text, &query("ab"));
        assert_eq!((found.matches, found.lines.len()), (1, 1));
        // A match of any length is shown in bounds.
        let all = Query::new(".*", true, false).unwrap();
        assert!(search(&text, &all).lines[0].text.len() < 700);
    }

    #[test]
    fn bad_expressions_are_told() {
        let bad = |pattern: &str| Query::new(pattern, true, false).unwrap_err();
        assert_eq!(bad(""), BadQuery::Empty);
        assert_eq!(bad(&"x".repeat(3000)), BadQuery::TooLong);
        assert_eq!(bad(r"\w{1000}{1000}"), BadQuery::TooLarge);
        assert_eq!(
            bad("a(b").to_string(),
            "this is no regular expression: unclosed group"
        );
    }

    #[test]
    fn hostile_expressions_end_soon() {
        let text = "a".repeat(200_000);
        let query = Query::new("(a*)*b", true, false).unwrap();
        assert_eq!(search(&text, &query).matches, 0);
    }

    #[test]
    fn a_search_ends_where_nobody_waits_for_it() {
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
            query.limits = Limits { matches: 5, bytes };
            let found = search(&text, &query);
            let lines = text.split('\n').filter(|line| line.trim_end_matches('\r').contains(&pattern));
            proptest::prop_assert_eq!(found.matches, lines.count() as u64);
            proptest::prop_assert_eq!(found.next.is_some(), found.matches > found.shown);
            let numbers: Vec<u64> = found.lines.iter().map(|line| line.line).collect();
            proptest::prop_assert!(numbers.is_sorted());
        }
    }
}
