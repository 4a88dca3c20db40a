//! Takes whole lines from the beginning or the end of a text, and cuts lines that are too
//! long.

use super::super::classify::count_bytes;
use super::{ExcerptBody, ExcerptInput, ExcerptStyle};

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
    /// Bytes of the original that its lines have, cut parts included.
    pub(super) bytes: usize,
}

pub(super) fn char_count(text: &str) -> usize {
    count_bytes(text.as_bytes(), |byte| byte & 0xc0 != 0x80)
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
    let mut cut = LineCut::default();
    let mut rest = text;
    let mut left = room;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest.as_bytes());
        let (line, tail) = match end {
            Some(end) => rest.split_at_checked(end + 1).unwrap_or((rest, "")),
            None => (rest, ""),
        };
        let shown = line.trim_end_matches(['\n', '\r']);
        let length = char_count_up_to(shown, left);
        if length < left && length <= max_line_chars(room) {
            cut.add_line(shown, line.len(), length + 1, true);
            left -= length + 1;
            rest = tail;
            continue;
        }
        let most = left.min(max_line_chars(room) + MARKER_CHARS);
        if most < MARKER_CHARS + MIN_LINE_PART {
            break;
        }
        let piece = first_chars(shown, most - MARKER_CHARS - 1);
        let kept = char_count(piece);
        let missing = char_count(shown).saturating_sub(kept);
        let marked = format!("{piece}… [{missing} more characters]");
        left = left.saturating_sub(char_count(&marked) + 1);
        cut.add_line(&marked, line.len(), kept, false);
        rest = tail;
    }
    cut
}

/// The last lines of a text, as in [`first_lines`].
pub(super) fn last_lines(text: &str, room: usize) -> LineCut {
    let mut lines: Vec<(String, usize, usize, bool)> = Vec::new();
    let mut rest = text;
    let mut left = room;
    while !rest.is_empty() {
        let inner = rest.strip_suffix('\n').unwrap_or(rest);
        let start = memchr::memrchr(b'\n', inner.as_bytes()).map_or(0, |end| end + 1);
        let (before, line) = rest.split_at_checked(start).unwrap_or(("", rest));
        let shown = line.trim_end_matches(['\n', '\r']);
        let length = char_count_up_to(shown, left);
        if length < left && length <= max_line_chars(room) {
            lines.push((shown.to_owned(), line.len(), length + 1, true));
            left -= length + 1;
            rest = before;
            continue;
        }
        let most = left.min(max_line_chars(room) + MARKER_CHARS);
        if most < MARKER_CHARS + MIN_LINE_PART {
            break;
        }
        let piece = last_chars(shown, most - MARKER_CHARS - 1);
        let kept = char_count(piece);
        let missing = char_count(shown).saturating_sub(kept);
        let marked = format!("[{missing} more characters] …{piece}");
        left = left.saturating_sub(char_count(&marked) + 1);
        lines.push((marked, line.len(), kept, false));
        rest = before;
    }
    let mut cut = LineCut::default();
    for (line, bytes, chars, whole) in lines.iter().rev() {
        cut.add_line(line, *bytes, *chars, *whole);
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
    char_count(line)
}

impl LineCut {
    fn add_line(&mut self, line: &str, bytes: usize, chars: usize, whole: bool) {
        self.text.push_str(line);
        self.text.push('\n');
        self.bytes += bytes;
        self.chars += chars;
        self.lines += usize::from(whole);
    }
}

/// The lines of both ends of a text.
pub(super) struct FirstAndLast {
    first: LineCut,
    last: LineCut,
}

impl FirstAndLast {
    /// Takes lines with at most `room` characters from each end, fewer where the style
    /// says so.
    pub(super) fn take(input: ExcerptInput<'_>, room: usize) -> Self {
        let room = match input.style {
            ExcerptStyle::Adaptive => room,
            ExcerptStyle::Fixed => room.min(1_200),
        };
        let first = first_lines(input.text, room);
        let rest = input.text.get(first.bytes..).unwrap_or_default();
        Self {
            last: last_lines(rest, room),
            first,
        }
    }

    /// The bytes between the first and the last lines.
    pub(super) fn middle(&self, text: &str) -> (usize, usize) {
        (self.first.bytes, text.len().saturating_sub(self.last.bytes))
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
