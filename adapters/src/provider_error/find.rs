//! Finds numbers and names in a provider's text, which is in lower case.

/// The number right after the first `phrase` that has one. Only punctuation and
/// white space may come between.
pub(crate) fn number_after(text: &str, phrase: &str) -> Option<u64> {
    text.split(phrase).skip(1).find_map(|rest| {
        let rest = rest.trim_start_matches(|c: char| !c.is_alphanumeric() && c != '-');
        leading_number(rest)
    })
}

/// The number that the text begins with; it may have thousands separators.
pub(crate) fn leading_number(text: &str) -> Option<u64> {
    let mut digits = String::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '0'..='9' => digits.push(c),
            ',' | '_' if !digits.is_empty() && rest.peek().is_some_and(char::is_ascii_digit) => {}
            _ => break,
        }
    }
    digits.parse().ok()
}

/// Whether the text contains any of the phrases.
pub(crate) fn contains_any(text: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| text.contains(phrase))
}

/// The byte offset of the first `name` that is a whole word.
pub fn find_word(text: &str, name: &str) -> Option<usize> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name).find_map(|(at, _)| {
        let before = text.get(..at)?.chars().next_back();
        let after = text.get(at + name.len()..)?.chars().next();
        (!before.is_some_and(part) && !after.is_some_and(part)).then_some(at)
    })
}

/// The byte offset of the first `name` in quotes, for names that are ordinary words
/// too.
pub(crate) fn find_quoted(text: &str, name: &str) -> Option<usize> {
    const QUOTES: [char; 3] = ['"', '\'', '`'];
    text.match_indices(name).find_map(|(at, _)| {
        let before = text.get(..at)?.chars().next_back()?;
        let after = text.get(at + name.len()..)?.chars().next()?;
        (QUOTES.contains(&before) && QUOTES.contains(&after)).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_beside_their_words() {
        assert_eq!(
            number_after("length is 131,072 tokens", "length is"),
            Some(131_072)
        );
        assert_eq!(
            number_after("equal to `8192`, the", "equal to"),
            Some(8_192)
        );
        assert_eq!(number_after("is: x 4096", "is"), None);
        assert_eq!(number_after("at least -1", "at least"), None);
    }

    #[test]
    fn a_name_is_a_whole_word() {
        assert_eq!(
            find_word("max_tokens_x and max_tokens.", "max_tokens"),
            Some(17)
        );
        assert_eq!(find_word("unmax_tokens", "max_tokens"), None);
        assert_eq!(find_quoted("strict mode, 'strict'", "strict"), Some(14));
        assert_eq!(find_quoted("strict mode", "strict"), None);
    }
}
