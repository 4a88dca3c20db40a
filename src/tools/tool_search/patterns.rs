//! Patterns in the text of a request: one that contains an IP address is about addresses, even if
//! no word of it says so.

use std::sync::LazyLock;

use regex::RegexSet;

/// The patterns, each with the words for what it matches.
const PATTERNS: [(&str, &[&str]); 10] = [
    (r"\b[A-Z][A-Z0-9]{1,9}-[0-9]+\b", &["issue", "ticket"]),
    (r"(?:^|\s)#[a-z][\w-]+", &["channel"]),
    (
        r"(?i)\b[0-9]{1,2}(?::[0-9]{2})?\s?(?:am|pm|uhr|h)\b|\b[0-9]{1,2}:[0-9]{2}\b|[0-9]{1,2}[时時点]",
        &["time", "event"],
    ),
    (r"[\w.+-]+@[\w-]+\.\w+", &["email", "address"]),
    (
        r"\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}\b",
        &["ip", "address", "dns"],
    ),
    (r"https?://\S+|\bwww\.\S+", &["url", "page"]),
    (
        r"(?:^|\s)[~.]?[\w.-]*/[\w./-]+|(?:^|[\s(`'])[\w-]+\.(?:py|rs|js|ts|md|txt|json|ya?ml|toml|log|csv|sql|html|css|go|java|sh|pdf|png|jpe?g|bin|zip)\b",
        &["path", "file"],
    ),
    (r"(?:^|\s)@\w+", &["user"]),
    (
        r"(?i)[$€£¥]\s?[0-9]|[0-9]\s?[$€£¥]|\b(?:eur|usd|gbp)\b",
        &["amount", "currency"],
    ),
    (
        r"(?:^|\s)(?:\w[\w-]*\.)+(?:com|org|net|dev|io|app)\b",
        &["domain"],
    ),
];

static ANY: LazyLock<Option<RegexSet>> =
    LazyLock::new(|| RegexSet::new(PATTERNS.map(|(pattern, _)| pattern)).ok());

/// The words for what the patterns find in a text.
pub(super) fn pattern_words(text: &str) -> impl Iterator<Item = &'static str> {
    let found = ANY.as_ref().map(|any| any.matches(text));
    let places = found.into_iter().flatten();
    let words = places.filter_map(|place| PATTERNS.get(place));
    words.flat_map(|(_, words)| words.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_pattern_has_words() {
        assert!(
            PATTERNS
                .iter()
                .all(|(pattern, _)| regex::Regex::new(pattern).is_ok())
        );
        for (text, expected) in [
            ("mark MOB-12 as done", "issue ticket"),
            ("tell #backend", "channel"),
            ("move the 3pm", "time event"),
            ("point a.dev at 203.0.113.9", "ip address dns domain"),
            ("read src/main.rs", "path file"),
            ("from ann@example.org", "email address"),
            ("49 € for Ann", "amount currency"),
            ("what is new", ""),
        ] {
            let found: Vec<&str> = pattern_words(text).collect();
            assert_eq!(found.join(" "), expected, "{text}");
        }
    }
}
