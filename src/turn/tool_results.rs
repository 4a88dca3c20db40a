//! The results of the calls of one round, within the room that they share.

use adapters::fair_share::fair_share;

/// The most bytes of all results of a round together.
const ROUND_BYTES: usize = 50 << 10;
/// What the line takes that says what was cut.
const NOTICE_BYTES: usize = 160;

/// Cuts the longest of these texts, so that all of them fit. What was cut says so.
pub(super) fn share_room(texts: Vec<String>) -> Vec<String> {
    let needs = texts.iter().map(String::len);
    let share = fair_share(&needs, ROUND_BYTES);
    let cut = |text: String| {
        if text.len() <= share {
            return text;
        }
        let end = text.floor_char_boundary(share.saturating_sub(NOTICE_BYTES));
        let shown = text.get(..end).unwrap_or_default();
        format!(
            "{shown}\n[Cut here: {} of {} bytes are shown, because the results of a round share {ROUND_BYTES} bytes. Ask for less at once to see more.]",
            end,
            text.len()
        )
    };
    texts.into_iter().map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: The results of the calls of a round take at most 50 KiB together; each has a fair
    /// share of it, and one that was cut says so.
    #[test]
    fn long_results_share_the_room() {
        for (lengths, cut) in [
            (vec![10, 20_000, 30_000], 0),
            (vec![40_000; 3], 3),
            (vec![10, 100, 200_000], 1),
            (vec![50 << 10], 0),
            (vec![3_000; 20], 20),
        ] {
            let texts: Vec<String> = lengths
                .iter()
                .map(|length| "é".repeat(length / 2))
                .collect();
            let shared = share_room(texts.clone());
            assert!(shared.iter().map(String::len).sum::<usize>() <= ROUND_BYTES);
            let changed = shared
                .iter()
                .zip(&texts)
                .filter(|(after, before)| after != before);
            let changed: Vec<_> = changed.collect();
            assert_eq!(changed.len(), cut);
            for (after, before) in changed {
                assert!(after.contains(&format!("of {} bytes are shown", before.len())));
                assert!(after.len() + NOTICE_BYTES >= ROUND_BYTES / texts.len());
            }
        }
    }
}
