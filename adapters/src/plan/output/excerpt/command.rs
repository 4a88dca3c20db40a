//! What a command printed: errors, warnings and failures between its first and last
//! lines.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Input, MatchKind};

use super::frame::{self, Frame};
use super::hits::Hits;
use super::{Part, Task};

const WORDS: [&str; 26] = [
    "error",
    "Error",
    "ERROR",
    "fail",
    "Fail",
    "FAIL",
    "panic",
    "fatal",
    "Fatal",
    "FATAL",
    "xception",
    "raceback",
    "assert",
    "denied",
    "not ok",
    "Segmentation",
    "ERR!",
    "CRITICAL",
    "✗",
    "✘",
    "undefined reference",
    "CONFLICT",
    "timed out",
    "warn",
    "Warn",
    "WARN",
];

/// From this word on, they are of less weight.
const WARNINGS: usize = 23;

#[expect(
    clippy::expect_used,
    reason = "the words are constant, and a test builds them"
)]
static SEARCH: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostFirst)
        .build(WORDS)
        .expect("a few words")
});

const FRAME: Frame = Frame {
    label: "Errors, warnings and failures between them, by line",
    share: 45,
    alike: true,
    paths: true,
};

pub(super) fn show(task: Task<'_>) -> Part {
    frame::show(task, &FRAME, |hits| {
        if find(task.text, hits) == 0 {
            sample(task.text, hits);
        }
    })
}

/// Adds the lines with such a word.
fn find<'t>(text: &'t str, hits: &mut Hits<'t>) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut found = 0;
    while let Some(hit) = SEARCH.find(Input::new(text).range(at..)) {
        let (start, end) = (hit.start(), hit.end());
        at = end;
        if !stands_alone(bytes, start, end) {
            continue;
        }
        let before = bytes.get(..start).unwrap_or_default();
        let from = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
        let behind = bytes.get(end..).unwrap_or_default();
        let to = memchr::memchr(b'\n', behind).map_or(text.len(), |next| end + next);
        let is_error = hit.pattern().as_usize() < WARNINGS;
        let to = if is_error { behind_place(text, to) } else { to };
        if let Some(line) = text.get(from..to) {
            found += 1;
            hits.add(from, line, is_error);
        }
        at = (to + 1).min(text.len());
    }
    found
}

/// The end of the next line if that says where the error is, as rustc writes it.
fn behind_place(text: &str, end: usize) -> usize {
    let next = text.get(end + 1..).unwrap_or_default();
    if !next.trim_start_matches(' ').starts_with("--> ") {
        return end;
    }
    let length = memchr::memchr(b'\n', next.as_bytes()).unwrap_or(next.len());
    end + 1 + length
}

/// Whether a word is more than a part of a name: `error.rs`, `thiserror`,
/// `fail-fast` are names.
fn stands_alone(bytes: &[u8], start: usize, end: usize) -> bool {
    let lower = bytes.get(start).is_some_and(u8::is_ascii_lowercase);
    let before = start.checked_sub(1).and_then(|before| bytes.get(before));
    if lower
        && before.is_some_and(|before| {
            before.is_ascii_lowercase() || matches!(before, b'/' | b'_' | b'-' | b'.' | b'\\')
        })
    {
        return false;
    }
    let rest = bytes.get(end..).unwrap_or_default();
    let letters = rest
        .iter()
        .take_while(|byte| byte.is_ascii_alphabetic())
        .count();
    match (rest.get(letters), rest.get(letters + 1)) {
        (Some(b'_' | b'/' | b'\\'), _) => false,
        (Some(b'.' | b'-'), Some(next)) => !next.is_ascii_alphanumeric(),
        (Some(_) | None, _) => true,
    }
}

/// Lines at even distances, where none stands out.
fn sample<'t>(text: &'t str, hits: &mut Hits<'t>) {
    const LINES: usize = 24;
    for place in 1..LINES {
        let near = text.len() / LINES * place;
        let rest = text.as_bytes().get(near..).unwrap_or_default();
        let Some(from) = memchr::memchr(b'\n', rest).map(|end| near + end + 1) else {
            return;
        };
        let rest = text.as_bytes().get(from..).unwrap_or_default();
        let to = memchr::memchr(b'\n', rest).map_or(text.len(), |end| from + end);
        if let Some(line) = text.get(from..to).filter(|line| !line.trim().is_empty()) {
            hits.add(from, line, false);
        }
    }
    hits.found = 0;
}
