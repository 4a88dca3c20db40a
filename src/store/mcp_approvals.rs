//! The calls of tools of MCP servers that people were asked to approve, so that an approval is good
//! after a restart, and good once.

use super::session_table::SessionTable;

/// What became of a call, as JSON: a row when it was asked for, and one for each change. Of several
/// rows of a call the newest is right.
pub(super) static MCP_APPROVALS: SessionTable = SessionTable {
    name: "mcp_approvals",
    text: "approval",
    max_of_session: 1_024,
    max_rows: 16_384,
    max_bytes: 64 << 20,
};
