//! The connections that read. They run on blocking threads, a few at a time, and owners have them
//! in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, InterruptHandle, MAIN_DB};
use tokio::time::timeout;

use super::lock_patience::LockPatience;
use super::reading::StoreRead;
use super::{DataDir, StoreError, schema};
use crate::net::fairness::{FairPlaces, OwnerPlace};
use crate::net::memory::{CountedValue, MemoryFull, MemoryKind, ProcessMemory, SharedMemory};

/// The most connections that read at the same time.
const MAX_READERS: usize = 3;
/// The longest read.
const READ_TIME: Duration = Duration::from_secs(10);

pub(super) struct Readers {
    data_dir: DataDir,
    places: Arc<FairPlaces>,
    memory: ProcessMemory,
    patience: LockPatience,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    /// Readers whose results count in a budget.
    pub(super) fn open(data_dir: &DataDir, memory: ProcessMemory) -> Result<Self, StoreError> {
        let readers = Self {
            idle: Mutex::default(),
            data_dir: data_dir.clone(),
            places: FairPlaces::new(MAX_READERS, memory.sharing().clone()),
            memory,
            patience: LockPatience::default(),
        };
        readers.put_back(schema::reader(data_dir)?);
        Ok(readers)
    }

    /// Reads in one transaction, so that what is written meanwhile is seen as a whole or not at
    /// all. A read that finds no memory waits for what it needs, without a connection, and begins
    /// again. It is stopped when this future is dropped.
    pub(super) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        owner: &str,
        read: impl Fn(&StoreRead<'_>, &str) -> Result<T, StoreError> + Send + Sync + 'static,
    ) -> Result<CountedValue<T>, StoreError> {
        let read = Arc::new(read);
        let memory = self.memory.of_owner(owner);
        let mut waited_for = 0;
        loop {
            let mut share = memory.share(MemoryKind::Requests);
            let granted = share.request(waited_for).await;
            granted.map_err(|full| StoreError::NoMemory {
                needed: waited_for,
                full,
            })?;
            let share = SharedMemory::new(share);
            match self.run_once(owner, &share, Arc::clone(&read)).await {
                Err(StoreError::NoMemory {
                    needed,
                    full: MemoryFull::InUse,
                }) if needed > waited_for => waited_for = needed,
                result => return result,
            }
        }
    }

    async fn run_once<T: Send + 'static>(
        self: &Arc<Self>,
        owner: &str,
        share: &SharedMemory,
        read: Arc<impl Fn(&StoreRead<'_>, &str) -> Result<T, StoreError> + Send + Sync + 'static>,
    ) -> Result<CountedValue<T>, StoreError> {
        let place = self.places.take(owner).await;
        let running = Arc::<RunningRead>::default();
        let _stop = StopWhenDropped(Arc::clone(&running));
        let (readers, share) = (Arc::clone(self), share.clone());
        let owner = owner.to_owned();
        let work = tokio::task::spawn_blocking(move || {
            readers.read(&running, place, share, &|reading: &StoreRead<'_>| {
                read(reading, &owner)
            })
        });
        match timeout(READ_TIME, work).await {
            Ok(result) => result.unwrap_or(Err(StoreError::Closed)),
            Err(_) => Err(StoreError::Stopped),
        }
    }

    /// Reads with a connection. Blocks.
    fn read<T>(
        &self,
        running: &RunningRead,
        _place: OwnerPlace,
        share: SharedMemory,
        read: &impl Fn(&StoreRead<'_>) -> Result<T, StoreError>,
    ) -> Result<CountedValue<T>, StoreError> {
        let mut connection = self.take()?;
        self.patience.begin(&connection)?;
        *running.interrupt.lock() = Some(connection.get_interrupt_handle());
        let result = in_snapshot(&mut connection, |connection| {
            let reading = StoreRead::new(connection, &share, &running.is_stopped);
            reading.reserve(0)?;
            let value = read(&reading)?;
            Ok((value, reading.reserved()))
        });
        // From here on the connection may belong to another read.
        running.interrupt.lock().take();
        self.patience.end(&result);
        let (value, reserved) = result?;
        self.put_back(connection);
        share.set(reserved);
        Ok(CountedValue::new(value, share))
    }

    /// How many connections are open.
    pub(super) fn connections(&self) -> usize {
        self.places.used() + self.idle.lock().len()
    }

    fn take(&self) -> Result<Connection, StoreError> {
        let idle = self.idle.lock().pop();
        idle.map_or_else(|| schema::reader(&self.data_dir), Ok)
    }

    fn put_back(&self, connection: Connection) {
        // One that cannot see what is written is of no use when something can be written again.
        if connection
            .is_readonly(MAIN_DB)
            .is_ok_and(|is_readonly| !is_readonly)
        {
            self.idle.lock().push(connection);
        }
    }
}

/// A read that is under way.
#[derive(Default)]
struct RunningRead {
    is_stopped: AtomicBool,
    /// Interrupts its connection, while it has one.
    interrupt: Mutex<Option<InterruptHandle>>,
}

/// Stops a read when its caller does not wait for it any more.
struct StopWhenDropped(Arc<RunningRead>);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.is_stopped.store(true, Ordering::Relaxed);
        if let Some(interrupt) = &*self.0.interrupt.lock() {
            interrupt.interrupt();
        }
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
    use tempfile::TempDir;
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    /// The readers of an empty database, and a connection that writes.
    fn open() -> (TempDir, Mutex<Connection>, Arc<Readers>) {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::new(folder.path());
        data_dir.create_files().unwrap();
        let writer = Mutex::new(schema::writer(&data_dir).unwrap());
        let readers = Readers::open(&data_dir, ProcessMemory::unlimited()).unwrap();
        (folder, writer, Arc::new(readers))
    }

    #[tokio::test]
    async fn a_read_that_nobody_waits_for_is_interrupted() {
        let (_folder, _, readers) = open();
        let (rows, mut row) = unbounded_channel();
        let (ends, mut end) = unbounded_channel();
        let reading = tokio::spawn({
            let readers = Arc::clone(&readers);
            async move {
                let read = move |connection: &StoreRead<'_>, _: &str| {
                    let mut select = connection.prepare(
                        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                         SELECT i FROM n LIMIT 10000000",
                    )?;
                    let mut found = select.query([])?;
                    found.next()?;
                    // The statement runs.
                    rows.send(()).unwrap();
                    let rest =
                        std::iter::from_fn(|| found.next().map(|it| it.map(drop)).transpose());
                    ends.send(rest.collect::<Result<Vec<()>, _>>()).unwrap();
                    Ok(())
                };
                readers.run("alice", read).await.map(drop)
            }
        });
        row.recv().await.unwrap();
        reading.abort();
        let error = end.recv().await.unwrap().unwrap_err();
        let code = error.sqlite_error_code();
        assert_eq!(code, Some(rusqlite::ErrorCode::OperationInterrupted));
        // Its place and its connection are those of others.
        readers.run("bob", |_, _| Ok(())).await.unwrap();
    }

    #[tokio::test]
    async fn what_is_written_meanwhile_is_not_seen_in_part() {
        let (_folder, writer, readers) = open();
        let sessions = |connection: &Connection| -> Result<u64, StoreError> {
            let count = "SELECT count(*) FROM whole_sessions";
            Ok(connection.query_row(count, [], |row| row.get(0))?)
        };
        let read = readers.run("local", move |connection, _| {
            let before = sessions(connection)?;
            writer
                .lock()
                .execute_batch("INSERT INTO whole_sessions VALUES ('local', 's', '{}', 1)")?;
            Ok((before, sessions(connection)?))
        });
        assert_eq!(*read.await.unwrap(), (0, 0));
        let after = readers.run("local", move |connection, _| sessions(connection));
        assert_eq!(*after.await.unwrap(), 1);
    }
}
