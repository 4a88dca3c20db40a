//! Which elements of two sequences belong to each other.

use std::ops::Range;

/// So many elements are looked past for the place where both go on alike.
const FAR: usize = 8;

/// What becomes of the elements of two sequences, by their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AlignStep {
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
pub(super) fn align(
    left: usize,
    right: usize,
    same: &impl Fn(usize, usize) -> bool,
) -> Vec<AlignStep> {
    let mut steps = Vec::new();
    let (mut l, mut r) = (0, 0);
    while l < left && r < right {
        if same(l, r) {
            steps.push(AlignStep::Same(l, r));
            (l, r) = (l + 1, r + 1);
            continue;
        }
        match skip((l, left), (r, right), same) {
            Some(AlignStep::Left(range, at)) => {
                l = range.end;
                steps.push(AlignStep::Left(range, at));
            }
            Some(AlignStep::Right(at, range)) => {
                r = range.end;
                steps.push(AlignStep::Right(at, range));
            }
            Some(AlignStep::Same(..) | AlignStep::Changed(..)) | None => {
                steps.push(AlignStep::Changed(l, r));
                (l, r) = (l + 1, r + 1);
            }
        }
    }
    if l < left {
        steps.push(AlignStep::Left(l..left, r));
    }
    if r < right {
        steps.push(AlignStep::Right(l, r..right));
    }
    steps
}

/// What of one side alone stands here, if both go on alike after it.
fn skip(
    (l, left): (usize, usize),
    (r, right): (usize, usize),
    same: &impl Fn(usize, usize) -> bool,
) -> Option<AlignStep> {
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
            Some(AlignStep::Right(l, r..r + far))
        } else if l + far <= left && go_on(l + far, r) {
            Some(AlignStep::Left(l..l + far, r))
        } else {
            None
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{AlignStep, align};

    #[test]
    fn what_one_side_lacks_shifts_the_rest() {
        for (left, right, steps) in [
            ("abc", "abc", vec![]),
            ("abcd", "abXd", vec![AlignStep::Changed(2, 2)]),
            ("abc", "abX", vec![AlignStep::Changed(2, 2)]),
            ("abcde", "aXbcde", vec![AlignStep::Right(1, 1..2)]),
            ("abcde", "abde", vec![AlignStep::Left(2..3, 2)]),
            ("abcde", "abc", vec![AlignStep::Left(3..5, 3)]),
            ("ab", "abcd", vec![AlignStep::Right(2, 2..4)]),
            (
                "abcdef",
                "XYcdef",
                vec![AlignStep::Changed(0, 0), AlignStep::Changed(1, 1)],
            ),
            (
                "abcdefg",
                "defgh",
                vec![AlignStep::Left(0..3, 0), AlignStep::Right(7, 4..5)],
            ),
        ] {
            let (l, r) = (left.as_bytes(), right.as_bytes());
            let mut found = align(l.len(), r.len(), &|i, j| l[i] == r[j]);
            found.retain(|step| !matches!(step, AlignStep::Same(..)));
            assert_eq!(found, steps, "{left} {right}");
        }
    }
}
