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

    pub(super) async fn run<T: Send + 'static>(
        self: Arc<Self>,
        read: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let readers = Arc::clone(&self);
        let permit = self.permits.acquire().await;
        let _permit = permit.map_err(|_| StoreError::Closed)?;
        let read = move || {
            let mut connection = readers.take()?;
            readers.patience.begin(&connection)?;
            let result = read(&mut connection);
            readers.patience.end(&result);
            if result.is_ok() {
                readers.put_back(connection);
            }
            result
        };
        let result = tokio::task::spawn_blocking(read).await;
        result.unwrap_or(Err(StoreError::Closed))
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
