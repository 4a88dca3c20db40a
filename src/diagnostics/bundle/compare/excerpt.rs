//! Short quotes of long values, around the first difference.

use serde_json::Value;

/// Shown in place of a missing value.
pub(super) const ABSENT: &str = "absent";

/// How many characters to show before the first one that differs.
const BEFORE: usize = 40;
/// Maximum length of a quote in characters.
const LENGTH: usize = 160;

/// Quotes both texts from shortly before the first character that differs.
pub(super) fn texts(left: &str, right: &str) -> (String, String) {
    let common = left
        .chars()
        .zip(right.chars())
        .take_while(|(l, r)| l == r)
        .count();
    let start = if common < LENGTH / 2 {
        0
    } else {
        common.saturating_sub(BEFORE)
    };
    (cut(left, start), cut(right, start))
}

/// [`texts`] for bytes that need not be UTF-8.
pub(super) fn bytes(left: &[u8], right: &[u8]) -> (String, String) {
    texts(
        &String::from_utf8_lossy(left),
        &String::from_utf8_lossy(right),
    )
}

/// [`texts`] for JSON values.
pub(super) fn values(left: &Value, right: &Value) -> (String, String) {
    match (left, right) {
        (Value::String(left), Value::String(right)) => {
            let (left, right) = texts(left, right);
            let quoted = |text: String| Value::from(text).to_string();
            (quoted(left), quoted(right))
        }
        (left, right) => texts(&left.to_string(), &right.to_string()),
    }
}

pub(super) fn value(value: &Value) -> String {
    cut(&value.to_string(), 0)
}

/// A member's name in quotes, cut after this many characters.
pub(super) fn key(key: &str, most: usize) -> String {
    let mut shown: String = key.chars().take(most).collect();
    if shown.len() < key.len() {
        shown.push('…');
    }
    Value::from(shown).to_string()
}

pub(super) fn text(text: &str) -> String {
    cut(text, 0)
}

pub(super) fn body(body: &[u8]) -> String {
    cut(&String::from_utf8_lossy(body), 0)
}

/// The index of the first byte that differs.
pub(super) fn offset(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(l, r)| l == r).count()
}

fn cut(text: &str, start: usize) -> String {
    let mut excerpt = String::new();
    if start > 0 {
        excerpt.push('…');
    }
    let mut characters = text.chars().skip(start);
    excerpt.extend(characters.by_ref().take(LENGTH));
    if characters.next().is_some() {
        excerpt.push('…');
    }
    excerpt
}

#[cfg(test)]
mod tests {
    use super::{LENGTH, texts};

    #[test]
    fn an_excerpt_begins_shortly_before_the_difference() {
        let long = "漢".repeat(1000);
        let (left, right) = texts(&format!("{long}a{long}"), &format!("{long}b{long}"));
        assert_eq!(left.chars().count(), LENGTH + 2);
        assert!(left.starts_with("…漢") && left.ends_with("漢…") && left.contains("漢a漢"));
        assert!(right.contains("漢b漢"));
        assert_eq!(texts("ab", "ac"), ("ab".into(), "ac".into()));
    }
}
