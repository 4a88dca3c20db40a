//! How much each owner has stored, for the limits of responses and conversations. Only indexes are
//! read for it. A large item that owners share counts for each of them.

use rusqlite::{Connection, params};

use super::error::StoreError;
use super::expiry::{self, ResponseLimits};

/// The bytes that the row of a conversation takes besides its metadata, with its places in the
/// indexes.
const CONVERSATION_BASE: u64 = 256;

/// The owner behind another one, of those who have responses or conversations.
pub(super) const SELECT_NEXT_OWNER: &str = "SELECT min(next) FROM (
     SELECT min(owner) AS next FROM threads WHERE owner > ?1
     UNION ALL SELECT min(owner) FROM responses WHERE owner > ?1)";

/// The bytes that the responses and conversations of an owner take, about.
pub(super) const SELECT_SIZE_OF_OWNER: &str = "SELECT
     (SELECT coalesce(sum(bytes), 0) FROM responses INDEXED BY responses_by_use WHERE owner = ?1)
     + (SELECT coalesce(sum(bytes), 0) FROM threads WHERE owner = ?1)
     + (SELECT coalesce(sum(stored), 0) FROM contents INDEXED BY contents_by_number
        WHERE number IN (
            SELECT parameters FROM responses INDEXED BY responses_by_use WHERE owner = ?1
            UNION ALL SELECT content FROM threads
                CROSS JOIN items INDEXED BY items_with_content
                    ON items.number >= threads.number << 24
                    AND items.number < (threads.number + 1) << 24
                WHERE threads.owner = ?1 AND content IS NOT NULL))";

/// The bytes that the conversations of an owner take, about.
pub(super) const SELECT_CONVERSATIONS_SIZE: &str = "SELECT
     (SELECT coalesce(sum(?2 + length(CAST(metadata AS BLOB)) + threads.bytes), 0)
      FROM conversations INDEXED BY conversations_by_size
      CROSS JOIN threads ON threads.number = thread WHERE conversations.owner = ?1)
     + (SELECT coalesce(sum(stored), 0) FROM contents INDEXED BY contents_by_number
        WHERE number IN (
            SELECT content FROM conversations INDEXED BY conversations_by_size
                CROSS JOIN items INDEXED BY items_with_content
                    ON items.number >= thread << 24 AND items.number < (thread + 1) << 24
                WHERE conversations.owner = ?1 AND content IS NOT NULL))";

/// All owners who have responses or conversations.
pub(super) fn owners(connection: &Connection) -> Result<Vec<String>, StoreError> {
    let mut select = connection.prepare_cached(SELECT_NEXT_OWNER)?;
    let mut owners: Vec<String> = Vec::new();
    loop {
        let last = owners.last().map_or("", String::as_str);
        match select.query_row([last], |row| row.get(0))? {
            Some(next) => owners.push(next),
            None => return Ok(owners),
        }
    }
}

/// The bytes that the responses and conversations of an owner take.
pub(super) fn size(connection: &Connection, owner: &str) -> Result<u64, StoreError> {
    let mut select = connection.prepare_cached(SELECT_SIZE_OF_OWNER)?;
    Ok(select.query_row([owner], |row| row.get(0))?)
}

/// The bytes of the database: what is in it takes no more.
const SELECT_DATABASE_SIZE: &str =
    "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";

/// The most bytes that the conversations of an owner may take, if `added` bytes more would exceed
/// it.
pub(super) fn exceeded_limit(
    connection: &Connection,
    owner: &str,
    added: u64,
    limits: ResponseLimits,
) -> Result<Option<u64>, StoreError> {
    let owners = owners(connection)?;
    let is_new = !owners.iter().any(|other| other == owner);
    let share = limits.max_bytes / (owners.len() as u64 + u64::from(is_new));
    let mut select = connection.prepare_cached(SELECT_DATABASE_SIZE)?;
    let all: u64 = select.query_row([], |row| row.get(0))?;
    if all.saturating_add(added) <= limits.max_owner_bytes.unwrap_or(share).min(share) {
        return Ok(None);
    }
    let mut select = connection.prepare_cached(SELECT_CONVERSATIONS_SIZE)?;
    let own: u64 = select.query_row(params![owner, CONVERSATION_BASE], |row| row.get(0))?;
    let with_added = own.saturating_add(added);
    if let Some(most) = limits.max_owner_bytes.filter(|most| with_added > *most) {
        return Ok(Some(most));
    }
    let is_over =
        with_added > share && expiry::size(connection)?.saturating_add(added) > limits.max_bytes;
    Ok(is_over.then_some(share))
}
