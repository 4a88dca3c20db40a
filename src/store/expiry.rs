//! Deletes responses that were not used for long, or of which there are too many, and gives their
//! disk space back. Conversations are never deleted, and runs that go on keep their response.

use rusqlite::{Connection, TransactionBehavior, params};

use super::error::StoreError;
use super::{responses, sweep};

/// The most responses that one step deletes, so that writes do not wait for long.
const RESPONSES_PER_STEP: usize = 32;

/// Responses that may be deleted, those that were not used for the longest time first: number
/// and thread.
pub(super) const SELECT_OLDEST: &str = "SELECT number, thread FROM responses
     WHERE accessed < ?1
         AND NOT EXISTS (SELECT 1 FROM jobs WHERE response = number AND state <> 'ended')
     ORDER BY accessed, number LIMIT ?2";

/// The bytes that responses, conversations and their items take, about. Only indexes are read.
pub(super) const SELECT_SIZE: &str = "SELECT
     (SELECT coalesce(sum(bytes), 0) FROM responses)
     + (SELECT coalesce(sum(bytes), 0) FROM threads)
     + (SELECT coalesce(sum(stored), 0) FROM contents)";

/// The limits beyond which responses are deleted.
#[derive(Clone, Copy, Debug)]
pub struct ResponseLimits {
    /// Those last used before this time are deleted; in seconds since 1970.
    pub used_since: u64,
    /// The most bytes that responses and conversations may take on disk.
    pub max_bytes: u64,
}

/// The result of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiryStep {
    /// How many responses were deleted.
    pub deleted: u64,
    /// Whether another step has something to do.
    pub more: bool,
}

pub(super) fn step(
    connection: &mut Connection,
    limits: ResponseLimits,
) -> Result<ExpiryStep, StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut deleted = 0;
    for (number, thread) in oldest(&transaction, limits.used_since, RESPONSES_PER_STEP)? {
        responses::delete(&transaction, number, thread)?;
        deleted += 1;
    }
    // What a response frees is known when it is deleted, because others may have the same items.
    while deleted < RESPONSES_PER_STEP as u64 && size(&transaction)? > limits.max_bytes {
        let oldest = oldest(&transaction, i64::MAX.unsigned_abs(), 1)?;
        let Some((number, thread)) = oldest.first().copied() else {
            break;
        };
        responses::delete(&transaction, number, thread)?;
        deleted += 1;
    }
    transaction.commit()?;
    let more = deleted > 0 || sweep::release_free_pages(connection)?;
    Ok(ExpiryStep { deleted, more })
}

fn oldest(
    connection: &Connection,
    used_before: u64,
    limit: usize,
) -> Result<Vec<(i64, Option<i64>)>, StoreError> {
    let mut select = connection.prepare_cached(SELECT_OLDEST)?;
    let rows = select.query_map(params![used_before, limit], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The bytes that responses and conversations take.
pub(super) fn size(connection: &Connection) -> Result<u64, StoreError> {
    let mut select = connection.prepare_cached(SELECT_SIZE)?;
    Ok(select.query_row([], |row| row.get(0))?)
}
