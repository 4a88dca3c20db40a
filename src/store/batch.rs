//! Writing: texts and whose they are.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::chunks;
use super::error::StoreError;
use super::model::NewArtifact;

/// Artifacts of one turn, kept together.
pub struct ArtifactBatch {
    /// Whose.
    pub owner: String,
    /// The session.
    pub session: String,
    /// What is kept.
    pub new: Vec<NewArtifact>,
    /// Seconds since 1970.
    pub now: u64,
}

/// Writes a set in one transaction; tells the number of each reference, and how many
/// bytes were stored.
pub(super) fn write_batch(connection: &mut Connection, set: &ArtifactBatch) -> Result<(Vec<i64>, u64), StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut bytes = 0;
    let numbers = set.new.iter().map(|new| {
        let (blob, stored) = insert_text(&transaction, new)?;
        bytes += stored as u64;
        insert_reference(&transaction, set, new, blob)
    });
    let numbers = numbers.collect::<Result<Vec<i64>, StoreError>>()?;
    transaction.commit()?;
    Ok((numbers, bytes))
}

/// The text, once: its number, and how many bytes it took now.
fn insert_text(connection: &Connection, new: &NewArtifact) -> Result<(i64, usize), StoreError> {
    let mut select = connection.prepare_cached("SELECT number FROM blobs WHERE id = ?1")?;
    let known = select.query_row([&new.id], |row| row.get(0)).optional()?;
    if let Some(blob) = known {
        return Ok((blob, 0));
    }
    let mut insert = connection.prepare_cached(
        "INSERT INTO blobs (id, chars, lines, bytes, stored) VALUES (?1, ?2, ?3, ?4, 0)",
    )?;
    let blob = insert.insert(params![
        new.id,
        signed(new.chars),
        signed(new.lines),
        signed(new.text.len())
    ])?;
    let stored = chunks::write(connection, blob, &new.text)?;
    let mut update = connection.prepare_cached("UPDATE blobs SET stored = ?2 WHERE number = ?1")?;
    update.execute(params![blob, signed(stored)])?;
    Ok((blob, stored))
}

fn insert_reference(connection: &Connection, set: &ArtifactBatch, new: &NewArtifact, blob: i64) -> Result<i64, StoreError> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO refs (blob, owner, session, call, kind, created, accessed)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)
         ON CONFLICT (owner, session, call, blob) DO UPDATE SET accessed = excluded.accessed
         RETURNING number",
    )?;
    let number = insert.query_row(
        params![
            blob,
            set.owner,
            set.session,
            new.call_id,
            new.kind.name(),
            set.now.cast_signed()
        ],
        |row| row.get(0),
    )?;
    Ok(number)
}

/// References were shown again.
pub(super) fn mark_shown(connection: &mut Connection, numbers: &[i64], now: u64) -> Result<(), StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut update =
            transaction.prepare_cached("UPDATE refs SET accessed = ?2 WHERE number = ?1")?;
        for number in numbers {
            update.execute(params![number, now.cast_signed()])?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// An artifact was read.
pub(super) fn mark_accessed(
    connection: &Connection,
    owner: &str,
    id: &str,
    now: u64,
) -> Result<(), StoreError> {
    let mut update = connection.prepare_cached(
        "UPDATE refs SET accessed = ?3
         WHERE owner = ?1 AND blob = (SELECT number FROM blobs WHERE id = ?2)",
    )?;
    update.execute(params![owner, id, now.cast_signed()])?;
    Ok(())
}

fn signed(number: usize) -> i64 {
    (number as u64).cast_signed()
}
