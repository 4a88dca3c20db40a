//! Shortens texts and the arguments of calls: the middle is left out, and a marker says
//! how much it was.

use std::borrow::Cow;

use crate::fair_share::fair_share;
use crate::json;
use crate::members::Members;

/// How often a text is JSON-escaped where it is sent. Its bytes count as they are sent.
#[derive(Clone, Copy)]
pub(crate) enum EscapeDepth {
    /// A text in a JSON string.
    Once,
    /// A text in a JSON string that is itself inside the `arguments` string of a call.
    Twice,
}

impl EscapeDepth {
    fn char_len(self, char: char) -> usize {
        let Ok(byte) = u8::try_from(char).map_err(|_| ()) else {
            return char.len_utf8();
        };
        if !byte.is_ascii() {
            return char.len_utf8();
        }
        match (self, byte) {
            (Self::Once, _) => json::escaped_byte_len(byte),
            (Self::Twice, b'"' | b'\\') => 4,
            (Self::Twice, _) => match json::escaped_byte_len(byte) {
                1 => 1,
                escaped => escaped + 1,
            },
        }
    }

    fn text_len(self, text: &str) -> usize {
        match self {
            Self::Once => json::escaped_len(text),
            Self::Twice => text.chars().map(|char| self.char_len(char)).sum(),
        }
    }
}

/// The text, if it has at most `bytes` bytes as it is sent and at most `chars`
/// characters; otherwise its beginning and its end, and between them how many characters
/// were left out.
pub(crate) fn shorten(text: &str, bytes: usize, chars: usize, depth: EscapeDepth) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= chars && depth.text_len(text) <= bytes {
        return text.into();
    }
    let marker = |left_out: usize| format!("\n[… {left_out} characters left out …]\n");
    let longest = marker(count);
    let bytes = bytes.saturating_sub(depth.text_len(&longest));
    let chars = chars.saturating_sub(longest.chars().count());
    let (tail_bytes, tail_chars) = (bytes / 3, chars / 3);
    let head = longest_prefix(text.chars(), bytes - tail_bytes, chars - tail_chars, depth);
    let tail = longest_prefix(text.chars().rev(), tail_bytes, tail_chars, depth);
    let start = text.get(..head.bytes).unwrap_or_default();
    let end = text
        .get(text.len().saturating_sub(tail.bytes)..)
        .unwrap_or_default();
    let left_out = count.saturating_sub(head.chars + tail.chars);
    format!("{start}{}{end}", marker(left_out)).into()
}

/// The length of a prefix in unescaped bytes and in characters.
struct PrefixLen {
    bytes: usize,
    chars: usize,
}

/// The longest prefix with at most `chars` characters that takes at most `bytes` as it is
/// sent.
fn longest_prefix(
    text: impl Iterator<Item = char>,
    bytes: usize,
    chars: usize,
    depth: EscapeDepth,
) -> PrefixLen {
    let mut prefix = PrefixLen { bytes: 0, chars: 0 };
    let mut sent = 0;
    for char in text.take(chars) {
        sent += depth.char_len(char);
        if sent > bytes {
            break;
        }
        prefix.bytes += char.len_utf8();
        prefix.chars += 1;
    }
    prefix
}

/// A value shorter than this says nothing.
const MIN_VALUE_BYTES: usize = 96;

/// Shortens the arguments of a call to one JSON object with at most about `bytes` bytes
/// inside the `arguments` string. The longest values are shortened; a value that is not a
/// string is shortened as JSON text.
pub(crate) fn shorten_arguments(arguments: &str, bytes: usize) -> String {
    shorten_values(arguments, bytes).unwrap_or_else(|| {
        let frame = json::escaped_len(r#"{"shortened":""}"#);
        let bytes = bytes.saturating_sub(frame);
        let excerpt = shorten(arguments, bytes, usize::MAX, EscapeDepth::Twice);
        format!(r#"{{"shortened":"{}"}}"#, json::escape(&excerpt))
    })
}

/// `None` if there are too many values to leave enough of each.
fn shorten_values(arguments: &str, bytes: usize) -> Option<String> {
    let fields = Members::read(arguments)?;
    // Quotes, colon and comma.
    let frame = |key: &str| json::escaped_len(&json::escape(key)) + 6;
    let frames: usize = fields.iter().map(|(key, _)| frame(key)).sum();
    let costs: Vec<usize> = fields
        .iter()
        .map(|(_, value)| json::escaped_len(value.get()))
        .collect();
    let share = fair_share(&costs.iter().copied(), bytes.checked_sub(frames + 2)?);
    if share < MIN_VALUE_BYTES {
        return None;
    }
    let mut out = vec![b'{'];
    for ((key, value), cost) in fields.iter().zip(costs) {
        if out.last() != Some(&b'{') {
            out.push(b',');
        }
        json::push(&mut out, key);
        out.push(b':');
        if cost <= share {
            out.extend_from_slice(value.get().as_bytes());
            continue;
        }
        let text = json::unquote(value.get()).map_or(value.get().into(), json::unescape);
        // Without the string's own quotes, which are escaped.
        let text = shorten(&text, share - 4, usize::MAX, EscapeDepth::Twice);
        json::push(&mut out, text.as_ref());
    }
    out.push(b'}');
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_of_one_character_too_many_loses_little() {
        let text = "x".repeat(4_000);
        assert_eq!(shorten(&text, 4_000, 4_000, EscapeDepth::Once), text);
        let longer = format!("{text}x");
        let cut = shorten(&longer, 4_000, 4_000, EscapeDepth::Once);
        assert!(cut.len() > 3_900 && cut.len() <= 4_000, "{}", cut.len());
        assert!(cut.contains("\n[… "), "{cut}");
    }

    proptest! {
        #[test]
        fn a_shortened_text_fits_when_it_is_escaped(
            text in "(?s).{0,400}", bytes in 120_usize..600, chars in 60_usize..400,
        ) {
            let cut = shorten(&text, bytes, chars, EscapeDepth::Once);
            prop_assert!(serde_json::to_string(&cut).unwrap().len() - 2 <= bytes);
            prop_assert!(cut.chars().count() <= chars);
            let inside = serde_json::to_string(&serde_json::to_string(&cut).unwrap()).unwrap();
            prop_assert_eq!(EscapeDepth::Twice.text_len(&cut), inside.len() - 6);
        }

        /// Promise: Long messages and call arguments are shortened with a marker; arguments remain
        /// valid JSON.
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
