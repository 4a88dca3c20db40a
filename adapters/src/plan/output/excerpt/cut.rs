//! Beginnings and ends of texts, cut where lines end.

use super::super::kind::count;

/// What is left of a line that is cut, at least.
const PIECE: usize = 40;

/// Characters that the marker of a cut line may need.
const MARKER: usize = 34;

/// Some lines of the beginning or the end of a text.
#[derive(Default)]
pub(super) struct Cut {
    /// The lines, each with a line end.
    pub(super) text: String,
    /// Characters of the original that it holds.
    pub(super) chars: usize,
    /// Lines of the original that it holds whole.
    pub(super) lines: usize,
    /// Bytes of the original that it stands for.
    pub(super) bytes: usize,
}

/// How many characters a text has.
pub(super) fn chars(text: &str) -> usize {
    count(text.as_bytes(), |byte| byte & 0xc0 != 0x80)
}

/// The first `most` characters.
pub(super) fn first_chars(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    match text.char_indices().nth(most) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    }
}

/// The last `most` characters.
fn last_chars(text: &str, most: usize) -> &str {
    let Some(back) = most.checked_sub(1) else {
        return "";
    };
    match text.char_indices().nth_back(back) {
        Some((start, _)) => text.get(start..).unwrap_or(text),
        None => text,
    }
}

/// A line without colours and control characters, of at most `most` characters.
pub(super) fn one_line(line: &str, most: usize) -> String {
    let mut clean = String::with_capacity(most.min(line.len()));
    let mut left = most;
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

/// The first lines of a text in at most `room` characters. A line that is too long is
/// cut, and says how much is missing.
pub(super) fn first(text: &str, room: usize) -> Cut {
    let mut cut = Cut::default();
    let mut rest = text;
    let mut left = room;
    while !rest.is_empty() {
        let end = memchr::memchr(b'\n', rest.as_bytes());
        let (line, tail) = match end {
            Some(end) => rest.split_at_checked(end + 1).unwrap_or((rest, "")),
            None => (rest, ""),
        };
        let shown = line.trim_end_matches(['\n', '\r']);
        let length = chars_up_to(shown, left);
        if length < left && length <= longest(room) {
            cut.take(shown, line.len(), length + 1, true);
            left -= length + 1;
            rest = tail;
            continue;
        }
        let most = left.min(longest(room) + MARKER);
        if most < MARKER + PIECE {
            break;
        }
        let piece = first_chars(shown, most - MARKER - 1);
        let held = chars(piece);
        let missing = chars(shown).saturating_sub(held);
        let marked = format!("{piece}… [{missing} more characters]");
        left = left.saturating_sub(chars(&marked) + 1);
        cut.take(&marked, line.len(), held, false);
        rest = tail;
    }
    cut
}

/// The last lines of a text, as [`first`].
pub(super) fn last(text: &str, room: usize) -> Cut {
    let mut lines: Vec<(String, usize, usize, bool)> = Vec::new();
    let mut rest = text;
    let mut left = room;
    while !rest.is_empty() {
        let inner = rest.strip_suffix('\n').unwrap_or(rest);
        let start = memchr::memrchr(b'\n', inner.as_bytes()).map_or(0, |end| end + 1);
        let (before, line) = rest.split_at_checked(start).unwrap_or(("", rest));
        let shown = line.trim_end_matches(['\n', '\r']);
        let length = chars_up_to(shown, left);
        if length < left && length <= longest(room) {
            lines.push((shown.to_owned(), line.len(), length + 1, true));
            left -= length + 1;
            rest = before;
            continue;
        }
        let most = left.min(longest(room) + MARKER);
        if most < MARKER + PIECE {
            break;
        }
        let piece = last_chars(shown, most - MARKER - 1);
        let held = chars(piece);
        let missing = chars(shown).saturating_sub(held);
        let marked = format!("[{missing} more characters] …{piece}");
        left = left.saturating_sub(chars(&marked) + 1);
        lines.push((marked, line.len(), held, false));
        rest = before;
    }
    let mut cut = Cut::default();
    for (line, bytes, chars, whole) in lines.iter().rev() {
        cut.take(line, *bytes, *chars, *whole);
    }
    cut
}

/// No line takes more than that of some room.
fn longest(room: usize) -> usize {
    (room / 2).clamp(80, 600)
}

/// How many characters a line has, if not more than `most`; else more than that.
fn chars_up_to(line: &str, most: usize) -> usize {
    if line.len() > (most + 1) * 4 {
        return most + 1;
    }
    chars(line)
}

impl Cut {
    fn take(&mut self, line: &str, bytes: usize, chars: usize, whole: bool) {
        self.text.push_str(line);
        self.text.push('\n');
        self.bytes += bytes;
        self.chars += chars;
        self.lines += usize::from(whole);
    }
}
