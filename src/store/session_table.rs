//! Tables of what sessions need again after a restart: texts with limits for a session and for all.
//! Their columns are `number`, `owner`, `session`, `bytes`, `accessed` and the text.

use rusqlite::{Connection, params};

use super::Store;
use super::error::StoreError;
use super::reading::StoreRead;
use crate::net::memory::CountedValue;

/// The most rows that are forgotten for a new one.
const FORGOTTEN_AT_ONCE: usize = 16;

/// Such a table and its limits.
#[derive(Debug)]
pub(super) struct SessionTable {
    /// Its name.
    pub name: &'static str,
    /// The column of the text.
    pub text: &'static str,
    /// The most rows of one session. Beyond it the oldest are forgotten.
    pub max_of_session: usize,
    /// The most rows of all sessions. Beyond it the oldest of the owner who has most are forgotten.
    pub max_rows: usize,
    /// The most bytes of all texts. Beyond it the same are forgotten.
    pub max_bytes: u64,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// The owner.
    pub owner: String,
    /// The id of the session.
    pub session: String,
    /// The text.
    pub text: String,
    /// When it was made, in seconds since 1970.
    pub accessed: u64,
}

impl Store {
    /// The texts of a session in one of the tables of sessions, the oldest first.
    pub(super) async fn of_session(
        &self,
        table: &'static SessionTable,
        owner: &str,
        session: &str,
    ) -> Result<CountedValue<Vec<String>>, StoreError> {
        let session = session.to_owned();
        self.run_reader(owner, move |reading, owner| {
            table.of_session(reading, owner, &session)
        })
        .await
    }
}

impl SessionTable {
    /// Adds a row. In a transaction.
    pub(super) fn put(&self, connection: &Connection, row: &SessionRow) -> Result<(), StoreError> {
        let Self { name, text, .. } = self;
        connection
            .prepare_cached(&format!(
                "INSERT INTO {name} (owner, session, bytes, accessed, {text})
                 VALUES (?1, ?2, ?3, ?4, ?5)"
            ))?
            .execute(params![
                row.owner,
                row.session,
                row.text.len(),
                row.accessed,
                row.text
            ])?;
        connection
            .prepare_cached(&format!(
                "DELETE FROM {name} WHERE number IN (
                     SELECT number FROM {name} WHERE owner = ?1 AND session = ?2
                     ORDER BY number DESC LIMIT -1 OFFSET ?3)"
            ))?
            .execute(params![row.owner, row.session, self.max_of_session])?;
        self.forget_beyond(connection)
    }

    fn forget_beyond(&self, connection: &Connection) -> Result<(), StoreError> {
        let name = self.name;
        let mut sizes = connection.prepare_cached(&format!(
            "SELECT count(*), coalesce(sum(bytes), 0) FROM {name}"
        ))?;
        let mut forget = connection.prepare_cached(&format!(
            "DELETE FROM {name} WHERE number = (
                 SELECT min(number) FROM {name} WHERE owner = (
                     SELECT owner FROM {name} GROUP BY owner ORDER BY sum(bytes) DESC LIMIT 1))"
        ))?;
        for _ in 0..FORGOTTEN_AT_ONCE {
            let (count, bytes): (usize, u64) =
                sizes.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            if count <= self.max_rows && bytes <= self.max_bytes {
                break;
            }
            forget.execute([])?;
        }
        Ok(())
    }

    /// The sessions that have rows: owner and session.
    pub(super) fn sessions(
        &self,
        connection: &Connection,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let mut select = connection.prepare_cached(&format!(
            "SELECT DISTINCT owner, session FROM {}",
            self.name
        ))?;
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The texts of a session, the oldest first.
    pub(super) fn of_session(
        &self,
        reading: &StoreRead<'_>,
        owner: &str,
        session: &str,
    ) -> Result<Vec<String>, StoreError> {
        let mut select = reading.prepare_cached(&format!(
            "SELECT {} FROM {} WHERE owner = ?1 AND session = ?2 ORDER BY number",
            self.text, self.name
        ))?;
        let mut rows = select.query([owner, session])?;
        let mut texts = Vec::new();
        while let Some(row) = rows.next()? {
            texts.push(reading.text(row, 0)?);
        }
        Ok(texts)
    }

    /// Deletes the rows from before a time.
    pub(super) fn sweep(
        &self,
        connection: &Connection,
        accessed_since: u64,
    ) -> Result<(), StoreError> {
        connection
            .prepare_cached(&format!("DELETE FROM {} WHERE accessed < ?1", self.name))?
            .execute([accessed_since])?;
        Ok(())
    }
}
