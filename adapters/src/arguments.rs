//! The arguments of a call: whether they are whole, found out while they arrive, and the document
//! in them without what models and servers leave around it. Every byte is scanned once while they
//! arrive. They are parsed when their brackets are closed; arguments that are not a plain object
//! are parsed a few times at most before their end.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json;

/// How often arguments that are not a plain object are parsed before their end. Each time all of
/// their text is read.
const MAX_JUDGED: u8 = 16;

/// The most characters between the brackets of a tag.
const MAX_TAG: usize = 64;

/// What arguments are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ArgumentsReading<'t> {
    /// White space, or nothing.
    Blank,
    /// One JSON document, escaped.
    Whole {
        document: Cow<'t, str>,
        /// Whether something was taken away around it.
        repaired: bool,
    },
    /// JSON whose end is missing.
    Open,
    /// No JSON, or a document and something else.
    Unreadable,
}

/// How far the arguments of one call were read, and what was found. Made with the call; the text
/// may only grow.
#[derive(Debug, Default)]
pub(crate) struct ArgumentsScan {
    /// The bytes of the escaped text that were read.
    scanned: usize,
    brackets: Brackets,
    /// The first byte that is not white space.
    first: Option<u8>,
    stage: Stage,
    /// A second opening brace follows the first.
    has_extra_brace: bool,
    /// The document is an object with nothing in it, which another one may follow.
    is_empty: bool,
    /// Text follows the document.
    has_tail: bool,
    /// The first byte that waits for the end: that of a text that does not begin like an object, a
    /// second opening brace, the end of an empty object, or the text after the document.
    held_from: Option<usize>,
    verdict: Verdict,
    judged: u8,
}

/// Where the text ends that was read.
#[derive(Debug, Default, PartialEq)]
enum Stage {
    #[default]
    Before,
    /// Behind opening braces that may be too many.
    AtBraces,
    Inside,
    /// Behind the document.
    Closed,
}

#[derive(Debug, Default, PartialEq)]
enum Verdict {
    /// There are bytes besides white space that were not judged.
    #[default]
    Unjudged,
    Whole,
    Other,
}

/// The brackets of a JSON text that are open.
#[derive(Debug, Default)]
struct Brackets {
    depth: usize,
    in_string: bool,
    /// A backslash in a string precedes the next character.
    escaped: bool,
}

impl Brackets {
    /// Whether the next byte is in a string, and no backslash precedes it.
    fn is_in_plain_string(&self) -> bool {
        self.in_string && !self.escaped
    }

    /// Reads a byte; whether it closes the document.
    fn closes(&mut self, byte: u8) -> bool {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => {
                    self.in_string = false;
                    return self.depth == 0;
                }
                _ => {}
            }
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' if self.depth > 0 => {
                self.depth -= 1;
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }
}

impl ArgumentsScan {
    /// Whether the arguments are one JSON document, and nothing else that counts. `escaped` are all
    /// of them so far, as the content of a JSON string.
    pub(crate) fn is_whole(&mut self, escaped: &str) -> bool {
        self.read(escaped);
        if self.verdict == Verdict::Unjudged {
            let begins_document = matches!(self.first, Some(b'{' | b'[' | b'"'));
            let may_be_whole = self.is_closed() || !begins_document;
            let is_odd = may_be_whole && !self.is_plain();
            self.judged = self.judged.saturating_add(u8::from(is_odd));
            let is_whole = may_be_whole
                && self.judged <= MAX_JUDGED
                && matches!(self.parse(escaped), ArgumentsReading::Whole { .. });
            self.verdict = if is_whole {
                Verdict::Whole
            } else {
                Verdict::Other
            };
        }
        self.verdict == Verdict::Whole
    }

    /// Whether the end of a JSON document is missing.
    pub(crate) fn is_open(&mut self, escaped: &str) -> bool {
        self.read(escaped);
        match self.first {
            Some(b'{' | b'[' | b'"') if !self.is_closed() => true,
            Some(b'{') if !self.has_tail => false,
            _ => matches!(self.reading(escaped), ArgumentsReading::Open),
        }
    }

    /// What all the arguments are.
    pub(crate) fn reading<'t>(&mut self, escaped: &'t str) -> ArgumentsReading<'t> {
        if self.is_whole(escaped) && self.is_plain() {
            return ArgumentsReading::Whole {
                document: Cow::Borrowed(escaped),
                repaired: false,
            };
        }
        self.parse(escaped)
    }

    /// How many bytes can be passed on before the arguments end: all but what may have to be taken
    /// away, and what must be known whole.
    pub(crate) fn passable(&mut self, escaped: &str) -> usize {
        self.read(escaped);
        self.held_from.unwrap_or(escaped.len())
    }

    /// Whether they begin like an object.
    pub(crate) fn is_object(&self) -> bool {
        self.first == Some(b'{')
    }

    /// Whether there is only white space so far.
    pub(crate) fn is_blank(&mut self, escaped: &str) -> bool {
        self.read(escaped);
        self.first.is_none()
    }

    /// Whether there is an object and nothing around it.
    fn is_plain(&self) -> bool {
        self.is_closed() && self.is_object() && !self.has_tail && !self.has_extra_brace
    }

    fn is_closed(&self) -> bool {
        self.stage == Stage::Closed
    }

    fn parse<'t>(&self, escaped: &'t str) -> ArgumentsReading<'t> {
        if self.first.is_none() {
            return ArgumentsReading::Blank;
        }
        let end = self.held_from.unwrap_or_default();
        if self.is_closed()
            && self.is_object()
            && !self.has_extra_brace
            && !self.is_empty
            && let Some((document, tail)) = escaped.split_at_checked(end)
        {
            let text = json::unescape(document);
            if serde_json::from_str::<IgnoredAny>(&text).is_err() {
                return ArgumentsReading::Unreadable;
            }
            return match read_tail(&json::unescape(tail), text.trim()) {
                Tail::Droppable => ArgumentsReading::Whole {
                    document: document.into(),
                    repaired: !tail.is_empty(),
                },
                Tail::Open => ArgumentsReading::Open,
                Tail::Other => ArgumentsReading::Unreadable,
            };
        }
        let text = json::unescape(escaped);
        match find_document(&text, 0) {
            Lookup::Document(document) => ArgumentsReading::Whole {
                repaired: document != text,
                document: json::escape(&document).into(),
            },
            Lookup::Open => ArgumentsReading::Open,
            Lookup::Nothing => ArgumentsReading::Unreadable,
        }
    }

    /// Reads what is new.
    fn read(&mut self, escaped: &str) {
        let mut rest = escaped.as_bytes().get(self.scanned..).unwrap_or_default();
        self.scanned = escaped.len();
        loop {
            // In a string only an escape counts: its end is written `\"`.
            if self.stage == Stage::Inside && self.brackets.is_in_plain_string() {
                let plain = memchr::memchr(b'\\', rest).unwrap_or(rest.len());
                if plain > 0 {
                    self.verdict = Verdict::Unjudged;
                    rest = rest.get(plain..).unwrap_or_default();
                }
            }
            let Some((byte, after)) = next_byte(rest) else {
                return;
            };
            let at = escaped.len() - rest.len();
            rest = after;
            let is_blank = matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
            if !is_blank {
                self.verdict = Verdict::Unjudged;
            }
            match self.stage {
                Stage::Closed => {
                    self.has_tail = true;
                    continue;
                }
                Stage::Before | Stage::AtBraces if is_blank => continue,
                Stage::Before => {
                    self.first = Some(byte);
                    if byte == b'{' {
                        self.stage = Stage::AtBraces;
                    } else {
                        self.stage = Stage::Inside;
                        self.held_from = Some(0);
                    }
                }
                Stage::AtBraces if byte == b'{' => {
                    self.has_extra_brace = true;
                    self.held_from.get_or_insert(at);
                    continue;
                }
                Stage::AtBraces => {
                    self.stage = Stage::Inside;
                    if byte == b'}' {
                        self.is_empty = true;
                        self.held_from.get_or_insert(at);
                    }
                }
                Stage::Inside => {}
            }
            if self.brackets.closes(byte) {
                self.stage = Stage::Closed;
                self.held_from.get_or_insert(escaped.len() - rest.len());
            }
        }
    }
}

/// The result of a search for a document in arguments that may have text around it.
enum Lookup {
    Document(String),
    /// The end of a document is missing.
    Open,
    /// No document alone.
    Nothing,
}

/// Finds the only document in this text. White space before it is kept. `encoded` is how often the
/// document was encoded as a string.
fn find_document(text: &str, encoded: u8) -> Lookup {
    let begin = strip_head(text);
    let blanks = match text.strip_suffix(begin) {
        Some(head) if head.trim().is_empty() => head,
        _ => "",
    };
    let begin = without_extra_braces(begin);
    let mut values = serde_json::Deserializer::from_str(&begin).into_iter::<&RawValue>();
    let document = match values.next() {
        Some(Ok(document)) => document.get(),
        Some(Err(error)) if error.is_eof() || is_open(&begin) => return Lookup::Open,
        Some(Err(_)) | None => return Lookup::Nothing,
    };
    let behind = begin.get(values.byte_offset()..).unwrap_or_default();
    match read_tail(behind, document) {
        Tail::Droppable => {}
        Tail::Open => return Lookup::Open,
        Tail::Other => return Lookup::Nothing,
    }
    // Servers that encode arguments twice do so once more at most.
    if encoded < 2
        && let Ok(inner) = serde_json::from_str::<String>(document)
    {
        match find_document(&inner, encoded + 1) {
            Lookup::Document(inner) if inner.trim_start().starts_with('{') => {
                return Lookup::Document(inner);
            }
            Lookup::Open if is_json_like(&inner) => return Lookup::Open,
            Lookup::Document(_) | Lookup::Open | Lookup::Nothing => {}
        }
    }
    Lookup::Document(format!("{blanks}{document}"))
}

/// The text after a document.
enum Tail {
    /// Nothing that counts.
    Droppable,
    /// The beginning of another document, whose end is missing.
    Open,
    /// Something else.
    Other,
}

/// Judges the text behind a document.
fn read_tail(tail: &str, document: &str) -> Tail {
    let mut rest = tail;
    let mut value = None;
    loop {
        rest = strip_remains(rest);
        if rest.is_empty() {
            return Tail::Droppable;
        }
        let empty = || strip_brace(strip_brace(rest, '{')?, '}');
        if let Some(after) = rest.strip_prefix(document).or_else(empty) {
            rest = after;
            continue;
        }
        if !rest.starts_with('{') {
            return Tail::Other;
        }
        // The same, written in another way.
        let first = value.get_or_insert_with(|| serde_json::from_str::<Value>(document).ok());
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        match values.next().transpose() {
            Ok(second) if second == *first => {
                rest = rest.get(values.byte_offset()..).unwrap_or_default();
            }
            Err(_) if is_open(rest) => return Tail::Open,
            Ok(_) | Err(_) => return Tail::Other,
        }
    }
}

/// The text without what models leave before a document: fences, tags, white space.
fn strip_head(text: &str) -> &str {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(is_blank);
        rest = if let Some(fenced) = strip_fence(rest) {
            // The language.
            fenced.trim_start_matches(|c: char| c.is_ascii_alphanumeric())
        } else if let Some(after) = strip_tag(rest) {
            after
        } else {
            return rest;
        };
    }
}

/// The text without what models leave behind a document: closing tags and fences, tokens of their
/// own format, further closing brackets, white space.
pub(crate) fn strip_remains(text: &str) -> &str {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c| is_blank(c) || matches!(c, '}' | ']'));
        match strip_fence(rest).or_else(|| strip_tag(rest)) {
            Some(after) => rest = after,
            None => return rest,
        }
    }
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{feff}'
}

/// What follows the marks of a Markdown fence. The last ones may be missing.
fn strip_fence(text: &str) -> Option<&str> {
    let after = text.trim_start_matches(['`', '~']);
    (after.len() < text.len()).then_some(after)
}

/// What follows a tag or a token: `</tool_call>`, `<|call|>`, `<｜end｜>`, `[/TOOL_CALLS]`. Its end
/// may be missing at the end of the text.
pub(crate) fn strip_tag(text: &str) -> Option<&str> {
    let (inside, close) = match text.strip_prefix("[/") {
        Some(inside) => (inside, ']'),
        None => (text.strip_prefix('<')?, '>'),
    };
    let is_inside = |c: char| c.is_alphanumeric() || "/|｜_-:.▁".contains(c);
    let end = inside.find(|c| !is_inside(c)).unwrap_or(inside.len());
    let (name, after) = inside.split_at_checked(end)?;
    let is_short = name.chars().count() <= MAX_TAG;
    match after.strip_prefix(close) {
        Some(after) if is_short && !name.trim().is_empty() => Some(after),
        None if is_short && after.is_empty() => Some(after),
        Some(_) | None => None,
    }
}

/// The text with one brace where it begins with several, or with empty objects before another one.
fn without_extra_braces(text: &str) -> Cow<'_, str> {
    let Some(inside) = strip_brace(text, '{') else {
        return text.into();
    };
    let mut rest = inside;
    while let Some(after) = strip_brace(strip_brace(rest, '}').unwrap_or(rest), '{') {
        rest = after;
    }
    if rest.len() == inside.len() {
        return text.into();
    }
    let blanks = inside.len() - inside.trim_start_matches(is_blank).len();
    let head = text.get(..text.len() - inside.len() + blanks);
    format!("{}{rest}", head.unwrap_or_default()).into()
}

/// What follows this brace, which white space may precede.
fn strip_brace(text: &str, brace: char) -> Option<&str> {
    text.trim_start_matches(is_blank).strip_prefix(brace)
}

/// Whether the end of the JSON document with which the text begins is missing.
fn is_open(text: &str) -> bool {
    let mut brackets = Brackets::default();
    text.starts_with(['{', '[', '"']) && !text.bytes().any(|byte| brackets.closes(byte))
}

/// Whether the text begins like JSON and not like a program: for a tool that takes any text.
pub(crate) fn is_json_like(text: &str) -> bool {
    let begin = strip_head(text);
    let Some(rest) = begin.strip_prefix(['{', '[']) else {
        return begin.starts_with('"');
    };
    let rest = rest.trim_start_matches(is_blank);
    rest.is_empty()
        || rest.starts_with(['"', '{'])
        || begin.starts_with('{') && rest.starts_with(['\'', '}'])
}

/// Whether this JSON document, escaped, is an object.
pub(crate) fn is_object(escaped: &str) -> bool {
    let mut rest = escaped.as_bytes();
    while let Some((byte, after)) = next_byte(rest) {
        if !byte.is_ascii_whitespace() {
            return byte == b'{';
        }
        rest = after;
    }
    false
}

/// The first byte of the text that these bytes escape, and the rest. What is not ASCII is any other
/// byte, because JSON has such characters in strings alone.
fn next_byte(escaped: &[u8]) -> Option<(u8, &[u8])> {
    let (&first, rest) = escaped.split_first()?;
    if first != b'\\' {
        return Some((first, rest));
    }
    let (&letter, rest) = rest.split_first()?;
    Some(match letter {
        b'n' => (b'\n', rest),
        b'r' => (b'\r', rest),
        b't' => (b'\t', rest),
        b'u' => {
            let digits = rest
                .get(..4)
                .and_then(|digits| std::str::from_utf8(digits).ok());
            let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
            let byte = unit.and_then(|unit| u8::try_from(unit).ok());
            let ascii = byte.filter(u8::is_ascii).unwrap_or(0x80);
            (ascii, rest.get(4..).unwrap_or_default())
        }
        other => (other, rest),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After which of its pieces a text is whole: `+` for each piece after which it is.
    fn verdicts(pieces: &[&str]) -> String {
        let (mut scan, mut text) = (ArgumentsScan::default(), String::new());
        let verdict = |piece: &&str| {
            text.push_str(&json::escape(piece));
            if scan.is_whole(&text) { '+' } else { '-' }
        };
        pieces.iter().map(verdict).collect()
    }

    #[test]
    fn arguments_are_whole_at_their_last_bracket() {
        for (pieces, expected) in [
            (&[" \n", "{", "\"a\\\"}", "\":1", "}", " \n"][..], "----++"),
            (&["{}", " ", "x", "}"], "++--"),
            (&["{\"a\":\"}\"", "]", "}"], "---"),
            (&["[", "[", "]", "]"], "---+"),
            (&["tr", "ue"], "-+"),
            (&["1", "2", "x", "5"], "++--"),
            (&["\"漢}", "\""], "-+"),
            (&["{]", "}"], "--"),
            (&["", "", "{}"], "--+"),
        ] {
            assert_eq!(verdicts(pieces), expected, "{pieces:?}");
        }
        let mut scan = ArgumentsScan::default();
        assert!(scan.is_whole(r"\u007b\u0022a\u0022:\u00221\u005c\u0022}\u0022\u007d"));
    }
}
