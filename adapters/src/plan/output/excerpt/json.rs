//! A JSON document: its shape as plain text, and the beginning and end of it, which
//! claim to be no document.

use super::cut::{self, chars, one_line};
use super::{Part, Style, Task};
use std::fmt::{self, Write as _};

/// Levels that the shape goes down.
const DEPTH: usize = 7;

/// Keys of an object that are named.
const KEYS: usize = 24;

/// Elements of an array that are described.
const ELEMENTS: usize = 2;

/// Values that are described in all.
const VALUES: usize = 400;

/// Bytes that are read; what goes on behind them has at least what was seen.
const LOOK: usize = 4 << 20;

pub(super) fn show(task: Task<'_>) -> Part {
    let Task {
        text, room, style, ..
    } = task;
    let looked_at = look(text);
    let (roots, count) = read(looked_at);
    let all = looked_at.len() == text.len();
    let roots = (roots, Count { seen: count, all });
    let shape = [DEPTH, 4, 3, 2, 1, 0]
        .into_iter()
        .map(|depth| describe(&roots, depth))
        .find(|shape| chars(shape) <= room * 55 / 100)
        .unwrap_or_else(|| {
            let shape = describe(&roots, 1);
            let lines = cut::first(&shape, room * 55 / 100);
            format!("{}(more)\n", lines.text)
        });
    let mut half = room.saturating_sub(chars(&shape) + 110) / 2;
    if style == Style::Fixed {
        half = half.min(1_200);
    }
    let first = cut::first(text, half);
    let rest = text.get(first.bytes..).unwrap_or_default();
    let last = cut::last(rest, half);
    let mut shown = format!("Shape:\n{shape}");
    for (label, part) in [
        ("Its beginning (a fragment, no whole JSON):\n", &first),
        ("Its end (a fragment):\n", &last),
    ] {
        if !part.text.is_empty() {
            shown.push_str(label);
            shown.push_str(&part.text);
        }
    }
    Part {
        text: shown,
        chars: first.chars + last.chars,
        lines: first.lines + last.lines,
    }
}

/// What of a text is read.
fn look(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LOOK)).unwrap_or(text)
}

/// A value as far as it is described.
enum Node<'t> {
    Object {
        keys: Vec<(&'t str, Self)>,
        count: Count,
    },
    Array {
        elements: Vec<Self>,
        count: Count,
    },
    /// A string, its inside still escaped.
    Text(&'t str),
    /// A number, `true`, `false`, `null`.
    Literal(&'t str),
}

/// How many there are, or at least so many.
#[derive(Clone, Copy)]
struct Count {
    seen: usize,
    all: bool,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.all {
            f.write_str("at least ")?;
        }
        self.seen.fmt(f)
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// Nodes that may still be made.
    left: usize,
}

/// All documents, the first few of them described.
fn read(text: &str) -> (Vec<Node<'_>>, usize) {
    let mut reader = Reader {
        text,
        at: 0,
        left: VALUES,
    };
    let mut roots = Vec::new();
    let mut count = 0;
    while reader.peek().is_some() {
        let before = reader.at;
        if roots.len() < ELEMENTS {
            roots.extend(reader.node(DEPTH));
        } else {
            reader.skip();
        }
        count += 1;
        if reader.at <= before {
            break;
        }
    }
    (roots, count)
}

impl<'t> Reader<'t> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next byte that is no blank.
    fn peek(&mut self) -> Option<u8> {
        while matches!(self.byte(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
        self.byte()
    }

    /// Reads a value, `depth` levels of it; called at most so deep inside itself.
    fn node(&mut self, depth: usize) -> Option<Node<'t>> {
        let first = self.peek()?;
        self.left = self.left.saturating_sub(1);
        match first {
            b'"' => Some(Node::Text(self.string())),
            b'{' | b'[' => {
                let object = first == b'{';
                self.at += 1;
                let (mut keys, mut elements) = (Vec::new(), Vec::new());
                let mut count = Count { seen: 0, all: true };
                loop {
                    match self.peek() {
                        None => {
                            count.all = false;
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
                    let key = if object && self.byte() == Some(b'"') {
                        let key = self.string();
                        if self.peek() == Some(b':') {
                            self.at += 1;
                        }
                        key
                    } else {
                        ""
                    };
                    let most = if object { KEYS } else { ELEMENTS };
                    if depth > 0 && self.left > 0 && count.seen < most {
                        let node = self.node(depth - 1);
                        if object {
                            keys.extend(node.map(|node| (key, node)));
                        } else {
                            elements.extend(node);
                        }
                    } else {
                        self.skip();
                    }
                    count.seen += 1;
                    if self.at <= before {
                        self.at += 1;
                    }
                }
                Some(if object {
                    Node::Object { keys, count }
                } else {
                    Node::Array { elements, count }
                })
            }
            _ => {
                let start = self.at;
                while self.byte().is_some_and(|byte| {
                    !matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t')
                }) {
                    self.at += 1;
                }
                self.text.get(start..self.at).map(Node::Literal)
            }
        }
    }

    /// The inside of a string, behind which reading goes on.
    fn string(&mut self) -> &'t str {
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

    /// Goes behind a value, however deep it is.
    fn skip(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.string();
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
            let literal = !matches!(byte, b'"' | b'{' | b'[' | b'}' | b']');
            let ends = matches!(
                self.byte(),
                None | Some(b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t')
            );
            if depth == 0 && (!literal || ends) {
                return;
            }
        }
    }
}

/// The shape as lines, `depth` levels of it.
fn describe((roots, count): &(Vec<Node<'_>>, Count), depth: usize) -> String {
    let mut shape = String::new();
    if count.seen > 1 {
        let _ = writeln!(shape, "{count} documents, one after the other; the first:");
    }
    for root in roots.iter().take(if depth > 1 { ELEMENTS } else { 1 }) {
        shape.push_str("$: ");
        line(&mut shape, root, depth, 1);
    }
    shape
}

fn line(shape: &mut String, node: &Node<'_>, depth: usize, level: usize) {
    let indent = "  ".repeat(level);
    match node {
        Node::Text(text) => {
            let length = chars(text);
            let sample = one_line(text, 48);
            let _ = writeln!(shape, "string of {length}: \"{sample}\"");
        }
        Node::Literal(text) => {
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
        Node::Object { keys, count } => {
            let _ = writeln!(shape, "object, {count} keys");
            if depth == 0 {
                return;
            }
            for (key, value) in keys {
                let _ = write!(shape, "{indent}{}: ", one_line(key, 48));
                line(shape, value, depth - 1, level + 1);
            }
            if count.seen > keys.len() {
                let more = Count {
                    seen: count.seen - keys.len(),
                    ..*count
                };
                let _ = writeln!(shape, "{indent}and {more} keys more");
            }
        }
        Node::Array { elements, count } => {
            let _ = writeln!(shape, "array of {count}");
            if depth == 0 {
                return;
            }
            // Elements are mostly alike: the first one is enough at small depth.
            let most = if depth > 3 { ELEMENTS } else { 1 };
            for (index, value) in elements.iter().take(most).enumerate() {
                let _ = write!(shape, "{indent}[{index}]: ");
                line(shape, value, depth - 1, level + 1);
            }
        }
    }
}
