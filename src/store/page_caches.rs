//! The memory that the caches of the connections take. SQLite fills a cache with pages of the
//! database up to a limit, and keeps it until the connection is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rusqlite::Connection;

use super::{DataDir, StoreError};

/// The limit of the connection that writes.
pub(super) const WRITER_CACHE: usize = 2_000 * 1024;
/// The limit of a connection that reads: it reads most pages once.
pub(super) const READER_CACHE: usize = 1_000 * 1024;

/// Limits the cache of a connection to `bytes` bytes.
pub(super) fn limit(connection: &Connection, bytes: usize) -> Result<(), StoreError> {
    let kilobytes = i64::try_from(bytes / 1024).unwrap_or(i64::MAX);
    // A negative number is a size; a positive one is a number of pages.
    Ok(connection.pragma_update(None, "cache_size", -kilobytes)?)
}

/// The size of the database file, which no cache exceeds. Clones are the same size.
#[derive(Clone, Default)]
pub(super) struct DatabaseSize(Arc<AtomicUsize>);

impl DatabaseSize {
    /// Looks at the file again.
    pub(super) fn update(&self, data_dir: &DataDir) {
        if let Ok(file) = std::fs::metadata(data_dir.database_path()) {
            let bytes = usize::try_from(file.len()).unwrap_or(usize::MAX);
            self.0.store(bytes, Ordering::Relaxed);
        }
    }

    /// The most bytes that the caches of the writer and of `readers` readers hold together.
    pub(super) fn cached(&self, readers: usize) -> usize {
        let bytes = self.0.load(Ordering::Relaxed);
        bytes.min(WRITER_CACHE) + readers * bytes.min(READER_CACHE)
    }
}

#[cfg(test)]
mod tests {
    use crate::store::Store;

    use super::*;

    #[tokio::test]
    async fn page_caches_are_limited_and_count_as_memory() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::new(folder.path());
        let store = Store::open(&data_dir, 0).unwrap();
        let cached = store.cache_bytes();
        let file = || std::fs::metadata(data_dir.database_path()).unwrap().len();
        let counted = |bytes: u64| usize::try_from(bytes).unwrap() * 2;
        assert_eq!(cached(), counted(file()));
        let fill = "CREATE TABLE filler AS SELECT zeroblob(3000000)";
        let limits = store.run_writer(move |writer| {
            writer.connection.execute_batch(fill).unwrap();
            writer
                .connection
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
                .unwrap();
            let limit: i64 = writer
                .connection
                .pragma_query_value(None, "cache_size", |row| row.get(0))
                .unwrap();
            Ok(limit)
        });
        assert_eq!(limits.await.unwrap(), -2_000);
        // The writer looks at the file after the work that it was given.
        store.run_writer(|_| Ok(())).await.unwrap();
        assert_eq!(cached(), WRITER_CACHE + READER_CACHE);
    }
}
