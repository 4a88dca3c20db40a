//! Deletes artifacts that are too old or too many, and gives their disk space back.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::error::StoreError;
use super::model::SweepResult;
use super::{prompts, whole_sessions};

/// The most texts that one step deletes, so that writes do not wait for long.
const TEXTS_PER_STEP: usize = 32;

/// The most database pages that one step gives back to the file system.
const PAGES_PER_STEP: i64 = 2048;

/// The bytes that a row of `refs` takes, about, as an expression in SQL. The index has its names
/// too.
pub(super) const REFERENCE_SIZE: &str =
    "(128 + 2 * (octet_length(owner) + octet_length(session) + octet_length(call)))";

/// Whether a row of `refs` is kept because a stored response or conversation goes on from its
/// session, as an expression in SQL.
const IS_KEPT: &str = "(EXISTS (SELECT 1 FROM threads
      WHERE threads.owner = refs.owner AND threads.session = refs.session))";

/// The limits beyond which a sweep deletes.
#[derive(Clone, Copy, Debug)]
pub struct SweepLimits {
    /// Artifacts last accessed before this time are deleted; in seconds since 1970.
    pub accessed_since: u64,
    /// The most bytes that texts and references may take on disk; beyond it the least recently
    /// used texts are deleted, with their references.
    pub max_bytes: u64,
}

/// The result of one step of a sweep.
#[derive(Clone, Copy, Debug, Default)]
pub struct SweepStep {
    /// The number and the bytes of the deleted artifacts.
    pub swept: SweepResult,
    /// The bytes of texts and references that are left; unknown while there is more to delete.
    pub stored_bytes: Option<u64>,
    /// Whether references were deleted, with or without their texts.
    pub references_deleted: bool,
    /// Whether another step has something to do.
    pub more: bool,
}

pub(super) fn step(
    connection: &mut Connection,
    limits: SweepLimits,
) -> Result<SweepStep, StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let refs = transaction
        .prepare_cached(&format!(
            "DELETE FROM refs WHERE accessed < ?1 AND NOT {IS_KEPT}"
        ))?
        .execute([limits.accessed_since])?;
    whole_sessions::sweep(&transaction, limits.accessed_since)?;
    prompts::sweep(&transaction, limits.accessed_since)?;
    let mut texts = unreferenced_texts(&transaction)?;
    let mut stored_bytes = None;
    if texts.is_empty() {
        let total = self::stored_bytes(&transaction)?;
        texts = texts_over_quota(&transaction, total, limits.max_bytes)?;
        stored_bytes = texts.is_empty().then_some(total);
    }
    let mut swept = SweepResult::default();
    for (blob, stored) in &texts {
        delete_text(&transaction, *blob)?;
        swept.artifacts += 1;
        swept.bytes += stored;
    }
    transaction.commit()?;
    let more = !texts.is_empty() || release_free_pages(connection)?;
    Ok(SweepStep {
        swept,
        stored_bytes,
        references_deleted: refs > 0 || !texts.is_empty(),
        more,
    })
}

/// Deletes an artifact of an owner; false if there is none.
pub(super) fn delete(
    connection: &mut Connection,
    owner: &str,
    id: &str,
) -> Result<bool, StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let blob: Option<i64> = transaction
        .query_row("SELECT number FROM blobs WHERE id = ?1", [id], |row| {
            row.get(0)
        })
        .optional()?;
    let Some(blob) = blob else {
        return Ok(false);
    };
    let deleted = transaction.execute(
        "DELETE FROM refs WHERE blob = ?1 AND owner = ?2",
        params![blob, owner],
    )?;
    transaction.execute(
        "DELETE FROM blobs WHERE number = ?1 AND number NOT IN (SELECT blob FROM refs)",
        [blob],
    )?;
    transaction.commit()?;
    // Deleted text must not stay in the write-ahead log either. It is deleted already if this fails.
    after_deletion(connection).ok();
    Ok(deleted > 0)
}

/// Texts without a reference: row number and stored size of each.
fn unreferenced_texts(connection: &Connection) -> Result<Vec<(i64, u64)>, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT number, stored FROM blobs
         WHERE number NOT IN (SELECT blob FROM refs) ORDER BY number LIMIT ?1",
    )?;
    let rows = select.query_map([TEXTS_PER_STEP], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The least recently used texts that exceed the quota: row number, and size with references, of
/// each.
fn texts_over_quota(
    connection: &Connection,
    mut total: u64,
    quota: u64,
) -> Result<Vec<(i64, u64)>, StoreError> {
    let mut texts = Vec::new();
    if total <= quota {
        return Ok(texts);
    }
    let mut select = connection.prepare_cached(&format!(
        "SELECT blobs.number, blobs.stored + sum({REFERENCE_SIZE})
         FROM blobs JOIN refs ON refs.blob = blobs.number
         GROUP BY blobs.number HAVING NOT max({IS_KEPT})
         ORDER BY max(refs.accessed), blobs.number"
    ))?;
    let mut rows = select.query([])?;
    while total > quota && texts.len() < TEXTS_PER_STEP {
        let Some(row) = rows.next()? else { break };
        let size: u64 = row.get(1)?;
        texts.push((row.get(0)?, size));
        total = total.saturating_sub(size);
    }
    Ok(texts)
}

/// The size of all texts as stored, and of all references, in bytes.
pub(super) fn stored_bytes(connection: &Connection) -> Result<u64, StoreError> {
    let mut select = connection.prepare_cached(&format!(
        "SELECT (SELECT coalesce(sum(stored), 0) FROM blobs)
              + (SELECT coalesce(sum({REFERENCE_SIZE}), 0) FROM refs)"
    ))?;
    Ok(select.query_row([], |row| row.get(0))?)
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

/// Gives free pages back and empties the write-ahead log, so that deleted text does not stay in it.
/// Readers may prevent the latter; then a later sweep does it.
pub(super) fn after_deletion(connection: &Connection) -> Result<(), StoreError> {
    release_free_pages(connection)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

/// Gives some of the free pages back to the file system. Returns whether there are more.
pub(super) fn release_free_pages(connection: &Connection) -> Result<bool, StoreError> {
    let free = || connection.pragma_query_value(None, "freelist_count", |row| row.get(0));
    let before: i64 = free()?;
    if before > 0 {
        // Each row of the result frees one page.
        connection.pragma(None, "incremental_vacuum", PAGES_PER_STEP, |_| Ok(()))?;
    }
    let left: i64 = free()?;
    if left == 0 && before > 0 {
        // Readers may prevent this; then the log is truncated another time.
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    }
    Ok(left > 0 && left < before)
}
