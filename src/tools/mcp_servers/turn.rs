//! The tools of the servers of one turn.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use adapters::responses::assembler::{HostedItem, McpCallError, WithheldCall};
use adapters::tools::ProxyTool;
use adapters::turn::ApprovalCall;
use serde_json::{Map, Value};

use super::approvals::{ApprovalKey, CallHash, ClaimedCall, McpApprovals};
use super::error::McpError;
use super::offer::{MAX_NAMES, OfferedTool, shortened};
use super::result_text::text_of;
use crate::turn::{
    ToolEffect, ToolFuture, ToolResult, TurnContext, TurnTools, parse_tool_arguments,
};

/// Calls the tools that a turn offers. Made before the turn begins, and ends with its answer.
pub(super) struct McpTurn {
    /// The tools by the names of their functions.
    pub(super) tools: HashMap<String, OfferedTool>,
    pub(super) approvals: Arc<McpApprovals>,
}

impl McpTurn {
    fn called(&self, call: &WithheldCall) -> Option<&OfferedTool> {
        self.tools.get(ProxyTool::original_name(&call.name))
    }

    fn approved(&self, call: &ApprovalCall) -> Option<&OfferedTool> {
        let mut tools = self.tools.values();
        tools.find(|tool| tool.label == call.server_label && tool.name == call.name)
    }

    async fn call(&self, call: &WithheldCall) -> ToolResult {
        match self.called(call) {
            Some(tool) if !tool.needs_approval => tool.call(&call.arguments, None).await,
            // The engine runs no such call.
            Some(_) => ToolResult::unusable("A person has to approve this call."),
            None => ToolResult::unusable(self.missing(&call.name)),
        }
    }

    /// What the model is told of a tool that there is not.
    fn missing(&self, name: &str) -> String {
        let is_of_server =
            |tool: &&OfferedTool| name.starts_with(&ProxyTool::server_prefix(&tool.label));
        let of_server = self.tools.iter().filter(|(_, tool)| is_of_server(tool));
        let mut names: Vec<&str> = of_server.map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        let further = names.len().saturating_sub(MAX_NAMES);
        names.truncate(MAX_NAMES);
        let has = match (names.as_slice(), further) {
            ([], _) => String::new(),
            (names, 0) => format!(" Its server has {}.", names.join(", ")),
            (names, further) => {
                format!(" Its server has {}, and {further} more.", names.join(", "))
            }
        };
        format!("There is no tool '{}'.{has}", shortened(name))
    }

    async fn call_approved(
        &self,
        ctx: &TurnContext,
        session: &str,
        call: &ApprovalCall,
    ) -> ToolResult {
        let Some(tool) = self.approved(call) else {
            return ToolResult::failure(format!(
                "The call was not run: the MCP server '{}' of this request has no tool '{}', or cannot be reached.",
                call.server_label, call.name
            ));
        };
        let now = || ctx.environment.clock.unix();
        let key = key(ctx, session, &call.id);
        let asked = CallHash::of(&tool.server.identity(), call);
        match self.approvals.claim(&key, &asked, now()).await {
            ClaimedCall::Run => {
                let result = tool.call(&call.arguments, Some(&call.id)).await;
                self.approvals.end(&key, &result, now());
                result
            }
            ClaimedCall::HasRun(result) => *result,
            ClaimedCall::NotRun(why) => ToolResult::failure(why),
        }
    }
}

fn key(ctx: &TurnContext, session: &str, id: &str) -> ApprovalKey {
    ApprovalKey {
        owner: Arc::clone(&ctx.owner),
        session: session.to_owned(),
        id: id.to_owned(),
    }
}

impl OfferedTool {
    /// Calls the tool. `approval` is the item that asked a person for that, if one did.
    async fn call(&self, arguments: &str, approval: Option<&str>) -> ToolResult {
        let result = self.answer(arguments, approval.is_none()).await;
        let item = self.item(arguments, approval, Some(result.clone()));
        let (text, failed) = match result {
            Ok(text) => (text, false),
            Err(error) => (error.text().to_owned(), true),
        };
        ToolResult {
            text,
            failed,
            item: Some(item),
            ..ToolResult::default()
        }
    }

    /// What the server answers to a call, without its secrets. A call that changes nothing, or
    /// nothing more when it is repeated, is made once more after a failure that may pass, unless a
    /// person has approved one call (`may_repeat`).
    async fn answer(&self, arguments: &str, may_repeat: bool) -> Result<String, McpCallError> {
        let Ok(arguments) = parse_tool_arguments::<Map<String, Value>>(arguments) else {
            let why = "The arguments of the call are not a JSON object.";
            return Err(McpCallError::Execution(why.to_owned()));
        };
        let call = || self.server.call(&self.name, arguments.clone());
        let mut answered = call().await;
        if may_repeat && self.is_repeatable && answered.as_ref().is_err_and(McpError::may_pass) {
            answered = call().await;
        }
        match answered {
            Ok(result) => {
                let redacted = |text: String| self.server.redacted(&text);
                let text = text_of(&result).map(redacted).map_err(redacted);
                text.map_err(McpCallError::Execution)
            }
            Err(error) => {
                let mut error = error.into_call_error();
                // Shortened at the end: the rest of a secret that was cut might not be found.
                let text = self.server.redacted(error.text());
                *error.text_mut() = shortened(&text);
                Err(error)
            }
        }
    }

    /// A call as the client sees it.
    fn item(
        &self,
        arguments: &str,
        approval: Option<&str>,
        result: Option<Result<String, McpCallError>>,
    ) -> HostedItem {
        let (output, error) = match result {
            Some(Ok(output)) => (Some(output), None),
            Some(Err(error)) => (None, Some(error)),
            None => (None, None),
        };
        HostedItem::McpCall {
            server_label: self.label.clone(),
            name: self.name.clone(),
            arguments: arguments.to_owned(),
            output,
            error,
            approval_request_id: approval.map(str::to_owned),
        }
    }
}

impl TurnTools for McpTurn {
    fn has(&self, name: &str) -> bool {
        self.tools.contains_key(name)
    }

    fn effect(&self, name: &str) -> ToolEffect {
        let tool = self.tools.get(name);
        ToolEffect {
            is_read_only: tool.is_some_and(|tool| tool.is_read_only),
            // The limit of all calls holds as well.
            timeout: tool
                .and_then(|tool| tool.limits.timeout)
                .unwrap_or(Duration::MAX),
        }
    }

    fn shown(&self, call: &WithheldCall) -> Option<HostedItem> {
        Some(self.called(call)?.item(&call.arguments, None, None))
    }

    fn run<'r>(&'r self, _: &'r TurnContext, call: &'r WithheldCall) -> ToolFuture<'r> {
        Box::pin(self.call(call))
    }

    fn run_approved<'r>(
        &'r self,
        ctx: &'r TurnContext,
        session: &'r str,
        call: &'r ApprovalCall,
    ) -> ToolFuture<'r> {
        Box::pin(self.call_approved(ctx, session, call))
    }

    fn ask(&self, ctx: &TurnContext, session: &str, call: &ApprovalCall) {
        if let Some(tool) = self.approved(call) {
            let asked = CallHash::of(&tool.server.identity(), call);
            let now = ctx.environment.clock.unix();
            self.approvals.ask(key(ctx, session, &call.id), asked, now);
        }
    }

    fn refuse<'r>(
        &'r self,
        ctx: &'r TurnContext,
        session: &'r str,
        calls: &'r [String],
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'r>> {
        Box::pin(async move {
            for id in calls {
                let now = ctx.environment.clock.unix();
                self.approvals.refuse(key(ctx, session, id), now).await;
            }
        })
    }
}
