//! The one thread that writes.

use std::fs::File;
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::batch::{self, ArtifactBatch};
use super::data_dir::DataDir;
use super::error::StoreError;
use super::group_commit::{self, MAX_CHANGES, SharedChange};
use super::lock_patience::LockPatience;
use super::model::NewArtifact;
use super::page_caches::DatabaseSize;
use super::sweep;

/// What the writer thread owns.
pub(super) struct WriterState {
    pub(super) connection: Connection,
    data_dir: DataDir,
    patience: LockPatience,
    /// The sum over all texts and references. Deleting makes it unknown; the next write computes it.
    pub(super) stored_bytes: Option<u64>,
}

/// A job for the writer thread.
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

/// Starts the thread, which keeps `size` up to date. It ends when all senders of jobs are gone and the queue is empty.
pub(super) fn start(
    connection: Connection,
    data_dir: DataDir,
    size: DatabaseSize,
    mut jobs: mpsc::Receiver<StoreWrite>,
) -> Result<JoinHandle<()>, StoreError> {
    size.update(&data_dir);
    let mut writer = WriterState {
        connection,
        data_dir,
        patience: LockPatience::default(),
        stored_bytes: None,
    };
    let thread = thread::Builder::new().name("artifacts".to_owned());
    Ok(thread.spawn(move || {
        let mut next = jobs.blocking_recv();
        while let Some(job) = next.take() {
            match job {
                StoreWrite::Alone(work) => work(&mut writer),
                StoreWrite::Shared(first) => {
                    let changes;
                    (changes, next) = waiting_changes(first, &mut jobs);
                    group_commit::commit(&mut writer, changes);
                }
            }
            size.update(&writer.data_dir);
            next = next.or_else(|| jobs.blocking_recv());
        }
    })?)
}

/// This change and those that follow it in the queue, and the job behind them if it is there
/// already.
fn waiting_changes(
    first: Box<dyn SharedChange>,
    jobs: &mut mpsc::Receiver<StoreWrite>,
) -> (Vec<Box<dyn SharedChange>>, Option<StoreWrite>) {
    let mut changes = vec![first];
    while changes.len() < MAX_CHANGES {
        match jobs.try_recv() {
            Ok(StoreWrite::Shared(change)) => changes.push(change),
            Ok(job) => return (changes, Some(job)),
            Err(_) => break,
        }
    }
    (changes, None)
}

/// A job, and where its result arrives.
pub(super) fn job<T: Send + 'static>(
    work: impl FnOnce(&mut WriterState) -> T + Send + 'static,
) -> (StoreWrite, oneshot::Receiver<T>) {
    let (reply, answer) = oneshot::channel();
    let job = Box::new(move |writer: &mut WriterState| {
        // The caller may no longer wait for the result.
        reply.send(work(writer)).ok();
    });
    (StoreWrite::Alone(job), answer)
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
