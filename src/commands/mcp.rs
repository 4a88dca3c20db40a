//! `respondent mcp`: the tools that read artifacts back, on standard input and
//! output. Each call goes to the running server; while none runs, the store is
//! opened for the call alone, so that a server can start at any time.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::artifacts::open_offline;
use crate::config::Config;
use crate::control::{ApiError, ControlClient, ControlError};
use crate::mcp::call::{Call, Outcome};
use crate::mcp::{Answers, stdio};

/// Serves until standard input ends.
pub async fn serve(config: Config) -> anyhow::Result<()> {
    let control = ControlClient::new(&config);
    let config = Arc::new(config);
    stdio::serve(ServerOrStore { control, config }).await
}

/// The server that runs, or the store that it would have.
#[derive(Clone)]
struct ServerOrStore {
    control: ControlClient,
    config: Arc<Config>,
}

impl Answers for ServerOrStore {
    async fn answer(&self, call: Call) -> Outcome {
        let request = json!({
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": call.name, "arguments": call.arguments},
        });
        let body = Bytes::from(request.to_string());
        match self.control.send(&Method::POST, "/mcp", body).await {
            Ok((StatusCode::OK, body)) => parse_tool_result(&body)
                .unwrap_or_else(|| Outcome::failed(&"The server's answer cannot be read.")),
            Ok((status, body)) => {
                let why =
                    ApiError::from_body(&body).map_or_else(String::new, |refusal| refusal.message);
                Outcome::failed(&format!("The server answered {}: {why}", status.as_u16()))
            }
            Err(ControlError::NotRunning(_)) => match open_offline(&self.config) {
                Ok(owned) => call.answer(&owned).await,
                Err(error) => Outcome::failed(&error),
            },
            Err(error) => Outcome::failed(&error),
        }
    }
}

/// The outcome in an answer of the protocol.
fn parse_tool_result(body: &[u8]) -> Option<Outcome> {
    #[derive(Deserialize)]
    struct RpcResponse {
        result: Option<ToolCallResult>,
        error: Option<RpcError>,
    }
    #[derive(Deserialize)]
    struct ToolCallResult {
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
    let answer: RpcResponse = serde_json::from_slice(body).ok()?;
    if let Some(problem) = answer.error {
        return Some(Outcome::failed(&problem.message));
    }
    let called = answer.result?;
    Some(Outcome {
        text: called.content.into_iter().map(|part| part.text).collect(),
        failed: called.failed,
    })
}
