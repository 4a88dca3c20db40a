//! Tells a limit that a provider states from one that it quotes.
//!
//! Some servers repeat a part of the request in their refusals, and a conversation may well be
//! about the limits of models. What a refusal says of a limit does not count if the request says
//! the same in the same words.

use memchr::memmem;

use crate::quirk_patch::{ModelPatch, QuirkPatch};

/// How many bytes of the words before a number are compared.
const MAX_WORDS: usize = 24;
/// Fewer bytes before a number are no statement that could be recognized.
const MIN_WORDS: usize = 8;

/// Whether a refusal with this message, which names the limit of `patch`, quotes the limit from
/// the body of the request. False for patches that are no limit.
pub fn quotes_limit(message: &str, patch: QuirkPatch, body: &[u8]) -> bool {
    let QuirkPatch::Model(ModelPatch::Window(tokens) | ModelPatch::MaxOutput(tokens)) = patch
    else {
        return false;
    };
    let mut is_stated = false;
    for statement in statements(message, u64::from(tokens)) {
        is_stated = true;
        if memmem::find(body, statement.as_bytes()).is_none() {
            return false;
        }
    }
    is_stated
}

/// For each place where the number is in the message: the number with those words before it that
/// have the same bytes in a JSON string.
fn statements(message: &str, number: u64) -> impl Iterator<Item = &str> {
    numbers(message).filter_map(move |(start, end, value)| {
        if value != Some(number) {
            return None;
        }
        let before = message.get(..start)?;
        let from = message.floor_char_boundary(start.saturating_sub(MAX_WORDS));
        let words = before.get(from..)?;
        let words = words
            .rsplit(|c: char| c.is_control() || matches!(c, '"' | '\\' | '/') || !c.is_ascii())
            .next()?;
        (words.len() >= MIN_WORDS)
            .then(|| message.get(start - words.len()..end))
            .flatten()
    })
}

/// The numbers in a text, which may have thousands separators: start, end and value.
pub(super) fn numbers(text: &str) -> impl Iterator<Item = (usize, usize, Option<u64>)> {
    let mut rest = 0;
    std::iter::from_fn(move || {
        let after = text.get(rest..)?;
        let start = rest + after.find(|c: char| c.is_ascii_digit())?;
        let digits = text.get(start..)?;
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, ',' | '_');
        let length = digits.find(|c| !is_part(c)).unwrap_or(digits.len());
        let number = digits.get(..length)?.trim_end_matches([',', '_']);
        rest = start + length;
        let plain: String = number.chars().filter(char::is_ascii_digit).collect();
        Some((start, start + number.len(), plain.parse().ok()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_the_request_mentions_is_quoted() {
        const STATED: &str = "This model's maximum context length is 1,300 tokens. However, your messages resulted in 5000 tokens.";
        let quotes = |message: &str, body: &str| {
            quotes_limit(message, ModelPatch::Window(1_300).into(), body.as_bytes())
        };
        let quoted = format!("Cannot read the message \"the log says:\n{STATED}\"");
        for (message, body, expected) in [
            (STATED, r#"{"content":"Hello"}"#, false),
            (
                STATED,
                r#"{"content":"The length is 1,300 tokens."}"#,
                false,
            ),
            (
                STATED,
                &format!(r#"{{"content":"the log says:\n{STATED}"}}"#),
                true,
            ),
            (
                &quoted,
                &format!(r#"{{"content":"the log says:\n{STATED}"}}"#),
                true,
            ),
            // It is said once more, by the provider.
            (
                &format!("{quoted} is longer than 1300"),
                &format!(r#"{{"content":"{STATED}"}}"#),
                false,
            ),
            ("1300", "1300", false),
            ("", "", false),
        ] {
            assert_eq!(quotes(message, body), expected, "{message}, {body}");
        }
        let patch = ModelPatch::NoImages.into();
        assert!(!quotes_limit(STATED, patch, STATED.as_bytes()));
    }

    #[test]
    fn a_message_of_numbers_is_read_once() {
        let message = "1,".repeat(1_000) + "é1_2__";
        let found: Vec<_> = numbers(&message).map(|(_, _, value)| value).collect();
        assert_eq!(found, [None, Some(12)]);
    }
}
