//! The database of the server, and the only SQL.
//!
//! The program opens the store once and hands it to its users; the artifacts are one of them.
//!
//! | module | what it does |
//! |---|---|
//! | `data_dir` | the files, and the lock that lets one process write |
//! | `schema` | opens a database and migrates old ones |
//! | `writer` | the one thread that writes |
//! | `group_commit` | makes changes that wait at the same time in one transaction |
//! | `model` | artifacts as they are written, listed and read |
//! | `batch` | writes artifacts |
//! | `pending` | waits until a batch is written |
//! | `page_caches` | the memory of what connections cache |
//! | `readers` | the connections that read |
//! | `reading` | one read, and the memory of what it reads |
//! | `page` | pages of lists |
//! | `chunks` | stores a text in compressed chunks |
//! | `text_range` | finds a range of bytes or lines in a text |
//! | `find` | lists artifacts and reads ranges of them |
//! | `lock_patience` | how long an operation waits for a locked database |
//! | `sweep` | deletes artifacts and gives their disk space back |
//! | `emptied_log` | empties the write-ahead log, so that what was deleted does not stay in it |
//! | `expiry` | deletes responses that were not used for long |
//! | `responses` | stored responses |
//! | `response_list` | lists of responses |
//! | `conversations` | conversations, and lists of items |
//! | `threads` | the sequences of items of responses and conversations |
//! | `owner_sizes` | how much each owner has stored |
//! | `time_in_use` | keeps a clock that jumps forward from deleting everything |
//! | `inspection` | statistics, checks, copies and the deletion of a whole database |
//! | `transfer` | exports responses and conversations to a file, and imports them |
//! | `jobs` | the jobs of background responses, and their events |
//! | `deliveries` | the webhooks that are to be told of a background response |
//! | `contents` | JSON that several rows share |
//! | `prompts` | the prompts of the last responses, as hashes |
//! | `usage`, `usage_hours` | what turns have used, summed by day or hour, and by model |
//! | `sources` | what was found and read for responses, and the calls of tools that did it |
//! | `spent` | what each owner has used today |
//! | `session_table` | tables of what sessions need again after a restart |
//! | `hidden_rounds` | what clients did not see of answers |
//! | `mcp_approvals` | the calls that people were asked to approve |
//! | `image_texts` | descriptions of images |
//! | `token_ratios` | the bytes per token of sessions with a model |
//! | `web_references` | the addresses that sessions were shown of the web, and where pages are kept |
//! | `workflow_runs` | the runs of workflows that wait for a person |
//! | `whole_sessions` | the sessions whose outputs are sent whole |
//! | `learned` | what was learned from refusals |

mod batch;
mod chunks;
mod contents;
mod conversations;
mod data_dir;
mod deliveries;
mod emptied_log;
mod error;
mod expiry;
mod find;
mod group_commit;
mod hidden_rounds;
mod image_texts;
mod inspection;
mod jobs;
mod learned;
mod lock_patience;
mod mcp_approvals;
mod model;
mod owner_sizes;
mod page;
mod page_caches;
mod pending;
mod prompts;
mod readers;
mod reading;
mod response_list;
mod responses;
mod schema;
mod session_table;
mod sources;
mod spent;
mod sweep;
pub(crate) mod text_range;
mod threads;
mod time_in_use;
mod token_ratios;
mod transfer;
mod usage;
mod web_references;
mod whole_sessions;
mod workflow_runs;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

pub use batch::ArtifactBatch;
pub use conversations::{ItemListOf, ListPage, ListedItems, StoredConversation};
pub use data_dir::{DataDir, DataDirInUse};
pub use deliveries::{NewDelivery, WaitingDelivery};
pub use error::{OpenError, StoreError, UnusableStore};
pub use expiry::{ExpiryStep, ResponseLimits};
pub use hidden_rounds::MAX_HIDDEN_ROUNDS;
pub use inspection::{OwnerContents, StoreContents, StoreReading};
pub use jobs::{EndedJob, EventBatch, JobEntry, JobState, NewJob, UnfinishedJob};
pub use learned::LearnedRow;
pub use model::{
    ArtifactEntry, ArtifactFilter, ArtifactRange, ArtifactText, NewArtifact, SweepResult,
};
pub use pending::PendingWrite;
pub use prompts::{AnsweredPrompt, FoundPrompt, MAX_PROMPTS_OF_SESSION};
pub use response_list::ListedResponses;
pub use responses::{NewResponse, ResponseText, StoredHistory, StoredOrigin, StoredResponse};
pub use session_table::SessionRow;
pub use sources::{
    ListedSources, MAX_BODY_CHARS, MAX_SOURCES, NewSource, NewToolRun, SourceStatus, StoredSource,
    ToolChanges, ToolRecord, ToolRunStatus,
};
pub use spent::SpentRow;
pub use sweep::{SweepLimits, SweepStep};
pub use threads::{NewItem, StoredItems};
pub use token_ratios::{MAX_TOKEN_RATIOS, StoredRatio};
pub use transfer::{ImportCounts, TransferError};
pub use usage::{KEPT_HOURS, OTHER_MODELS, UsageKey, UsagePeriod, UsageSum};
pub use whole_sessions::{MAX_WHOLE_SESSIONS, WholeSession};
pub use workflow_runs::{PausedRun, WaitingRun};
pub use writer::{UnwrittenBatch, WrittenBatch};

use data_dir::DataDirLock;
use page_caches::DatabaseSize;
use readers::Readers;
use reading::{Small, StoreRead};
use time_in_use::ClockLag;
use writer::{StoreWrite, WriterConnection, WriterState};

use crate::net::memory::{CountedValue, ProcessMemory};

/// The most writes that wait for the writer thread.
const QUEUED_WRITES: usize = 64;

/// An open database. The data directory stays locked until the store is dropped, and dropping it
/// waits until everything that was queued is written.
pub struct Store {
    data_dir: DataDir,
    queue: Option<mpsc::Sender<StoreWrite>>,
    thread: Option<JoinHandle<()>>,
    readers: Arc<Readers>,
    size: DatabaseSize,
    moved_aside: Option<PathBuf>,
    lag: ClockLag,
    // The last field, so that it is released after the connections are closed.
    _lock: Option<Arc<DataDirLock>>,
}

impl Store {
    /// Locks the data directory and opens its database, which is created if there is none. A
    /// damaged database is moved aside and an empty one created in its place; see
    /// [`Store::moved_aside`]. `now` is in seconds since 1970. Blocks.
    ///
    /// If the files cannot be written, what is stored is read, and changes fail until they can be.
    pub fn open(data_dir: &DataDir, now: u64) -> Result<Self, OpenError> {
        Self::open_within(data_dir, now, &ProcessMemory::unlimited())
    }

    /// As [`Self::open`], for a process with a memory budget, in which what is read counts.
    pub fn open_within(
        data_dir: &DataDir,
        now: u64,
        memory: &ProcessMemory,
    ) -> Result<Self, OpenError> {
        let lock = data_dir.lock()?.map(Arc::new);
        let held = lock.as_ref().ok().cloned();
        let open = |lock: Arc<DataDirLock>| {
            let is_new = data_dir.database_bytes() == 0;
            data_dir.create_files()?;
            let marker = data_dir.damage_marker();
            let marked = marker.exists();
            let opened = schema::writer(data_dir).and_then(|connection| {
                if marked && !schema::is_sound(&connection)? {
                    return Err(StoreError::Damaged("its parts contradict each other"));
                }
                Ok(connection)
            });
            let (connection, moved_aside) = match opened {
                Err(error) if error.is_corrupt() => {
                    let moved_to = data_dir.move_aside(now)?;
                    data_dir.create_files()?;
                    (schema::writer(data_dir)?, Some(moved_to))
                }
                opened => (opened?, None),
            };
            if marked {
                std::fs::remove_file(marker)?;
            }
            // A new database gets it a minute after the first write.
            if !is_new {
                data_dir.keep_reserve();
            }
            let connection = WriterConnection::Writing(connection);
            Self::start(data_dir, Some(lock), connection, moved_aside, memory)
        };
        let mut opened = lock.map_err(StoreError::from).and_then(open);
        if let (Err(error), Some(held)) = (&opened, &held)
            && error.is_unwritable()
            && data_dir.give_up_reserve()
        {
            opened = open(Arc::clone(held));
        }
        let opened = opened.or_else(|error| Self::open_unwritable(data_dir, held, error, memory));
        Ok(opened.map_err(|error| unusable(data_dir, error))?)
    }

    /// Opens a database whose files cannot be written, because of this error.
    fn open_unwritable(
        data_dir: &DataDir,
        lock: Option<Arc<DataDirLock>>,
        error: StoreError,
        memory: &ProcessMemory,
    ) -> Result<Self, StoreError> {
        if !error.is_unwritable() {
            return Err(error);
        }
        let readable = schema::reader(data_dir).and_then(|connection| {
            schema::check_version(&connection)?;
            Ok(WriterConnection::Reading(connection))
        });
        let Ok(connection) = readable else {
            return Err(error);
        };
        tracing::warn!(
            "what is stored in {} can only be read, because it cannot be written: {error}",
            data_dir.database_path().display()
        );
        Self::start(data_dir, lock, connection, None, memory)
    }

    /// Opens the database that a server left behind, for a program that is no server. Returns
    /// `None` if there is none; creates nothing and moves nothing aside. Blocks.
    pub fn open_existing(data_dir: &DataDir) -> Result<Option<Self>, OpenError> {
        if !data_dir.database_path().exists() {
            return Ok(None);
        }
        let lock = data_dir.lock()?;
        let opened = lock.map_err(StoreError::from).and_then(|lock| {
            let connection = match schema::writer(data_dir) {
                Err(error) if error.is_unwritable() && data_dir.give_up_reserve() => {
                    schema::writer(data_dir)?
                }
                opened => opened?,
            };
            let memory = ProcessMemory::unlimited();
            let connection = WriterConnection::Writing(connection);
            Self::start(data_dir, Some(Arc::new(lock)), connection, None, &memory)
        });
        Ok(Some(opened.map_err(|error| unusable(data_dir, error))?))
    }

    /// Where the damaged database is, if one was moved aside when this store was opened.
    pub fn moved_aside(&self) -> Option<&Path> {
        self.moved_aside.as_deref()
    }

    /// Tells the most memory that the page caches of the connections hold, in bytes. Does not keep
    /// the store open.
    pub fn cache_bytes(&self) -> impl Fn() -> usize + Send + Sync + use<> {
        let (size, readers) = (self.size.clone(), Arc::downgrade(&self.readers));
        move || {
            let readers = readers.upgrade();
            readers.map_or(0, |readers| size.cached(readers.connections()))
        }
    }

    fn start(
        data_dir: &DataDir,
        lock: Option<Arc<DataDirLock>>,
        connection: WriterConnection,
        moved_aside: Option<PathBuf>,
        memory: &ProcessMemory,
    ) -> Result<Self, StoreError> {
        let readers = Readers::open(data_dir, memory.clone())?;
        let (queue, queued) = mpsc::channel(QUEUED_WRITES);
        let size = DatabaseSize::default();
        let thread = writer::start(
            connection,
            data_dir.clone(),
            lock.clone(),
            size.clone(),
            queued,
        )?;
        Ok(Self {
            thread: Some(thread),
            queue: Some(queue),
            readers: Arc::new(readers),
            size,
            data_dir: data_dir.clone(),
            moved_aside,
            lag: ClockLag::default(),
            _lock: lock,
        })
    }

    /// Queues a batch for the writer thread. Never blocks.
    pub fn write(&self, batch: ArtifactBatch) -> PendingWrite {
        PendingWrite::queue(self.queue.as_ref(), batch)
    }

    /// Records that these references were shown to the model again. Returns them if the queue is
    /// full. Never blocks.
    pub fn mark_shown(&self, references: Vec<i64>, now: u64) -> Result<(), Vec<i64>> {
        let Some(Ok(room)) = self.queue.as_ref().map(mpsc::Sender::try_reserve) else {
            return Err(references);
        };
        let (write, _) = writer::alone(move |writer| {
            writer.write(|writer| batch::mark_shown(&mut writer.connection, &references, now))
        });
        room.send(write);
        Ok(())
    }

    /// Records that an artifact was read. Waits for room in the queue, not for the disk.
    pub async fn mark_accessed(&self, owner: &str, id: &str, now: u64) {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        let (write, _) = writer::alone(move |writer| {
            writer.write(|writer| batch::mark_accessed(&writer.connection, &owner, &id, now))
        });
        if let Some(queue) = &self.queue {
            queue.send(write).await.ok();
        }
    }

    /// Lists the artifacts of an owner, the newest first.
    pub async fn list(
        &self,
        owner: &str,
        filter: &ArtifactFilter,
    ) -> Result<Vec<ArtifactEntry>, StoreError> {
        let filter = filter.clone();
        self.read_small(owner, move |reading, owner| {
            find::list(reading, owner, &filter)
        })
        .await
    }

    /// Reads a range of an artifact; `None` if the owner has no artifact with this id.
    pub async fn read(
        &self,
        owner: &str,
        id: &str,
        range: &ArtifactRange,
    ) -> Result<Option<ArtifactText>, StoreError> {
        let (id, range) = (id.to_owned(), range.clone());
        self.read_small(owner, move |reading, owner| {
            find::read(reading, owner, &id, &range)
        })
        .await
    }

    /// Deletes an artifact; false if the owner has no artifact with this id.
    pub async fn delete(&self, owner: &str, id: &str) -> Result<bool, StoreError> {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        self.run_writer(move |writer| {
            let deleted = sweep::delete(&mut writer.connection, &owner, &id)?;
            writer.after_deletion();
            Ok(deleted)
        })
        .await
    }

    /// Does one step of a sweep. Steps are short, so that other writes need not wait for long.
    pub async fn sweep(&self, limits: SweepLimits) -> Result<SweepStep, StoreError> {
        self.run_writer(move |writer| {
            let step = sweep::step(&mut writer.connection, limits)?;
            writer.after_step(step.more);
            Ok(step)
        })
        .await
    }

    /// Deletes everything that is stored, and shrinks the files. False if the write-ahead log could
    /// not be emptied, because another program reads.
    pub async fn purge(&self) -> Result<bool, StoreError> {
        let data_dir = self.data_dir.clone();
        self.run_writer(move |writer| {
            inspection::purge(&mut writer.connection)?;
            data_dir.remove_moved_aside()?;
            writer.empty_log()
        })
        .await
    }

    /// Imports what was exported from another store. Ids that exist are skipped.
    pub async fn import(&self, owner: &str, file: PathBuf) -> Result<ImportCounts, TransferError> {
        let owner = owner.to_owned();
        let (write, answer) =
            writer::alone(move |writer| transfer::import(&mut writer.connection, &owner, &file));
        self.answer(write, answer).await?
    }

    /// Does one step of deleting responses that were not used for long. Steps are short, so that
    /// other writes need not wait for long.
    pub async fn expire_responses(&self, limits: ResponseLimits) -> Result<ExpiryStep, StoreError> {
        self.delete_with(move |writer| {
            let step = expiry::step(&mut writer.connection, limits)?;
            writer.after_step(step.more);
            Ok(step)
        })
        .await
    }

    /// The most bytes that the conversations of an owner may take, if `added` bytes more would
    /// exceed it.
    pub async fn exceeded_limit(
        &self,
        owner: &str,
        added: u64,
        limits: ResponseLimits,
    ) -> Result<Option<u64>, StoreError> {
        self.read_small(owner, move |reading, owner| {
            owner_sizes::exceeded_limit(reading, owner, added, limits)
        })
        .await
    }

    /// Compares the clock with the time up to which the store was in use. To be called before a
    /// sweep. `now` is in seconds since 1970.
    pub async fn learn_time(&self, now: u64) -> Result<(), StoreError> {
        let ran = self.lag.take_elapsed();
        let time = self
            .change(move |connection| time_in_use::advance(connection, now, ran))
            .await?;
        self.lag.set(now, time);
        Ok(())
    }

    /// The time by which old things are deleted: the clock, less what that has jumped forward. In
    /// seconds since 1970.
    pub fn time_in_use(&self, now: u64) -> u64 {
        self.lag.subtract_from(now)
    }

    /// Makes a change, in one transaction with those that wait at the same time. It is on the disk
    /// when this returns.
    async fn change<T: Send + 'static>(
        &self,
        change: impl Fn(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (write, answer) = group_commit::change(change);
        self.answer(write, answer).await?
    }

    /// Writes something in the thread that writes, and waits for it.
    async fn write_with<T: Send + 'static>(
        &self,
        write: impl FnOnce(&mut WriterState) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (write, answer) = writer::alone(move |writer| writer.write(write));
        self.answer(write, answer).await?
    }

    /// Makes a change like [`Self::change`] if the queue has room. Does not wait.
    fn try_change(
        &self,
        change: impl Fn(&Connection) -> Result<(), StoreError> + Send + 'static,
    ) -> bool {
        let Some(Ok(room)) = self.queue.as_ref().map(mpsc::Sender::try_reserve) else {
            return false;
        };
        let (write, _) = group_commit::change(change);
        room.send(write);
        true
    }

    /// Deletes something in the thread that writes, also on a full disk.
    async fn delete_with<T: Send + 'static>(
        &self,
        delete: impl Fn(&mut WriterState) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (write, answer) = writer::alone(move |writer| writer.delete(delete));
        self.answer(write, answer).await?
    }

    /// Deletes artifacts.
    async fn run_writer<T: Send + 'static>(
        &self,
        delete: impl Fn(&mut WriterState) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.delete_with(move |writer| {
            writer.stored_bytes = None;
            delete(writer)
        })
        .await
    }

    /// Queues a write and waits for its result.
    async fn answer<T>(
        &self,
        write: StoreWrite,
        answer: oneshot::Receiver<T>,
    ) -> Result<T, StoreError> {
        let queue = self.queue.as_ref().ok_or(StoreError::Closed)?;
        queue.send(write).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)
    }

    /// Reads for an owner. What was read counts in the memory budget as long as it lives.
    async fn run_reader<T: Send + 'static>(
        &self,
        owner: &str,
        read: impl Fn(&StoreRead<'_>, &str) -> Result<T, StoreError> + Send + Sync + 'static,
    ) -> Result<CountedValue<T>, StoreError> {
        let result = self.readers.run(owner, read).await;
        writer::mark_if_corrupt(&self.data_dir, result)
    }

    /// Reads what is small whatever is stored.
    async fn read_small<T: Small + Send + 'static>(
        &self,
        owner: &str,
        read: impl Fn(&StoreRead<'_>, &str) -> Result<T, StoreError> + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        let (value, _) = self.run_reader(owner, read).await?.into_parts();
        Ok(value)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

fn unusable(data_dir: &DataDir, error: StoreError) -> UnusableStore {
    UnusableStore {
        database: data_dir.database_path(),
        error,
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
impl Store {
    /// Limits the pages of the database, as a full disk would. Returns the limit before.
    pub(crate) async fn limit_pages(&self, pages: i64) -> i64 {
        let limit = move |writer: &mut WriterState| {
            let connection = &writer.connection;
            let before = connection
                .pragma_query_value(None, "max_page_count", |row| row.get(0))
                .unwrap();
            let set = format!("PRAGMA max_page_count = {pages}");
            connection.query_row(&set, [], |_| Ok(())).unwrap();
            Ok(before)
        };
        self.run_writer(limit).await.unwrap()
    }
}

/// A database that another program has locked, until this is dropped.
#[cfg(test)]
pub(crate) struct LockedDatabase(Connection);

#[cfg(test)]
impl LockedDatabase {
    pub(crate) fn new(data_dir: &DataDir) -> Self {
        let connection = schema::writer(data_dir).unwrap();
        connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
        Self(connection)
    }
}

#[cfg(test)]
impl Drop for LockedDatabase {
    fn drop(&mut self) {
        self.0.execute_batch("COMMIT").unwrap();
    }
}

/// Executes SQL behind the back of the store.
#[cfg(test)]
pub(crate) fn execute(data_dir: &DataDir, sql: &str) {
    schema::writer(data_dir)
        .and_then(|connection| Ok(connection.execute_batch(sql)?))
        .unwrap();
}

/// The number of rows of a table.
#[cfg(test)]
pub(crate) fn count_rows(data_dir: &DataDir, table: &str) -> i64 {
    let count = format!("SELECT count(*) FROM {table}");
    let connection = schema::reader(data_dir).unwrap();
    connection.query_row(&count, [], |row| row.get(0)).unwrap()
}
