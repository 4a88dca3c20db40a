//! The tools of a replayed turn: they return what the recorded ones returned, after the same time.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use adapters::responses::assembler::{HostedItem, WithheldCall};
use adapters::tools::{McpDefinition, ProxyTool};
use adapters::turn::{ApprovalCall, Turn};
use registry::RelayToolKind;
use tokio::time::sleep;

use crate::diagnostics::bundle::BundleTurn;
use crate::turn::{
    ListFuture, McpTools, RecordedToolCall, ToolEffect, ToolFuture, ToolResult, ToolRunner,
    TurnContext, TurnTools,
};

/// The recorded tools of a turn. A call that was not recorded fails; one that had no result when
/// the recorded turn ended has none here.
pub(super) struct RecordedTools(Arc<BundleTurn>);

impl RecordedTools {
    /// The tools of a turn, if it had any.
    pub(super) fn of(turn: &Arc<BundleTurn>) -> Option<Arc<dyn ToolRunner>> {
        let state = &turn.state_before;
        let has_tools =
            !state.proxy_tools.is_empty() || state.mcp.is_some() || !state.tool_calls.is_empty();
        has_tools.then(|| Arc::new(Self(Arc::clone(turn))) as _)
    }

    fn tools(&self, are_wanted: impl Fn(&ProxyTool) -> bool) -> Vec<ProxyTool> {
        let tools = self.0.state_before.proxy_tools.iter();
        tools.filter(|tool| are_wanted(tool)).cloned().collect()
    }

    fn recorded(&self, id: &str) -> Option<&RecordedToolCall> {
        let mut calls = self.0.state_before.tool_calls.iter();
        calls.find(|recorded| recorded.call_id == id)
    }

    async fn run_recorded(&self, id: &str) -> ToolResult {
        let Some(recorded) = self.recorded(id) else {
            return ToolResult::failure("The recorded turn did not make this call.");
        };
        match &recorded.result {
            Some(result) => {
                sleep(Duration::from_micros(recorded.took_us)).await;
                result.clone()
            }
            None => pending().await,
        }
    }
}

impl ToolRunner for RecordedTools {
    fn fixed(&self) -> Arc<[ProxyTool]> {
        self.tools(is_fixed).into()
    }

    fn offered(&self, _: &TurnContext, _: &Turn<'_>) -> Vec<ProxyTool> {
        self.tools(|tool| !is_fixed(tool) && !is_of_server(tool))
    }

    fn searches_the_web(&self) -> bool {
        true
    }

    fn runs_mcp(&self) -> bool {
        self.0.state_before.mcp.is_some()
    }

    fn list_mcp<'r>(&'r self, _: &'r TurnContext, _: Vec<McpDefinition>) -> ListFuture<'r> {
        let listing = self.0.state_before.mcp.clone().unwrap_or_default();
        let listed = McpTools {
            listing: Arc::new(listing),
            functions: self.tools(is_of_server),
            tools: None,
        };
        Box::pin(async { Ok(listed) })
    }

    fn begin(&self, _: &TurnContext, _: &Turn<'_>, _: &str) -> Arc<dyn TurnTools> {
        Arc::new(Self(Arc::clone(&self.0)))
    }
}

/// See [`ToolRunner::fixed`].
fn is_fixed(tool: &ProxyTool) -> bool {
    (tool.in_place_of.is_some() || tool.reads_artifacts) && !is_of_server(tool)
}

/// Whether it is a tool of an MCP server.
fn is_of_server(tool: &ProxyTool) -> bool {
    tool.in_place_of == Some(RelayToolKind::Mcp)
}

impl TurnTools for RecordedTools {
    fn has(&self, name: &str) -> bool {
        let mut tools = self.0.state_before.proxy_tools.iter();
        tools.any(|tool| tool.name == name)
    }

    fn effect(&self, _: &str) -> ToolEffect {
        // A call that was stopped is recorded with the result that says so.
        ToolEffect {
            is_read_only: true,
            timeout: Duration::MAX,
        }
    }

    fn shown(&self, call: &WithheldCall) -> Option<HostedItem> {
        self.recorded(&call.id)?.shown.clone()
    }

    fn run<'r>(&'r self, _: &'r TurnContext, call: &'r WithheldCall) -> ToolFuture<'r> {
        Box::pin(self.run_recorded(&call.id))
    }

    fn run_approved<'r>(
        &'r self,
        _: &'r TurnContext,
        _: &'r str,
        call: &'r ApprovalCall,
    ) -> ToolFuture<'r> {
        Box::pin(self.run_recorded(&call.id))
    }
}
