//! What was probably meant.

/// The known word nearest to `word`, if it is near enough to be worth a guess:
/// at most a third of its letters differ, or one contains the other.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    similar(word, known).into_iter().next()
}

/// All near words, the nearest first; ties keep their order.
pub fn similar<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let lower = word.to_lowercase();
    let mut near: Vec<(usize, &str)> = known
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
    near.sort_by_key(|(distance, _)| *distance);
    near.into_iter().map(|(_, candidate)| candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_word() {
        assert_eq!(nearest("lisen", ["listen", "data_dir"]), Some("listen"));
        assert_eq!(nearest("gpt5", ["gpt-4o", "gpt-5"]), Some("gpt-5"));
        assert_eq!(nearest("key", ["listen", "api_key"]), Some("api_key"));
        assert_eq!(nearest("colour", ["listen", "data_dir"]), None);
    }
}
