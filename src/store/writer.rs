//! The one thread that writes.

use std::fs::File;
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::batch::{self, ArtifactBatch};
use super::data_dir::DataDir;
use super::error::StoreError;
use super::model::NewArtifact;
use super::sweep::{self, SweepLimits, SweepStep};

/// A command for the writer thread. `u64` fields are times in seconds since 1970.
pub(super) enum WriteCommand {
    Write(
        ArtifactBatch,
        oneshot::Sender<Result<WrittenBatch, UnwrittenBatch>>,
    ),
    /// Reference numbers.
    MarkShown(Vec<i64>, u64),
    /// Owner and artifact id.
    MarkAccessed(String, String, u64),
    /// Owner and artifact id.
    Delete(String, String, oneshot::Sender<Result<bool, StoreError>>),
    Sweep(SweepLimits, oneshot::Sender<Result<SweepStep, StoreError>>),
}

impl WriteCommand {
    pub(super) fn into_batch(self) -> Option<ArtifactBatch> {
        match self {
            Self::Write(batch, _) => Some(batch),
            Self::MarkShown(..) | Self::MarkAccessed(..) | Self::Delete(..) | Self::Sweep(..) => {
                None
            }
        }
    }
}

/// A batch that is on the disk.
pub struct WrittenBatch {
    /// The number of the reference of each artifact, in the order of the batch.
    pub reference_numbers: Vec<i64>,
    /// The compressed size of all texts in the store, in bytes.
    pub stored_bytes: u64,
}

/// A batch that could not be written.
pub struct UnwrittenBatch {
    /// The artifacts of the batch.
    pub artifacts: Vec<NewArtifact>,
    /// The reason.
    pub error: StoreError,
}

/// Starts the thread. It ends when all senders of commands are gone and the queue is empty.
pub(super) fn start(
    connection: Connection,
    data_dir: DataDir,
    commands: mpsc::Receiver<WriteCommand>,
) -> Result<JoinHandle<()>, StoreError> {
    let thread = thread::Builder::new().name("artifacts".to_owned());
    Ok(thread.spawn(move || run(connection, &data_dir, commands))?)
}

fn run(mut connection: Connection, data_dir: &DataDir, mut commands: mpsc::Receiver<WriteCommand>) {
    let connection = &mut connection;
    // The sum over all texts. Deleting makes it unknown; the next write computes it.
    let mut stored_bytes: Option<u64> = None;
    // Replies may fail to send: whoever asked may have gone.
    while let Some(command) = commands.blocking_recv() {
        match command {
            WriteCommand::Write(batch, reply) => {
                let written = batch::write(connection, &batch).and_then(|(numbers, added)| {
                    let total = match stored_bytes {
                        Some(before) => before + added,
                        None => sweep::stored_bytes(connection)?,
                    };
                    Ok(WrittenBatch {
                        reference_numbers: numbers,
                        stored_bytes: *stored_bytes.insert(total),
                    })
                });
                let written = mark_if_corrupt(data_dir, written).map_err(|error| UnwrittenBatch {
                    artifacts: batch.artifacts,
                    error,
                });
                reply.send(written).ok();
            }
            WriteCommand::MarkShown(references, now) => {
                let marked = batch::mark_shown(connection, &references, now);
                mark_if_corrupt(data_dir, marked).ok();
            }
            WriteCommand::MarkAccessed(owner, id, now) => {
                let marked = batch::mark_accessed(connection, &owner, &id, now);
                mark_if_corrupt(data_dir, marked).ok();
            }
            WriteCommand::Delete(owner, id, reply) => {
                stored_bytes = None;
                let deleted = sweep::delete(connection, &owner, &id);
                reply.send(mark_if_corrupt(data_dir, deleted)).ok();
            }
            WriteCommand::Sweep(limits, reply) => {
                stored_bytes = None;
                let step = sweep::step(connection, limits);
                reply.send(mark_if_corrupt(data_dir, step)).ok();
            }
        }
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
