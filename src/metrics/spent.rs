//! What each owner has used today, for the limits of a day. It is in memory, so that no turn waits
//! for a disk to begin. What a turn has used is stored in the transaction of its response, or some
//! seconds later if that is not stored, as its searches and pages are.

use std::collections::BTreeMap;
use std::sync::Arc;

use adapters::event::Usage;
use parking_lot::Mutex;

use crate::net::LOCAL_OWNER;
use crate::store::SpentRow;

/// The seconds of a day in UTC.
pub const DAY_SECONDS: u64 = 24 * 60 * 60;

/// What was used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spending {
    /// Tokens, input and output together.
    pub tokens: u64,
    /// US dollars, of the turns and searches whose price is known.
    pub cost: f64,
    /// Searches of the web.
    pub searches: u64,
    /// Pages of the web.
    pub pages: u64,
}

impl Spending {
    /// What a turn has used.
    pub fn of(usage: Usage, cost: Option<f64>) -> Self {
        Self {
            tokens: usage.input.saturating_add(usage.output),
            cost: cost.unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            cost: self.cost + other.cost,
            searches: self.searches.saturating_add(other.searches),
            pages: self.pages.saturating_add(other.pages),
        }
    }
}

/// What an owner has used, as it is stored: `None` if there is nothing to store. The operator has
/// no limits. `now` is in seconds since 1970.
pub fn spent_row(now: u64, owner: &str, used: Spending) -> Option<SpentRow> {
    let counts = owner != LOCAL_OWNER && used != Spending::default() && used.cost.is_finite();
    counts.then(|| SpentRow {
        day: now / DAY_SECONDS,
        owner: owner.to_owned(),
        tokens: used.tokens,
        cost: used.cost,
        searches: used.searches,
        pages: used.pages,
    })
}

/// What each owner has used on the current day in UTC. Clones share it. There are as many owners as
/// clients in the configuration.
#[derive(Clone, Debug, Default)]
pub struct SpentToday(Arc<Mutex<SpentDay>>);

#[derive(Debug, Default)]
struct SpentDay {
    /// In days since 1970.
    day: u64,
    owners: BTreeMap<String, Spending>,
    /// What is not stored of that.
    unstored: BTreeMap<String, Spending>,
}

impl SpentToday {
    /// Counts what a turn has used that has ended, which may be stored already. `now` is in seconds
    /// since 1970.
    pub(super) fn add(&self, now: u64, owner: &str, used: Spending, is_stored: bool) {
        let Some(row) = spent_row(now, owner, used) else {
            return;
        };
        let mut today = self.0.lock();
        today.begin(row.day);
        add_to(&mut today.owners, owner, used);
        if !is_stored {
            add_to(&mut today.unstored, owner, used);
        }
    }

    /// Counts at once what an owner is about to use, unless `check` refuses that after what the
    /// owner has used so far.
    pub fn reserve<E>(
        &self,
        now: u64,
        owner: &str,
        asked: Spending,
        check: impl FnOnce(Spending) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(row) = spent_row(now, owner, asked) else {
            return Ok(());
        };
        let mut today = self.0.lock();
        today.begin(row.day);
        check(today.owners.get(owner).copied().unwrap_or_default())?;
        add_to(&mut today.owners, owner, asked);
        add_to(&mut today.unstored, owner, asked);
        Ok(())
    }

    /// Whether something is to be stored.
    pub(super) fn has_unstored(&self) -> bool {
        !self.0.lock().unstored.is_empty()
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
                add_to(&mut today.owners, &row.owner, used_of(&row));
            }
        }
    }

    /// What is not stored. It counts as stored from here on.
    pub(super) fn take_unstored(&self) -> Vec<SpentRow> {
        let mut today = self.0.lock();
        let now = today.day * DAY_SECONDS;
        let unstored = std::mem::take(&mut today.unstored).into_iter();
        unstored
            .filter_map(|(owner, used)| spent_row(now, &owner, used))
            .collect()
    }

    /// The store did not take this.
    pub(super) fn put_back(&self, rows: &[SpentRow]) {
        let mut today = self.0.lock();
        let day = today.day;
        for row in rows.iter().filter(|row| row.day == day) {
            add_to(&mut today.unstored, &row.owner, used_of(row));
        }
    }
}

fn used_of(row: &SpentRow) -> Spending {
    Spending {
        tokens: row.tokens,
        cost: row.cost,
        searches: row.searches,
        pages: row.pages,
    }
}

fn add_to(sums: &mut BTreeMap<String, Spending>, owner: &str, used: Spending) {
    let sum = sums.entry(owner.to_owned()).or_default();
    *sum = sum.and(used);
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
        searches: 1,
        pages: 2,
    };

    #[test]
    fn what_is_asked_for_at_once_stays_within_a_limit() {
        let spent = SpentToday::default();
        let asked = Spending {
            searches: 1,
            ..Spending::default()
        };
        let check = |spent: Spending| (spent.searches < 3).then_some(()).ok_or(());
        let count = |owner| {
            let reserved = (0..9).filter(|_| spent.reserve(0, owner, asked, check).is_ok());
            reserved.count()
        };
        assert_eq!(
            (count("alice"), count("bob"), count(LOCAL_OWNER)),
            (3, 3, 9)
        );
        let rows = spent.take_unstored();
        assert_eq!((rows.len(), rows[0].searches), (2, 3));
    }

    #[test]
    fn the_sums_of_a_day_end_with_it() {
        let spent = SpentToday::default();
        let evening = 8 * DAY_SECONDS - 1;
        spent.add(evening, "alice", USED, false);
        spent.add(evening, "alice", USED, true);
        spent.add(evening, LOCAL_OWNER, USED, false);
        assert_eq!(spent.of(evening, "alice"), USED.and(USED));
        assert_eq!(spent.of(evening, "bob"), Spending::default());
        assert!(spent.has_unstored());
        let rows = spent.take_unstored();
        assert_eq!((rows.len(), rows[0].day, rows[0].tokens), (1, 7, 10));
        assert!(spent.take_unstored().is_empty() && !spent.has_unstored());
        spent.add(evening, "alice", USED, false);
        spent.put_back(&rows);
        let rows = spent.take_unstored();
        assert_eq!((rows.len(), rows[0].tokens), (1, 20));
        assert_eq!(spent.of(evening, "alice").tokens, 30);
        let later = SpentToday::default();
        later.restore(evening, rows.clone());
        assert_eq!(later.of(evening, "alice"), USED.and(USED));
        assert_eq!(later.of(evening + 1, "alice"), Spending::default());
        later.restore(evening + 1, rows);
        assert_eq!(later.of(evening + 1, "alice"), Spending::default());
    }
}
