//! Deletes responses that were not used for long, and those beyond an owner's limit, and gives
//! their disk space back. Conversations are never deleted, and jobs that go on keep their response.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::error::StoreError;
use super::{owner_sizes, responses, sweep};

/// The most responses that one step deletes, so that writes do not wait for long.
const RESPONSES_PER_STEP: u64 = 32;

/// The longest time for which one step goes on to sum up sizes.
const STEP_TIME: Duration = Duration::from_millis(20);

/// Responses that may be deleted, those that were not used for the longest time first: number
/// and thread.
pub(super) const SELECT_OLDEST: &str = "SELECT number, thread FROM responses
     WHERE accessed < ?1
         AND NOT EXISTS (SELECT 1 FROM jobs WHERE response = number AND state <> 'ended')
     ORDER BY accessed, number LIMIT ?2";

/// The response of an owner that may be deleted and was not used for the longest time.
pub(super) const SELECT_OLDEST_OF_OWNER: &str = "SELECT number, thread FROM responses
     WHERE owner = ?1
         AND NOT EXISTS (SELECT 1 FROM jobs WHERE response = number AND state <> 'ended')
     ORDER BY accessed, number LIMIT 1";

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
    /// The most bytes that responses and conversations may take on disk. Beyond it those who have
    /// more than an equal part lose responses.
    pub max_bytes: u64,
    /// The most bytes of one owner, whatever the others have.
    pub max_owner_bytes: Option<u64>,
}

/// The result of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpiryStep {
    /// How many responses were deleted because they were not used for long.
    pub unused: u64,
    /// How many of each owner were deleted because they were too many.
    pub over_limit: BTreeMap<String, u64>,
    /// Whether another step has something to do.
    pub more: bool,
    /// How many responses there are, after the last step.
    pub kept: u64,
}

pub(super) fn step(
    connection: &mut Connection,
    limits: ResponseLimits,
) -> Result<ExpiryStep, StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut step = ExpiryStep::default();
    for (number, thread) in unused(&transaction, limits.used_since)? {
        responses::delete(&transaction, number, thread)?;
        step.unused += 1;
    }
    if step.unused < RESPONSES_PER_STEP {
        delete_beyond(&transaction, limits, &mut step.over_limit)?;
    }
    transaction.commit()?;
    let has_deleted = step.unused > 0 || !step.over_limit.is_empty();
    step.more = has_deleted || sweep::release_free_pages(connection)?;
    if !step.more {
        let mut select = connection.prepare_cached("SELECT count(*) FROM responses")?;
        step.kept = select.query_row([], |row| row.get(0))?;
    }
    Ok(step)
}

/// Deletes responses of owners who have more than they may, of the one who has most first.
fn delete_beyond(
    connection: &Connection,
    limits: ResponseLimits,
    deleted: &mut BTreeMap<String, u64>,
) -> Result<(), StoreError> {
    let mut total = size(connection)?;
    if total <= limits.max_bytes && limits.max_owner_bytes.is_none() {
        return Ok(());
    }
    let owners = owner_sizes::owners(connection)?;
    let share = limits.max_bytes / (owners.len() as u64).max(1);
    let is_over = |own: u64, total: u64| {
        limits.max_owner_bytes.is_some_and(|most| own > most)
            || (total > limits.max_bytes && own > share)
    };
    let mut sizes = Vec::new();
    for owner in owners {
        sizes.push((owner_sizes::size(connection, &owner)?, owner));
    }
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    let began = Instant::now();
    let mut count = 0;
    let mut select = connection.prepare_cached(SELECT_OLDEST_OF_OWNER)?;
    for (mut own, owner) in sizes {
        while is_over(own, total) {
            if count == RESPONSES_PER_STEP || (count > 0 && began.elapsed() > STEP_TIME) {
                return Ok(());
            }
            let oldest = select.query_row([&owner], |row| Ok((row.get(0)?, row.get(1)?)));
            let Some((number, thread)) = oldest.optional()? else {
                break;
            };
            responses::delete(connection, number, thread)?;
            count += 1;
            *deleted.entry(owner.clone()).or_default() += 1;
            // What a response frees is known when it is deleted, because others may have the same
            // items.
            own = owner_sizes::size(connection, &owner)?;
            total = size(connection)?;
        }
    }
    Ok(())
}

fn unused(
    connection: &Connection,
    used_before: u64,
) -> Result<Vec<(i64, Option<i64>)>, StoreError> {
    let mut select = connection.prepare_cached(SELECT_OLDEST)?;
    let rows = select.query_map(params![used_before, RESPONSES_PER_STEP], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The bytes that responses and conversations take.
pub(super) fn size(connection: &Connection) -> Result<u64, StoreError> {
    let mut select = connection.prepare_cached(SELECT_SIZE)?;
    Ok(select.query_row([], |row| row.get(0))?)
}
