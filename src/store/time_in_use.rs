//! The time by which old things are deleted. Where the clock jumps forward, or the server did not
//! run for long, nothing is deleted at once: this time follows the clock only while the server
//! runs, a day in each hour.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension};

use super::error::StoreError;

/// How far the time may follow the clock when a server starts, in seconds: a long stop looks the
/// same as a jump of the clock.
const AT_START: u64 = 6 * 60 * 60;
/// How much faster than the clock the time may go.
const RATE: u64 = 24;
/// The lag that is worth a line in the log, in seconds.
const REPORTED_LAG: u64 = 2 * 24 * 60 * 60;

/// The day of the time in use, in days since 1970, as an expression in SQL.
pub(super) const SELECT_DAY: &str = "(SELECT seconds / 86400 FROM time_in_use)";

/// How far the clock is ahead of the time in use. A store has one.
#[derive(Debug, Default)]
pub(super) struct ClockLag {
    seconds: AtomicU64,
    /// When the time was compared with the clock last.
    compared: Mutex<Option<Instant>>,
}

impl ClockLag {
    /// The time for which the server ran since this was called last; `None` for the first time.
    pub(super) fn take_elapsed(&self) -> Option<Duration> {
        let before = self.compared.lock().replace(Instant::now());
        before.map(|before| before.elapsed())
    }

    pub(super) fn set(&self, now: u64, time: u64) {
        let lag = now.saturating_sub(time);
        if lag > REPORTED_LAG && self.seconds.load(Ordering::Relaxed) == 0 {
            let days = lag / (24 * 60 * 60);
            tracing::warn!(
                "the clock is {days} days ahead of the time up to which the store was in use, so nothing is deleted for its age until the server has run for about {days} hours"
            );
        }
        self.seconds.store(lag, Ordering::Relaxed);
    }

    pub(super) fn subtract_from(&self, now: u64) -> u64 {
        now.saturating_sub(self.seconds.load(Ordering::Relaxed))
    }
}

/// Lets the time follow the clock when the server starts or has run for `ran`, and returns it. It
/// never goes back, but it is never ahead of the clock for those who delete.
pub(super) fn advance(
    connection: &Connection,
    now: u64,
    ran: Option<Duration>,
) -> Result<u64, StoreError> {
    let mut select = connection.prepare_cached("SELECT seconds FROM time_in_use")?;
    let before: Option<u64> = select.query_row([], |row| row.get(0)).optional()?;
    let step = ran.map_or(AT_START, |ran| ran.as_secs().saturating_mul(RATE));
    let time = before.map_or(now, |before| {
        before.saturating_add(step).min(now).max(before)
    });
    connection
        .prepare_cached(
            "INSERT INTO time_in_use VALUES (1, ?1) ON CONFLICT DO UPDATE SET seconds = ?1",
        )?
        .execute([time])?;
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::schema::tests::in_memory;
    use crate::store::{DataDir, Store};

    const DAY: u64 = 24 * 60 * 60;

    #[test]
    fn the_time_follows_a_clock_that_jumps_only_while_the_server_runs() {
        let connection = in_memory();
        let hour = Some(Duration::from_hours(1));
        let begin = 1_000 * DAY;
        for (now, ran, expected) in [
            (begin, None, begin),
            (begin + 3_600, hour, begin + 3_600),
            // A start with a clock that is wrong, and its correction.
            (begin + 41 * DAY, None, begin + 3_600 + AT_START),
            (begin + 2 * 3_600, None, begin + 3_600 + AT_START),
            (7, hour, begin + 3_600 + AT_START),
            // A clock that stays ahead.
            (begin + 40 * DAY, hour, begin + 3_600 + AT_START + DAY),
            (
                begin + 40 * DAY,
                Some(Duration::from_hours(48)),
                begin + 40 * DAY,
            ),
        ] {
            assert_eq!(advance(&connection, now, ran).unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn a_start_with_a_clock_that_has_jumped_lets_nothing_grow_old() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::new(folder.path());
        let begin = 1_000 * DAY;
        for now in [begin, begin + 40 * DAY] {
            let store = Store::open(&data_dir, now).unwrap();
            store.learn_time(now).await.unwrap();
            assert_eq!(store.time_in_use(now), now.min(begin + AT_START));
        }
    }

    #[test]
    fn what_lags_is_subtracted_and_a_clock_that_lags_is_taken() {
        let lag = ClockLag::default();
        assert_eq!(lag.take_elapsed(), None);
        assert!(lag.take_elapsed().is_some());
        for (now, time) in [(100, 60), (100, 100), (100, 200)] {
            lag.set(now, time);
            assert_eq!(lag.subtract_from(now), now.min(time));
        }
    }
}
