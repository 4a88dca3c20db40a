//! The prompts of the last responses as hashes, for `prompt_cache_diagnostics` after a restart. The
//! prompts of a growing history share one row of hashes.

use rusqlite::{Connection, OptionalExtension, Params, params};

use super::Store;
use super::error::StoreError;

/// The most prompts of one session. Beyond it the oldest are forgotten.
pub const MAX_PROMPTS_OF_SESSION: usize = 64;

/// The most prompts of all sessions.
const MAX_PROMPTS: usize = 4096;

/// The most bytes of the hashes of all histories.
const MAX_BYTES: u64 = 128 * (MAX_PROMPT_BYTES as u64);

/// Summing up the bytes of the hashes reads them all, so it happens once in this many prompts; the
/// limit may be exceeded in between.
const SUM_EVERY: i64 = 16;

/// The most bytes of the hashes of one prompt; longer ones are not stored.
const MAX_PROMPT_BYTES: usize = 256 << 10;

/// A prompt that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredPrompt {
    /// The owner.
    pub owner: String,
    /// The id of the session.
    pub session: String,
    /// The id of the response.
    pub response: String,
    /// The response whose prompt this one begins with, if it is known.
    pub continues: Option<String>,
    /// Its hashes.
    pub parts: Vec<u8>,
    /// What else is compared, as JSON.
    pub details: String,
    /// Whether it asks for a summary.
    pub asks_for_summary: bool,
    /// The time of the answer, in seconds since 1970.
    pub accessed: u64,
}

/// A prompt that was found again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPrompt {
    /// Its hashes.
    pub parts: Vec<u8>,
    /// What else is compared, as JSON.
    pub details: String,
    /// Whether it asked for a summary, or a later prompt of its session did.
    pub summarized: bool,
}

impl Store {
    /// Stores the prompt of a response. False if the queue is full. Never blocks.
    pub fn put_prompt(&self, prompt: AnsweredPrompt) -> bool {
        self.try_change(move |connection| put(connection, &prompt))
    }

    /// The prompt of a response; `None` if the owner has no such response.
    pub async fn find_prompt(
        &self,
        owner: &str,
        response: &str,
    ) -> Result<Option<FoundPrompt>, StoreError> {
        let response = response.to_owned();
        self.read_small(owner, move |reading, owner| find(reading, owner, &response))
            .await
    }
}

/// Adds the prompt of a response, or replaces an earlier one of the same response. In a
/// transaction.
pub(super) fn put(connection: &Connection, prompt: &AnsweredPrompt) -> Result<(), StoreError> {
    if prompt.parts.len() > MAX_PROMPT_BYTES {
        return Ok(());
    }
    let history = put_history(connection, prompt)?;
    let names = [&prompt.owner, &prompt.response];
    let mut orphaned = delete(connection, "owner = ?1 AND response = ?2", names)?;
    let number = connection
        .prepare_cached(
            "INSERT INTO prompts
             (owner, response, session, history, bytes, details, summary, accessed)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .insert(params![
            prompt.owner,
            prompt.response,
            prompt.session,
            history,
            prompt.parts.len(),
            prompt.details,
            prompt.asks_for_summary,
            prompt.accessed
        ])?;
    orphaned.extend(delete(
        connection,
        "number IN (SELECT number FROM prompts WHERE owner = ?1 AND session = ?2
             ORDER BY number DESC LIMIT -1 OFFSET ?3)",
        params![prompt.owner, prompt.session, MAX_PROMPTS_OF_SESSION],
    )?);
    orphaned.extend(delete(
        connection,
        "number IN (SELECT number FROM prompts
             WHERE owner = (SELECT owner FROM prompts GROUP BY owner ORDER BY count(*) DESC LIMIT 1)
             ORDER BY number LIMIT max(0, (SELECT count(*) FROM prompts) - ?1))",
        [MAX_PROMPTS],
    )?);
    let mut unused = connection.prepare_cached(
        "DELETE FROM prompt_histories
         WHERE number = ?1 AND NOT EXISTS (SELECT 1 FROM prompts WHERE history = ?1)",
    )?;
    for history in orphaned {
        unused.execute([history])?;
    }
    if number % SUM_EVERY == 0 {
        limit_bytes(connection, MAX_BYTES)?;
    }
    Ok(())
}

/// Deletes the prompts that a condition holds for. Returns their histories, which other prompts may
/// still use.
fn delete(
    connection: &Connection,
    condition: &str,
    values: impl Params,
) -> Result<Vec<i64>, StoreError> {
    let mut delete = connection.prepare_cached(&format!(
        "DELETE FROM prompts WHERE {condition} RETURNING history"
    ))?;
    let rows = delete.query_map(values, |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The number of the history of a prompt, which has the hashes of the prompt now.
fn put_history(connection: &Connection, prompt: &AnsweredPrompt) -> Result<i64, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT history FROM prompts JOIN prompt_histories ON prompt_histories.number = history
         WHERE owner = ?1 AND response = ?2 AND substr(?3, 1, length(parts)) = parts",
    )?;
    let names = params![prompt.owner, prompt.continues, prompt.parts];
    let known: Option<i64> = select.query_row(names, |row| row.get(0)).optional()?;
    let Some(history) = known else {
        let mut insert =
            connection.prepare_cached("INSERT INTO prompt_histories (parts) VALUES (?1)")?;
        return Ok(insert.insert([&prompt.parts])?);
    };
    connection
        .prepare_cached("UPDATE prompt_histories SET parts = ?2 WHERE number = ?1")?
        .execute(params![history, prompt.parts])?;
    Ok(history)
}

/// Deletes the oldest histories with their prompts, of the owner whose hashes take most, until all
/// take `max_bytes` bytes at most.
fn limit_bytes(connection: &Connection, max_bytes: u64) -> Result<(), StoreError> {
    let mut sum = connection
        .prepare_cached("SELECT coalesce(sum(length(parts)), 0) FROM prompt_histories")?;
    while sum.query_row([], |row| row.get::<_, u64>(0))? > max_bytes {
        let deleted = connection
            .prepare_cached(
                "DELETE FROM prompts WHERE history = (
                     SELECT history FROM prompts WHERE owner = (
                         SELECT owner FROM prompts GROUP BY owner ORDER BY sum(bytes) DESC LIMIT 1)
                     GROUP BY history ORDER BY max(number) LIMIT 1)",
            )?
            .execute([])?;
        delete_unused(connection)?;
        if deleted == 0 {
            break;
        }
    }
    Ok(())
}

/// Deletes the histories that have no prompt any more.
fn delete_unused(connection: &Connection) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "DELETE FROM prompt_histories WHERE NOT EXISTS (
                 SELECT 1 FROM prompts WHERE history = prompt_histories.number)",
        )?
        .execute([])?;
    Ok(())
}

/// The prompt of a response; `None` if the owner has no such response.
pub(super) fn find(
    connection: &Connection,
    owner: &str,
    response: &str,
) -> Result<Option<FoundPrompt>, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT substr(parts, 1, bytes), details, EXISTS (
             SELECT 1 FROM prompts AS later
             WHERE later.owner = prompts.owner AND later.session = prompts.session
             AND later.number >= prompts.number AND later.summary)
         FROM prompts JOIN prompt_histories ON prompt_histories.number = history
         WHERE owner = ?1 AND response = ?2",
    )?;
    let found = select.query_row([owner, response], |row| {
        Ok(FoundPrompt {
            parts: row.get(0)?,
            details: row.get(1)?,
            summarized: row.get(2)?,
        })
    });
    Ok(found.optional()?)
}

/// Deletes the prompts that were answered before a time.
pub(super) fn sweep(connection: &Connection, accessed_since: u64) -> Result<(), StoreError> {
    let deleted = connection
        .prepare_cached("DELETE FROM prompts WHERE accessed < ?1")?
        .execute([accessed_since])?;
    if deleted > 0 {
        delete_unused(connection)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::schema::tests::in_memory;
    use super::super::sweep::{self as artifacts, SweepLimits};
    use super::*;

    fn prompt(response: &str, continues: Option<&str>, parts: Vec<u8>) -> AnsweredPrompt {
        AnsweredPrompt {
            owner: "local".to_owned(),
            session: "s".to_owned(),
            response: response.to_owned(),
            continues: continues.map(str::to_owned),
            parts,
            details: format!("{{\"of\":\"{response}\"}}"),
            asks_for_summary: false,
            accessed: 10,
        }
    }

    fn count(connection: &Connection, table: &str) -> u64 {
        let count = format!("SELECT count(*) FROM {table}");
        connection.query_row(&count, [], |row| row.get(0)).unwrap()
    }

    fn found(connection: &Connection, response: &str) -> Option<FoundPrompt> {
        find(connection, "local", response).unwrap()
    }

    #[test]
    fn prompts_of_a_history_share_its_hashes() {
        let connection = in_memory();
        for prompt in [
            prompt("r1", None, vec![1; 32]),
            prompt("r2", Some("r1"), vec![1; 48]),
            // It does not begin with the other, whatever it claims.
            prompt("r3", Some("r2"), vec![3; 64]),
            prompt("r2", Some("r2"), vec![1; 64]),
        ] {
            put(&connection, &prompt).unwrap();
        }
        assert_eq!(count(&connection, "prompt_histories"), 2);
        for (response, parts) in [
            ("r1", vec![1; 32]),
            ("r2", vec![1; 64]),
            ("r3", vec![3; 64]),
        ] {
            let expected = FoundPrompt {
                parts,
                details: format!("{{\"of\":\"{response}\"}}"),
                summarized: false,
            };
            assert_eq!(found(&connection, response), Some(expected), "{response}");
        }
        assert_eq!(found(&connection, "r4"), None);
        assert_eq!(find(&connection, "them", "r1").unwrap(), None);
    }

    #[test]
    fn a_history_that_has_no_prompt_any_more_is_deleted() {
        let connection = in_memory();
        for parts in [vec![1; 16], vec![2; 16], vec![3; 16]] {
            put(&connection, &prompt("r1", None, parts)).unwrap();
        }
        assert_eq!(count(&connection, "prompts"), 1);
        assert_eq!(count(&connection, "prompt_histories"), 1);
    }

    #[test]
    fn a_summary_after_a_prompt_is_known() {
        let connection = in_memory();
        for (response, asks_for_summary) in [("r1", false), ("r2", true), ("r3", false)] {
            let mut prompt = prompt(response, None, vec![1; 16]);
            prompt.asks_for_summary = asks_for_summary;
            put(&connection, &prompt).unwrap();
        }
        let summarized = ["r1", "r2", "r3"].map(|id| found(&connection, id).unwrap().summarized);
        assert_eq!(summarized, [true, true, false]);
    }

    /// Promise: What is stored to compare prompts are hashes, of stored responses alone; they are
    /// limited, written after the answer and deleted when artifacts of their age are; and it lists
    /// the reasoning that the model did not get (`input_transformations`).
    #[test]
    fn stored_prompts_are_limited_and_swept() {
        let mut connection = in_memory();
        let mut long = prompt("long", None, vec![1; MAX_PROMPT_BYTES + 1]);
        put(&connection, &long).unwrap();
        assert_eq!(found(&connection, "long"), None);
        for number in 0..MAX_PROMPTS_OF_SESSION + 10 {
            let name = format!("r{number}");
            put(&connection, &prompt(&name, None, vec![1; 16])).unwrap();
        }
        let left = MAX_PROMPTS_OF_SESSION as u64;
        assert_eq!(count(&connection, "prompts"), left);
        assert_eq!(count(&connection, "prompt_histories"), left);
        assert_eq!(found(&connection, "r9"), None);
        // Other sessions have room of their own, until all hashes take too much.
        for number in 0..128 + 2 * SUM_EVERY {
            long.session = format!("s{number}");
            long.response = format!("long {number}");
            long.parts = vec![1; MAX_PROMPT_BYTES];
            long.accessed = 20;
            put(&connection, &long).unwrap();
        }
        assert_eq!(found(&connection, "long 16"), None);
        assert!(found(&connection, "long 32").is_some());
        assert!((128..128 + SUM_EVERY as u64).contains(&count(&connection, "prompts")));
        let limits = SweepLimits {
            accessed_since: 30,
            max_bytes: 1_000,
        };
        artifacts::step(&mut connection, limits).unwrap();
        assert_eq!(count(&connection, "prompts"), 0);
        assert_eq!(count(&connection, "prompt_histories"), 0);
    }
}
