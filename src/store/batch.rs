//! Writes artifacts: each text once, and a reference for each owner, session and call that has it.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::chunks;
use super::error::StoreError;
use super::model::NewArtifact;
use super::sweep::REFERENCE_SIZE;

/// The artifacts of one turn, written in one transaction.
pub struct ArtifactBatch {
    /// The owner.
    pub owner: String,
    /// The session.
    pub session: String,
    /// The artifacts.
    pub artifacts: Vec<NewArtifact>,
    /// The time of writing, in seconds since 1970.
    pub now: u64,
}

/// Writes a batch. Returns the number of each reference, and how many bytes the texts and
/// references take that were not stored before.
pub(super) fn write(
    connection: &mut Connection,
    batch: &ArtifactBatch,
) -> Result<(Vec<i64>, u64), StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut bytes = 0;
    let numbers = batch.artifacts.iter().map(|artifact| {
        let (blob, stored) = insert_text(&transaction, artifact)?;
        let (number, size) = insert_reference(&transaction, batch, artifact, blob)?;
        bytes += stored as u64 + size;
        Ok(number)
    });
    let numbers = numbers.collect::<Result<Vec<i64>, StoreError>>()?;
    transaction.commit()?;
    Ok((numbers, bytes))
}

/// Stores the text unless it is stored already. Returns its row number, and the bytes it takes if
/// it is new.
fn insert_text(
    connection: &Connection,
    artifact: &NewArtifact,
) -> Result<(i64, usize), StoreError> {
    let mut select = connection.prepare_cached("SELECT number FROM blobs WHERE id = ?1")?;
    let known = select
        .query_row([&artifact.id], |row| row.get(0))
        .optional()?;
    if let Some(blob) = known {
        return Ok((blob, 0));
    }
    let mut insert = connection.prepare_cached(
        "INSERT INTO blobs (id, chars, lines, bytes, stored) VALUES (?1, ?2, ?3, ?4, 0)",
    )?;
    let blob = insert.insert(params![
        artifact.id,
        artifact.chars,
        artifact.lines,
        artifact.text.len()
    ])?;
    let stored = chunks::write(connection, blob, &artifact.text)?;
    let mut update = connection.prepare_cached("UPDATE blobs SET stored = ?2 WHERE number = ?1")?;
    update.execute(params![blob, stored])?;
    Ok((blob, stored))
}

/// Stores a reference, or updates the access time if it is stored already. Returns its row number,
/// and the bytes it takes if it is new.
fn insert_reference(
    connection: &Connection,
    batch: &ArtifactBatch,
    artifact: &NewArtifact,
    blob: i64,
) -> Result<(i64, u64), StoreError> {
    let mut update = connection.prepare_cached(
        "UPDATE refs SET accessed = ?5
         WHERE blob = ?1 AND owner = ?2 AND session = ?3 AND call = ?4 RETURNING number",
    )?;
    let names = (&batch.owner, &batch.session, &artifact.call_id);
    let known = update
        .query_row(params![blob, names.0, names.1, names.2, batch.now], |row| {
            row.get(0)
        })
        .optional()?;
    if let Some(number) = known {
        return Ok((number, 0));
    }
    let mut insert = connection.prepare_cached(&format!(
        "INSERT INTO refs (blob, owner, session, call, kind, created, accessed)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6) RETURNING number, {REFERENCE_SIZE}"
    ))?;
    let kind = artifact.kind.name();
    let inserted = insert.query_row(
        params![blob, names.0, names.1, names.2, kind, batch.now],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(inserted)
}

/// Updates the access time of references.
pub(super) fn mark_shown(
    connection: &mut Connection,
    numbers: &[i64],
    now: u64,
) -> Result<(), StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut update =
            transaction.prepare_cached("UPDATE refs SET accessed = ?2 WHERE number = ?1")?;
        for number in numbers {
            update.execute(params![number, now])?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Updates the access time of all references that an owner has to an artifact.
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
    update.execute(params![owner, id, now])?;
    Ok(())
}
