//! Suggestions for misspelt names.

use std::collections::HashSet;

/// Nothing is similar to a longer word, in bytes: to compare takes its length times that of every
/// known word.
const MAX_WORD: usize = 200;

/// The known word that is most similar to `word`, if any is similar: at most a third of the
/// letters differ, or one of the two contains the other.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    similar(word, known).into_iter().next()
}

/// All similar words, each once, the most similar first; equally similar words keep their order.
pub fn similar<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    if word.len() > MAX_WORD {
        return Vec::new();
    }
    let lower = word.to_lowercase();
    let mut matches: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|candidate| {
            let other = candidate.to_lowercase();
            let distance = strsim::osa_distance(&lower, &other);
            let longest = lower.chars().count().max(other.chars().count());
            let contained = lower.len().min(other.len()) >= 3
                && (other.contains(&lower) || lower.contains(&other));
            (distance * 3 <= longest || contained).then_some((distance, candidate))
        })
        .collect();
    matches.sort_by_key(|(distance, _)| *distance);
    let mut seen = HashSet::new();
    matches
        .into_iter()
        .map(|(_, candidate)| candidate)
        .filter(|candidate| seen.insert(*candidate))
        .collect()
}

/// The words as a choice in a sentence: `a`, `a or b`, `a, b or c`.
pub fn one_of(words: &[impl AsRef<str>]) -> String {
    let Some((last, before)) = words.split_last() else {
        return String::new();
    };
    let before: Vec<&str> = before.iter().map(AsRef::as_ref).collect();
    if before.is_empty() {
        return last.as_ref().to_owned();
    }
    format!("{} or {}", before.join(", "), last.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_a_part_of_a_sentence() {
        assert_eq!(one_of(&["a"]), "a");
        assert_eq!(one_of(&["a", "b"]), "a or b");
        assert_eq!(one_of(&["a", "b", "c"]), "a, b or c");
    }

    #[test]
    fn no_word_is_suggested_twice() {
        // Two providers have the model.
        let known = ["kimi-k3", "kimi-k2.6", "kimi-k3"];
        assert_eq!(similar("kimi-k4", known), ["kimi-k3", "kimi-k2.6"]);
    }

    #[test]
    fn a_misspelt_word_finds_the_right_one() {
        assert_eq!(nearest("lisen", ["listen", "data_dir"]), Some("listen"));
        assert_eq!(nearest("gpt5", ["gpt-4o", "gpt-5"]), Some("gpt-5"));
        assert_eq!(nearest("key", ["listen", "api_key"]), Some("api_key"));
        assert_eq!(nearest("colour", ["listen", "data_dir"]), None);
    }
}
