//! Which elements of two sequences belong to each other.

use std::ops::Range;

/// So many elements are looked past for the place where both go on alike.
const FAR: usize = 8;

/// What becomes of the elements of two sequences, by their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// These two are the same.
    Same(usize, usize),
    /// These two stand at the same place and are not the same.
    Changed(usize, usize),
    /// The left has these alone; the place in the right.
    Left(Range<usize>, usize),
    /// The right has these alone; the place in the left.
    Right(usize, Range<usize>),
}

/// Goes through two sequences of these lengths. An element that stands only in
/// one of them shifts the other, it does not make all that follow differ.
pub(super) fn align(left: usize, right: usize, same: &impl Fn(usize, usize) -> bool) -> Vec<Step> {
    let mut steps = Vec::new();
    let (mut l, mut r) = (0, 0);
    while l < left && r < right {
        if same(l, r) {
            steps.push(Step::Same(l, r));
            (l, r) = (l + 1, r + 1);
            continue;
        }
        match skip((l, left), (r, right), same) {
            Some(Step::Left(range, at)) => {
                l = range.end;
                steps.push(Step::Left(range, at));
            }
            Some(Step::Right(at, range)) => {
                r = range.end;
                steps.push(Step::Right(at, range));
            }
            Some(Step::Same(..) | Step::Changed(..)) | None => {
                steps.push(Step::Changed(l, r));
                (l, r) = (l + 1, r + 1);
            }
        }
    }
    if l < left {
        steps.push(Step::Left(l..left, r));
    }
    if r < right {
        steps.push(Step::Right(l, r..right));
    }
    steps
}

/// What of one side alone stands here, if both go on alike after it.
fn skip(
    (l, left): (usize, usize),
    (r, right): (usize, usize),
    same: &impl Fn(usize, usize) -> bool,
) -> Option<Step> {
    // Two in a row, as far as there are two: one alike may be chance.
    let go_on = |l: usize, r: usize| {
        let rest = (left - l).min(right - r).min(2);
        if rest == 0 {
            return l == left && r == right;
        }
        (0..rest).all(|n| same(l + n, r + n))
    };
    if go_on(l + 1, r + 1) {
        return None;
    }
    (1..=FAR).find_map(|far| {
        if r + far <= right && go_on(l, r + far) {
            Some(Step::Right(l, r..r + far))
        } else if l + far <= left && go_on(l + far, r) {
            Some(Step::Left(l..l + far, r))
        } else {
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{Step, align};

    #[test]
    fn what_one_side_lacks_shifts_the_rest() {
        for (left, right, steps) in [
            ("abc", "abc", vec![]),
            ("abcd", "abXd", vec![Step::Changed(2, 2)]),
            ("abc", "abX", vec![Step::Changed(2, 2)]),
            ("abcde", "aXbcde", vec![Step::Right(1, 1..2)]),
            ("abcde", "abde", vec![Step::Left(2..3, 2)]),
            ("abcde", "abc", vec![Step::Left(3..5, 3)]),
            ("ab", "abcd", vec![Step::Right(2, 2..4)]),
            (
                "abcdef",
                "XYcdef",
                vec![Step::Changed(0, 0), Step::Changed(1, 1)],
            ),
            (
                "abcdefg",
                "defgh",
                vec![Step::Left(0..3, 0), Step::Right(7, 4..5)],
            ),
        ] {
            let (l, r) = (left.as_bytes(), right.as_bytes());
            let mut found = align(l.len(), r.len(), &|i, j| l[i] == r[j]);
            found.retain(|step| !matches!(step, Step::Same(..)));
            assert_eq!(found, steps, "{left} {right}");
        }
    }
}
