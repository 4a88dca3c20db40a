//! Empties the write-ahead log, so that what was deleted or replaced does not stay in it. No task
//! waits for that: while the log is read, it is tried again later.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::error::StoreError;
use super::lock_patience::LOCK_TIMEOUT;

/// How long something that was replaced may stay in a log without readers.
const REPLACED_FOR: Duration = Duration::from_mins(1);
/// The pause before a log that is being read is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// When the log is to be emptied next. The writer has one.
#[derive(Debug, Default)]
pub(super) struct LogSchedule {
    due: Option<Instant>,
}

impl LogSchedule {
    /// Something was written, and may have replaced something.
    pub(super) fn written(&mut self, now: Instant) {
        self.due.get_or_insert(now + REPLACED_FOR);
    }

    /// How long the writer may wait for something to write; `None` if the log has nothing.
    pub(super) fn pause(&self, now: Instant) -> Option<Duration> {
        self.due.map(|due| due.saturating_duration_since(now))
    }

    /// Empties the log. False if there are readers, or another program checks the database: then it
    /// is to be tried again soon.
    pub(super) fn empty(
        &mut self,
        connection: &Connection,
        now: Instant,
    ) -> Result<bool, StoreError> {
        let is_empty = empty(connection);
        self.due = match is_empty {
            Ok(true) => None,
            Ok(false) => Some(now + RETRY_PAUSE),
            Err(_) => Some(now + REPLACED_FOR),
        };
        is_empty
    }
}

/// Copies the log into the database and empties it, without waiting for readers. False if something
/// is left in it.
fn empty(connection: &Connection) -> Result<bool, StoreError> {
    connection.busy_timeout(Duration::ZERO)?;
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
        row.get::<_, i64>(0)
    });
    connection.busy_timeout(LOCK_TIMEOUT)?;
    Ok(busy? == 0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::store::{DataDir, schema};

    static HAS_WAITED: AtomicBool = AtomicBool::new(false);

    fn note_wait(_: i32) -> bool {
        HAS_WAITED.store(true, Ordering::Relaxed);
        false
    }

    #[test]
    fn nobody_waits_for_a_log_that_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::new(folder.path());
        data_dir.create_files().unwrap();
        let mut connection = schema::writer(&data_dir).unwrap();
        let mut reader = schema::reader(&data_dir).unwrap();
        let read = reader.transaction().unwrap();
        read.query_row("SELECT count(*) FROM refs", [], |_| Ok(()))
            .unwrap();
        connection
            .execute_batch("INSERT INTO whole_sessions VALUES ('local', 's', '{}', 1)")
            .unwrap();
        let now = Instant::now();
        let mut schedule = LogSchedule::default();
        assert_eq!(schedule.pause(now), None);
        schedule.written(now);
        schedule.written(now + RETRY_PAUSE);
        assert_eq!(schedule.pause(now), Some(REPLACED_FOR));
        connection.busy_handler(Some(note_wait)).unwrap();
        assert!(!schedule.empty(&connection, now).unwrap());
        assert!(!HAS_WAITED.load(Ordering::Relaxed));
        assert_eq!(schedule.pause(now), Some(RETRY_PAUSE));
        drop(read);
        assert!(schedule.empty(&connection, now).unwrap());
        assert_eq!(schedule.pause(now), None);
    }
}
