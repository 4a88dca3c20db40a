//! The calls that a response asks a person to approve.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The most calls that one event names, and the most bytes of each of their texts. Those with
/// longer ids are left out, and longer names are cut off.
const MAX_REQUESTS: usize = 32;
const MAX_TEXT: usize = 128;

/// A call that a person is asked to approve, without its arguments. Made of an
/// `mcp_approval_request`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct ApprovalRequest {
    /// The id of the item, which the approval names.
    pub id: String,
    /// The name of the MCP server in the request.
    pub server_label: String,
    /// The name of the tool on that server.
    pub name: String,
}

#[derive(Deserialize)]
struct ItemOfType<'i> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'i, str>,
    #[serde(flatten)]
    request: ApprovalRequest,
}

impl ApprovalRequest {
    /// The requests among the items of a response, each of which is JSON: the first 32.
    pub(super) fn of_items<'i>(items: impl Iterator<Item = &'i str>) -> Vec<Self> {
        let items = items.filter(|json| json.contains("mcp_approval_request"));
        let items = items.filter_map(|json| serde_json::from_str::<ItemOfType<'_>>(json).ok());
        let requests = items.filter(|item| item.kind == "mcp_approval_request");
        let requests = requests.map(|item| item.request);
        let requests = requests.filter(|request| request.id.len() <= MAX_TEXT);
        let mut requests: Vec<Self> = requests.take(MAX_REQUESTS).collect();
        for request in &mut requests {
            for text in [&mut request.server_label, &mut request.name] {
                text.truncate(text.floor_char_boundary(MAX_TEXT));
            }
        }
        requests
    }

    /// The server and the tool, for people.
    pub(super) fn tool(&self) -> String {
        format!("{}: {}", self.server_label, self.name)
    }
}
