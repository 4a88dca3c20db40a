//! The calls of tools of MCP servers that people were asked to approve, so that an approval is good
//! after a restart, and good once.

use super::Store;
use super::error::StoreError;
use super::session_table::{SessionRow, SessionTable};
use crate::net::memory::CountedValue;

/// What became of a call, as JSON: a row when it was asked for, and one for each change. Of several
/// rows of a call the newest is right.
pub(super) static MCP_APPROVALS: SessionTable = SessionTable {
    name: "mcp_approvals",
    text: "approval",
    max_of_session: 1_024,
    max_rows: 16_384,
    max_bytes: 64 << 20,
};

impl Store {
    /// Stores what became of a call that a person was asked to approve, as JSON. False if the queue
    /// is full. Never blocks.
    pub fn note_mcp_approval(&self, approval: SessionRow) -> bool {
        self.try_change(move |connection| MCP_APPROVALS.put(connection, &approval))
    }

    /// The same. Waits for the disk.
    pub async fn put_mcp_approval(&self, approval: SessionRow) -> Result<(), StoreError> {
        self.change(move |connection| MCP_APPROVALS.put(connection, &approval))
            .await
    }

    /// What became of the calls of a session that people were asked to approve, as JSON, the oldest
    /// first.
    pub async fn mcp_approvals(
        &self,
        owner: &str,
        session: &str,
    ) -> Result<CountedValue<Vec<String>>, StoreError> {
        self.of_session(&MCP_APPROVALS, owner, session).await
    }
}
