//! The sessions whose outputs are sent whole, because shortening them cost more than it saved.

use rusqlite::{Connection, params};

use super::Store;
use super::error::StoreError;
use crate::net::LOCAL_OWNER;

/// The most sessions that are stored. Beyond it those of the owner who has most are forgotten, the
/// one that was not used for the longest time first.
pub const MAX_WHOLE_SESSIONS: usize = 4096;

/// A session whose outputs are sent whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeSession {
    /// The owner.
    pub owner: String,
    /// The id of the session.
    pub session: String,
    /// The point from which on, as JSON.
    pub point: String,
    /// The time of its last use, in seconds since 1970.
    pub accessed: u64,
}

impl Store {
    /// Stores a session whose outputs are sent whole. False if the queue is full. Never blocks.
    pub fn put_whole_session(&self, session: WholeSession) -> bool {
        self.try_change(move |connection| put(connection, &session))
    }

    /// The sessions whose outputs are sent whole, the one that was not used for the longest time
    /// first.
    pub async fn whole_sessions(&self) -> Result<Vec<WholeSession>, StoreError> {
        self.read_small(LOCAL_OWNER, |reading, _| all(reading))
            .await
    }
}

/// Adds or replaces a session. In a transaction.
pub(super) fn put(connection: &Connection, session: &WholeSession) -> Result<(), StoreError> {
    let names = params![
        session.owner,
        session.session,
        session.point,
        session.accessed
    ];
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO whole_sessions (owner, session, point, accessed)
             VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(names)?;
    connection
        .prepare_cached(
            "DELETE FROM whole_sessions WHERE (owner, session) IN (
                 SELECT owner, session FROM whole_sessions WHERE owner = (
                     SELECT owner FROM whole_sessions
                     GROUP BY owner ORDER BY count(*) DESC LIMIT 1)
                 ORDER BY accessed, session
                 LIMIT max(0, (SELECT count(*) FROM whole_sessions) - ?1))",
        )?
        .execute([MAX_WHOLE_SESSIONS])?;
    Ok(())
}

/// All sessions, the one that was not used for the longest time first.
pub(super) fn all(connection: &Connection) -> Result<Vec<WholeSession>, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT owner, session, point, accessed FROM whole_sessions ORDER BY accessed",
    )?;
    let rows = select.query_map([], |row| {
        Ok(WholeSession {
            owner: row.get(0)?,
            session: row.get(1)?,
            point: row.get(2)?,
            accessed: row.get(3)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Deletes the sessions that were last used before a time.
pub(super) fn sweep(connection: &Connection, accessed_since: u64) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM whole_sessions WHERE accessed < ?1")?
        .execute([accessed_since])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::schema::tests::in_memory;
    use super::super::sweep::{self as artifacts, SweepLimits};
    use super::*;

    fn session(name: &str, accessed: u64) -> WholeSession {
        WholeSession {
            owner: "local".to_owned(),
            session: name.to_owned(),
            point: "{}".to_owned(),
            accessed,
        }
    }

    /// Promise: What is stored of sessions that are sent whole is limited and deleted when it has
    /// not been used for as long as artifacts are kept.
    #[test]
    fn a_session_has_one_row_and_old_ones_are_swept() {
        let mut connection = in_memory();
        for (name, accessed) in [("a", 10), ("b", 20), ("a", 30), ("c", 40)] {
            put(&connection, &session(name, accessed)).unwrap();
        }
        let names = |connection: &Connection| -> Vec<String> {
            let all = all(connection).unwrap();
            all.into_iter().map(|row| row.session).collect()
        };
        assert_eq!(names(&connection), ["b", "a", "c"]);
        let limits = SweepLimits {
            accessed_since: 30,
            max_bytes: 1_000,
        };
        artifacts::step(&mut connection, limits).unwrap();
        assert_eq!(names(&connection), ["a", "c"]);
    }

    #[test]
    fn the_sessions_are_limited() {
        let connection = in_memory();
        for number in 0..MAX_WHOLE_SESSIONS + 10 {
            let name = format!("s{number}");
            put(&connection, &session(&name, number as u64)).unwrap();
        }
        let left = all(&connection).unwrap();
        assert_eq!(left.len(), MAX_WHOLE_SESSIONS);
        assert_eq!(left[0].session, "s10");
        // Another owner has room, however old what he has is.
        let mut other = session("other", 0);
        other.owner = "other".to_owned();
        put(&connection, &other).unwrap();
        let left = all(&connection).unwrap();
        assert_eq!((&left[0], &*left[1].session), (&other, "s11"));
    }
}
