//! What the MCP servers of a request offer.

use serde::{Deserialize, Serialize};

/// The servers of one request. Made before its first round, where the proxy connects to them, and
/// stays the same until its answer ends. The functions that the model gets are tools of the proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct McpListing {
    /// The servers in the order of the request.
    pub servers: Vec<ListedMcpServer>,
    /// What the model is told of servers that cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
    /// The servers and tools that were left out or changed: a note of the turn for each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// The tools of one server, as the client sees them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ListedMcpServer {
    /// The name of the server in the request.
    pub label: String,
    /// The tools as a JSON list.
    pub tools: String,
    /// Why there is no list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
