//! The differences of two bundles as text.

use std::fmt::Write as _;

use super::BundleTurn;
use super::compare::{Scope, compare};

/// Compares the turns of two bundles pairwise and lists their differences. A pair
/// without differences gets a line with `equal`.
pub fn diff(left: &[BundleTurn], right: &[BundleTurn]) -> String {
    let mut text = String::new();
    let many = left.len() > 1 || right.len() > 1;
    for (index, (left, right)) in left.iter().zip(right).enumerate() {
        if many {
            let _ = write!(text, "turn {}: ", index + 1);
        }
        let found = compare(left, right, Scope::Diff);
        if !found.is_empty() {
            let _ = writeln!(text, "{}", plural(found.len(), "difference"));
            for difference in found {
                let _ = writeln!(text, "  {difference}");
            }
        } else if left == right {
            text.push_str("equal\n");
        } else {
            text.push_str("equal but for ids and times\n");
        }
    }
    if left.len() != right.len() {
        let longer = if left.len() > right.len() {
            "first"
        } else {
            "second"
        };
        let _ = writeln!(
            text,
            "{} against {}: the {longer} file has more",
            plural(left.len(), "turn"),
            plural(right.len(), "turn")
        );
    }
    text
}

/// `1 turn`, `2 turns`.
pub(super) fn plural(number: usize, of: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{number} {of}{end}")
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::diff;
    use crate::diagnostics::bundle::sample;

    #[test]
    fn files_are_compared_turn_by_turn() {
        let (one, two) = (sample::turn(1), sample::turn(2));
        assert_eq!(diff(from_ref(&one), from_ref(&one)), "equal\n");
        assert_eq!(
            diff(from_ref(&one), from_ref(&two)),
            "equal but for ids and times\n"
        );
        let mut other = two.clone();
        other.outcome = None;
        assert_eq!(
            diff(&[one.clone(), two], &[one.clone(), other]),
            "turn 1: equal\nturn 2: 1 difference\n  outcome: failed -> absent\n"
        );
        assert_eq!(
            diff(from_ref(&one), &[one.clone(), one.clone()]),
            "turn 1: equal\n1 turn against 2 turns: the second file has more\n"
        );
    }
}
