//! What was learned from refusals, of models and of sessions.

use rusqlite::{Connection, params};

use super::Store;
use super::error::StoreError;
use crate::net::LOCAL_OWNER;

/// The most rows. Beyond it the oldest of the owner who has most are forgotten.
const MAX_ROWS: usize = 4096;

/// What was learned of one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedRow {
    /// The owner; empty if it holds for all.
    pub owner: String,
    /// The model or session.
    pub subject: String,
    /// The changes that have helped, as JSON.
    pub changes: String,
    /// The time of the last one, in seconds since 1970.
    pub learned: u64,
}

impl Store {
    /// Stores what was learned of a subject. False if the queue is full. Never blocks.
    pub fn put_learned(&self, row: LearnedRow) -> bool {
        self.try_change(move |connection| put(connection, &row))
    }

    /// All that was learned, the oldest first.
    pub async fn learned(&self) -> Result<Vec<LearnedRow>, StoreError> {
        self.read_small(LOCAL_OWNER, |reading, _| all(reading))
            .await
    }
}

/// Adds or replaces a row. In a transaction.
pub(super) fn put(connection: &Connection, row: &LearnedRow) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO learned (owner, subject, changes, learned)
             VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![row.owner, row.subject, row.changes, row.learned])?;
    connection
        .prepare_cached(
            "DELETE FROM learned WHERE (owner, subject) IN (
                 SELECT owner, subject FROM learned WHERE owner = (
                     SELECT owner FROM learned GROUP BY owner ORDER BY count(*) DESC LIMIT 1)
                 ORDER BY learned, subject
                 LIMIT max(0, (SELECT count(*) FROM learned) - ?1))",
        )?
        .execute([MAX_ROWS])?;
    Ok(())
}

/// All rows, the oldest first.
pub(super) fn all(connection: &Connection) -> Result<Vec<LearnedRow>, StoreError> {
    let mut select = connection
        .prepare_cached("SELECT owner, subject, changes, learned FROM learned ORDER BY learned")?;
    let rows = select.query_map([], |row| {
        Ok(LearnedRow {
            owner: row.get(0)?,
            subject: row.get(1)?,
            changes: row.get(2)?,
            learned: row.get(3)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Deletes what was learned before a time.
pub(super) fn sweep(connection: &Connection, since: u64) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM learned WHERE learned < ?1")?
        .execute([since])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::schema::tests::in_memory;
    use super::*;

    fn row(owner: &str, subject: &str, learned: u64) -> LearnedRow {
        LearnedRow {
            owner: owner.to_owned(),
            subject: subject.to_owned(),
            changes: "[]".to_owned(),
            learned,
        }
    }

    #[test]
    fn a_subject_has_one_row_and_old_ones_are_forgotten() {
        let connection = in_memory();
        for (subject, learned) in [("a", 10), ("b", 20), ("a", 30), ("c", 40)] {
            put(&connection, &row("local", subject, learned)).unwrap();
        }
        let subjects = || -> Vec<String> {
            let all = all(&connection).unwrap();
            all.into_iter().map(|row| row.subject).collect()
        };
        assert_eq!(subjects(), ["b", "a", "c"]);
        sweep(&connection, 30).unwrap();
        assert_eq!(subjects(), ["a", "c"]);
    }

    #[test]
    fn an_owner_with_many_rows_loses_his_own() {
        let connection = in_memory();
        put(&connection, &row("other", "s", 0)).unwrap();
        for number in 0..MAX_ROWS + 10 {
            put(
                &connection,
                &row("local", &number.to_string(), number as u64),
            )
            .unwrap();
        }
        let left = all(&connection).unwrap();
        assert_eq!((left.len(), &*left[0].owner), (MAX_ROWS, "other"));
    }
}
