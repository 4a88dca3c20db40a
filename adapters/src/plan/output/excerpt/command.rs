//! The excerpt of what a command printed: errors, warnings and failures between its first
//! and its last lines.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Input, MatchKind};

use super::key_lines::KeyLines;
use super::line_excerpt::{self, LineLayout};
use super::{ExcerptBody, ExcerptInput};

/// What errors say.
const ERRORS: &str = "error|Error|ERROR|fail|Fail|FAIL|panic|fatal|Fatal|FATAL|xception|raceback|assert|\
    denied|not ok|Segmentation|ERR!|CRITICAL|✗|✘|undefined reference|CONFLICT|timed out";

/// What warnings say, which make weak lines.
const WARNINGS: &str = "warn|Warn|WARN";

static SEARCH: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostFirst)
        .build(ERRORS.split('|').chain(WARNINGS.split('|')))
        .ok()
});

const LAYOUT: LineLayout = LineLayout {
    label: "Errors, warnings and failures between them, by line",
    key_lines_percent: 45,
    ignores_numbers: true,
    lists_paths: true,
};

pub(super) fn excerpt_body(input: ExcerptInput<'_>) -> ExcerptBody {
    line_excerpt::excerpt_body(input, &LAYOUT, |key_lines| {
        if find_errors(input.text, key_lines) == 0 {
            sample_lines(input.text, key_lines);
        }
    })
}

/// Adds the lines that have one of the keywords, and returns how many there are.
fn find_errors<'t>(text: &'t str, key_lines: &mut KeyLines<'t>) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut found = 0;
    let mut word = WordEnd::default();
    let find = |at: usize| SEARCH.as_ref()?.find(Input::new(text).range(at..));
    while let Some(hit) = find(at) {
        let (start, end) = (hit.start(), hit.end());
        at = end;
        if !is_word(bytes, (start, end), &mut word) {
            continue;
        }
        let before = bytes.get(..start).unwrap_or_default();
        let from = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
        let behind = bytes.get(end..).unwrap_or_default();
        let to = memchr::memchr(b'\n', behind).map_or(text.len(), |next| end + next);
        let is_error = hit.pattern().as_usize() < ERRORS.split('|').count();
        let to = if is_error {
            end_with_location(text, to)
        } else {
            to
        };
        if let Some(line) = text.get(from..to) {
            found += 1;
            key_lines.add(from, line, is_error);
        }
        at = (to + 1).min(text.len());
    }
    found
}

/// The end of the next line, if that is the location of the error as rustc writes it;
/// otherwise `end`.
fn end_with_location(text: &str, end: usize) -> usize {
    let next = text.get(end + 1..).unwrap_or_default();
    if !next.trim_start_matches(' ').starts_with("--> ") {
        return end;
    }
    let length = memchr::memchr(b'\n', next.as_bytes()).unwrap_or(next.len());
    end + 1 + length
}

/// Where the letters end that follow the last keyword, so that a word of many keywords is read once.
#[derive(Default)]
struct WordEnd(usize);

impl WordEnd {
    /// The end of the letters from this byte on, which lies behind the earlier ones.
    fn from(&mut self, bytes: &[u8], start: usize) -> usize {
        if self.0 <= start {
            let rest = bytes.get(start..).unwrap_or_default();
            let letters = rest.iter().take_while(|byte| byte.is_ascii_alphabetic());
            self.0 = start + letters.count();
        }
        self.0
    }
}

/// Whether a keyword is not just a part of a name: `error.rs`, `thiserror` and `fail-fast`
/// are names.
fn is_word(bytes: &[u8], (start, end): (usize, usize), word: &mut WordEnd) -> bool {
    let lower = bytes.get(start).is_some_and(u8::is_ascii_lowercase);
    let before = start.checked_sub(1).and_then(|before| bytes.get(before));
    if lower
        && before.is_some_and(|before| {
            before.is_ascii_lowercase() || matches!(before, b'/' | b'_' | b'-' | b'.' | b'\\')
        })
    {
        return false;
    }
    let word_end = word.from(bytes, end);
    match (bytes.get(word_end), bytes.get(word_end + 1)) {
        (Some(b'_' | b'/' | b'\\'), _) => false,
        (Some(b'.' | b'-'), Some(next)) => !next.is_ascii_alphanumeric(),
        (Some(_) | None, _) => true,
    }
}

/// Adds lines at even distances, for a text without keywords.
fn sample_lines<'t>(text: &'t str, key_lines: &mut KeyLines<'t>) {
    const COUNT: usize = 24;
    for number in 1..COUNT {
        let near = text.len() / COUNT * number;
        let rest = text.as_bytes().get(near..).unwrap_or_default();
        let Some(from) = memchr::memchr(b'\n', rest).map(|end| near + end + 1) else {
            return;
        };
        let rest = text.as_bytes().get(from..).unwrap_or_default();
        let to = memchr::memchr(b'\n', rest).map_or(text.len(), |end| from + end);
        if let Some(line) = text.get(from..to).filter(|line| !line.trim().is_empty()) {
            key_lines.add(from, line, false);
        }
    }
    key_lines.found = 0;
}
