//! Matches the elements of two lists, so that an inserted element does not make all
//! following ones differ.

use std::ops::Range;

/// How many elements are skipped at most to find a common continuation.
const FAR: usize = 8;

/// A run of matched or unmatched elements, by their indices in the two lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AlignStep {
    /// Two equal elements.
    Same(usize, usize),
    /// Two elements that correspond but differ.
    Changed(usize, usize),
    /// Elements that only the left list has, and where they would be in the right.
    Left(Range<usize>, usize),
    /// Where elements that only the right list has would be in the left, and the elements.
    Right(usize, Range<usize>),
}

/// Aligns two lists of these lengths; `same` compares two elements by index.
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

/// Elements that only one list has here, if both lists continue equally after them.
fn skip(
    (l, left): (usize, usize),
    (r, right): (usize, usize),
    same: &impl Fn(usize, usize) -> bool,
) -> Option<AlignStep> {
    // Two equal elements in a row, if there are two: a single one may be chance.
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
