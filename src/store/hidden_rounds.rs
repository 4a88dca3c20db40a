//! What clients did not see of answers, so that a session goes on after a restart as it would have
//! without one.

use rusqlite::{Connection, params};

use super::Store;
use super::error::StoreError;
use super::session_table::{SessionRow, SessionTable};
use crate::net::LOCAL_OWNER;
use crate::net::memory::CountedValue;

/// The most answers of one session.
const MAX_ANSWERS_OF_SESSION: usize = 64;
/// The most answers of all sessions.
pub const MAX_HIDDEN_ROUNDS: usize = 4096;

/// The rounds of answers, as JSON: a row for each answer.
pub(super) static HIDDEN_ROUNDS: SessionTable = SessionTable {
    name: "hidden_rounds",
    text: "rounds",
    max_of_session: MAX_ANSWERS_OF_SESSION,
    max_rows: MAX_HIDDEN_ROUNDS,
    max_bytes: 256 << 20,
};

impl Store {
    /// Stores what a client did not see of an answer so far. `replaces` is the length of what was
    /// stored of it before, or 0. False if the queue is full. Never blocks.
    pub fn put_hidden_rounds(&self, answer: SessionRow, replaces: usize) -> bool {
        self.try_change(move |connection| put(connection, &answer, replaces))
    }

    /// The sessions of which something is stored that the client did not see: owner and session.
    pub async fn sessions_with_hidden_rounds(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.read_small(LOCAL_OWNER, |reading, _| HIDDEN_ROUNDS.sessions(reading))
            .await
    }

    /// What the client did not see of the answers of a session, as JSON, the oldest first.
    pub async fn hidden_rounds(
        &self,
        owner: &str,
        session: &str,
    ) -> Result<CountedValue<Vec<String>>, StoreError> {
        self.of_session(&HIDDEN_ROUNDS, owner, session).await
    }
}

/// Adds the rounds of an answer, a list. `replaces` is the length of what was stored of the same
/// answer before, which is the beginning of this list; 0 if nothing was. In a transaction.
pub(super) fn put(
    connection: &Connection,
    answer: &SessionRow,
    replaces: usize,
) -> Result<(), StoreError> {
    let begin = answer.text.get(..replaces.saturating_sub(1));
    if let Some(begin) = begin.filter(|begin| !begin.is_empty()) {
        connection
            .prepare_cached(
                "DELETE FROM hidden_rounds WHERE number = (
                     SELECT max(number) FROM hidden_rounds
                     WHERE owner = ?1 AND session = ?2 AND bytes = ?3 AND rounds = ?4)",
            )?
            .execute(params![
                answer.owner,
                answer.session,
                replaces,
                format!("{begin}]")
            ])?;
    }
    HIDDEN_ROUNDS.put(connection, answer)
}

#[cfg(test)]
mod tests {
    use super::super::reading::StoreRead;
    use super::super::schema::tests::in_memory;
    use super::super::sweep::{self as artifacts, SweepLimits};
    use super::*;

    fn of_session(connection: &Connection, owner: &str, session: &str) -> Vec<String> {
        let reading = StoreRead::without_budget(connection);
        HIDDEN_ROUNDS.of_session(&reading, owner, session).unwrap()
    }

    fn answer(owner: &str, session: &str, rounds: &str, accessed: u64) -> SessionRow {
        SessionRow {
            owner: owner.to_owned(),
            session: session.to_owned(),
            text: rounds.to_owned(),
            accessed,
        }
    }

    /// Promise: The rounds of an answer are stored once, however many it has and whatever else is
    /// stored meanwhile.
    #[test]
    fn further_rounds_replace_the_first_ones() {
        let connection = in_memory();
        let mut begun = 0;
        for rounds in ["[1]", "[1,2]", "[1,2,3]"] {
            put(&connection, &answer("local", "s", rounds, 0), begun).unwrap();
            begun = rounds.len();
            for (owner, session) in [("local", "s"), ("local", "t"), ("other", "s")] {
                put(&connection, &answer(owner, session, "[7,8]", 0), 0).unwrap();
            }
        }
        let all = of_session(&connection, "local", "s");
        assert_eq!(all, ["[7,8]", "[7,8]", "[1,2,3]", "[7,8]"]);
        // The first rounds of another answer that are missing, because the store was busy.
        put(&connection, &answer("local", "t", "[5,6]", 0), 3).unwrap();
        let all = of_session(&connection, "local", "t");
        assert_eq!(all, ["[7,8]", "[7,8]", "[7,8]", "[5,6]"]);
    }

    /// Promise: What tools of the proxy have returned is stored with limits for a session and for
    /// all, and is deleted when it is as old as artifacts that are not kept.
    #[test]
    fn the_answers_of_a_session_are_limited_and_swept() {
        let mut connection = in_memory();
        for number in 0..MAX_ANSWERS_OF_SESSION as u64 + 2 {
            let rounds = number.to_string();
            HIDDEN_ROUNDS
                .put(&connection, &answer("local", "s", &rounds, number))
                .unwrap();
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
            HIDDEN_ROUNDS.sessions(&connection).unwrap(),
            [("local".to_owned(), "s".to_owned())]
        );
    }

    #[test]
    fn the_owner_who_has_most_loses_first() {
        let connection = in_memory();
        for number in 0..MAX_HIDDEN_ROUNDS + 3 {
            let session = format!("s{}", number / 8);
            HIDDEN_ROUNDS
                .put(&connection, &answer("much", &session, "x", 0))
                .unwrap();
        }
        HIDDEN_ROUNDS
            .put(&connection, &answer("little", "s", "y", 0))
            .unwrap();
        assert_eq!(of_session(&connection, "little", "s"), ["y"]);
        assert_eq!(of_session(&connection, "much", "s0").len(), 4);
    }
}
