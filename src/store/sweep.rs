//! Deleting, and giving the disk back.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::error::StoreError;
use super::model::SweepResult;

/// Texts that go in one step at most: others want to write meanwhile.
const TEXTS_PER_STEP: usize = 32;

/// Pages that are given back in one step.
const PAGES_PER_STEP: i64 = 2048;

/// What may stay.
#[derive(Clone, Copy, Debug)]
pub struct SweepLimits {
    /// What was not accessed since then goes; seconds since 1970.
    pub since: u64,
    /// Bytes as stored at most.
    pub bytes: u64,
}

/// What a step of a sweep did.
#[derive(Clone, Copy, Debug, Default)]
pub struct SweepStep {
    /// What went.
    pub swept: SweepResult,
    /// References went, with or without their texts.
    pub changed: bool,
    /// Another step has something to do.
    pub more: bool,
}

/// Takes a step of a sweep.
pub(super) fn step(connection: &mut Connection, limits: SweepLimits) -> Result<SweepStep, StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let refs = transaction
        .prepare_cached("DELETE FROM refs WHERE accessed < ?1")?
        .execute([limits.since.cast_signed()])?;
    let mut going = unreferenced_texts(&transaction)?;
    if going.is_empty() {
        going = texts_over_quota(&transaction, limits.bytes)?;
    }
    let mut swept = SweepResult::default();
    for (blob, stored) in &going {
        delete_text(&transaction, *blob)?;
        swept.artifacts += 1;
        swept.bytes += stored;
    }
    transaction.commit()?;
    let more = !going.is_empty() || release_free_pages(connection)?;
    Ok(SweepStep {
        swept,
        changed: refs > 0 || !going.is_empty(),
        more,
    })
}

/// Deletes an artifact of an owner; false when there is none.
pub(super) fn delete(connection: &mut Connection, owner: &str, id: &str) -> Result<bool, StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let blob: Option<i64> = transaction
        .query_row("SELECT number FROM blobs WHERE id = ?1", [id], |row| {
            row.get(0)
        })
        .optional()?;
    let Some(blob) = blob else {
        return Ok(false);
    };
    let gone = transaction.execute(
        "DELETE FROM refs WHERE blob = ?1 AND owner = ?2",
        params![blob, owner],
    )?;
    transaction.execute(
        "DELETE FROM blobs WHERE number = ?1 AND number NOT IN (SELECT blob FROM refs)",
        [blob],
    )?;
    transaction.commit()?;
    // What was deleted should not stay in the log either.
    release_free_pages(connection)?;
    Ok(gone > 0)
}

/// Texts that nobody refers to.
fn unreferenced_texts(connection: &Connection) -> Result<Vec<(i64, u64)>, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT number, stored FROM blobs
         WHERE number NOT IN (SELECT blob FROM refs) ORDER BY number LIMIT ?1",
    )?;
    let rows = select.query_map([(TEXTS_PER_STEP as u64).cast_signed()], |row| {
        Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned()))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Texts that are more than the quota, those first that were not accessed for
/// longest.
fn texts_over_quota(connection: &Connection, quota: u64) -> Result<Vec<(i64, u64)>, StoreError> {
    let mut total = stored_bytes(connection)?;
    let mut going = Vec::new();
    if total <= quota {
        return Ok(going);
    }
    let mut select = connection.prepare_cached(
        "SELECT blobs.number, blobs.stored FROM blobs JOIN refs ON refs.blob = blobs.number
         GROUP BY blobs.number ORDER BY max(refs.accessed), blobs.number",
    )?;
    let mut rows = select.query([])?;
    while total > quota && going.len() < TEXTS_PER_STEP {
        let Some(row) = rows.next()? else { break };
        let stored = row.get::<_, i64>(1)?.cast_unsigned();
        going.push((row.get(0)?, stored));
        total = total.saturating_sub(stored);
    }
    Ok(going)
}

/// Bytes of all texts as stored.
pub(super) fn stored_bytes(connection: &Connection) -> Result<u64, StoreError> {
    let mut select = connection.prepare_cached("SELECT coalesce(sum(stored), 0) FROM blobs")?;
    let total: i64 = select.query_row([], |row| row.get(0))?;
    Ok(total.cast_unsigned())
}

fn delete_text(connection: &Connection, blob: i64) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM refs WHERE blob = ?1")?
        .execute([blob])?;
    connection
        .prepare_cached("DELETE FROM blobs WHERE number = ?1")?
        .execute([blob])?;
    Ok(())
}

/// Gives some of the free pages back; tells whether there are more.
fn release_free_pages(connection: &Connection) -> Result<bool, StoreError> {
    let free = || connection.pragma_query_value(None, "freelist_count", |row| row.get(0));
    let before: i64 = free()?;
    if before > 0 {
        // Each row that is asked for is a page.
        connection.pragma(None, "incremental_vacuum", PAGES_PER_STEP, |_| Ok(()))?;
    }
    let left: i64 = free()?;
    if left == 0 && before > 0 {
        // Readers may be in the way; then the log is cut another time.
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    }
    Ok(left > 0 && left < before)
}
