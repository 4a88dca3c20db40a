//! Tools that run in the proxy: what the engine asks of the code that runs them.

use std::pin::Pin;

use adapters::responses::assembler::{HostedItem, WithheldCall};
use adapters::tools::ProxyTool;
use adapters::turn::Turn;
use serde::{Deserialize, Serialize};

use super::context::TurnContext;

/// Offers tools to the model and runs their calls. Part of the environment of a turn; a replay has
/// one that returns what was recorded.
pub trait ToolRunner: Send + Sync {
    /// The tools that the model is offered in this turn. If the client offers a tool of the same
    /// name, that one is called.
    fn offered(&self, ctx: &TurnContext, turn: &Turn<'_>) -> Vec<ProxyTool>;

    /// What the client sees of a call while it runs; `None` shows nothing.
    fn shown(&self, call: &WithheldCall) -> Option<HostedItem>;

    /// Runs a call. It is dropped if the client leaves or the process shuts down.
    fn run<'r>(&'r self, ctx: &'r TurnContext, call: &'r WithheldCall) -> ToolFuture<'r>;
}

/// A call that runs.
pub type ToolFuture<'r> = Pin<Box<dyn Future<Output = ToolResult> + Send + 'r>>;

/// The result of a call of a tool that runs in the proxy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ToolResult {
    /// What the model gets.
    pub text: String,
    /// Whether the call failed. The model reads why in `text`.
    pub failed: bool,
    /// What the client sees of the finished call, if it saw the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<HostedItem>,
}

impl ToolResult {
    /// A call that was not run, for this reason.
    pub fn failure(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            failed: true,
            item: None,
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
