//! How much each of several things gets where not all of them fit.

/// The highest level at which all fit: each takes what it needs, but no more than
/// the level. `usize::MAX` where nothing has to give way.
pub(super) fn level(needs: impl Iterator<Item = usize> + Clone, room: usize) -> usize {
    highest(0, room, |level| {
        let taken = needs.clone().map(|need| need.min(level));
        taken.sum::<usize>() <= room
    })
}

/// The highest level from `low` to `high` that fits, where every lower one fits, too;
/// `usize::MAX` if that fits. `low` if none does.
pub(super) fn highest(low: usize, high: usize, fits: impl Fn(usize) -> bool) -> usize {
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
    fn who_needs_little_gets_it_all() {
        for (needs, room, at) in [
            (&[1, 2, 3][..], 6, usize::MAX),
            (&[1, 2, 3], 5, 2),
            (&[10, 10, 100], 60, 40),
            (&[10, 10], 5, 2),
            (&[10], 0, 0),
            (&[], 0, usize::MAX),
        ] {
            assert_eq!(
                level(needs.iter().copied(), room),
                at,
                "{needs:?} in {room}"
            );
        }
    }
}
