//! Tools that run in the proxy: offered with every request, in place of a hosted tool that the
//! client offers, or where the model sees the id of an artifact.

use std::collections::BTreeSet;
use std::ops::Range;

use registry::{EnumSet, RelayToolKind};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Tool, ToolKind, ToolTarget, Toolbox};
use crate::members::Members;
use crate::text::Text;

/// A tool that runs in the proxy: what the model is told about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProxyTool {
    /// The name of the function.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub parameters: String,
    /// The hosted tool of the Responses API in whose place the model gets this function, if the
    /// client offers that tool. `None` for a function that is offered with every request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_place_of: Option<RelayToolKind>,
    /// When the provider's own tool is used instead of this function.
    #[serde(default, skip_serializing_if = "is_default")]
    pub provider_tool: ProviderToolUse,
    /// The tool of an MCP server whose calls a person has to approve: the client gets a call as a
    /// request for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_approval: Option<McpToolName>,
    /// Whether it reads artifacts: it is offered only where the model sees the id of one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reads_artifacts: bool,
    /// Whether it finds deferred tools: it is offered only where the client defers enough of them,
    /// and its description ends with their names.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finds_tools: bool,
    /// The tool of an MCP server that is offered only once a search has found it, if the model
    /// searches for tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deferred: Option<McpToolName>,
}

/// A tool of an MCP server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct McpToolName {
    /// The name of the server in the request.
    pub server_label: String,
    /// The name of the tool on that server.
    pub name: String,
}

/// When the provider's own tool is used in place of a hosted one, instead of functions of the
/// proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderToolUse {
    /// Where it gives the client no less than the functions.
    #[default]
    WhereEqual,
    /// Wherever there is one that does what the client asks for.
    Always,
    /// Nowhere.
    Never,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_default(provider_tool: &ProviderToolUse) -> bool {
    *provider_tool == ProviderToolUse::default()
}

impl ProxyTool {
    /// The beginning of the name of a function that is renamed because the client has a tool of its
    /// name.
    pub(super) const RENAMED: &str = "hosted_";

    /// The name of the call with which a provider asks for its own search. The result of the call
    /// is its own arguments; then the provider searches. No model is offered a function of this
    /// name.
    pub const ECHOED_SEARCH: &str = "provider_web_search";

    /// The function that searches the web.
    pub const SEARCH: &str = "web_search";

    /// The function that opens a page of the web.
    pub const OPEN_PAGE: &str = "open_page";

    /// What a node of a workflow calls to ask a model. No model is offered a function of this name.
    pub const WORKFLOW_AGENT: &str = "workflow_agent";

    /// The name of a function before it was renamed, if it was.
    pub fn original_name(name: &str) -> &str {
        name.strip_prefix(Self::RENAMED).unwrap_or(name)
    }

    /// What the names of the functions of an MCP server with this label begin with.
    pub fn server_prefix(label: &str) -> String {
        format!("{label}__")
    }
}

/// When a tool that runs in the proxy is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyToolUse {
    /// With every request.
    Always,
    /// In place of a hosted tool of this kind, where the provider does not run it itself.
    InPlaceOf(RelayToolKind),
    /// Never. A provider that runs a hosted tool of this kind itself makes calls of it.
    Echo(RelayToolKind),
    /// Where the request names an artifact, see [`Plan::artifact_tools`].
    ///
    /// [`Plan::artifact_tools`]: crate::plan::Plan::artifact_tools
    WithArtifacts,
    /// Where the model searches for tools, and the provider does not run that search itself.
    ToolSearch,
}

impl ProxyToolUse {
    /// The hosted tool for which it stands.
    pub(crate) fn hosted(self) -> Option<RelayToolKind> {
        match self {
            Self::Always | Self::WithArtifacts | Self::ToolSearch => None,
            Self::InPlaceOf(kind) | Self::Echo(kind) => Some(kind),
        }
    }
}

/// Extends the range of the tools that read artifacts by a tool that was written here, if it is
/// one.
pub(crate) fn extend_artifact_tools(range: &mut Range<usize>, tool: &Tool<'_>, at: Range<usize>) {
    if tool.proxy == Some(ProxyToolUse::WithArtifacts) {
        let is_first = range.start == range.end;
        let start = if is_first { at.start } else { range.start };
        *range = start..at.end;
    }
}

impl<'a> Toolbox<'a> {
    /// Adds a tool that runs in the proxy, unless it stands for a hosted tool that the client does
    /// not offer. Returns the name under which it was added, if its calls need no approval. If the
    /// client offers a function of that name, it is renamed where it stands for a hosted tool, and
    /// else left out.
    pub(crate) fn add_proxy_tool(&mut self, tool: &'a ProxyTool) -> Option<String> {
        let (proxy, renamed) = match tool.in_place_of {
            Some(kind) if self.hosted.contains(kind) => {
                if kind == RelayToolKind::WebSearch {
                    self.provider_tools = tool.provider_tool;
                }
                let offered = match tool.name.as_str() {
                    ProxyTool::ECHOED_SEARCH => ProxyToolUse::Echo(kind),
                    _ => ProxyToolUse::InPlaceOf(kind),
                };
                (
                    offered,
                    Some(format!("{}{}", ProxyTool::RENAMED, tool.name)),
                )
            }
            Some(_) => return None,
            None if tool.reads_artifacts => (ProxyToolUse::WithArtifacts, None),
            None => (ProxyToolUse::Always, None),
        };
        let target = if let Some(tool) = &tool.needs_approval {
            ToolTarget {
                kind: ToolKind::McpApproval,
                name: tool.name.clone(),
                namespace: Some(tool.server_label.clone()),
            }
        } else {
            let mut names = [Some(tool.name.clone()), renamed].into_iter().flatten();
            ToolTarget {
                kind: ToolKind::Function,
                name: names.find(|name| self.get(None, name).is_none())?,
                namespace: None,
            }
        };
        if self
            .get(target.namespace.as_deref(), &target.name)
            .is_some()
        {
            return None;
        }
        let runs_at_once = tool.needs_approval.is_none().then(|| target.name.clone());
        let description = Text::Owned(tool.description.as_str().into());
        let parameters = serde_json::from_str(&tool.parameters).ok();
        self.add(target, Some(description), parameters, None);
        if let Some(added) = self.tools.last_mut() {
            added.proxy = Some(proxy);
            added.deferred_on_server = tool.deferred.as_ref();
        }
        runs_at_once
    }

    /// Whether there are tools that read artifacts. Which requests offer them is for the plan to
    /// say.
    pub(crate) fn can_read_artifacts(&self) -> bool {
        let reads = Some(ProxyToolUse::WithArtifacts);
        self.tools.iter().any(|tool| tool.proxy == reads)
    }

    /// Whether the tool of this name is one of those that read artifacts.
    pub fn reads_artifacts(&self, name: &str) -> bool {
        let tool = self.get(None, name);
        tool.is_some_and(|tool| tool.proxy == Some(ProxyToolUse::WithArtifacts))
    }

    /// Whether there are tools that run in the proxy, with those that read artifacts or without.
    pub(crate) fn has_proxy_tools(&self, artifact_tools: bool) -> bool {
        let mut uses = self.tools.iter().filter_map(|tool| tool.proxy);
        uses.any(|used| match used {
            ProxyToolUse::WithArtifacts => artifact_tools,
            ProxyToolUse::Always
            | ProxyToolUse::InPlaceOf(_)
            | ProxyToolUse::Echo(_)
            | ProxyToolUse::ToolSearch => true,
        })
    }

    /// Whether the client offers a tool of this name, itself or as a tool of an MCP server.
    pub(crate) fn has_client_tool(&self, name: &str) -> bool {
        let is_it = |own: &str| {
            let server = own.strip_suffix(name);
            server.is_some_and(|server| server.is_empty() || server.ends_with("__"))
        };
        let mut clients = self.tools.iter().filter(|tool| tool.proxy.is_none());
        clients.any(|tool| is_it(&tool.target.name))
    }

    /// The wire names of the functions that stand for a hosted tool.
    pub(crate) fn in_place_of(&self, kind: RelayToolKind) -> impl Iterator<Item = &str> {
        let tools = self.tools.iter();
        tools
            .filter(move |tool| tool.proxy.and_then(ProxyToolUse::hosted) == Some(kind))
            .map(|tool| tool.wire_name.as_str())
    }

    /// When the provider's own tools are used where tools of the proxy could be.
    pub(crate) fn provider_tools(&self) -> ProviderToolUse {
        self.provider_tools
    }

    /// Whether the model gets no search although the client offers one: neither the provider, which
    /// runs these tools, searches, nor the proxy.
    pub(crate) fn lacks_search(&self, relayed: EnumSet<RelayToolKind>) -> bool {
        let search = RelayToolKind::WebSearch;
        let functions = Some(ProxyToolUse::InPlaceOf(search));
        self.hosted.contains(search)
            && !relayed.contains(search)
            && !self.tools.iter().any(|tool| tool.proxy == functions)
    }

    /// Hosted tools of these kinds can run in the proxy.
    pub(crate) fn set_runnable(&mut self, kinds: impl Iterator<Item = RelayToolKind>) {
        for kind in kinds {
            self.runnable = self.runnable.with(kind);
        }
    }

    /// The proxy connects to the MCP servers of the request.
    pub(crate) fn set_runs_mcp(&mut self) {
        self.runs_mcp = true;
        self.runnable = self.runnable.with(RelayToolKind::Mcp);
    }

    /// Whether the proxy connects to the MCP servers of the request, and not the provider.
    pub(crate) fn runs_mcp(&self) -> bool {
        self.runs_mcp
    }

    /// The wire names of the tools of an MCP server, or of one of them.
    pub(crate) fn of_mcp_server(&self, label: &str, name: Option<&str>) -> BTreeSet<String> {
        let is_it = |tool: &&Tool<'_>| {
            let target = &tool.target;
            let of_server = || ProxyTool::original_name(&target.name).strip_prefix(label);
            let bare = || match &target.namespace {
                Some(server) => (server == label).then_some(target.name.as_str()),
                None => of_server()?.strip_prefix("__"),
            };
            tool.proxy == Some(ProxyToolUse::InPlaceOf(RelayToolKind::Mcp))
                && bare().is_some_and(|bare| name.is_none_or(|name| name == bare))
        };
        let tools = self.tools.iter().filter(is_it);
        tools.map(|tool| tool.wire_name.clone()).collect()
    }

    /// The definitions of the hosted tools of a kind that run in the proxy, in their order.
    pub fn hosted(&self, kind: RelayToolKind) -> impl Iterator<Item = &'a RawValue> {
        let runs = self.hosted.contains(kind);
        let definitions = self.definitions.iter().filter(move |_| runs);
        let definitions = definitions.map(|definition| definition.raw);
        definitions.filter(move |raw| {
            let named = Members::read(raw.get()).and_then(|it| it.text("type"));
            named.is_some_and(|named| RelayToolKind::of_definition(&named) == Some(kind))
        })
    }

    /// Whether a hosted tool of this type runs in the proxy. Its functions are added behind the
    /// client's tools.
    pub(super) fn takes_hosted(&mut self, kind: &str) -> bool {
        let kind = RelayToolKind::of_definition(kind);
        let kind = kind.filter(|kind| self.runnable.contains(*kind));
        kind.is_some_and(|kind| {
            self.hosted = self.hosted.with(kind);
            true
        })
    }
}
