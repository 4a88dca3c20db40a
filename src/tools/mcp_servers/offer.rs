//! What a turn offers of the servers that it names: to the model as functions, to the client as
//! lists.

use std::collections::HashMap;
use std::sync::Arc;

use adapters::tools::{
    ListedMcpServer, McpDefinition, McpListing, McpToolName, ProviderToolUse, ProxyTool,
};
use registry::RelayToolKind;
use serde_json::Value;

use super::error::McpError;
use super::listed_tool::{ListedTool, ListedTools};
use super::pool::PooledServer;
use super::target::OperatorLimits;

/// The most names that the model is told.
pub(super) const MAX_NAMES: usize = 16;
/// The longest error of a server that is shown, in characters.
const MAX_ERROR: usize = 500;

/// A server of the request that was asked for its tools.
pub(super) struct AskedServer {
    pub(super) definition: McpDefinition,
    pub(super) limits: OperatorLimits,
    pub(super) server: Arc<PooledServer>,
    pub(super) listed: Result<Arc<ListedTools>, McpError>,
}

/// A tool that the model may call.
pub(super) struct OfferedTool {
    pub(super) label: String,
    /// Its name on its server.
    pub(super) name: String,
    pub(super) is_read_only: bool,
    /// See [`ListedTool::is_repeatable`].
    pub(super) is_repeatable: bool,
    /// Whether a person has to approve each call.
    pub(super) needs_approval: bool,
    pub(super) limits: OperatorLimits,
    pub(super) server: Arc<PooledServer>,
}

/// What a turn offers.
#[derive(Default)]
pub(super) struct McpOffer {
    pub(super) functions: Vec<ProxyTool>,
    /// The tools by the names of their functions.
    pub(super) tools: HashMap<String, OfferedTool>,
    pub(super) listing: McpListing,
}

impl McpOffer {
    pub(super) fn new(servers: Vec<AskedServer>) -> Self {
        let mut offer = Self::default();
        let mut failed = Vec::new();
        for asked in servers {
            let label = asked.definition.label.clone();
            let listed = match &asked.listed {
                Ok(listed) => Arc::clone(listed),
                Err(error) => {
                    let error = shortened(&asked.server.redacted(&error.to_string()));
                    offer.listing.left_out.push(label.clone());
                    offer.listing.servers.push(ListedMcpServer {
                        label: label.clone(),
                        tools: "[]".to_owned(),
                        error: Some(error),
                    });
                    failed.push(label);
                    continue;
                }
            };
            for note in &listed.notes {
                offer.listing.left_out.push(format!("{label}: {note}"));
            }
            let allowed = listed.tools.iter().filter(|tool| asked.allows(tool));
            let allowed: Vec<&ListedTool> = allowed.collect();
            let shown: Vec<Value> = allowed.iter().map(|tool| tool.shown()).collect();
            offer.listing.servers.push(ListedMcpServer {
                label: label.clone(),
                tools: Value::Array(shown).to_string(),
                error: None,
            });
            for tool in allowed {
                offer.add(&asked, tool);
            }
        }
        offer.listing.notice = notice(&failed);
        offer
    }

    fn add(&mut self, asked: &AskedServer, tool: &ListedTool) {
        let name = self.free_name(&asked.definition.label, &tool.name);
        let needs_approval = asked.needs_approval(tool);
        let full_name = McpToolName {
            server_label: asked.definition.label.clone(),
            name: tool.name.clone(),
        };
        self.functions.push(ProxyTool {
            name: name.clone(),
            description: tool.description.clone(),
            parameters: tool.parameters.clone(),
            in_place_of: Some(RelayToolKind::Mcp),
            provider_tool: ProviderToolUse::Never,
            needs_approval: needs_approval.then(|| full_name.clone()),
            deferred: asked.definition.is_deferred.then_some(full_name),
            ..ProxyTool::default()
        });
        let tool = OfferedTool {
            label: asked.definition.label.clone(),
            name: tool.name.clone(),
            is_read_only: tool.is_read_only,
            is_repeatable: tool.is_repeatable,
            needs_approval,
            limits: asked.limits.clone(),
            server: Arc::clone(&asked.server),
        };
        self.tools.insert(name, tool);
    }

    /// The name of a function, which no other tool has: names of servers and tools may have two
    /// underscores themselves.
    fn free_name(&self, label: &str, tool: &str) -> String {
        let mut name = ProxyTool::server_prefix(label) + tool;
        if ProxyTool::original_name(&name) != name {
            name.insert_str(0, "mcp_");
        }
        let mut number = 2;
        let mut free = name.clone();
        while self.tools.contains_key(&free) {
            free = format!("{name}_{number}");
            number += 1;
        }
        free
    }
}

impl AskedServer {
    /// Whether the request and the operator let a tool be used.
    fn allows(&self, tool: &ListedTool) -> bool {
        let is_asked_for = self.definition.allows(&tool.name, tool.is_read_only);
        is_asked_for && self.limits.allows(&tool.name)
    }

    /// Whether a person has to approve the calls of a tool: if the request or the operator says so.
    fn needs_approval(&self, tool: &ListedTool) -> bool {
        let approval = &self.definition.approval;
        self.limits.always_asks || approval.is_needed(&tool.name, tool.is_read_only)
    }
}

/// An error as it is shown.
pub(super) fn shortened(error: &str) -> String {
    error.chars().take(MAX_ERROR).collect()
}

/// What the model is told of servers whose tools it does not get.
fn notice(failed: &[String]) -> Option<String> {
    if failed.is_empty() {
        return None;
    }
    let names = named(failed);
    Some(format!(
        "These MCP servers cannot be used now: {names}. Say so where an answer needs them, and make up no results."
    ))
}

/// The first names. A server chooses the names of its tools, so that only plain ones are told.
fn named(names: &[String]) -> String {
    let is_plain = |name: &&str| {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
        name.len() <= 130 && name.bytes().all(is_of_name)
    };
    let plain = names.iter().map(String::as_str).filter(is_plain);
    let plain: Vec<&str> = plain.take(MAX_NAMES).collect();
    let text = plain.join(", ");
    match names.len() - plain.len() {
        0 => text,
        others if text.is_empty() => format!("{others} of them"),
        others => format!("{text} and {others} more"),
    }
}
