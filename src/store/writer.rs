//! The one thread that writes.

use std::fs::File;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};
use tokio::runtime;
use tokio::sync::{mpsc, oneshot};

use super::batch::{self, ArtifactBatch};
use super::data_dir::{DataDir, DataDirLock};
use super::emptied_log::LogSchedule;
use super::error::StoreError;
use super::group_commit::{self, MAX_CHANGES, SharedChange};
use super::lock_patience::LockPatience;
use super::model::NewArtifact;
use super::page_caches::DatabaseSize;
use super::{schema, sweep};

/// What the writer thread owns.
pub(super) struct WriterState {
    pub(super) connection: Connection,
    data_dir: DataDir,
    patience: LockPatience,
    log: LogSchedule,
    /// When the files are tried again, if they could not be written when the store was opened. The
    /// connection only reads until then.
    next_try: Option<Instant>,
    /// The lock of the data directory, if it could be locked.
    lock: Option<Arc<DataDirLock>>,
    /// The sum over all texts and references. Deleting makes it unknown; the next write computes
    /// it.
    pub(super) stored_bytes: Option<u64>,
}

/// The pause before files that cannot be written are tried again.
const TRY_PAUSE: Duration = Duration::from_secs(1);

/// The connection with which the writer begins.
pub(super) enum WriterConnection {
    Writing(Connection),
    /// The files cannot be written now, and all changes fail.
    Reading(Connection),
}

/// A write that waits for the writer thread.
pub(super) enum StoreWrite {
    /// Runs by itself.
    Alone(Box<dyn FnOnce(&mut WriterState) + Send>),
    /// Runs in one transaction with those that follow it in the queue.
    Shared(Box<dyn SharedChange>),
}

/// A batch that is on the disk.
pub struct WrittenBatch {
    /// The number of the reference of each artifact, in the order of the batch.
    pub reference_numbers: Vec<i64>,
    /// The bytes that all texts, compressed, and references take in the store.
    pub stored_bytes: u64,
}

/// A batch that could not be written.
pub struct UnwrittenBatch {
    /// The artifacts of the batch.
    pub artifacts: Vec<NewArtifact>,
    /// The reason.
    pub error: StoreError,
}

/// Starts the thread, which keeps `size` up to date. It ends when all senders are gone and
/// the queue is empty.
pub(super) fn start(
    connection: WriterConnection,
    data_dir: DataDir,
    lock: Option<Arc<DataDirLock>>,
    size: DatabaseSize,
    mut queue: mpsc::Receiver<StoreWrite>,
) -> Result<JoinHandle<()>, StoreError> {
    size.update(&data_dir);
    let (connection, next_try) = match connection {
        WriterConnection::Writing(connection) => (connection, None),
        WriterConnection::Reading(connection) => (connection, Some(Instant::now() + TRY_PAUSE)),
    };
    let mut writer = WriterState {
        connection,
        next_try,
        lock,
        data_dir,
        patience: LockPatience::default(),
        log: LogSchedule::default(),
        stored_bytes: None,
    };
    // For the wait with a time limit.
    let runtime = runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let thread = thread::Builder::new().name("store".to_owned());
    Ok(thread.spawn(move || {
        let mut next = runtime.block_on(next_write(&mut writer, &mut queue));
        while let Some(write) = next.take() {
            writer.try_to_write();
            match write {
                StoreWrite::Alone(work) => work(&mut writer),
                StoreWrite::Shared(first) => {
                    let changes;
                    (changes, next) = waiting_changes(first, &mut queue);
                    group_commit::commit(&mut writer, changes);
                }
            }
            size.update(&writer.data_dir);
            writer.log.written(Instant::now());
            next = next.or_else(|| runtime.block_on(next_write(&mut writer, &mut queue)));
        }
    })?)
}

/// Waits for a write, and empties the log whenever that is due.
async fn next_write(
    writer: &mut WriterState,
    queue: &mut mpsc::Receiver<StoreWrite>,
) -> Option<StoreWrite> {
    while let Some(pause) = writer.log.pause(Instant::now()) {
        if pause.is_zero() {
            // It is tried again if it fails.
            if writer.empty_log().is_ok_and(|is_empty| is_empty) {
                writer.data_dir.keep_reserve();
            }
        } else if let Ok(write) = tokio::time::timeout(pause, queue.recv()).await {
            return write;
        }
    }
    queue.recv().await
}

/// This change and those that follow it in the queue, and the write behind them if it is
/// there already.
fn waiting_changes(
    first: Box<dyn SharedChange>,
    queue: &mut mpsc::Receiver<StoreWrite>,
) -> (Vec<Box<dyn SharedChange>>, Option<StoreWrite>) {
    let mut changes = vec![first];
    while changes.len() < MAX_CHANGES {
        match queue.try_recv() {
            Ok(StoreWrite::Shared(change)) => changes.push(change),
            Ok(write) => return (changes, Some(write)),
            Err(_) => break,
        }
    }
    (changes, None)
}

/// A write that runs by itself, and where its result arrives.
pub(super) fn alone<T: Send + 'static>(
    work: impl FnOnce(&mut WriterState) -> T + Send + 'static,
) -> (StoreWrite, oneshot::Receiver<T>) {
    let (reply, answer) = oneshot::channel();
    let write = Box::new(move |writer: &mut WriterState| {
        // The caller may no longer wait for the result.
        reply.send(work(writer)).ok();
    });
    (StoreWrite::Alone(write), answer)
}

impl WriterState {
    /// Writes something, and leaves the damage marker if the database turns out to be damaged.
    pub(super) fn write<T>(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.patience.begin(&self.connection)?;
        let result = write(self);
        self.patience.end(&result);
        mark_if_corrupt(&self.data_dir, result)
    }

    /// Deletes something. On a full disk the reserve is given up for it.
    pub(super) fn delete<T>(
        &mut self,
        delete: impl Fn(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match self.write(&delete) {
            Err(error) if error.is_unwritable() && self.data_dir.give_up_reserve() => {
                // Then its room can be used again.
                self.empty_log().ok();
                self.write(&delete)
            }
            result => result,
        }
    }

    /// Opens files that could not be written, if they can be written now.
    fn try_to_write(&mut self) {
        let now = Instant::now();
        if self.next_try.is_none_or(|next| now < next) {
            return;
        }
        self.next_try = Some(now + TRY_PAUSE);
        if self.lock.is_none() {
            let Ok(Ok(lock)) = self.data_dir.lock() else {
                return;
            };
            self.lock = Some(Arc::new(lock));
        }
        let opened = self.data_dir.create_files().map_err(StoreError::from);
        if let Ok(connection) = opened.and_then(|()| schema::writer(&self.data_dir)) {
            tracing::info!("what is stored can be written again");
            self.connection = connection;
            self.next_try = None;
        }
    }

    /// Makes changes in one transaction.
    pub(super) fn in_transaction<T>(
        &mut self,
        change: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let result = change(&transaction)?;
        transaction.commit()?;
        Ok(result)
    }

    /// Empties the write-ahead log, or does that later if there are readers. Returns whether it is
    /// empty.
    pub(super) fn empty_log(&mut self) -> Result<bool, StoreError> {
        let result = self.log.empty(&self.connection, Instant::now());
        mark_if_corrupt(&self.data_dir, result)
    }

    /// Gives free pages back, and removes what was deleted from the write-ahead log.
    pub(super) fn after_deletion(&mut self) {
        // It is deleted already if this fails.
        sweep::release_free_pages(&self.connection).ok();
        self.empty_log().ok();
    }

    /// Removes what a sweep has deleted from the write-ahead log when it is through.
    pub(super) fn after_step(&mut self, more: bool) {
        if !more {
            self.empty_log().ok();
        }
    }

    pub(super) fn write_batch(
        &mut self,
        batch: ArtifactBatch,
    ) -> Result<WrittenBatch, UnwrittenBatch> {
        let written = self.write(|writer| {
            let (numbers, added) = batch::write(&mut writer.connection, &batch)?;
            let total = match writer.stored_bytes {
                Some(before) => before + added,
                None => sweep::stored_bytes(&writer.connection)?,
            };
            Ok(WrittenBatch {
                reference_numbers: numbers,
                stored_bytes: *writer.stored_bytes.insert(total),
            })
        });
        written.map_err(|error| UnwrittenBatch {
            artifacts: batch.artifacts,
            error,
        })
    }
}

/// Passes the result on, and leaves the damage marker if the database turned out to be damaged.
pub(super) fn mark_if_corrupt<T>(
    data_dir: &DataDir,
    result: Result<T, StoreError>,
) -> Result<T, StoreError> {
    if let Err(error) = &result
        && error.is_corrupt()
    {
        File::create(data_dir.damage_marker()).ok();
    }
    result
}
