//! What each owner has used today, for the limits of a day. It is in memory, so that no turn waits
//! for a disk, and stored with the usage of turns.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::store::SpentRow;

/// The seconds of a day in UTC.
pub const DAY_SECONDS: u64 = 24 * 60 * 60;

/// What was used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spending {
    /// Tokens, input and output together.
    pub tokens: u64,
    /// US dollars, of the turns whose price is known.
    pub cost: f64,
}

impl Spending {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            cost: self.cost + other.cost,
        }
    }
}

/// What each owner has used on the current day in UTC. Clones share it. There are as many owners as
/// clients in the configuration.
#[derive(Clone, Debug, Default)]
pub struct SpentToday(Arc<Mutex<SpentDay>>);

#[derive(Debug, Default)]
struct SpentDay {
    /// In days since 1970.
    day: u64,
    owners: HashMap<String, Spending>,
    /// The owners whose sums are not stored as they are now.
    unstored: HashSet<String>,
}

impl SpentToday {
    /// Counts what a turn has used that has ended. `now` is in seconds since 1970.
    pub(super) fn add(&self, now: u64, owner: &str, used: Spending) {
        if used == Spending::default() || !used.cost.is_finite() {
            return;
        }
        let mut today = self.0.lock();
        today.begin(now / DAY_SECONDS);
        let sum = today.owners.entry(owner.to_owned()).or_default();
        *sum = sum.and(used);
        today.unstored.insert(owner.to_owned());
    }

    /// What an owner has used today.
    pub fn of(&self, now: u64, owner: &str) -> Spending {
        let mut today = self.0.lock();
        today.begin(now / DAY_SECONDS);
        today.owners.get(owner).copied().unwrap_or_default()
    }

    /// Continues with what an earlier process has stored.
    pub(super) fn restore(&self, now: u64, rows: Vec<SpentRow>) {
        let mut today = self.0.lock();
        today.begin(now / DAY_SECONDS);
        for row in rows {
            if row.day == today.day {
                let stored = Spending {
                    tokens: row.tokens,
                    cost: row.cost,
                };
                let sum = today.owners.entry(row.owner).or_default();
                *sum = sum.and(stored);
            }
        }
    }

    /// The sums that are not stored as they are now. They count as stored from here on.
    pub(super) fn take_unstored(&self) -> Vec<SpentRow> {
        let mut today = self.0.lock();
        let day = today.day;
        let unstored = std::mem::take(&mut today.unstored);
        let rows = unstored.into_iter().filter_map(|owner| {
            let Spending { tokens, cost } = *today.owners.get(&owner)?;
            Some(SpentRow {
                day,
                owner,
                tokens,
                cost,
            })
        });
        rows.collect()
    }

    /// The store did not take these sums.
    pub(super) fn put_back(&self, rows: Vec<SpentRow>) {
        let mut today = self.0.lock();
        let day = today.day;
        let owners = rows.into_iter().filter(|row| row.day == day);
        today.unstored.extend(owners.map(|row| row.owner));
    }
}

impl SpentDay {
    /// Forgets what was used on another day.
    fn begin(&mut self, day: u64) {
        if self.day != day {
            *self = Self {
                day,
                ..Self::default()
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USED: Spending = Spending {
        tokens: 10,
        cost: 0.25,
    };

    #[test]
    fn s47_the_sums_of_a_day_end_with_it() {
        let spent = SpentToday::default();
        let evening = 8 * DAY_SECONDS - 1;
        spent.add(evening, "alice", USED);
        spent.add(evening, "alice", USED);
        assert_eq!(spent.of(evening, "alice"), USED.and(USED));
        assert_eq!(spent.of(evening, "bob"), Spending::default());
        let rows = spent.take_unstored();
        assert_eq!((rows.len(), rows[0].day, rows[0].tokens), (1, 7, 20));
        assert!(spent.take_unstored().is_empty());
        spent.put_back(rows.clone());
        assert_eq!(spent.take_unstored(), rows);
        let later = SpentToday::default();
        later.restore(evening, rows.clone());
        assert_eq!(later.of(evening, "alice"), USED.and(USED));
        assert_eq!(later.of(evening + 1, "alice"), Spending::default());
        later.restore(evening + 1, rows);
        assert_eq!(later.of(evening + 1, "alice"), Spending::default());
    }
}
