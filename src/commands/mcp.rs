//! `respondent mcp`: an MCP server on standard input and output, with the tools that read
//! artifacts. Each call is sent to the running server. While none runs, the store is opened
//! for that one call, so that a server can start at any time.

use std::io::IsTerminal;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, StatusCode};
use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock, ErrorData};
use serde::Deserialize;
use serde_json::json;

use super::artifacts::open_offline;
use super::print_error;
use crate::config::Config;
use crate::control::{ApiError, ControlClient, ControlError};
use crate::mcp::call::answer;
use crate::mcp::{ToolCallHandler, stdio};

/// Runs the MCP server until standard input ends.
pub async fn serve(config: Config) -> anyhow::Result<()> {
    if std::io::stdin().is_terminal() {
        print_error("Waiting for MCP messages on standard input; press Ctrl-D to stop.\n");
    }
    let control = ControlClient::new(&config);
    let config = Arc::new(config);
    stdio::serve(ServerOrStore { control, config }).await
}

/// Answers tool calls through the running server, or from the store if no server runs.
#[derive(Clone)]
struct ServerOrStore {
    control: ControlClient,
    config: Arc<Config>,
}

impl ToolCallHandler for ServerOrStore {
    async fn call_tool(&self, call: CallToolRequestParams) -> Result<String, String> {
        let request = json!({
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": call.name, "arguments": call.arguments.clone().unwrap_or_default()},
        });
        let body = Bytes::from(request.to_string());
        match self.control.send(&Method::POST, "/mcp", body).await {
            Ok((StatusCode::OK, body)) => tool_result(&body)
                .unwrap_or_else(|| Err("The server's answer cannot be read.".to_owned())),
            Ok((status, body)) => {
                let why = ApiError::message_in(&body);
                Err(format!("The server answered {}: {why}", status.as_u16()))
            }
            Err(ControlError::NotRunning(_)) => {
                let owned = open_offline(&self.config).map_err(|error| error.to_string())?;
                answer(&owned, call).await
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The tool result in a JSON-RPC response; `None` if it is not a valid response.
fn tool_result(body: &[u8]) -> Option<Result<String, String>> {
    #[derive(Deserialize)]
    struct RpcResponse {
        result: Option<CallToolResult>,
        error: Option<ErrorData>,
    }
    let response: RpcResponse = serde_json::from_slice(body).ok()?;
    if let Some(error) = response.error {
        return Some(Err(error.message.into_owned()));
    }
    let result = response.result?;
    let texts = result.content.iter().filter_map(ContentBlock::as_text);
    let text = texts.map(|text| text.text.as_str()).collect();
    Some(if result.is_error == Some(true) {
        Err(text)
    } else {
        Ok(text)
    })
}
