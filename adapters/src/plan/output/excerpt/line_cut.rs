//! Takes whole lines from the beginning or the end of a text, and cuts lines that are too
//! long.

use std::borrow::Cow;

use super::ExcerptBody;

/// The minimum characters that are left of a line that is cut.
const MIN_LINE_PART: usize = 40;

/// The maximum characters of the marker of a cut line.
const MARKER_CHARS: usize = 34;

/// Some lines of the beginning or the end of a text.
#[derive(Default)]
pub(super) struct LineCut {
    /// The lines, each with a line end.
    pub(super) text: String,
    /// Characters of the original that it shows.
    pub(super) chars: usize,
    /// Lines of the original that it shows whole.
    pub(super) lines: usize,
    /// Bytes of the original up to the first part that is missing.
    pub(super) bytes: usize,
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
    cut_lines(text, room, TextEnd::First)
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

/// The lines at one end of a text; see [`first_lines`].
fn cut_lines(text: &str, room: usize, end: TextEnd) -> LineCut {
    let mut cut = LineCut::default();
    let mut lines: Vec<Cow<'_, str>> = Vec::new();
    let mut rest = text;
    let mut left = room;
    let mut is_whole = true;
    while !rest.is_empty() {
        let (line, others) = end.split_line(rest);
        rest = others;
        let shown = line.trim_end_matches(['\n', '\r']);
        let length = char_count_up_to(shown, left);
        if length < left && length <= max_line_chars(room) {
            cut.chars += length + 1;
            cut.lines += 1;
            left -= length + 1;
            lines.push(shown.into());
            if is_whole {
                cut.bytes += line.len();
            }
        } else {
            let most = left.min(max_line_chars(room) + MARKER_CHARS);
            if most < MARKER_CHARS + MIN_LINE_PART {
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
            if is_whole {
                cut.bytes += match end {
                    TextEnd::First => piece.len(),
                    TextEnd::Last => piece.len() + line.len() - shown.len(),
                };
            }
            is_whole = false;
            cut.chars += kept.min(length);
            left = left.saturating_sub(marked.chars().count() + 1);
            lines.push(marked.into());
        }
    }
    if end == TextEnd::Last {
        lines.reverse();
    }
    for line in lines {
        cut.text.push_str(&line);
        cut.text.push('\n');
    }
    cut
}

/// The maximum characters of one line where there is so much room.
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
    pub(super) last: LineCut,
}

impl FirstAndLast {
    /// Takes lines with at most `room` characters from each end.
    pub(super) fn take(text: &str, room: usize) -> Self {
        let first = first_lines(text, room);
        let rest = text.get(first.bytes..).unwrap_or_default();
        Self {
            last: cut_lines(rest, room, TextEnd::Last),
            first,
        }
    }

    /// The bytes between the first and the last lines.
    pub(super) fn between(&self, text: &str) -> (usize, usize) {
        let to = text.len().saturating_sub(self.last.bytes);
        (self.first.bytes, to.max(self.first.bytes))
    }

    /// The ends below their labels, around a text that shows so many characters and lines.
    pub(super) fn body(
        &self,
        [first, last]: [&str; 2],
        (middle, chars, lines): (&str, usize, usize),
    ) -> ExcerptBody {
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
        ExcerptBody {
            text,
            chars: chars + self.first.chars + self.last.chars,
            lines: lines + self.first.lines + self.last.lines,
        }
    }
}
