//! The shape of a JSON document as plain text.

use super::line_cut::{self, one_line};
use std::fmt::{self, Write as _};

/// The maximum levels of the shape.
const MAX_DEPTH: usize = 7;

/// The maximum number of keys that are described of an object.
const MAX_KEYS: usize = 24;

/// The levels of the shape and the keys of an object that are described, from the most to the
/// fewest: the first of these that fits is shown.
const SHAPES: [(usize, usize); 9] = [
    (MAX_DEPTH, MAX_KEYS),
    (4, MAX_KEYS),
    (3, MAX_KEYS),
    (4, 8),
    (3, 8),
    (2, MAX_KEYS),
    (2, 8),
    (1, MAX_KEYS),
    (0, 0),
];

/// The maximum number of elements that are described of an array.
const MAX_ELEMENTS: usize = 2;

/// The maximum number of values that are described in all.
const MAX_VALUES: usize = 400;

/// An object with more bytes is not shown whole.
const MAX_OBJECT_BYTES: usize = 600;

/// How far back the beginning of a long row is looked for, in bytes.
const MAX_ROW_BYTES: usize = 8 * 1024;

/// Characters that are shown of the beginning of a long row, and around the place in it.
const ROW_HEAD_CHARS: usize = 80;
const AROUND_CHARS: usize = 240;

/// How many bytes are read. Counts of values that continue after them are lower limits.
const READ_BYTES: usize = 4 << 20;

/// The shape of a document, in at most `room` characters.
pub(super) fn shape(text: &str, room: usize) -> String {
    let start = readable_start(text);
    let (roots, count) = read_documents(start);
    let is_exact = start.len() == text.len();
    let roots = (roots, ValueCount { count, is_exact });
    let room = room.saturating_sub("Shape:\n(more)\n".len());
    let shape = SHAPES
        .into_iter()
        .map(|(depth, keys)| describe_shape(&roots, depth, keys))
        .find(|shape| shape.chars().count() <= room)
        .unwrap_or_else(|| {
            let shape = describe_shape(&roots, 1, MAX_KEYS);
            let lines = line_cut::first_lines(&shape, room);
            format!("{}(more)\n", lines.text)
        });
    format!("Shape:\n{shape}")
}

/// The largest object around a byte that has at most [`MAX_OBJECT_BYTES`]. Braces in strings count
/// as well, so it may be a part of an object.
pub(super) fn object_around(
    text: &str,
    at: usize,
    (from, to): (usize, usize),
) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let first = at.saturating_sub(MAX_OBJECT_BYTES).max(from);
    let mut found = None;
    let mut end = at;
    let mut depth = 0_usize;
    for start in (first..at).rev() {
        match bytes.get(start) {
            Some(b'}' | b']') => depth += 1,
            Some(b'{' | b'[') if depth > 0 => depth -= 1,
            Some(b'[') => break,
            Some(b'{') => {
                let last = (start + MAX_OBJECT_BYTES).min(to);
                let Some(object_end) = closing(bytes, end, last) else {
                    break;
                };
                end = object_end;
                found = Some((start, end));
            }
            _ => {}
        }
    }
    found
}

/// The row around a byte, which is an object in an array or at the start of a line: its beginning,
/// which names it in most documents, and the text around the byte. `None` if it has line ends, or
/// begins too far above. Also returns the bytes from the start of the row to the end of what is
/// shown.
pub(super) fn row_around(
    text: &str,
    at: usize,
    (from, to): (usize, usize),
) -> Option<(usize, usize, String)> {
    let bytes = text.as_bytes();
    let first = at.saturating_sub(MAX_ROW_BYTES).max(from);
    let (mut depth, mut row) = (0_usize, None);
    for start in (first..at).rev() {
        match bytes.get(start) {
            Some(b'}' | b']') => depth += 1,
            Some(b'{' | b'[') if depth > 0 => depth -= 1,
            Some(b'{') => {
                let before = bytes.get(..start).unwrap_or_default().iter().rev();
                let mut before = before.skip_while(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
                if matches!(before.next(), Some(b'[' | b',' | b'\n')) {
                    row = Some(start);
                }
            }
            Some(b'\n') => break,
            _ => {}
        }
    }
    let start = row?;
    let rest = bytes.get(start..to.min(start + 2 * MAX_ROW_BYTES))?;
    let line_end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    let end = text.floor_char_boundary((start + line_end).min(at + AROUND_CHARS * 2).max(at));
    let before = text
        .get(start..text.floor_char_boundary(at))?
        .chars()
        .count();
    if before <= ROW_HEAD_CHARS + AROUND_CHARS / 3 {
        let shown = one_line(text.get(start..end)?, ROW_HEAD_CHARS + AROUND_CHARS);
        return Some((start, end, shown));
    }
    let head = one_line(text.get(start..end)?, ROW_HEAD_CHARS);
    let from = text
        .get(start..)?
        .char_indices()
        .nth(before - AROUND_CHARS / 3)?
        .0;
    let around = one_line(text.get(start + from..end)?, AROUND_CHARS);
    Some((start, end, format!("{head} …{around}")))
}

/// Behind the brace that closes what is open at `at`.
fn closing(bytes: &[u8], at: usize, to: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (place, byte) in bytes.get(at..to)?.iter().enumerate() {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 0 => depth -= 1,
            b'}' => return Some(at + place + 1),
            b']' => return None,
            _ => {}
        }
    }
    None
}

/// A part of a document with each line end and the white space around it as one space.
pub(super) fn joined_lines(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    lines.join(" ")
}

/// The part of a text that is read.
fn readable_start(text: &str) -> &str {
    text.get(..text.floor_char_boundary(READ_BYTES))
        .unwrap_or(text)
}

/// The part of a value that is described.
enum JsonShape<'t> {
    Object {
        keys: Vec<(&'t str, Self)>,
        count: ValueCount,
    },
    Array {
        elements: Vec<Self>,
        count: ValueCount,
    },
    /// The inside of a string, still escaped.
    Text(&'t str),
    /// A number, `true`, `false`, `null`.
    Literal(&'t str),
}

/// The number of keys, elements or documents.
#[derive(Clone, Copy)]
struct ValueCount {
    count: usize,
    /// Whether there are no more than were read.
    is_exact: bool,
}

impl fmt::Display for ValueCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_exact {
            f.write_str("at least ")?;
        }
        self.count.fmt(f)
    }
}

struct ShapeReader<'t> {
    text: &'t str,
    at: usize,
    /// How many values may still be described.
    left: usize,
}

/// The shapes of the first few documents, and the number of all.
fn read_documents(text: &str) -> (Vec<JsonShape<'_>>, usize) {
    let mut reader = ShapeReader {
        text,
        at: 0,
        left: MAX_VALUES,
    };
    let mut roots = Vec::new();
    let mut count = 0;
    while reader.peek().is_some() {
        let before = reader.at;
        if roots.len() < MAX_ELEMENTS {
            roots.extend(reader.read_value(MAX_DEPTH));
        } else {
            reader.skip_value();
        }
        count += 1;
        if reader.at <= before {
            break;
        }
    }
    (roots, count)
}

impl<'t> ShapeReader<'t> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        while matches!(self.byte(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
        self.byte()
    }

    /// Reads a value and describes `depth` levels of it, which is also how deep it recurses.
    fn read_value(&mut self, depth: usize) -> Option<JsonShape<'t>> {
        let first = self.peek()?;
        self.left = self.left.saturating_sub(1);
        match first {
            b'"' => Some(JsonShape::Text(self.read_string())),
            b'{' | b'[' => {
                let is_object = first == b'{';
                self.at += 1;
                let (mut keys, mut elements) = (Vec::new(), Vec::new());
                let mut count = ValueCount {
                    count: 0,
                    is_exact: true,
                };
                loop {
                    match self.peek() {
                        None => {
                            count.is_exact = false;
                            break;
                        }
                        Some(b'}' | b']') => {
                            self.at += 1;
                            break;
                        }
                        Some(b',' | b':') => {
                            self.at += 1;
                            continue;
                        }
                        Some(_) => {}
                    }
                    let before = self.at;
                    let key = if is_object && self.byte() == Some(b'"') {
                        let key = self.read_string();
                        if self.peek() == Some(b':') {
                            self.at += 1;
                        }
                        key
                    } else {
                        ""
                    };
                    let limit = if is_object { MAX_KEYS } else { MAX_ELEMENTS };
                    if depth > 0 && self.left > 0 && count.count < limit {
                        let value = self.read_value(depth - 1);
                        if is_object {
                            keys.extend(value.map(|value| (key, value)));
                        } else {
                            elements.extend(value);
                        }
                    } else {
                        self.skip_value();
                    }
                    count.count += 1;
                    if self.at <= before {
                        self.at += 1;
                    }
                }
                Some(if is_object {
                    JsonShape::Object { keys, count }
                } else {
                    JsonShape::Array { elements, count }
                })
            }
            _ => {
                let start = self.at;
                while self.byte().is_some_and(|byte| {
                    !matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t')
                }) {
                    self.at += 1;
                }
                self.text.get(start..self.at).map(JsonShape::Literal)
            }
        }
    }

    /// Reads a string and returns its inside.
    fn read_string(&mut self) -> &'t str {
        let start = self.at + 1;
        self.at = start;
        loop {
            let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
            let Some(next) = memchr::memchr2(b'"', b'\\', rest) else {
                self.at = self.text.len();
                return self.text.get(start..).unwrap_or_default();
            };
            if rest.get(next) == Some(&b'"') {
                let end = self.at + next;
                self.at = end + 1;
                return self.text.get(start..end).unwrap_or_default();
            }
            self.at += next + 2;
        }
    }

    /// Skips a value, however deep it is.
    fn skip_value(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.read_string();
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    if depth == 0 {
                        return;
                    }
                    depth -= 1;
                    self.at += 1;
                }
                b',' if depth == 0 => return,
                _ => self.at += 1,
            }
            let is_literal = !matches!(byte, b'"' | b'{' | b'[' | b'}' | b']');
            let has_ended = matches!(
                self.byte(),
                None | Some(b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t')
            );
            if depth == 0 && (!is_literal || has_ended) {
                return;
            }
        }
    }
}

/// The first `depth` levels of the shape with up to `most_keys` keys of each object, as lines.
fn describe_shape(
    (roots, count): &(Vec<JsonShape<'_>>, ValueCount),
    depth: usize,
    most_keys: usize,
) -> String {
    let mut shape = String::new();
    if count.count > 1 {
        let _ = writeln!(shape, "{count} documents, one after the other; the first:");
    }
    for root in roots.iter().take(if depth > 1 { MAX_ELEMENTS } else { 1 }) {
        shape.push_str("$: ");
        describe_value(&mut shape, root, (depth, most_keys), 1);
    }
    shape
}

fn describe_value(
    shape: &mut String,
    value: &JsonShape<'_>,
    (depth, most_keys): (usize, usize),
    level: usize,
) {
    let indent = "  ".repeat(level);
    match value {
        JsonShape::Text(text) => {
            let length = text.chars().count();
            let sample = one_line(text, 48);
            let _ = writeln!(shape, "string of {length}: \"{sample}\"");
        }
        JsonShape::Literal(text) => {
            let kind = match *text {
                "true" | "false" => "boolean",
                "null" => "null",
                _ => "number",
            };
            if kind == "null" {
                shape.push_str("null\n");
            } else {
                let _ = writeln!(shape, "{kind} {}", one_line(text, 32));
            }
        }
        JsonShape::Object { keys, count } => {
            let _ = writeln!(shape, "object, {count} keys");
            if depth == 0 {
                return;
            }
            let keys = keys.get(..most_keys).unwrap_or(keys);
            for (key, value) in keys {
                let _ = write!(shape, "{indent}{}: ", one_line(key, 48));
                describe_value(shape, value, (depth - 1, most_keys), level + 1);
            }
            if count.count > keys.len() {
                let more = ValueCount {
                    count: count.count - keys.len(),
                    ..*count
                };
                let _ = writeln!(shape, "{indent}and {more} keys more");
            }
        }
        JsonShape::Array { elements, count } => {
            let _ = writeln!(shape, "array of {count}");
            if depth == 0 {
                return;
            }
            // Most elements are alike: where the shape has few levels, one is enough.
            let limit = if depth > 3 { MAX_ELEMENTS } else { 1 };
            for (index, value) in elements.iter().take(limit).enumerate() {
                let _ = write!(shape, "{indent}[{index}]: ");
                describe_value(shape, value, (depth - 1, most_keys), level + 1);
            }
        }
    }
}
