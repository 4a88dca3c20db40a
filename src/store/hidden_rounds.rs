//! What clients did not see of answers, so that a session goes on after a restart as it would have
//! without one.

use rusqlite::{Connection, params};

use super::error::StoreError;
use super::reading::StoreRead;

/// The most answers of one session. Beyond it the oldest are forgotten.
const MAX_ANSWERS_OF_SESSION: usize = 64;
/// The most answers of all sessions. Beyond it the oldest of the owner who has most are forgotten.
const MAX_ANSWERS: usize = 4096;
/// The most bytes of all answers.
const MAX_BYTES: u64 = 256 << 20;
/// The most answers of which the bytes are summed up at once, and that are forgotten for one new
/// one.
const FORGOTTEN_AT_ONCE: usize = 16;

/// What a client did not see of one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenRoundsRow {
    /// The owner.
    pub owner: String,
    /// The id of the session.
    pub session: String,
    /// The rounds, as JSON.
    pub rounds: String,
    /// The time of the answer, in seconds since 1970.
    pub accessed: u64,
}

/// Adds an answer. In a transaction.
pub(super) fn put(connection: &Connection, answer: &HiddenRoundsRow) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO hidden_rounds (owner, session, bytes, accessed, rounds)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            answer.owner,
            answer.session,
            answer.rounds.len(),
            answer.accessed,
            answer.rounds
        ])?;
    connection
        .prepare_cached(
            "DELETE FROM hidden_rounds WHERE number IN (
                 SELECT number FROM hidden_rounds WHERE owner = ?1 AND session = ?2
                 ORDER BY number DESC LIMIT -1 OFFSET ?3)",
        )?
        .execute(params![
            answer.owner,
            answer.session,
            MAX_ANSWERS_OF_SESSION
        ])?;
    let mut sizes =
        connection.prepare_cached("SELECT count(*), coalesce(sum(bytes), 0) FROM hidden_rounds")?;
    let mut forget = connection.prepare_cached(
        "DELETE FROM hidden_rounds WHERE number = (
             SELECT min(number) FROM hidden_rounds WHERE owner = (
                 SELECT owner FROM hidden_rounds
                 GROUP BY owner ORDER BY sum(bytes) DESC LIMIT 1))",
    )?;
    for _ in 0..FORGOTTEN_AT_ONCE {
        let (count, bytes): (usize, u64) =
            sizes.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if count <= MAX_ANSWERS && bytes <= MAX_BYTES {
            break;
        }
        forget.execute([])?;
    }
    Ok(())
}

/// The sessions that have such answers: owner and session.
pub(super) fn sessions(connection: &Connection) -> Result<Vec<(String, String)>, StoreError> {
    let mut select =
        connection.prepare_cached("SELECT DISTINCT owner, session FROM hidden_rounds")?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The answers of a session as JSON, the oldest first.
pub(super) fn of_session(
    reading: &StoreRead<'_>,
    owner: &str,
    session: &str,
) -> Result<Vec<String>, StoreError> {
    let mut select = reading.prepare_cached(
        "SELECT rounds FROM hidden_rounds WHERE owner = ?1 AND session = ?2 ORDER BY number",
    )?;
    let mut rows = select.query([owner, session])?;
    let mut answers = Vec::new();
    while let Some(row) = rows.next()? {
        answers.push(reading.text(row, 0)?);
    }
    Ok(answers)
}

/// Deletes the answers from before a time.
pub(super) fn sweep(connection: &Connection, accessed_since: u64) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM hidden_rounds WHERE accessed < ?1")?
        .execute([accessed_since])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::schema::tests::in_memory;
    use super::super::sweep::{self as artifacts, SweepLimits};
    use super::*;

    fn of_session(connection: &Connection, owner: &str, session: &str) -> Vec<String> {
        super::of_session(&StoreRead::without_budget(connection), owner, session).unwrap()
    }

    fn answer(owner: &str, session: &str, rounds: &str, accessed: u64) -> HiddenRoundsRow {
        HiddenRoundsRow {
            owner: owner.to_owned(),
            session: session.to_owned(),
            rounds: rounds.to_owned(),
            accessed,
        }
    }

    /// Promise: What tools of the proxy have returned is stored with limits for a session and for
    /// all, and is deleted when it is as old as artifacts that are not kept.
    #[test]
    fn the_answers_of_a_session_are_limited_and_swept() {
        let mut connection = in_memory();
        for number in 0..MAX_ANSWERS_OF_SESSION as u64 + 2 {
            let rounds = number.to_string();
            put(&connection, &answer("local", "s", &rounds, number)).unwrap();
        }
        let left = of_session(&connection, "local", "s");
        assert_eq!((left.len(), &*left[0]), (MAX_ANSWERS_OF_SESSION, "2"));
        assert!(of_session(&connection, "other", "s").is_empty());
        let limits = SweepLimits {
            accessed_since: 60,
            max_bytes: 1_000,
        };
        artifacts::step(&mut connection, limits).unwrap();
        let left = of_session(&connection, "local", "s");
        assert_eq!(left, ["60", "61", "62", "63", "64", "65"]);
        assert_eq!(
            sessions(&connection).unwrap(),
            [("local".to_owned(), "s".to_owned())]
        );
    }

    #[test]
    fn the_owner_who_has_most_loses_first() {
        let connection = in_memory();
        for number in 0..MAX_ANSWERS + 3 {
            let session = format!("s{}", number / 8);
            put(&connection, &answer("much", &session, "x", 0)).unwrap();
        }
        put(&connection, &answer("little", "s", "y", 0)).unwrap();
        assert_eq!(of_session(&connection, "little", "s"), ["y"]);
        assert_eq!(of_session(&connection, "much", "s0").len(), 4);
    }
}
