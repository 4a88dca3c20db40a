//! The addresses that sessions were shown of the web, so that the ids by which a model names them
//! mean the same after a restart, and the artifacts of the pages that they have read.

use super::Store;
use super::error::StoreError;
use super::session_table::{SessionRow, SessionTable};
use crate::net::memory::CountedValue;

/// The ids of calls with their addresses, and pages with their artifacts, as JSON: a row for each
/// call.
pub(super) static WEB_REFERENCES: SessionTable = SessionTable {
    name: "web_references",
    text: "ids",
    max_of_session: 256,
    max_rows: 16_384,
    max_bytes: 64 << 20,
};

impl Store {
    /// Stores the ids that a call of a session has made, and where its pages are kept, as JSON.
    /// Waits for the disk.
    pub async fn put_web_references(&self, call: SessionRow) -> Result<(), StoreError> {
        self.change(move |connection| WEB_REFERENCES.put(connection, &call))
            .await
    }

    /// The ids of the calls of a session, as JSON, the oldest first.
    pub async fn web_references(
        &self,
        owner: &str,
        session: &str,
    ) -> Result<CountedValue<Vec<String>>, StoreError> {
        self.of_session(&WEB_REFERENCES, owner, session).await
    }
}

#[cfg(test)]
mod tests {
    use super::super::reading::StoreRead;
    use super::super::schema::tests::in_memory;
    use super::super::sweep::{self, SweepLimits};
    use super::*;

    /// Promise: The ids by which a session names pages are stored with limits, and are deleted when
    /// they are as old as artifacts that are not kept.
    #[test]
    fn the_references_of_a_session_are_limited_and_swept() {
        let mut connection = in_memory();
        let calls = WEB_REFERENCES.max_of_session as u64 + 2;
        for call in 0..calls {
            let row = SessionRow {
                owner: "local".to_owned(),
                session: "s".to_owned(),
                text: call.to_string(),
                accessed: call,
            };
            WEB_REFERENCES.put(&connection, &row).unwrap();
        }
        let left = |connection: &_| {
            let reading = StoreRead::without_budget(connection);
            WEB_REFERENCES.of_session(&reading, "local", "s").unwrap()
        };
        let stored = left(&connection);
        assert_eq!((stored.len() as u64, &*stored[0]), (calls - 2, "2"));
        let limits = SweepLimits {
            accessed_since: calls - 1,
            max_bytes: 1_000,
        };
        sweep::step(&mut connection, limits).unwrap();
        assert_eq!(left(&connection), [(calls - 1).to_string()]);
    }
}
