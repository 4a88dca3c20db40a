//! Searches a text line by line, like grep with line numbers.
//!
//! Minified files have very long lines. Such a line is searched match by match, and only
//! the surroundings of each match are shown. It is searched in windows that overlap by a quarter,
//! so that a search can be stopped between them: the simpler an expression, the larger they are. A
//! match in a line of more than 8 KiB is sure to be found if it has at most 2 KiB.

mod query;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt::Write;
use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use query::{InvalidQuery, MAX_CONTEXT_LINES, SearchLimits, SearchQuery};

/// A line with more bytes is a long line.
const MAX_SHORT_LINE: usize = 600;

/// The bytes of a long line that are shown on each side of a match.
const BYTES_AROUND_MATCH: usize = 200;

/// The result of a search. The default is the result of a search that found nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundLines {
    /// The number of matches from [`SearchQuery::from_byte`] on. A short line counts once,
    /// a long line once for each match that is not within the surroundings of another.
    pub matches: u64,
    /// How many of them are shown.
    pub shown: u64,
    /// The matching lines and their context, in the order of the text.
    pub lines: Vec<FoundLine>,
    /// The byte at which the first match begins that is not shown.
    pub next_byte: Option<u64>,
    /// If a line was searched in windows: the bytes up to which a match in it is sure to be found
    /// and whole.
    pub match_limit: Option<u64>,
}

/// A line in a search result, or the shown part of a long line.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
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

/// Searches a text in one pass. It asks `stop` often; when that is true, it ends early and returns
/// what it has found so far.
pub fn search(text: &str, query: &SearchQuery, stop: &dyn Fn() -> bool) -> FoundLines {
    let mut pass = SearchPass {
        query,
        stop,
        result: FoundLines::default(),
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
        if stop() {
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
    stop: &'a dyn Fn() -> bool,
    result: FoundLines,
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
        let Some(first) = self.query.find(line.text, 0..line.text.len()) else {
            return false;
        };
        self.add_match(line, first.start, 0..line.text.len());
        true
    }

    /// Returns whether the line matches.
    fn search_long_line(&mut self, line: TextLine<'a>) -> bool {
        let text = line.text;
        let query = self.query;
        if text.len() > query.window() && query.can_exceed_overlap() {
            self.result.match_limit = Some(query.overlap() as u64);
        }
        let mut matched = false;
        let mut start = 0;
        while start < text.len() && !(self.stop)() {
            let to = text.floor_char_boundary(start.saturating_add(query.window()));
            let Some(found) = query.find(text, start..to) else {
                if to == text.len() {
                    break;
                }
                start = text.floor_char_boundary(to - query.overlap());
                continue;
            };
            matched = true;
            let end = found
                .end
                .min(found.start.saturating_add(BYTES_AROUND_MATCH));
            let part = found.start.saturating_sub(BYTES_AROUND_MATCH)
                ..end.saturating_add(BYTES_AROUND_MATCH);
            let part = on_chars(text, part);
            // The part that is shown for this match includes those that begin in it.
            start = found.end.max(part.end);
            self.add_match(line, found.start, part);
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
