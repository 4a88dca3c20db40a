//! How long a connection waits while another program has locked the database.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::Connection;

use super::error::StoreError;

/// The longest wait. Turns may wait behind it.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Lets one operation wait for a locked database. The next ones fail at once, until one succeeds:
/// each of them shows whether the database is still locked. The writer has one, and the readers
/// share one.
#[derive(Debug, Default)]
pub(super) struct LockPatience {
    is_locked: AtomicBool,
}

impl LockPatience {
    /// Sets how long the next operation of this connection may wait.
    pub(super) fn begin(&self, connection: &Connection) -> Result<(), StoreError> {
        let timeout = if self.is_locked.load(Ordering::Relaxed) {
            Duration::ZERO
        } else {
            LOCK_TIMEOUT
        };
        Ok(connection.busy_timeout(timeout)?)
    }

    /// Learns from the result of the operation.
    pub(super) fn end<T>(&self, result: &Result<T, StoreError>) {
        let is_locked = matches!(result, Err(error) if error.is_locked());
        self.is_locked.store(is_locked, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{DataDir, schema};

    #[test]
    fn one_operation_waits_for_a_locked_database() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::new(folder.path());
        data_dir.create_files().unwrap();
        let connection = schema::writer(&data_dir).unwrap();
        let other = schema::writer(&data_dir).unwrap();
        let patience = LockPatience::default();
        // The milliseconds that a write may wait, and whether it succeeds.
        let write = || {
            patience.begin(&connection).unwrap();
            let wait: u64 = connection
                .pragma_query_value(None, "busy_timeout", |row| row.get(0))
                .unwrap();
            let written = connection
                .execute_batch("DELETE FROM refs")
                .map_err(StoreError::from);
            patience.end(&written);
            (wait, written.is_ok())
        };
        assert_eq!(write(), (1000, true));
        other.execute_batch("BEGIN EXCLUSIVE").unwrap();
        assert_eq!(write(), (1000, false));
        assert_eq!(write(), (0, false));
        assert_eq!(write(), (0, false));
        other.execute_batch("COMMIT").unwrap();
        assert_eq!(write(), (0, true));
        assert_eq!(write(), (1000, true));
    }
}
