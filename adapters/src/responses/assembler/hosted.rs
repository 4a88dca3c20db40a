//! Hosted items: the calls of tools that run here and not at the client. The client sees them and
//! has nothing to answer.
//!
//! The items and their events are those of OpenAI's API reference (`web_search_call`, `mcp_call`,
//! `mcp_list_tools`, and `tool_search_call` with the `tool_search_output` behind it).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::mcp_call_error::McpCallError;
use super::writer::{ItemOutput, ItemPosition, location_fields};
use crate::json;
use crate::tools::ListedMcpServer;

/// What the client sees of the call of a hosted tool. Made by the tool, first when the call begins
/// and again with the result; the assembler writes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum HostedItem {
    /// `web_search_call`: a search, an opened page, or a search within a page.
    WebSearchCall {
        /// What is searched or opened: the `action` object as JSON.
        action: String,
        /// What was found, as a JSON list, if the client wants it (`include`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        results: Option<String>,
    },
    /// `mcp_call`: the call of a tool of an MCP server.
    McpCall {
        /// The name of the server.
        server_label: String,
        /// The name of the tool on that server.
        name: String,
        /// The arguments as JSON.
        arguments: String,
        /// The result; `None` while it is missing.
        output: Option<String>,
        /// Why the call failed, if it did.
        error: Option<McpCallError>,
        /// The item that asked a person to approve the call, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval_request_id: Option<String>,
    },
    /// `mcp_list_tools`: the tools of an MCP server.
    McpListTools {
        /// The name of the server.
        server_label: String,
        /// The list of tools as JSON.
        tools: String,
        /// Why there is no list.
        error: Option<String>,
    },
    /// `tool_search_call`: a search for tools. Its `tool_search_output` follows.
    ToolSearchCall {
        /// The paths that were found, a namespace, a server or a function each; none at first.
        paths: Vec<String>,
        /// The definitions that were found, as a JSON list.
        tools: String,
    },
}

/// A hosted item that is open.
#[derive(Debug)]
pub(super) struct OpenHostedItem {
    position: ItemPosition,
    location: Vec<u8>,
    item: HostedItem,
}

impl HostedItem {
    /// The `action` of a search for these queries, of which there is none where nobody tells it,
    /// with the addresses that it found if the client wants them.
    pub fn search_action(queries: &[String], sources: Option<Value>) -> Value {
        let mut action = Map::new();
        action.insert("type".to_owned(), "search".into());
        let first = queries.first().map(String::as_str).unwrap_or_default();
        action.insert("query".to_owned(), first.into());
        action.insert("queries".to_owned(), queries.into());
        action.extend(sources.map(|sources| ("sources".to_owned(), sources)));
        Value::Object(action)
    }

    /// The list of the tools of an MCP server.
    pub fn of_server(server: &ListedMcpServer) -> Self {
        Self::McpListTools {
            server_label: server.label.clone(),
            tools: server.tools.clone(),
            error: server.error.clone(),
        }
    }

    /// A `tool_search_output` for the history, as JSON, with the tools that this search has found.
    /// `None` if it is no search.
    pub fn found_tools(&self) -> Option<String> {
        let Self::ToolSearchCall { tools, .. } = self else {
            return None;
        };
        let mut item = br#"{"type":"tool_search_output""#.to_vec();
        push_search_fields(&mut item, "completed");
        json::raw_field(&mut item, "tools", tools);
        item.push(b'}');
        Some(String::from_utf8_lossy(&item).into_owned())
    }

    /// The item of a call that has failed for this reason, if its kind shows one.
    #[must_use]
    pub fn with_error(mut self, why: McpCallError) -> Self {
        match &mut self {
            Self::WebSearchCall { .. } | Self::ToolSearchCall { .. } => {}
            Self::McpCall { error, .. } => *error = Some(why),
            Self::McpListTools { error, .. } => *error = Some(why.text().to_owned()),
        }
        self
    }

    /// Whether it shows a failure.
    pub(super) fn is_failure(&self) -> bool {
        match self {
            Self::WebSearchCall { .. } | Self::ToolSearchCall { .. } => false,
            Self::McpCall { error, .. } => error.is_some(),
            Self::McpListTools { error, .. } => error.is_some(),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::WebSearchCall { .. } => "web_search_call",
            Self::McpCall { .. } => "mcp_call",
            Self::McpListTools { .. } => "mcp_list_tools",
            Self::ToolSearchCall { .. } => "tool_search_call",
        }
    }

    /// The item as JSON. The arguments of a call are left out at first, because events bring them.
    fn to_json(&self, position: &ItemPosition, status: &str) -> Vec<u8> {
        let mut out = vec![b'{'];
        json::field(&mut out, "id", &position.id);
        json::field(&mut out, "type", self.kind());
        match self {
            Self::WebSearchCall { action, results } => {
                json::field(&mut out, "status", status);
                json::raw_field(&mut out, "action", action);
                if let Some(results) = results {
                    json::raw_field(&mut out, "results", results);
                }
            }
            Self::McpCall {
                server_label,
                name,
                arguments,
                output,
                error,
                approval_request_id,
            } => {
                let arguments = if status == "in_progress" {
                    ""
                } else {
                    arguments
                };
                json::field(&mut out, "status", status);
                json::field(&mut out, "server_label", server_label);
                json::field(&mut out, "name", name);
                json::field(&mut out, "arguments", arguments);
                json::field(&mut out, "output", output);
                json::field(
                    &mut out,
                    "error",
                    &error.as_ref().map(McpCallError::to_json),
                );
                json::field(&mut out, "approval_request_id", approval_request_id);
            }
            Self::McpListTools {
                server_label,
                tools,
                error,
            } => {
                json::field(&mut out, "server_label", server_label);
                json::raw_field(&mut out, "tools", tools);
                json::field(&mut out, "error", error);
            }
            Self::ToolSearchCall { paths, .. } => {
                let arguments = if status == "in_progress" {
                    json!({})
                } else {
                    json!({"paths": paths})
                };
                push_search_fields(&mut out, status);
                json::field(&mut out, "arguments", &arguments);
            }
        }
        out.push(b'}');
        out
    }
}

impl OpenHostedItem {
    /// Writes the events up to the moment at which the tool runs.
    pub(super) fn open(item: HostedItem, out: &mut ItemOutput<'_>) -> Self {
        let position = out.next_position(match item {
            HostedItem::WebSearchCall { .. } => "ws",
            HostedItem::McpCall { .. } => "mcp",
            HostedItem::McpListTools { .. } => "mcpl",
            HostedItem::ToolSearchCall { .. } => "tsc",
        });
        out.item_added(&position, &item.to_json(&position, "in_progress"));
        let location = location_fields(&position, None);
        let mut event = |name| out.event(name, &location, |_| {});
        match &item {
            HostedItem::WebSearchCall { .. } => {
                event("response.web_search_call.in_progress");
                event("response.web_search_call.searching");
            }
            HostedItem::McpCall { arguments, .. } => {
                event("response.mcp_call.in_progress");
                for (name, field) in [
                    ("response.mcp_call_arguments.delta", "delta"),
                    ("response.mcp_call_arguments.done", "arguments"),
                ] {
                    out.event(name, &location, |out| {
                        json::field(out, field, arguments);
                    });
                }
            }
            HostedItem::McpListTools { .. } => event("response.mcp_list_tools.in_progress"),
            // The API has no events of its own for it.
            HostedItem::ToolSearchCall { .. } => {}
        }
        Self {
            position,
            location,
            item,
        }
    }

    /// Writes the end of the item of a call that was cut off.
    pub(super) fn interrupt(self, out: &mut ItemOutput<'_>) {
        let error = McpCallError::of_interruption();
        let item = self.item.clone().with_error(error);
        self.close(Some(item), true, out);
    }

    /// Writes the end of the item: the item with its result, or the opened one if none came.
    pub(super) fn close(self, result: Option<HostedItem>, failed: bool, out: &mut ItemOutput<'_>) {
        // An item of another kind cannot end this one.
        let result = result.filter(|result| result.kind() == self.item.kind());
        let item = result.unwrap_or(self.item);
        let name = match (&item, failed) {
            (HostedItem::WebSearchCall { .. }, false) => Some("response.web_search_call.completed"),
            // The API has no such events.
            (HostedItem::WebSearchCall { .. }, true) | (HostedItem::ToolSearchCall { .. }, _) => {
                None
            }
            (HostedItem::McpCall { .. }, false) => Some("response.mcp_call.completed"),
            (HostedItem::McpCall { .. }, true) => Some("response.mcp_call.failed"),
            (HostedItem::McpListTools { .. }, false) => Some("response.mcp_list_tools.completed"),
            (HostedItem::McpListTools { .. }, true) => Some("response.mcp_list_tools.failed"),
        };
        if let Some(name) = name {
            out.event(name, &self.location, |_| {});
        }
        let status = match (&item, failed) {
            (_, false) => "completed",
            (HostedItem::ToolSearchCall { .. }, true) => "incomplete",
            (_, true) => "failed",
        };
        out.item_done(&self.position, item.to_json(&self.position, status));
        if let HostedItem::ToolSearchCall { tools, .. } = item {
            push_search_output(&tools, out);
        }
    }
}

/// Writes the `tool_search_output` behind a `tool_search_call`. `tools` are the definitions that
/// were found, as a JSON list.
fn push_search_output(tools: &str, out: &mut ItemOutput<'_>) {
    let position = out.next_position("tso");
    let item = |status: &str| {
        let mut item = vec![b'{'];
        json::field(&mut item, "id", &position.id);
        json::field(&mut item, "type", "tool_search_output");
        push_search_fields(&mut item, status);
        json::raw_field(&mut item, "tools", tools);
        item.push(b'}');
        item
    };
    out.item_added(&position, &item("in_progress"));
    out.item_done(&position, item("completed"));
    out.forget_found(tools);
}

/// The fields of both items of a search that the client does not run.
fn push_search_fields(out: &mut Vec<u8>, status: &str) {
    json::field(out, "status", status);
    json::raw_field(out, "call_id", "null");
    json::field(out, "execution", "server");
}
