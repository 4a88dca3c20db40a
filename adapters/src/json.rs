//! JSON without building a tree: writing values into a byte buffer, and reading and
//! repairing the escapes of strings. "Escaped" text is the content of a JSON string literal
//! without its quotes.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer as _, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::members::Members;

/// The deepest nesting of arrays and objects in a request: twice what most JSON parsers allow.
pub(crate) const MAX_DEPTH: usize = 256;

mod unescape;

pub use unescape::unescape;

/// Appends `value` as JSON. The values of this crate always serialise; one that does not
/// becomes `null`, so that the document stays valid.
pub fn push<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let start = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

/// Appends `,"name":`, without the comma directly after an opening brace. `name` must not
/// need escapes. A buffer that does not begin with a brace gets the comma before its first
/// key, too: such buffers are appended to other fields.
pub fn key(out: &mut Vec<u8>, name: &str) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// Appends the comma before an element of a list, except directly after its opening bracket.
pub fn separate(out: &mut Vec<u8>) {
    if out.last() != Some(&b'[') {
        out.push(b',');
    }
}

/// Appends a key and its value.
pub fn field<T: Serialize + ?Sized>(out: &mut Vec<u8>, name: &str, value: &T) {
    key(out, name);
    push(out, value);
}

/// Appends a key and a value that is JSON already, on one line.
pub fn raw_field(out: &mut Vec<u8>, name: &str, json: &str) {
    key(out, name);
    push_one_line(out, json);
}

/// Appends JSON. Line ends, which JSON allows only between tokens, become spaces, because a
/// line end would end the `data` field of a server-sent event.
pub fn push_one_line(out: &mut Vec<u8>, json: &str) {
    let mut rest = json.as_bytes();
    while let Some((line, after)) = memchr::memchr2(b'\n', b'\r', rest)
        .and_then(|at| Some((rest.get(..at)?, rest.get(at + 1..)?)))
    {
        out.extend_from_slice(line);
        out.push(b' ');
        rest = after;
    }
    out.extend_from_slice(rest);
}

/// Appends JSON as the content of a JSON string. Valid JSON has no control characters but
/// white space, so that only quotes, backslashes and white space are escaped.
pub fn escape_json_text(out: &mut Vec<u8>, json: &str) {
    for byte in json.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => out.push(byte),
        }
    }
}

/// The content of a JSON string literal, still escaped; `None` for other JSON values.
pub fn unquote(json_string: &str) -> Option<&str> {
    json_string.strip_prefix('"')?.strip_suffix('"')
}

/// Passes the elements of a JSON list to `take`, one after the other, so that a long list needs no
/// memory. Ends with the first error of `take`. The outer error means that the text is no list of
/// such elements; those before the place of the error are passed.
pub(crate) fn read_each<'a, T: Deserialize<'a>, E>(
    list: &'a str,
    take: impl FnMut(T) -> Result<(), E>,
) -> serde_json::Result<Result<(), E>> {
    struct EachVisitor<'s, T, E, F> {
        take: F,
        stopped: &'s mut Option<E>,
        element: PhantomData<T>,
    }

    impl<'de, T: Deserialize<'de>, E, F: FnMut(T) -> Result<(), E>> Visitor<'de>
        for EachVisitor<'_, T, E, F>
    {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a sequence")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
            while let Some(element) = list.next_element()? {
                if let Err(error) = (self.take)(element) {
                    *self.stopped = Some(error);
                    return Err(A::Error::custom("stopped"));
                }
            }
            Ok(())
        }
    }

    let mut stopped = None;
    let visitor = EachVisitor {
        take,
        stopped: &mut stopped,
        element: PhantomData,
    };
    let mut reader = serde_json::Deserializer::from_str(list);
    let read = reader.deserialize_seq(visitor).and_then(|()| reader.end());
    match stopped {
        Some(error) => Ok(Err(error)),
        None => read.map(Ok),
    }
}

/// The elements of a list; none for any other value.
pub(crate) fn list<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Vec<T> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default()
}

/// Lets a struct be read from an object only. serde also takes a list, for its fields in their
/// order. The struct has the attribute `#[serde(remote = "Self")]`.
macro_rules! only_from_object {
    ($name:ident, $expected:literal) => {
        impl<'de: 'a, 'a> serde::Deserialize<'de> for $name<'a> {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct ObjectVisitor;

                impl<'de> serde::de::Visitor<'de> for ObjectVisitor {
                    type Value = $name<'de>;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($expected)
                    }

                    fn visit_map<M: serde::de::MapAccess<'de>>(
                        self,
                        map: M,
                    ) -> Result<Self::Value, M::Error> {
                        $name::deserialize(serde::de::value::MapAccessDeserializer::new(map))
                    }
                }

                from.deserialize_map(ObjectVisitor)
            }
        }
    };
}
pub(crate) use only_from_object;

/// Whether JSON may have a member of this name, which is a plain word, also one that is written
/// with escapes. To know it, the JSON has to be parsed.
pub(crate) fn may_have(json: &str, name: &str) -> bool {
    let bytes = json.as_bytes();
    // Escapes of letters and of the underscore.
    let mut escapes = memchr::memmem::find_iter(bytes, b"\\u00");
    let is_letter = |at: usize| {
        bytes
            .get(at + 4)
            .is_some_and(|digit| (b'5'..=b'7').contains(digit))
    };
    let mut named = memchr::memmem::find_iter(bytes, name.as_bytes());
    let is_quoted = |at: usize| at.checked_sub(1).and_then(|at| bytes.get(at)) == Some(&b'"');
    named.any(is_quoted) || escapes.any(is_letter)
}

/// Whether a member of an object is `true`. JSON without its name is not parsed.
pub fn has_true(json: &str, name: &str) -> bool {
    may_have(json, name) && Members::read(json).is_some_and(|it| is_true(it.get(name)))
}

/// Whether a value is `true`.
pub(crate) fn is_true(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| raw.get() == "true")
}

/// The text of a JSON value that is a string; `None` for any other value.
pub(crate) fn string_value(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    unquote(raw?.get()).map(unescape)
}

/// `text` as the content of a JSON string.
pub fn escape(text: &str) -> String {
    let mut escaped = Vec::with_capacity(text.len() + 2);
    push_content(&mut escaped, text);
    String::from_utf8(escaped).unwrap_or_default()
}

/// Appends `text` as the content of a JSON string.
pub(crate) fn push_content(out: &mut Vec<u8>, text: &str) {
    let start = out.len();
    push(out, text);
    // The quotes around it.
    out.pop();
    out.remove(start);
}

/// `text` as a JSON string.
pub fn quoted(text: &str) -> String {
    // A text of some megabytes is not copied as it grows.
    let mut quoted = Vec::with_capacity(text.len() + 2);
    push(&mut quoted, text);
    String::from_utf8(quoted).unwrap_or_default()
}

/// Whether arrays and objects are nested deeper than `limit`. Raw values are passed on
/// without being parsed, and a recursive parser behind them could overflow its stack.
pub fn is_deeper_than(json: &str, limit: usize) -> bool {
    let mut rest = json.as_bytes();
    let mut depth = 0_usize;
    while let Some((byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b'"' => rest = skip_string(rest),
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > limit {
            return true;
        }
    }
    false
}

/// Whether a JSON value is a list with more elements than `limit`.
pub(crate) fn has_more_elements_than(json: &str, limit: usize) -> bool {
    // An element and its comma have two bytes at least.
    if !json.starts_with('[') || json.len() / 2 <= limit {
        return false;
    }
    let mut count = 0_usize;
    let read = read_each(json, |_: IgnoredAny| {
        count += 1;
        if count > limit { Err(()) } else { Ok(()) }
    });
    matches!(read, Ok(Err(())))
}

/// The deepest nesting of a call's arguments: less than common JSON parsers allow.
const ARGUMENTS_DEPTH: usize = 100;

/// `text` if it is one JSON object that every parser accepts: not nested too deep, and with lone
/// surrogates replaced, which UTF-8 cannot represent.
pub fn valid_object(text: &str) -> Option<Cow<'_, str>> {
    let is_valid = text.trim_start().starts_with('{')
        && !is_deeper_than(text, ARGUMENTS_DEPTH)
        && serde_json::from_str::<IgnoredAny>(text).is_ok();
    is_valid.then(|| sound(text))
}

/// The number of bytes that `text` takes in a JSON string.
pub fn escaped_len(text: &str) -> usize {
    text.bytes().map(escaped_byte_len).sum()
}

/// The number of bytes that one byte of text takes in a JSON string.
pub fn escaped_byte_len(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..=0x1f => 6,
        _ => 1,
    }
}

/// The bytes after a string whose opening quote was consumed.
fn skip_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
        if rest.get(at) == Some(&b'"') {
            return rest.get(at + 1..).unwrap_or_default();
        }
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    &[]
}

/// The document with each lone surrogate replaced by U+FFFD, so that its strings are text. Most
/// documents have no surrogate escape at all and are only searched for `\ud`.
pub fn sound(json: &str) -> Cow<'_, str> {
    if has_lone_surrogate(json) {
        replace_lone_surrogates(json).into()
    } else {
        json.into()
    }
}

/// Whether a JSON document contains a lone surrogate.
pub fn has_lone_surrogate(json: &str) -> bool {
    let bytes = json.as_bytes();
    let any = memchr::memmem::find(bytes, b"\\ud").is_some()
        || memchr::memmem::find(bytes, b"\\uD").is_some();
    any && find_lone_surrogate(json).is_some()
}

/// The byte offset of the first `\uD800`–`\uDFFF` escape without its partner. Such a string
/// is not valid Unicode.
pub fn find_lone_surrogate(json: &str) -> Option<usize> {
    surrogates(json).find_map(|(at, lone)| lone.then_some(at))
}

/// Whether the escape at this byte offset is a high surrogate, the first half of a pair.
pub fn is_high_surrogate(json: &str, at: usize) -> bool {
    utf16_unit(json.as_bytes(), at).is_some_and(|unit| (0xD800..0xDC00).contains(&unit))
}

/// Replaces every lone surrogate escape by `\ufffd`.
pub fn replace_lone_surrogates(json: &str) -> String {
    let mut bytes = json.as_bytes().to_vec();
    for (at, lone) in surrogates(json) {
        if lone && let Some(escape) = bytes.get_mut(at..at + 6) {
            escape.copy_from_slice(b"\\ufffd");
        }
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// All surrogate pairs and lone surrogates: byte offset, and whether it is a lone one.
fn surrogates(json: &str) -> impl Iterator<Item = (usize, bool)> + '_ {
    let bytes = json.as_bytes();
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let at = from + memchr::memchr(b'\\', bytes.get(from..)?)?;
            let Some(unit) = utf16_unit(bytes, at) else {
                from = at + 2;
                continue;
            };
            from = at + 6;
            if (0xD800..0xDC00).contains(&unit) {
                let paired = self::utf16_unit(bytes, from)
                    .is_some_and(|low| (0xDC00..0xE000).contains(&low));
                if paired {
                    from += 6;
                }
                return Some((at, !paired));
            }
            if (0xDC00..0xE000).contains(&unit) {
                return Some((at, true));
            }
        }
    })
}

/// The code unit of the `\uXXXX` escape at this offset.
fn utf16_unit(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_member_is_found_however_its_name_is_written() {
        for (json, is_true) in [
            (r#"{"background":true}"#, true),
            (r#"{ "b\u0061ckground" : true }"#, true),
            (r#"{"\u0062\u0061\u0063kground":true}"#, true),
            (r#"{"backgroun\u0064":true}"#, true),
            (r#"{"b\\u0061ckground":true}"#, false),
            (r#"{"background":false}"#, false),
            (r#"{"x":"background","y":true}"#, false),
            (r#"["background",true]"#, false),
            ("[true]", false),
            (r#"{"x":{"background":true}}"#, false),
        ] {
            assert_eq!(has_true(json, "background"), is_true, "{json}");
        }
        assert!(may_have(r#"{"file\u005fdata":1}"#, "file_data"));
        // Most escapes are of letters that no name has.
        assert!(!may_have(r#"{"x":"caf\u00e9 \u4e2d \u003c"}"#, "prompt"));
    }

    #[test]
    fn lone_surrogates_are_found_and_replaced() {
        for (json, lone) in [
            (r#""\ud83d\ude00""#, None),
            (r#""\ud83d""#, Some(1)),
            (r#""a\ude00b""#, Some(2)),
            (r#""\\ud83d""#, None),
            (r#""\uD83D\u0041""#, Some(1)),
            (r#""plain""#, None),
        ] {
            assert_eq!(find_lone_surrogate(json), lone, "{json}");
            assert_eq!(
                find_lone_surrogate(&replace_lone_surrogates(json)),
                None,
                "{json}"
            );
        }
        assert_eq!(unescape(r"a\ud83db"), "a\u{fffd}b");
        assert_eq!(unescape(r"\ud83d\ude00"), "😀");
        assert_eq!(unescape("a\\"), "");
    }

    proptest! {
        #[test]
        fn strings_are_decoded_as_by_serde(pieces in prop::collection::vec(piece(), 0..80)) {
            let escaped = pieces.concat();
            let sound = replace_lone_surrogates(&format!("\"{escaped}\""));
            let read = serde_json::from_str::<String>(&sound);
            prop_assert_eq!(unescape(&escaped), read.unwrap_or_default());
        }
    }

    /// A piece of a JSON string, mostly valid.
    fn piece() -> impl Strategy<Value = String> {
        let unit = prop_oneof![0_u32..0x80, 0xD7F0_u32..0xE010, 0_u32..0x1_0000];
        prop_oneof![
            4 => "[a-z潮😀\u{7f}]{0,3}",
            4 => r#"\\["\\/bfnrt]"#,
            4 => unit.prop_map(|unit| format!("\\u{unit:04x}")),
            2 => unit_pair(),
            1 => r"\\u[0-9A-F+]{0,3}",
            1 => r"\\[0a潮]",
        ]
    }

    fn unit_pair() -> impl Strategy<Value = String> {
        (0xD800_u32..0xDC00, 0xDC00_u32..0xE000)
            .prop_map(|(high, low)| format!("\\u{high:04X}\\u{low:04x}"))
    }

    #[test]
    fn escaping_json_into_a_string_round_trips() {
        let json = r#"{"input":"say \"hi\"\\n"}"#;
        let mut out = vec![b'"'];
        escape_json_text(&mut out, json);
        out.push(b'"');
        let back: String = serde_json::from_slice(&out).unwrap();
        assert_eq!(back, json);
    }
}
