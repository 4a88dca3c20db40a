//! Reads a database for its owner: how much is in it, whether it is whole, and a copy of it. A
//! server may write to it meanwhile: a connection of its own reads, in one transaction, what the
//! last commit left.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, params};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::data_dir::DataDir;
use super::error::StoreError;
use super::learned::{self, LearnedRow};
use super::reading::StoreRead;
use super::token_ratios::{self, StoredRatio};
use super::usage::{self, UsageKey, UsagePeriod, UsageSum};
use super::{contents, schema, sweep};

/// The most faults of one kind of check that the database itself reports.
const MAX_FAULTS: usize = 100;

/// A database that is only read. Made by a command; opening it needs no lock, because `SQLite`
/// keeps those who read and the one who writes apart.
pub struct StoreReading {
    connection: Connection,
}

/// How much is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StoreContents {
    /// By owner.
    pub owners: Vec<OwnerContents>,
    /// The bytes of large items and parameters, compressed, which owners share.
    pub shared_bytes: u64,
    /// The bytes of the database file, including `free_bytes` that are not used.
    pub database_bytes: u64,
    /// See `database_bytes`.
    pub free_bytes: u64,
}

/// How much an owner has stored. Bytes are those of the stored form, about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OwnerContents {
    /// The owner.
    pub owner: String,
    /// Tool outputs that were shortened.
    pub artifacts: u64,
    /// The bytes of their texts.
    pub artifact_bytes: u64,
    /// Responses.
    pub responses: u64,
    /// The bytes of responses and conversations, without what is shared.
    pub response_bytes: u64,
    /// Conversations.
    pub conversations: u64,
    /// Background jobs that have not ended.
    pub unfinished_jobs: u64,
    /// Background jobs that have ended.
    pub ended_jobs: u64,
    /// Webhooks that are still to be told of a background response.
    pub deliveries: u64,
}

const SELECT_OWNERS: &str = "
    WITH owners (owner) AS (
        SELECT owner FROM refs UNION SELECT owner FROM responses UNION SELECT owner FROM conversations
    )
    SELECT owner,
        (SELECT count(DISTINCT blob) FROM refs WHERE refs.owner = owners.owner),
        (SELECT coalesce(sum(stored), 0) FROM blobs WHERE number IN
            (SELECT blob FROM refs WHERE refs.owner = owners.owner)),
        (SELECT count(*) FROM responses WHERE responses.owner = owners.owner),
        (SELECT coalesce(sum(bytes), 0) FROM responses WHERE responses.owner = owners.owner)
            + (SELECT coalesce(sum(bytes), 0) FROM threads WHERE threads.owner = owners.owner),
        (SELECT count(*) FROM conversations WHERE conversations.owner = owners.owner),
        (SELECT count(*) FROM jobs WHERE jobs.owner = owners.owner AND state <> 'ended'),
        (SELECT count(*) FROM jobs WHERE jobs.owner = owners.owner AND state = 'ended'),
        (SELECT count(*) FROM deliveries JOIN jobs USING (response) WHERE jobs.owner = owners.owner)
    FROM owners ORDER BY owner";

/// What must hold between the rows, besides what `SQLite` checks: the fault, and a query that
/// counts the rows that have it.
const INVARIANTS: [(&str, &str); 10] = [
    (
        "contents that count other users than they have",
        "SELECT count(*) FROM contents WHERE uses <>
            (SELECT count(*) FROM items WHERE content = contents.number)
            + (SELECT count(*) FROM responses WHERE parameters = contents.number)",
    ),
    (
        "items that are in no thread",
        "SELECT count(*) FROM items WHERE NOT EXISTS (
            SELECT 1 FROM threads WHERE threads.number = items.number >> 24
                AND items.number & 0xffffff >= begins AND items.number & 0xffffff < ends)",
    ),
    (
        "items without text",
        "SELECT count(*) FROM items WHERE (json IS NULL) = (content IS NULL)",
    ),
    (
        "threads that nothing refers to",
        "SELECT count(*) FROM threads WHERE number NOT IN (
            SELECT thread FROM responses WHERE thread IS NOT NULL
            UNION SELECT thread FROM conversations
            UNION SELECT parent FROM threads WHERE parent IS NOT NULL)",
    ),
    (
        "threads that begin behind the end of their parent",
        "SELECT count(*) FROM threads JOIN threads AS parents ON parents.number = threads.parent
         WHERE threads.begins > parents.ends OR threads.begins < parents.begins",
    ),
    (
        "responses whose items are not in their thread",
        "SELECT count(*) FROM responses JOIN threads ON threads.number = responses.thread
         WHERE responses.ends > threads.ends OR output > responses.ends OR input > output",
    ),
    (
        "responses whose thread has another owner",
        "SELECT count(*) FROM responses JOIN threads ON threads.number = responses.thread
         WHERE responses.owner <> threads.owner",
    ),
    (
        "jobs that have not ended and have no request",
        "SELECT count(*) FROM jobs WHERE state <> 'ended' AND request IS NULL",
    ),
    (
        "deliveries to webhooks of what has no job",
        "SELECT count(*) FROM deliveries WHERE NOT EXISTS (
            SELECT 1 FROM jobs WHERE jobs.response = deliveries.response)",
    ),
    (
        "artifacts whose text is not complete",
        "SELECT count(*) FROM blobs WHERE stored <>
            (SELECT coalesce(sum(length(body)), 0) FROM chunks WHERE blob = blobs.number)",
    ),
];

impl StoreReading {
    /// Opens the database of a data directory; `None` if there is none. One of an older version is
    /// refused, because reading changes nothing. Blocks.
    pub fn open(data_dir: &DataDir) -> Result<Option<Self>, StoreError> {
        if !data_dir.database_path().exists() {
            return Ok(None);
        }
        let connection = schema::reader(data_dir)?;
        schema::check_version(&connection)?;
        Ok(Some(Self { connection }))
    }

    /// What the turns of all owners have used since a day or an hour, the newest first. Blocks.
    pub fn usage_since(
        &self,
        period: UsagePeriod,
        first: i64,
    ) -> Result<Vec<(UsageKey, UsageSum)>, StoreError> {
        usage::since(&self.connection, period, first)
    }

    /// All that was learned from refusals, the oldest first. Blocks.
    pub fn learned(&self) -> Result<Vec<LearnedRow>, StoreError> {
        learned::all(&self.connection)
    }

    /// The bytes per token of all sessions. Blocks.
    pub fn token_ratios(&self) -> Result<Vec<StoredRatio>, StoreError> {
        token_ratios::all(&self.connection)
    }

    /// How much is stored. Blocks.
    pub fn contents(&mut self) -> Result<StoreContents, StoreError> {
        let snapshot = self.connection.transaction()?;
        let mut select = snapshot.prepare(SELECT_OWNERS)?;
        let owners = select.query_map([], |row| {
            Ok(OwnerContents {
                owner: row.get(0)?,
                artifacts: row.get(1)?,
                artifact_bytes: row.get(2)?,
                responses: row.get(3)?,
                response_bytes: row.get(4)?,
                conversations: row.get(5)?,
                unfinished_jobs: row.get(6)?,
                ended_jobs: row.get(7)?,
                deliveries: row.get(8)?,
            })
        })?;
        let pragma = |name| {
            let value = snapshot.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
            value.map_err(StoreError::from)
        };
        let page = pragma("page_size")?;
        Ok(StoreContents {
            owners: owners.collect::<Result<_, _>>()?,
            shared_bytes: snapshot.query_row(
                "SELECT coalesce(sum(stored), 0) FROM contents",
                [],
                |row| row.get(0),
            )?,
            database_bytes: pragma("page_count")? * page,
            free_bytes: pragma("freelist_count")? * page,
        })
    }

    /// Reads the whole database and returns what is wrong with it, one sentence each. Blocks.
    pub fn faults(&mut self) -> Result<Vec<String>, StoreError> {
        let snapshot = self.connection.transaction()?;
        let mut faults = Vec::new();
        snapshot.pragma(None, "integrity_check", MAX_FAULTS, |row| {
            let found: String = row.get(0)?;
            if found != "ok" {
                faults.push(found);
            }
            Ok(())
        })?;
        snapshot.pragma_query(None, "foreign_key_check", |row| {
            let table: String = row.get(0)?;
            faults.push(format!("a row of {table} refers to one that is missing"));
            Ok(())
        })?;
        for (fault, select) in INVARIANTS {
            let rows: u64 = snapshot.query_row(select, [], |row| row.get(0))?;
            if rows > 0 {
                faults.push(format!("{fault}: {rows}"));
            }
        }
        let mut select = snapshot.prepare("SELECT number, hash FROM contents")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let number: i64 = row.get(0)?;
            let hash: Vec<u8> = row.get(1)?;
            let read = contents::read(&StoreRead::without_budget(&snapshot), number);
            if !read.is_ok_and(|json| Sha256::digest(json.as_bytes()).as_slice() == hash) {
                faults.push(format!("content {number} is not what was stored"));
            }
        }
        Ok(faults)
    }

    /// Copies the database into a new file, which its owner alone can read. Returns its bytes.
    /// Blocks.
    pub fn back_up(&self, file: &Path) -> Result<u64, StoreError> {
        create_private(file)?;
        let copied = self.copy_to(file);
        if copied.is_err() {
            // A copy that is not complete is of no use.
            fs::remove_file(file).ok();
        }
        copied
    }

    fn copy_to(&self, file: &Path) -> Result<u64, StoreError> {
        let mut copy = Connection::open(file)?;
        // All pages in one step: what is written meanwhile would make it begin again.
        let backup = Backup::new(&self.connection, &mut copy)?;
        backup.run_to_completion(i32::MAX, BUSY_PAUSE, None)?;
        drop(backup);
        // So that the copy is one file.
        copy.pragma_update(None, "journal_mode", "DELETE")?;
        copy.close().map_err(|(_, error)| error)?;
        Ok(file.metadata()?.len())
    }

    /// The connection, for what else is read.
    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

/// All tables but the one that tells of a clock that has jumped, the newest first: tables refer to
/// older ones.
fn tables_of_data(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let mut select = connection.prepare(
        "SELECT name FROM sqlite_schema
         WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'time_in_use'
         ORDER BY rowid DESC",
    )?;
    let names = select.query_map([], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// The pause before a copy of a busy database is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Creates a file that must not exist and that its owner alone can read.
pub(super) fn create_private(file: &Path) -> io::Result<fs::File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
}

/// Deletes everything that is stored, in all tables, and gives the disk space back.
pub(super) fn purge(connection: &mut Connection) -> Result<(), StoreError> {
    let transaction = connection.transaction()?;
    for table in tables_of_data(&transaction)? {
        transaction.execute(&format!("DELETE FROM {table}"), params![])?;
    }
    transaction.commit()?;
    // A full disk has no room for a copy.
    if connection.execute_batch("VACUUM").is_err() {
        while sweep::release_free_pages(connection)? {}
    }
    Ok(())
}
