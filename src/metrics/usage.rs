//! What turns have used, by hour and model: counted in memory, and added to the store once in a
//! while, so that no turn waits for a disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use adapters::event::Usage;
use parking_lot::Mutex;

use super::UnshortenedBill;
use super::spent::{DAY_SECONDS, SpentToday};
use crate::clock::{Clock as _, System};
use crate::log::SafeText;
use crate::store::{OTHER_MODELS, Store, StoreError, UsageKey, UsageSum};

/// The most sums in memory. This is reached only if the store does not take them.
const MAX_SUMS: usize = 1024;

/// The days that stay in memory if the store does not take them.
const DAYS_IN_MEMORY: i64 = 31;

/// How long what counts for the limits of a day waits for the disk, if it is not stored with a
/// response.
const SPENT_PERIOD: Duration = Duration::from_secs(2);

/// The sums that are not stored yet. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct DailyUsage(Arc<Mutex<BTreeMap<UsageKey, UsageSum>>>);

impl DailyUsage {
    /// Counts a turn that has ended on this day and in this hour, both since 1970. `costs` is what
    /// it cost, and what it would have cost with nothing shortened, in US dollars, if the price is
    /// known; `bill` says what is known of the latter.
    pub(super) fn count(
        &self,
        (day, hour): (i64, i64),
        owner: &str,
        (provider, model): (&str, &str),
        usage: Usage,
        costs: Option<(f64, f64)>,
        bill: Option<UnshortenedBill>,
    ) {
        let has_tokens = usage.input > 0 || usage.output > 0;
        let costs = costs.filter(|(cost, unshortened)| (cost + unshortened).is_finite());
        let (cost, unshortened) = costs.unwrap_or_default();
        let sum = UsageSum {
            turns: 1,
            input: usage.input,
            cached: usage.cached,
            output: usage.output,
            cost,
            unshortened,
            unpriced: u64::from(has_tokens && costs.is_none()),
            too_long: u64::from(bill == Some(UnshortenedBill::TooLong)),
            unreckoned: u64::from(bill == Some(UnshortenedBill::Unknown)),
        };
        let key = UsageKey {
            day,
            hour,
            owner: owner.to_owned(),
            provider: provider.to_owned(),
            model: SafeText::new(model).to_string(),
        };
        self.add(key, &sum);
    }

    fn add(&self, mut key: UsageKey, sum: &UsageSum) {
        let mut sums = self.0.lock();
        if !sums.contains_key(&key) {
            let oldest = key.day.saturating_sub(DAYS_IN_MEMORY);
            sums.retain(|known, _| known.day > oldest);
            if sums.len() >= MAX_SUMS {
                OTHER_MODELS.clone_into(&mut key.provider);
                OTHER_MODELS.clone_into(&mut key.model);
            }
        }
        sums.entry(key).or_default().add(sum);
    }

    fn take(&self) -> Vec<(UsageKey, UsageSum)> {
        std::mem::take(&mut *self.0.lock()).into_iter().collect()
    }
}

/// The usage of this process, and the stored usage of earlier ones. Clones share it.
#[derive(Clone)]
pub struct UsageLog {
    counts: DailyUsage,
    spent: SpentToday,
    store: Option<Arc<Store>>,
    failed: Arc<AtomicBool>,
}

impl UsageLog {
    /// The usage that is counted, and what owners have used today; stored if there is a store.
    pub fn new(counts: DailyUsage, spent: SpentToday, store: Option<Arc<Store>>) -> Self {
        Self {
            counts,
            spent,
            store,
            failed: Arc::default(),
        }
    }

    /// Whether usage is kept when the process ends.
    pub fn is_stored(&self) -> bool {
        self.store.is_some()
    }

    /// Stores what was counted. What the store does not take is tried again the next time; the
    /// first failure is logged.
    pub async fn flush(&self) {
        let Some(store) = &self.store else { return };
        let rows = self.spent.take_unstored();
        if !rows.is_empty()
            && let Err(error) = store.add_spent(rows.clone()).await
        {
            self.report(&error);
            self.spent.put_back(&rows);
        }
        let sums = self.counts.take();
        if !sums.is_empty()
            && let Err(error) = store.add_usage(sums.clone()).await
        {
            self.report(&error);
            for (key, sum) in sums {
                self.counts.add(key, &sum);
            }
        }
    }

    /// Stores what counts for the limits of a day soon after it was counted. Never returns.
    pub async fn keep_spent(&self) {
        loop {
            tokio::time::sleep(SPENT_PERIOD).await;
            if self.spent.has_unstored() {
                self.flush().await;
            }
        }
    }

    fn report(&self, error: &StoreError) {
        if !self.failed.swap(true, Relaxed) {
            tracing::warn!("the usage of turns is not stored: {error}");
        }
    }

    /// Reads what owners have used today, as earlier processes have stored it. An owner whose sums
    /// cannot be read begins the day again.
    pub async fn restore_spent(&self) {
        let Some(store) = &self.store else { return };
        let now = System.unix();
        match store.spent_on(now / DAY_SECONDS).await {
            Ok(rows) => self.spent.restore(now, rows),
            Err(error) => tracing::warn!("what clients have used today cannot be read: {error}"),
        }
    }

    /// The sums of all owners from a day on, by day, owner, provider and model.
    pub async fn since(&self, day: i64) -> Result<Vec<(UsageKey, UsageSum)>, StoreError> {
        self.flush().await;
        let stored = match &self.store {
            Some(store) => store.usage_since(day).await?,
            None => Vec::new(),
        };
        let mut sums: BTreeMap<UsageKey, UsageSum> = stored.into_iter().collect();
        for (key, sum) in &*self.counts.0.lock() {
            if key.day >= day {
                let key = UsageKey {
                    hour: 0,
                    ..key.clone()
                };
                sums.entry(key).or_default().add(sum);
            }
        }
        Ok(sums.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{DataDir, LockedDatabase};

    const USED: Usage = Usage {
        input: 100,
        cached: 60,
        cache_write: 0,
        output: 20,
        reasoning: 5,
    };

    const TOO_LONG: Option<UnshortenedBill> = Some(UnshortenedBill::TooLong);
    const UNKNOWN: Option<UnshortenedBill> = Some(UnshortenedBill::Unknown);

    fn store(folder: &tempfile::TempDir) -> (DataDir, Arc<Store>) {
        let data_dir = DataDir::new(folder.path());
        let store = Arc::new(Store::open(&data_dir, 0).unwrap());
        (data_dir, store)
    }

    fn log(counts: DailyUsage, store: Option<Arc<Store>>) -> UsageLog {
        UsageLog::new(counts, SpentToday::default(), store)
    }

    #[tokio::test]
    async fn an_unknown_price_is_not_0_dollars() {
        let counts = DailyUsage::default();
        counts.count(
            (7, 7),
            "local",
            ("acme", "m"),
            USED,
            Some((0.25, 0.75)),
            TOO_LONG,
        );
        counts.count((7, 7), "local", ("acme", "m"), USED, None, UNKNOWN);
        // A turn that failed before it used anything.
        counts.count((7, 7), "local", ("acme", "m"), Usage::default(), None, None);
        let log = log(counts, None);
        let sums = log.since(7).await.unwrap();
        let [(_, sum)] = sums.as_slice() else {
            panic!("{sums:?}")
        };
        assert_eq!((sum.turns, sum.unpriced), (3, 1));
        assert_eq!((sum.too_long, sum.unreckoned), (1, 1));
        assert_eq!((sum.input, sum.cached, sum.output), (200, 120, 40));
        assert!((sum.cost - 0.25).abs() < 1e-9);
        assert!((sum.unshortened - 0.75).abs() < 1e-9);
        assert!(log.since(8).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn usage_outlives_the_process_and_a_locked_database() {
        let folder = tempfile::tempdir().unwrap();
        let counts = DailyUsage::default();
        {
            let (data_dir, store) = store(&folder);
            let log = log(counts.clone(), Some(store));
            counts.count(
                (7, 7),
                "local",
                ("acme", "m"),
                USED,
                Some((0.25, 0.75)),
                TOO_LONG,
            );
            log.flush().await;
            let locked = LockedDatabase::new(&data_dir);
            counts.count(
                (7, 7),
                "local",
                ("acme", "m"),
                USED,
                Some((0.25, 0.75)),
                TOO_LONG,
            );
            log.flush().await;
            drop(locked);
            assert_eq!(log.since(7).await.unwrap()[0].1.turns, 2);
        }
        let (_, store) = store(&folder);
        let log = log(DailyUsage::default(), Some(store));
        let sums = log.since(7).await.unwrap();
        assert_eq!((sums.len(), sums[0].1.turns), (1, 2));
    }

    #[test]
    fn the_sums_in_memory_are_limited() {
        let counts = DailyUsage::default();
        for n in 0..MAX_SUMS * 2 {
            counts.count(
                (7, 7),
                "local",
                ("acme", &format!("m{n}")),
                USED,
                None,
                UNKNOWN,
            );
        }
        assert_eq!(counts.0.lock().len(), MAX_SUMS + 1);
        counts.count(
            (7 + DAYS_IN_MEMORY, 7),
            "local",
            ("acme", "m"),
            USED,
            None,
            UNKNOWN,
        );
        assert_eq!(counts.take().len(), 1);
    }
}
