//! The tools of the servers of one turn.

use std::collections::HashMap;
use std::time::Duration;

use adapters::responses::assembler::{HostedItem, WithheldCall};
use adapters::tools::ProxyTool;

use super::offer::{OfferedTool, shortened};
use super::result_text::text_of;
use crate::turn::{
    ToolEffect, ToolFuture, ToolResult, TurnContext, TurnTools, parse_tool_arguments,
};

/// Calls the tools that a turn offers. Made before the turn begins, and ends with its answer.
pub(super) struct McpTurn(pub(super) HashMap<String, OfferedTool>);

impl McpTurn {
    fn called(&self, call: &WithheldCall) -> Option<&OfferedTool> {
        self.0.get(ProxyTool::original_name(&call.name))
    }

    async fn call(&self, call: &WithheldCall) -> ToolResult {
        let Some(tool) = self.called(call) else {
            return ToolResult::unusable(format!("There is no tool '{}'.", call.name));
        };
        let result = match parse_tool_arguments(&call.arguments) {
            Ok(arguments) => match tool.server.call(&tool.name, arguments).await {
                Ok(result) => text_of(&result),
                Err(error) => Err(shortened(&error.to_string())),
            },
            Err(_) => Err("The arguments of the call are not a JSON object.".to_owned()),
        };
        let redacted = |text: String| tool.server.redacted(&text);
        let result = result.map(redacted).map_err(redacted);
        let item = item(tool, call, Some(&result));
        let (text, failed) = match result {
            Ok(text) => (text, false),
            Err(why) => (why, true),
        };
        ToolResult {
            text,
            failed,
            item: Some(item),
            ..ToolResult::default()
        }
    }
}

/// A call as the client sees it.
fn item(
    tool: &OfferedTool,
    call: &WithheldCall,
    result: Option<&Result<String, String>>,
) -> HostedItem {
    HostedItem::McpCall {
        server_label: tool.label.clone(),
        name: tool.name.clone(),
        arguments: call.arguments.clone(),
        output: result.and_then(|result| result.as_ref().ok().cloned()),
        error: result.and_then(|result| result.as_ref().err().cloned()),
    }
}

impl TurnTools for McpTurn {
    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn effect(&self, name: &str) -> ToolEffect {
        let tool = self.0.get(name);
        ToolEffect {
            is_read_only: tool.is_some_and(|tool| tool.is_read_only),
            // The limit of all calls holds as well.
            timeout: tool
                .and_then(|tool| tool.limits.timeout)
                .unwrap_or(Duration::MAX),
        }
    }

    fn shown(&self, call: &WithheldCall) -> Option<HostedItem> {
        Some(item(self.called(call)?, call, None))
    }

    fn run<'r>(&'r self, _: &'r TurnContext, call: &'r WithheldCall) -> ToolFuture<'r> {
        Box::pin(self.call(call))
    }
}
