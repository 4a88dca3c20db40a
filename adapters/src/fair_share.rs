//! Divides limited room among several texts: each gets what it needs, but none more than
//! a common share.

/// The largest share with which all texts fit into `room` when each takes the smaller of
/// its need and the share. `usize::MAX` if all of them fit whole.
pub fn fair_share(needs: &(impl Iterator<Item = usize> + Clone), room: usize) -> usize {
    largest_fitting(0, room, |share| {
        let taken = needs.clone().map(|need| need.min(share));
        taken.sum::<usize>() <= room
    })
}

/// The largest value from `low` to `high` for which `fits` holds, by binary search: where
/// a value fits, every smaller one must fit, too. `usize::MAX` if even that fits, `low`
/// if no value does.
pub(crate) fn largest_fitting(low: usize, high: usize, fits: impl Fn(usize) -> bool) -> usize {
    if fits(usize::MAX) {
        return usize::MAX;
    }
    let (mut low, mut high) = (low, high.max(low));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_needs_are_met_and_large_ones_share_the_rest() {
        for (needs, room, share) in [
            (&[1, 2, 3][..], 6, usize::MAX),
            (&[1, 2, 3], 5, 2),
            (&[10, 10, 100], 60, 40),
            (&[10, 10], 5, 2),
            (&[10], 0, 0),
            (&[], 0, usize::MAX),
        ] {
            assert_eq!(
                fair_share(&needs.iter().copied(), room),
                share,
                "{needs:?} in {room}"
            );
        }
    }
}
