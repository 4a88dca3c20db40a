//! Tools that run in the proxy: what the engine asks of the code that runs them.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use adapters::responses::assembler::{CitedSource, HostedItem, WithheldCall};
use adapters::tools::ProxyTool;
use adapters::turn::Turn;
use serde::{Deserialize, Serialize};

use super::context::TurnContext;

/// The tools of the process. Part of the environment of a turn; a replay has one that returns what
/// was recorded.
pub trait ToolRunner: Send + Sync {
    /// The functions that the model gets in place of hosted tools, if the client offers those: each
    /// with the kind of hosted tool. Known before the request is read.
    fn in_place_of_hosted(&self) -> Arc<[ProxyTool]> {
        Arc::default()
    }

    /// The further tools that the model is offered in this turn. If the client offers a tool of the
    /// same name, that one is called.
    fn offered(&self, _: &TurnContext, _: &Turn<'_>) -> Vec<ProxyTool> {
        Vec::new()
    }

    /// Begins a turn of this session in which the model may call these tools.
    fn begin(&self, ctx: &TurnContext, turn: &Turn<'_>, session: &str) -> Arc<dyn TurnTools>;
}

/// The tools of one turn. Made when the turn is prepared; ends with its answer.
pub trait TurnTools: Send + Sync {
    /// How a call of the tool with this name may be run.
    fn effect(&self, name: &str) -> ToolEffect;

    /// What the client sees of a call while it runs; `None` shows nothing.
    fn shown(&self, call: &WithheldCall) -> Option<HostedItem>;

    /// Runs a call. It is dropped if it takes too long, if the client leaves or cancels, or if the
    /// process shuts down.
    fn run<'r>(&'r self, ctx: &'r TurnContext, call: &'r WithheldCall) -> ToolFuture<'r>;
}

/// A call that runs.
pub type ToolFuture<'r> = Pin<Box<dyn Future<Output = ToolResult> + Send + 'r>>;

/// How the calls of a tool may be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolEffect {
    /// It changes nothing: its calls may run at the same time as others, an equal call gets the
    /// result of the one before, and one that failed for want of an answer may be made again.
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
    /// What the client sees of the finished call, if it saw the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<HostedItem>,
    /// The pages that the answer may cite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<CitedSource>,
    /// Whether the same call may succeed if it is made once more. Not recorded: a replay has the
    /// last result.
    #[serde(skip)]
    pub may_be_repeated: bool,
}

impl ToolResult {
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
