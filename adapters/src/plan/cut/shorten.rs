//! Texts and arguments with their middle left out.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::level::level;
use crate::json;

/// What a text is written into: its bytes count as they are sent.
#[derive(Clone, Copy)]
pub(crate) enum Inside {
    /// A JSON string.
    Text,
    /// A JSON string inside the `arguments` string of a call.
    Arguments,
}

impl Inside {
    fn cost(self, char: char) -> usize {
        let Ok(byte) = u8::try_from(char).map_err(|_| ()) else {
            return char.len_utf8();
        };
        if !byte.is_ascii() {
            return char.len_utf8();
        }
        match (self, byte) {
            (Self::Text, _) => json::escaped_byte_len(byte),
            (Self::Arguments, b'"' | b'\\') => 4,
            (Self::Arguments, _) => match json::escaped_byte_len(byte) {
                1 => 1,
                escaped => escaped + 1,
            },
        }
    }

    fn cost_of(self, text: &str) -> usize {
        match self {
            Self::Text => json::escaped_len(text),
            Self::Arguments => text.chars().map(|char| self.cost(char)).sum(),
        }
    }
}

/// The text if it has at most `bytes` as it is sent and at most `chars` characters,
/// else its beginning and end, and between them how much was left out.
pub(crate) fn shorten(text: &str, bytes: usize, chars: usize, inside: Inside) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= chars && inside.cost_of(text) <= bytes {
        return text.into();
    }
    let marker = |left_out: usize| format!("\n[… {left_out} characters left out …]\n");
    let longest = marker(count);
    let bytes = bytes.saturating_sub(inside.cost_of(&longest));
    let chars = chars.saturating_sub(longest.chars().count());
    let (tail_bytes, tail_chars) = (bytes / 3, chars / 3);
    let head = fitting(text.chars(), bytes - tail_bytes, chars - tail_chars, inside);
    let tail = fitting(text.chars().rev(), tail_bytes, tail_chars, inside);
    let start = text.get(..head.bytes).unwrap_or_default();
    let end = text
        .get(text.len().saturating_sub(tail.bytes)..)
        .unwrap_or_default();
    let left_out = count.saturating_sub(head.chars + tail.chars);
    format!("{start}{}{end}", marker(left_out)).into()
}

struct Fitting {
    bytes: usize,
    chars: usize,
}

/// The first of these characters that fit.
fn fitting(
    text: impl Iterator<Item = char>,
    bytes: usize,
    chars: usize,
    inside: Inside,
) -> Fitting {
    let mut fit = Fitting { bytes: 0, chars: 0 };
    let mut cost = 0;
    for char in text.take(chars) {
        cost += inside.cost(char);
        if cost > bytes {
            break;
        }
        fit.bytes += char.len_utf8();
        fit.chars += 1;
    }
    fit
}

/// A value that is cut shorter says nothing.
const LEAST: usize = 96;

/// One JSON object of at most about `bytes` bytes inside the `arguments` string: the
/// longest values are shortened, what is no string as its JSON.
pub(super) fn shorten_arguments(arguments: &str, bytes: usize) -> String {
    shorten_values(arguments, bytes).unwrap_or_else(|| {
        let frame = json::escaped_len(r#"{"shortened":""}"#);
        let bytes = bytes.saturating_sub(frame);
        let excerpt = shorten(arguments, bytes, usize::MAX, Inside::Arguments);
        format!(r#"{{"shortened":"{}"}}"#, json::escape(&excerpt))
    })
}

/// `None` where there are so many values that nothing of each would stay.
fn shorten_values(arguments: &str, bytes: usize) -> Option<String> {
    let fields: Fields<'_> = serde_json::from_str(arguments).ok()?;
    // Quotes, colon and comma.
    let frame = |key: &str| json::escaped_len(&json::escape(key)) + 6;
    let frames: usize = fields.0.iter().map(|(key, _)| frame(key)).sum();
    let costs: Vec<usize> = fields
        .0
        .iter()
        .map(|(_, value)| json::escaped_len(value.get()))
        .collect();
    let level = level(&costs.iter().copied(), bytes.checked_sub(frames + 2)?);
    if level < LEAST {
        return None;
    }
    let mut out = vec![b'{'];
    for ((key, value), cost) in fields.0.iter().zip(costs) {
        if out.last() != Some(&b'{') {
            out.push(b',');
        }
        json::push(&mut out, key.as_ref());
        out.push(b':');
        if cost <= level {
            out.extend_from_slice(value.get().as_bytes());
            continue;
        }
        let text = json::unquote(value.get()).map_or(value.get().into(), json::unescape);
        // The string's own quotes.
        let text = shorten(&text, level - 4, usize::MAX, Inside::Arguments);
        json::push(&mut out, text.as_ref());
    }
    out.push(b'}');
    String::from_utf8(out).ok()
}

/// The fields of an object in their order.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
                    fields.push((key.into(), value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // S2-P2f
    #[test]
    fn a_text_of_one_character_too_many_loses_little() {
        let text = "x".repeat(4_000);
        assert_eq!(shorten(&text, 4_000, 4_000, Inside::Text), text);
        let longer = format!("{text}x");
        let cut = shorten(&longer, 4_000, 4_000, Inside::Text);
        assert!(cut.len() > 3_900 && cut.len() <= 4_000, "{}", cut.len());
        assert!(cut.contains("\n[… "), "{cut}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_shortened_fits_as_it_is_sent(
            text in "(?s).{0,400}", bytes in 120_usize..600, chars in 60_usize..400,
        ) {
            let cut = shorten(&text, bytes, chars, Inside::Text);
            prop_assert!(serde_json::to_string(&cut).unwrap().len() - 2 <= bytes);
            prop_assert!(cut.chars().count() <= chars);
            let inside = serde_json::to_string(&serde_json::to_string(&cut).unwrap()).unwrap();
            prop_assert_eq!(Inside::Arguments.cost_of(&cut), inside.len() - 6);
        }

        // S2-P2f
        #[test]
        fn shortened_arguments_are_an_object_that_fits(
            values in prop::collection::vec(("(?s).{0,12}", "(?s).{0,600}"), 0..8),
            bytes in 120_usize..2_000,
        ) {
            let object: serde_json::Map<_, _> = values
                .into_iter()
                .map(|(key, value)| (key, value.into()))
                .collect();
            let arguments = serde_json::to_string(&object).unwrap();
            let cut = shorten_arguments(&arguments, bytes);
            let parsed: serde_json::Value = serde_json::from_str(&cut).unwrap();
            prop_assert!(parsed.is_object());
            let sent = json::escaped_len(&cut);
            prop_assert!(sent <= bytes, "{} > {}: {}", sent, bytes, cut);
        }
    }
}
