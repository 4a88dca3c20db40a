//! The database of artifacts, and the only SQL.
//!
//! | module | noun |
//! |---|---|
//! | [`place`] | the files, and who may write them |
//! | `schema` | opening, and the steps from older versions |
//! | `writer` | the one thread that writes |
//! | `put` | writing texts and whose they are |
//! | `chunks` | texts in compressed pieces |
//! | `find` | what there is, and parts of it |
//! | `sweep` | deleting, and giving the disk back |

mod chunks;
mod error;
mod find;
mod model;
pub mod data_dir;
mod batch;
mod schema;
mod sweep;
pub(crate) mod text_range;
mod writer;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, mpsc, oneshot};

pub use error::StoreError;
pub use data_dir::{DataDirLock, DataDirInUse, DataDir};
pub use batch::ArtifactBatch;
pub use sweep::{SweepLimits, SweepStep};
pub use writer::{UnwrittenBatch, WrittenBatch};

pub use model::{ArtifactEntry, ArtifactFilter, NewArtifact, ArtifactRange, ArtifactText, SweepResult};
use writer::WriteCommand;

/// Commands that wait for the thread at most.
const QUEUED_COMMANDS: usize = 64;

/// Connections that read at a time.
const READERS: usize = 3;

/// An open database. Dropping it waits until all that was asked for is written.
pub struct Store {
    place: DataDir,
    commands: Option<mpsc::Sender<WriteCommand>>,
    thread: Option<JoinHandle<()>>,
    readers: Arc<Readers>,
}

struct Readers {
    place: DataDir,
    permits: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

/// A set on its way to the disk.
pub struct PendingWrite(PendingState);

enum PendingState {
    Asked(oneshot::Receiver<Result<WrittenBatch, UnwrittenBatch>>),
    /// The queue was full.
    Full(ArtifactBatch, mpsc::WeakSender<WriteCommand>),
    Closed(ArtifactBatch),
}

impl Store {
    /// Opens the database, and makes it if there is none. One that is damaged is
    /// moved aside, to the path that is told. Blocks.
    pub fn open(place: &DataDir, now: u64) -> Result<(Self, Option<PathBuf>), StoreError> {
        place.create_files()?;
        let doubt = place.damage_marker();
        let doubted = doubt.exists();
        let opened = schema::writer(place).and_then(|connection| {
            if doubted && !schema::is_sound(&connection)? {
                return Err(StoreError::Damaged("it does not fit together"));
            }
            Ok(connection)
        });
        let (connection, aside) = match opened {
            Err(error) if error.is_corrupt() => {
                let aside = place.move_aside(now)?;
                place.create_files()?;
                (schema::writer(place)?, Some(aside))
            }
            opened => (opened?, None),
        };
        if doubted {
            std::fs::remove_file(doubt)?;
        }
        Ok((Self::start(place, connection)?, aside))
    }

    /// Opens a database that is there, and leaves it as it is if that fails.
    /// Blocks.
    pub fn open_sound(place: &DataDir) -> Result<Self, StoreError> {
        Self::start(place, schema::writer(place)?)
    }

    fn start(place: &DataDir, connection: Connection) -> Result<Self, StoreError> {
        let reader = schema::reader(place)?;
        let (commands, asked) = mpsc::channel(QUEUED_COMMANDS);
        Ok(Self {
            thread: Some(writer::start(connection, place.clone(), asked)?),
            commands: Some(commands),
            readers: Arc::new(Readers {
                place: place.clone(),
                permits: Semaphore::new(READERS),
                idle: Mutex::new(vec![reader]),
            }),
            place: place.clone(),
        })
    }

    /// Begins to write a set. Never blocks.
    pub fn write(&self, set: ArtifactBatch) -> PendingWrite {
        let Some(commands) = &self.commands else {
            return PendingWrite(PendingState::Closed(set));
        };
        let (reply, answer) = oneshot::channel();
        PendingWrite(match commands.try_send(WriteCommand::Put(set, reply)) {
            Ok(()) => PendingState::Asked(answer),
            Err(TrySendError::Full(command)) => match command.into_set() {
                Some(set) => PendingState::Full(set, commands.downgrade()),
                None => PendingState::Asked(answer),
            },
            Err(TrySendError::Closed(command)) => match command.into_set() {
                Some(set) => PendingState::Closed(set),
                None => PendingState::Asked(answer),
            },
        })
    }

    /// These references were shown again. Gives back what cannot be taken down now.
    /// Never blocks.
    pub fn mark_shown(&self, numbers: Vec<i64>, now: u64) -> Result<(), Vec<i64>> {
        let Some(commands) = &self.commands else {
            return Err(numbers);
        };
        let sent = commands.try_send(WriteCommand::Shown(numbers, now));
        sent.map_err(|unsent| match unsent.into_inner() {
            WriteCommand::Shown(numbers, _) => numbers,
            WriteCommand::Put(..) | WriteCommand::Accessed(..) | WriteCommand::Delete(..) | WriteCommand::Sweep(..) => {
                Vec::new()
            }
        })
    }

    /// An artifact was read. Waits for a place in the queue, not for the disk.
    pub async fn mark_accessed(&self, owner: &str, id: &str, now: u64) {
        if let Some(commands) = &self.commands {
            let command = WriteCommand::Accessed(owner.to_owned(), id.to_owned(), now);
            commands.send(command).await.ok();
        }
    }

    /// The owner's artifacts.
    pub async fn list(&self, owner: &str, filter: &ArtifactFilter) -> Result<Vec<ArtifactEntry>, StoreError> {
        let (owner, filter) = (owner.to_owned(), filter.clone());
        self.reading(move |connection| find::list(connection, &owner, &filter))
            .await
    }

    /// A part of an artifact.
    pub async fn read(&self, owner: &str, id: &str, part: &ArtifactRange) -> Result<Option<ArtifactText>, StoreError> {
        let (owner, id, part) = (owner.to_owned(), id.to_owned(), part.clone());
        self.reading(move |connection| find::read(connection, &owner, &id, &part))
            .await
    }

    /// Deletes an artifact; false when there is none.
    pub async fn delete(&self, owner: &str, id: &str) -> Result<bool, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.ask(WriteCommand::Delete(owner.to_owned(), id.to_owned(), reply))
            .await?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Takes a step of a sweep.
    pub async fn sweep(&self, limits: SweepLimits) -> Result<SweepStep, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.ask(WriteCommand::Sweep(limits, reply)).await?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    async fn ask(&self, command: WriteCommand) -> Result<(), StoreError> {
        let commands = self.commands.as_ref().ok_or(StoreError::Closed)?;
        commands.send(command).await.map_err(|_| StoreError::Closed)
    }

    async fn reading<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let readers = Arc::clone(&self.readers);
        let _turn = self
            .readers
            .permits
            .acquire()
            .await
            .map_err(|_| StoreError::Closed)?;
        let read = move || {
            let mut connection = readers.take()?;
            let result = read(&mut connection);
            if result.is_ok() {
                readers.give(connection);
            }
            result
        };
        let result = tokio::task::spawn_blocking(read).await;
        writer::mark_if_corrupt(&self.place, result.unwrap_or(Err(StoreError::Closed)))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl Readers {
    fn take(&self) -> Result<Connection, StoreError> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        idle.map_or_else(|| schema::reader(&self.place), Ok)
    }

    fn give(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(connection);
    }
}

impl PendingWrite {
    /// Ends when all of the set is on the disk.
    pub async fn done(self) -> Result<WrittenBatch, UnwrittenBatch> {
        let closed = |new| UnwrittenBatch {
            new,
            error: StoreError::Closed,
        };
        let answer = match self.0 {
            PendingState::Asked(answer) => answer,
            PendingState::Closed(set) => return Err(closed(set.new)),
            PendingState::Full(set, commands) => {
                let Some(commands) = commands.upgrade() else {
                    return Err(closed(set.new));
                };
                let (reply, answer) = oneshot::channel();
                if let Err(unsent) = commands.send(WriteCommand::Put(set, reply)).await {
                    let set = unsent.0.into_set();
                    return Err(closed(set.map_or_else(Vec::new, |set| set.new)));
                }
                answer
            }
        };
        answer.await.unwrap_or_else(|_| Err(closed(Vec::new())))
    }
}

impl WriteCommand {
    fn into_set(self) -> Option<ArtifactBatch> {
        match self {
            Self::Put(set, _) => Some(set),
            Self::Shown(..) | Self::Accessed(..) | Self::Delete(..) | Self::Sweep(..) => None,
        }
    }
}

/// What a test does to a database behind the back of the store.
#[cfg(test)]
pub(crate) fn execute(place: &DataDir, sql: &str) {
    schema::writer(place)
        .and_then(|connection| Ok(connection.execute_batch(sql)?))
        .unwrap();
}

/// Rows of a table.
#[cfg(test)]
pub(crate) fn count(place: &DataDir, table: &str) -> i64 {
    let count = format!("SELECT count(*) FROM {table}");
    let connection = schema::reader(place).unwrap();
    connection.query_row(&count, [], |row| row.get(0)).unwrap()
}
