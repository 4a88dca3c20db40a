//! Takes whole lines from the beginning or the end of a text, and cuts lines that are too
//! long.

use std::borrow::Cow;

/// The minimum characters that are left of a line that is cut.
const MIN_LINE_PART: usize = 40;

/// The maximum characters of the marker of a cut line.
const MARKER_CHARS: usize = 34;

/// Lines shown of a run that differs only in numbers.
const SHOWN_OF_RUN: usize = 2;

/// Characters of the line that replaces those that are not shown.
const FOLD_CHARS: usize = 30;

/// Bytes of one run that are read before the cut ends there.
const MAX_FOLDED_BYTES: usize = 64 * 1024;

/// Some lines of the beginning or the end of a text.
#[derive(Default)]
pub(super) struct LineCut {
    /// The lines, each with a line end.
    pub(super) text: String,
    /// Characters of the original that it shows.
    pub(super) chars: usize,
    /// Whether it shows the lines of the original whole.
    pub(super) is_whole: bool,
    /// Bytes of the original up to the first part that is missing. Lines that are folded are not.
    pub(super) bytes: usize,
    /// The ranges of the original that it shows.
    pub(super) shown: Vec<(usize, usize)>,
    /// The patterns of its lines, folded ones included.
    pub(super) patterns: Vec<u64>,
}

pub(super) fn first_chars(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    match text.char_indices().nth(limit) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    }
}

fn last_chars(text: &str, limit: usize) -> &str {
    let Some(back) = limit.checked_sub(1) else {
        return "";
    };
    match text.char_indices().nth_back(back) {
        Some((start, _)) => text.get(start..).unwrap_or(text),
        None => text,
    }
}

/// A line without colour codes and control characters, cut to `limit` characters.
pub(super) fn one_line(line: &str, limit: usize) -> String {
    let mut clean = String::with_capacity(limit.min(line.len()));
    let mut left = limit;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            if characters.as_str().starts_with('[') {
                characters.find(char::is_ascii_alphabetic);
            }
            continue;
        }
        if left == 0 {
            clean.pop();
            clean.push('…');
            break;
        }
        left -= 1;
        clean.push(if character.is_control() {
            ' '
        } else {
            character
        });
    }
    clean.truncate(clean.trim_end().len());
    clean
}

/// The first lines of a text, in at most `room` characters. A line that is too long is cut
/// and says how much is missing.
pub(super) fn first_lines(text: &str, room: usize) -> LineCut {
    cut_lines(text, room, TextEnd::First, |_, _| None)
}

/// An end of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextEnd {
    First,
    Last,
}

impl TextEnd {
    /// The line at this end, with its line break, and the other lines.
    fn split_line(self, text: &str) -> (&str, &str) {
        match self {
            Self::First => {
                let end = memchr::memchr(b'\n', text.as_bytes()).map_or(text.len(), |end| end + 1);
                text.split_at_checked(end).unwrap_or((text, ""))
            }
            Self::Last => {
                let inner = text.strip_suffix('\n').unwrap_or(text);
                let start = memchr::memrchr(b'\n', inner.as_bytes()).map_or(0, |end| end + 1);
                let (others, line) = text.split_at_checked(start).unwrap_or(("", text));
                (line, others)
            }
        }
    }
}

/// Lines that follow each other and have the same pattern.
#[derive(Default)]
struct Run {
    pattern: Option<u64>,
    shown: usize,
    folded: usize,
    folded_bytes: usize,
}

impl Run {
    /// The line that replaces those that are not shown.
    fn note(&self) -> Option<String> {
        (self.folded > 0).then(|| format!("… {} lines like this", self.folded))
    }
}

/// The lines at one end of a text; see [`first_lines`]. Of lines with the same pattern that follow
/// each other only the first ones are shown, counted from that end; those without one are never
/// folded.
fn cut_lines(
    text: &str,
    room: usize,
    end: TextEnd,
    pattern: impl Fn(usize, usize) -> Option<u64>,
) -> LineCut {
    let mut cut = LineCut {
        is_whole: true,
        ..LineCut::default()
    };
    let mut lines: Vec<Cow<'_, str>> = Vec::new();
    let mut rest = text;
    let mut left = room;
    let mut run = Run::default();
    let place = |line: &str, others: &str| match end {
        TextEnd::First => text.len() - others.len() - line.len(),
        TextEnd::Last => others.len(),
    };
    let bare = |line: &'_ str| line.trim_end_matches(['\n', '\r']).len();
    while !rest.is_empty() {
        let (line, others) = end.split_line(rest);
        let at = place(line, others);
        rest = others;
        let shown = line.get(..bare(line)).unwrap_or(line);
        let found = pattern(at, at + shown.len());
        if found.is_none() || found != run.pattern {
            lines.extend(run.note().map(Cow::Owned));
            run = Run {
                pattern: found,
                ..Run::default()
            };
        } else if run.shown >= SHOWN_OF_RUN && cut.is_whole {
            let goes_on = run.folded > 0
                || left > FOLD_CHARS && {
                    let (next, behind) = end.split_line(rest);
                    let at = place(next, behind);
                    pattern(at, at + bare(next)) == found
                };
            if goes_on && run.folded_bytes > MAX_FOLDED_BYTES {
                cut.is_whole = false;
                break;
            }
            if goes_on {
                if run.folded == 0 {
                    left -= FOLD_CHARS;
                }
                run.folded += 1;
                run.folded_bytes += line.len();
                cut.bytes += line.len();
                cut.patterns.extend(found);
                continue;
            }
        }
        let length = char_count_up_to(shown, left);
        if length < left && length <= max_line_chars(room) {
            run.shown += 1;
            cut.chars += length + 1;
            cut.patterns.extend(found);
            cut.shown.push((at, at + line.len()));
            left -= length + 1;
            lines.push(shown.into());
            if cut.is_whole {
                cut.bytes += line.len();
            }
        } else {
            let most = left.min(max_line_chars(room) + MARKER_CHARS);
            if most < MARKER_CHARS + MIN_LINE_PART {
                cut.is_whole = false;
                break;
            }
            let kept = most - MARKER_CHARS - 1;
            let length = shown.chars().count();
            let missing = length.saturating_sub(kept);
            let (piece, marked) = match end {
                TextEnd::First => {
                    let piece = first_chars(shown, kept);
                    (piece, format!("{piece}… [{missing} more characters]"))
                }
                TextEnd::Last => {
                    let piece = last_chars(shown, kept);
                    (piece, format!("[{missing} more characters] …{piece}"))
                }
            };
            match end {
                TextEnd::First => cut.shown.push((at, at + piece.len())),
                TextEnd::Last => {
                    let to = at + shown.len();
                    cut.shown.push((to - piece.len(), to));
                }
            }
            if cut.is_whole {
                cut.bytes += match end {
                    TextEnd::First => piece.len(),
                    TextEnd::Last => piece.len() + line.len() - shown.len(),
                };
            }
            cut.is_whole = false;
            cut.chars += kept.min(length);
            left = left.saturating_sub(marked.chars().count() + 1);
            lines.push(marked.into());
        }
    }
    lines.extend(run.note().map(Cow::Owned));
    if end == TextEnd::Last {
        lines.reverse();
    }
    for line in lines {
        cut.text.push_str(&line);
        cut.text.push('\n');
    }
    cut
}

/// The maximum characters of one line in `room` characters.
fn max_line_chars(room: usize) -> usize {
    (room / 2).clamp(80, 600)
}

/// The number of characters of a line; a number above `limit` only says that the line has
/// more than `limit`.
fn char_count_up_to(line: &str, limit: usize) -> usize {
    if line.len() > (limit + 1) * 4 {
        return limit + 1;
    }
    line.chars().count()
}

/// The lines of both ends of a text.
pub(super) struct FirstAndLast {
    pub(super) first: LineCut,
    /// With ranges of the whole text.
    pub(super) last: LineCut,
}

impl FirstAndLast {
    /// Takes lines with at most `room` characters from each end. `pattern` is that of the line
    /// between two bytes, if it may be folded.
    pub(super) fn take(
        text: &str,
        room: usize,
        pattern: impl Fn(usize, usize) -> Option<u64>,
    ) -> Self {
        let first = cut_lines(text, room, TextEnd::First, &pattern);
        let from = first.bytes;
        let rest = text.get(from..).unwrap_or_default();
        let mut last = cut_lines(rest, room, TextEnd::Last, |start, end| {
            pattern(from + start, from + end)
        });
        for (start, end) in &mut last.shown {
            *start += from;
            *end += from;
        }
        Self { first, last }
    }

    /// The bytes between the first and the last lines.
    pub(super) fn between(&self, text: &str) -> (usize, usize) {
        let to = text.len().saturating_sub(self.last.bytes);
        (self.first.bytes, to.max(self.first.bytes))
    }

    /// How many of its lines have this pattern.
    pub(super) fn alike(&self, pattern: u64) -> usize {
        let patterns = self.first.patterns.iter().chain(&self.last.patterns);
        patterns.filter(|found| **found == pattern).count()
    }

    /// The ends below their labels, around another text.
    pub(super) fn text(&self, [first, last]: [&str; 2], middle: &str) -> String {
        let mut text = String::new();
        for (label, shown) in [
            (first, self.first.text.as_str()),
            ("", middle),
            (last, &self.last.text),
        ] {
            if !shown.is_empty() {
                text.push_str(label);
                text.push_str(shown);
            }
        }
        text
    }
}

/// How many lines of a text have a part in one of these ranges.
pub(super) fn lines_in(text: &str, mut ranges: Vec<(usize, usize)>) -> usize {
    ranges.sort_unstable();
    let bytes = text.as_bytes();
    let mut lines = 0;
    // The end of the ranges before.
    let mut to = 0;
    for (start, end) in ranges {
        let start = start.max(to);
        let Some(range) = bytes.get(start..end).filter(|range| !range.is_empty()) else {
            continue;
        };
        let last = to.checked_sub(1).and_then(|last| bytes.get(last));
        let gap = bytes.get(to..start).unwrap_or_default();
        let goes_on =
            last.is_some_and(|last| *last != b'\n') && memchr::memchr(b'\n', gap).is_none();
        let inside = range.split_last().map_or(range, |(_, inside)| inside);
        lines += usize::from(!goes_on) + memchr::memchr_iter(b'\n', inside).count();
        to = end;
    }
    lines
}
