//! Deletes artifacts that are too old or too many, and gives their disk space back.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::error::StoreError;
use super::hidden_rounds::HIDDEN_ROUNDS;
use super::image_texts::IMAGE_TEXTS;
use super::mcp_approvals::MCP_APPROVALS;
use super::model::SweepResult;
use super::token_ratios::TOKEN_RATIOS;
use super::web_references::WEB_REFERENCES;
use super::{learned, prompts, whole_sessions};

/// The most texts that one step deletes, so that writes do not wait for long.
const TEXTS_PER_STEP: u64 = 32;

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
    /// The most bytes that texts and references may take on disk. Beyond it owners who have more
    /// than an equal part lose the artifacts that they used least recently.
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
    learned::sweep(&transaction, limits.accessed_since)?;
    for table in [
        &HIDDEN_ROUNDS,
        &WEB_REFERENCES,
        &MCP_APPROVALS,
        &IMAGE_TEXTS,
        &TOKEN_RATIOS,
    ] {
        table.sweep(&transaction, limits.accessed_since)?;
    }
    let mut swept = SweepResult::default();
    for (blob, stored) in unreferenced_texts(&transaction)? {
        transaction
            .prepare_cached("DELETE FROM blobs WHERE number = ?1")?
            .execute([blob])?;
        swept.artifacts += 1;
        swept.bytes += stored;
    }
    let mut stored_bytes = None;
    if swept.artifacts == 0 {
        let total = self::stored_bytes(&transaction)?;
        delete_beyond(&transaction, total, limits.max_bytes, &mut swept)?;
        stored_bytes = (swept.artifacts == 0).then_some(total);
    }
    transaction.commit()?;
    let has_deleted = swept.artifacts > 0;
    let more = has_deleted || release_free_pages(connection)?;
    Ok(SweepStep {
        swept,
        stored_bytes,
        references_deleted: refs > 0 || has_deleted,
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
    let (deleted, _) = delete_of_owner(&transaction, blob, owner)?;
    transaction.commit()?;
    Ok(deleted)
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

/// Deletes the least recently used artifacts of owners who have more than an equal part of the
/// quota, of the one who has most first. A text that several owners have counts for each of them.
fn delete_beyond(
    connection: &Connection,
    mut total: u64,
    quota: u64,
    swept: &mut SweepResult,
) -> Result<(), StoreError> {
    if total <= quota {
        return Ok(());
    }
    let mut sizes = sizes_of_owners(connection)?;
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    let share = quota / (sizes.len() as u64).max(1);
    // A text that a stored session of any owner needs stays, and so do the references of other
    // owners to it.
    let mut select = connection.prepare_cached(&format!(
        "SELECT blob, stored, sum({REFERENCE_SIZE})
         FROM refs AS own JOIN blobs ON blobs.number = blob
         WHERE owner = ?1
             AND NOT EXISTS (SELECT 1 FROM refs WHERE refs.blob = own.blob AND {IS_KEPT})
         GROUP BY blob ORDER BY max(accessed), blob LIMIT ?2"
    ))?;
    for (mut own, owner) in sizes {
        let room = TEXTS_PER_STEP.saturating_sub(swept.artifacts);
        let mut rows = select.query(params![owner, room])?;
        while total > quota && own > share {
            let Some(row) = rows.next()? else { break };
            let (blob, stored, references): (i64, u64, u64) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
            let was_last = delete_of_owner(connection, blob, &owner)?.1;
            let freed = references + if was_last { stored } else { 0 };
            swept.artifacts += 1;
            swept.bytes += freed;
            total = total.saturating_sub(freed);
            own = own.saturating_sub(stored + references);
        }
    }
    Ok(())
}

/// The bytes that the texts and references of each owner take, and the owner.
fn sizes_of_owners(connection: &Connection) -> Result<Vec<(u64, String)>, StoreError> {
    let mut next = connection.prepare_cached("SELECT min(owner) FROM refs WHERE owner > ?1")?;
    let mut size = connection.prepare_cached(&format!(
        "SELECT (SELECT coalesce(sum({REFERENCE_SIZE}), 0) FROM refs WHERE owner = ?1)
              + (SELECT coalesce(sum(stored), 0) FROM blobs
                 WHERE number IN (SELECT blob FROM refs WHERE owner = ?1))"
    ))?;
    let mut sizes: Vec<(u64, String)> = Vec::new();
    loop {
        let last = sizes.last().map_or("", |(_, owner)| owner);
        let Some(owner) = next.query_row([last], |row| row.get::<_, Option<String>>(0))? else {
            return Ok(sizes);
        };
        sizes.push((size.query_row([&owner], |row| row.get(0))?, owner));
    }
}

/// The size of all texts as stored, and of all references, in bytes.
pub(super) fn stored_bytes(connection: &Connection) -> Result<u64, StoreError> {
    let mut select = connection.prepare_cached(&format!(
        "SELECT (SELECT coalesce(sum(stored), 0) FROM blobs)
              + (SELECT coalesce(sum({REFERENCE_SIZE}), 0) FROM refs)"
    ))?;
    Ok(select.query_row([], |row| row.get(0))?)
}

/// Deletes the references of an owner to a text, and the text if no other owner has it. Returns
/// whether there were references, and whether the text was deleted.
fn delete_of_owner(
    connection: &Connection,
    blob: i64,
    owner: &str,
) -> Result<(bool, bool), StoreError> {
    let references = connection
        .prepare_cached("DELETE FROM refs WHERE blob = ?1 AND owner = ?2")?
        .execute(params![blob, owner])?;
    let texts = connection
        .prepare_cached(
            "DELETE FROM blobs
             WHERE number = ?1 AND NOT EXISTS (SELECT 1 FROM refs WHERE blob = ?1)",
        )?
        .execute([blob])?;
    Ok((references > 0, texts > 0))
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
    Ok(left > 0 && left < before)
}
