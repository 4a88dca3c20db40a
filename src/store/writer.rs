//! The one thread that writes.

use std::fs::File;
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::error::StoreError;
use super::data_dir::DataDir;
use super::batch::{self, ArtifactBatch};
use super::sweep::{self, SweepLimits, SweepStep};
use super::model::NewArtifact;

/// What the thread is asked for.
pub(super) enum WriteCommand {
    Put(ArtifactBatch, oneshot::Sender<Result<WrittenBatch, UnwrittenBatch>>),
    Shown(Vec<i64>, u64),
    Accessed(String, String, u64),
    Delete(String, String, oneshot::Sender<Result<bool, StoreError>>),
    Sweep(SweepLimits, oneshot::Sender<Result<SweepStep, StoreError>>),
}

/// Artifacts that are on the disk.
pub struct WrittenBatch {
    /// The number of each reference.
    pub reference_numbers: Vec<i64>,
    /// Bytes of all texts that are kept, as stored.
    pub stored_bytes: u64,
}

/// Artifacts that could not be written.
pub struct UnwrittenBatch {
    /// They.
    pub new: Vec<NewArtifact>,
    /// Why.
    pub error: StoreError,
}

/// Starts the thread. It ends when nobody can ask it any more.
pub(super) fn start(
    connection: Connection,
    place: DataDir,
    commands: mpsc::Receiver<WriteCommand>,
) -> Result<JoinHandle<()>, StoreError> {
    let thread = thread::Builder::new().name("artifacts".to_owned());
    Ok(thread.spawn(move || run(connection, &place, commands))?)
}

fn run(mut connection: Connection, place: &DataDir, mut commands: mpsc::Receiver<WriteCommand>) {
    let connection = &mut connection;
    // Of all texts, as long as it is known.
    let mut total: Option<u64> = None;
    // Nobody may wait for an answer any more.
    while let Some(command) = commands.blocking_recv() {
        match command {
            WriteCommand::Put(set, reply) => {
                let done = batch::write_batch(connection, &set).and_then(|(numbers, stored)| {
                    let before = match total {
                        Some(before) => before + stored,
                        None => sweep::stored_bytes(connection)?,
                    };
                    Ok(WrittenBatch {
                        reference_numbers: numbers,
                        stored_bytes: *total.insert(before),
                    })
                });
                let done = mark_if_corrupt(place, done).map_err(|error| UnwrittenBatch {
                    new: set.new,
                    error,
                });
                reply.send(done).ok();
            }
            WriteCommand::Shown(numbers, now) => {
                mark_if_corrupt(place, batch::mark_shown(connection, &numbers, now)).ok();
            }
            WriteCommand::Accessed(owner, id, now) => {
                mark_if_corrupt(place, batch::mark_accessed(connection, &owner, &id, now)).ok();
            }
            WriteCommand::Delete(owner, id, reply) => {
                total = None;
                let done = sweep::delete(connection, &owner, &id);
                reply.send(mark_if_corrupt(place, done)).ok();
            }
            WriteCommand::Sweep(limits, reply) => {
                total = None;
                let done = sweep::step(connection, limits);
                reply.send(mark_if_corrupt(place, done)).ok();
            }
        }
    }
}

/// Leaves a sign where the database proves to be damaged.
pub(super) fn mark_if_corrupt<T>(place: &DataDir, result: Result<T, StoreError>) -> Result<T, StoreError> {
    if let Err(error) = &result
        && error.is_corrupt()
    {
        File::create(place.damage_marker()).ok();
    }
    result
}
