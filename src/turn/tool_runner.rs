//! Tools that run in the proxy: what the engine asks of the code that runs them.

use std::future::ready;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use adapters::cited_source::CitedSource;
use adapters::fault::Fault;
use adapters::responses::assembler::{HostedItem, WithheldCall};
use adapters::tools::{McpDefinition, McpListing, ProxyTool};
use adapters::turn::{ApprovalCall, Turn};
use serde::{Deserialize, Serialize};

use super::context::TurnContext;
use crate::store::NewSource;

/// How long a person may take to approve something, in seconds.
pub const APPROVAL_SECONDS: u64 = 24 * 60 * 60;

/// The tools of the process. Part of the environment of a turn; a replay has one that returns what
/// was recorded.
pub trait ToolRunner: Send + Sync {
    /// The tools that depend on no request: those in place of hosted tools, which the model gets if
    /// the client offers these, and those that read artifacts, which it gets if it sees the id of
    /// one. Known before the request is read, so that it is read once.
    fn fixed(&self) -> Arc<[ProxyTool]> {
        Arc::default()
    }

    /// The further tools that the model is offered in this turn. If the client offers a tool of the
    /// same name, that one is called.
    fn offered(&self, _: &TurnContext, _: &Turn<'_>) -> Vec<ProxyTool> {
        Vec::new()
    }

    /// Begins a turn of this session in which the model may call these tools.
    fn begin(&self, ctx: &TurnContext, turn: &Turn<'_>, session: &str) -> Arc<dyn TurnTools>;

    /// Whether its tools search the web and open pages.
    fn searches_the_web(&self) -> bool {
        false
    }

    /// Whether it connects to the MCP servers that requests name.
    fn runs_mcp(&self) -> bool {
        false
    }

    /// Refuses servers to which it may not connect.
    fn check_mcp(&self, _: &[McpDefinition]) -> Result<(), Fault> {
        Ok(())
    }

    /// Asks the MCP servers of a request for their tools. One that does not answer is part of the
    /// result. Asked for once, before the turn begins.
    fn list_mcp<'r>(&'r self, _: &'r TurnContext, _: Vec<McpDefinition>) -> ListFuture<'r> {
        Box::pin(async { Ok(McpTools::default()) })
    }

    /// As [`Self::begin`], with the tools of the MCP servers of the request.
    fn begin_with(
        &self,
        ctx: &TurnContext,
        turn: &Turn<'_>,
        session: &str,
        _: Option<Arc<dyn TurnTools>>,
    ) -> Arc<dyn TurnTools> {
        self.begin(ctx, turn, session)
    }
}

/// The tools of the MCP servers of one request. Made before its turn begins.
#[derive(Clone, Default)]
pub struct McpTools {
    /// What the client and the model are told of the servers.
    pub listing: Arc<McpListing>,
    /// The functions that the model gets.
    pub functions: Vec<ProxyTool>,
    /// What runs them, if there are any.
    pub tools: Option<Arc<dyn TurnTools>>,
}

/// Servers that are asked for their tools.
pub type ListFuture<'r> = Pin<Box<dyn Future<Output = Result<McpTools, Fault>> + Send + 'r>>;

/// The tools of one turn. Made when the turn is prepared; ends with its answer.
pub trait TurnTools: Send + Sync {
    /// Whether the tool with this name is one of them.
    fn has(&self, name: &str) -> bool;

    /// How a call of the tool with this name may be run.
    fn effect(&self, name: &str) -> ToolEffect;

    /// What the client sees of a call while it runs; `None` shows nothing.
    fn shown(&self, call: &WithheldCall) -> Option<HostedItem>;

    /// Runs a call. It is dropped if it takes too long, if the client leaves or cancels, or if the
    /// process shuts down.
    fn run<'r>(&'r self, ctx: &'r TurnContext, call: &'r WithheldCall) -> ToolFuture<'r>;

    /// Runs a call that a person has approved, if this session has asked for that and the call has
    /// not run before.
    fn run_approved<'r>(
        &'r self,
        _: &'r TurnContext,
        _session: &'r str,
        call: &'r ApprovalCall,
    ) -> ToolFuture<'r> {
        Box::pin(ready(ToolResult::of_no_server(call)))
    }

    /// This session asks a person to approve a call. Told before the client learns it.
    fn ask(&self, _: &TurnContext, _session: &str, _: &ApprovalCall) {}

    /// A person has refused the calls for which this session has asked with these ids.
    fn refuse<'r>(
        &'r self,
        _: &'r TurnContext,
        _session: &'r str,
        _: &'r [String],
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'r>> {
        Box::pin(ready(()))
    }

    /// What is stored of a call that has ended or was dropped. Asked for once, if the response is
    /// stored.
    fn take_record(&self, _: &WithheldCall) -> CallRecord {
        CallRecord::default()
    }

    /// What calls have cost in US dollars since this was asked for last. It counts for the owner
    /// already, and is no part of the turn: a replay costs nothing.
    fn take_cost(&self) -> f64 {
        0.0
    }
}

/// What is stored of a call besides its result. It is no part of the turn: a replay has none.
#[derive(Clone, Debug, Default)]
pub struct CallRecord {
    /// What it found or read.
    pub sources: Vec<CallSource>,
    /// The artifact that has what it read.
    pub artifact_id: Option<String>,
    /// The search engines that were asked, as JSON.
    pub attempts: Option<String>,
}

/// A source of a call.
#[derive(Clone, Debug)]
pub struct CallSource {
    /// The address under which it was asked for, or found.
    pub asked: String,
    /// What is known of it.
    pub source: NewSource,
    /// Where the text of the result shows it, in bytes.
    pub shown: Range<usize>,
}

/// A call that runs.
pub type ToolFuture<'r> = Pin<Box<dyn Future<Output = ToolResult> + Send + 'r>>;

/// How the calls of a tool may be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolEffect {
    /// It changes nothing: its calls may run at the same time as others, and an equal call gets the
    /// result of the one before.
    pub is_read_only: bool,
    /// How long a call may take.
    pub timeout: Duration,
}

impl ToolEffect {
    /// A tool that reads, within the usual time.
    pub const READ_ONLY: Self = Self {
        is_read_only: true,
        timeout: Duration::from_secs(10),
    };
}

/// The result of a call of a tool that runs in the proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ToolResult {
    /// What the model gets.
    pub text: String,
    /// Whether the call failed. The model reads why in `text`.
    pub failed: bool,
    /// Whether the tool could not be used at all, whatever it was asked for: rounds of such calls
    /// end the answer, see `max_unusable_rounds` in `[tools]`. A page that cannot be read and a
    /// search without results do not count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unusable: bool,
    /// What the client sees of the finished call, if it saw the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<HostedItem>,
    /// The pages that the answer may cite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<CitedSource>,
}

impl ToolResult {
    /// A call of a tool that could not be used, for this reason.
    pub fn unusable(text: impl Into<String>) -> Self {
        Self {
            unusable: true,
            ..Self::failure(text)
        }
    }

    /// An approved call of a server that the request does not name.
    pub fn of_no_server(call: &ApprovalCall) -> Self {
        Self::failure(format!(
            "The call was not run: the request has no MCP server '{}'.",
            call.server_label
        ))
    }

    /// A call that was not run, for this reason.
    pub fn failure(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            failed: true,
            ..Self::default()
        }
    }
}

/// A call that ran in a recorded turn.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedToolCall {
    /// The call id.
    pub call_id: String,
    /// What the client saw while it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<HostedItem>,
    /// How long it took, in microseconds.
    pub took_us: u64,
    /// What it returned; `None` if the turn ended first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ToolResult>,
}
