//! The connections that read. They run on blocking threads, a few at a time.

use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::lock_patience::LockPatience;
use super::{DataDir, StoreError, schema};

/// The most connections that read at the same time.
const MAX_READERS: usize = 3;

pub(super) struct Readers {
    data_dir: DataDir,
    permits: Semaphore,
    patience: LockPatience,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn open(data_dir: &DataDir) -> Result<Self, StoreError> {
        Ok(Self {
            idle: Mutex::new(vec![schema::reader(data_dir)?]),
            data_dir: data_dir.clone(),
            permits: Semaphore::new(MAX_READERS),
            patience: LockPatience::default(),
        })
    }

    /// Reads in one transaction, so that what is written meanwhile is seen as a whole or not at all.
    pub(super) async fn run<T: Send + 'static>(
        self: Arc<Self>,
        read: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let readers = Arc::clone(&self);
        let permit = self.permits.acquire().await;
        let _permit = permit.map_err(|_| StoreError::Closed)?;
        let read = move || {
            let mut connection = readers.take()?;
            readers.patience.begin(&connection)?;
            let result = in_snapshot(&mut connection, read);
            readers.patience.end(&result);
            if result.is_ok() {
                readers.put_back(connection);
            }
            result
        };
        let result = tokio::task::spawn_blocking(read).await;
        result.unwrap_or(Err(StoreError::Closed))
    }

    /// How many connections are open.
    pub(super) fn connections(&self) -> usize {
        let in_use = MAX_READERS.saturating_sub(self.permits.available_permits());
        in_use + self.idle.lock().len()
    }

    fn take(&self) -> Result<Connection, StoreError> {
        let idle = self.idle.lock().pop();
        idle.map_or_else(|| schema::reader(&self.data_dir), Ok)
    }

    fn put_back(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        idle.push(connection);
    }
}

fn in_snapshot<T>(
    connection: &mut Connection,
    read: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let transaction = connection.transaction()?;
    let result = read(&transaction)?;
    transaction.finish()?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_written_meanwhile_is_not_seen_in_part() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::new(folder.path());
        data_dir.create_files().unwrap();
        let writer = schema::writer(&data_dir).unwrap();
        let readers = Arc::new(Readers::open(&data_dir).unwrap());
        let sessions = |connection: &Connection| -> Result<u64, StoreError> {
            let count = "SELECT count(*) FROM whole_sessions";
            Ok(connection.query_row(count, [], |row| row.get(0))?)
        };
        let read = Arc::clone(&readers).run(move |connection| {
            let before = sessions(connection)?;
            writer.execute_batch("INSERT INTO whole_sessions VALUES ('local', 's', '{}', 1)")?;
            Ok((before, sessions(connection)?))
        });
        assert_eq!(read.await.unwrap(), (0, 0));
        assert_eq!(readers.run(sessions).await.unwrap(), 1);
    }
}
