//! `respondent mcp`: an MCP server on standard input and output, with the tools that read
//! artifacts. Each call is sent to the running server. While none runs, the store is opened
//! for that one call, so that a server can start at any time.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::artifacts::open_offline;
use crate::config::Config;
use crate::control::{ApiError, ControlClient, ControlError};
use crate::mcp::call::{ToolCall, ToolCallResult};
use crate::mcp::{ToolCallHandler, stdio};

/// Runs the MCP server until standard input ends.
pub async fn serve(config: Config) -> anyhow::Result<()> {
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
    async fn call_tool(&self, call: ToolCall) -> ToolCallResult {
        let request = json!({
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": call.name, "arguments": call.arguments},
        });
        let body = Bytes::from(request.to_string());
        match self.control.send(&Method::POST, "/mcp", body).await {
            Ok((StatusCode::OK, body)) => parse_tool_result(&body)
                .unwrap_or_else(|| ToolCallResult::failure(&"The server's answer cannot be read.")),
            Ok((status, body)) => {
                let why =
                    ApiError::from_body(&body).map_or_else(String::new, |error| error.message);
                ToolCallResult::failure(&format!("The server answered {}: {why}", status.as_u16()))
            }
            Err(ControlError::NotRunning(_)) => match open_offline(&self.config) {
                Ok(owned) => call.answer(&owned).await,
                Err(error) => ToolCallResult::failure(&error),
            },
            Err(error) => ToolCallResult::failure(&error),
        }
    }
}

/// The tool result in a JSON-RPC response; `None` if it is not a valid response.
fn parse_tool_result(body: &[u8]) -> Option<ToolCallResult> {
    #[derive(Deserialize)]
    struct RpcResponse {
        result: Option<RpcResult>,
        error: Option<RpcError>,
    }
    #[derive(Deserialize)]
    struct RpcResult {
        content: Vec<TextContent>,
        #[serde(default, rename = "isError")]
        failed: bool,
    }
    #[derive(Deserialize)]
    struct TextContent {
        text: String,
    }
    #[derive(Deserialize)]
    struct RpcError {
        message: String,
    }
    let response: RpcResponse = serde_json::from_slice(body).ok()?;
    if let Some(error) = response.error {
        return Some(ToolCallResult::failure(&error.message));
    }
    let result = response.result?;
    Some(ToolCallResult {
        text: result.content.into_iter().map(|part| part.text).collect(),
        failed: result.failed,
    })
}
