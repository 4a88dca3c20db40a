//! Room for several outputs that is less than they want.

use super::entry::{Entry, Form};
use super::limits::{LEAST, Limits, NOTICE};

/// The largest share such that all of `wanted` together, none with more than its
/// share, stay within `room`; no limit if they do so anyway.
pub(super) fn level(mut wanted: Vec<usize>, room: usize) -> usize {
    wanted.sort_unstable();
    let mut left = room;
    let mut rest = wanted.len();
    for one in wanted {
        let share = left / rest;
        if one > share {
            return share;
        }
        left -= one;
        rest -= 1;
    }
    usize::MAX
}

/// Takes `excess` bytes from the outputs of a round; from what was read back
/// nothing. Each keeps what an excerpt has, or if that is too much a short one;
/// what is left over goes to the newest first. If there is no room even for short
/// ones, the oldest become notices.
pub(super) fn tighten(round: &mut [Entry], excess: usize, limits: &Limits) {
    let mut entries: Vec<&mut Entry> = round
        .iter_mut()
        .filter(|entry| !entry.is_read_back)
        .collect();
    let sum: usize = entries.iter().map(|entry| entry.weight()).sum();
    let room = sum.saturating_sub(excess);
    for floor in [Floor::Excerpt, Floor::Short] {
        if let Some(spare) = room.checked_sub(floor.sum(&entries, limits)) {
            return spend(&mut entries, spare, floor, limits);
        }
    }
    let mut least = Floor::Short.sum(&entries, limits);
    let newest = entries.len().saturating_sub(1);
    let mut noticed = 0;
    for entry in entries.iter_mut().take(newest) {
        if least <= room {
            break;
        }
        least -= Floor::Short.of(entry, limits);
        entry.demote();
        least += entry.weight();
        noticed += 1;
    }
    let rest = entries.get_mut(noticed..).unwrap_or_default();
    spend(rest, room.saturating_sub(least), Floor::Short, limits);
}

/// What each output of a round keeps.
#[derive(Clone, Copy)]
enum Floor {
    Excerpt,
    Short,
}

impl Floor {
    fn of(self, entry: &Entry, limits: &Limits) -> usize {
        let most = match self {
            Self::Excerpt => entry.excerpt(limits).bytes,
            Self::Short => LEAST,
        };
        entry.weight().min(most)
    }

    fn sum(self, entries: &[&mut Entry], limits: &Limits) -> usize {
        entries.iter().map(|entry| self.of(entry, limits)).sum()
    }
}

/// Gives each its floor, and the spare bytes to the newest.
fn spend(entries: &mut [&mut Entry], mut spare: usize, floor: Floor, limits: &Limits) {
    for entry in entries.iter_mut().rev() {
        let least = floor.of(entry, limits);
        let more = entry.weight() - least;
        if more <= spare {
            spare -= more;
            continue;
        }
        let longest = entry.excerpt(limits).bytes;
        let bytes = least.saturating_add(spare).min(longest).max(NOTICE);
        spare -= bytes.saturating_sub(least).min(spare);
        entry.form = Form::Excerpt(entry.part(bytes));
    }
}
