//! `respondent mcp`: the tools that read artifacts back, on standard input and
//! output. Each call goes to the running server; while none runs, the store is
//! opened for the call alone, so that a server can start at any time.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::artifacts::open;
use crate::config::Config;
use crate::control::{Control, ControlError, Refusal};
use crate::mcp::call::{ToolCall, ToolCallResult};
use crate::mcp::{ToolCallHandler, stdio};

/// Serves until standard input ends.
pub async fn serve(config: Config) -> anyhow::Result<()> {
    let control = Control::of(&config);
    let config = Arc::new(config);
    stdio::serve(Elsewhere { control, config }).await
}

/// The server that runs, or the store that it would have.
#[derive(Clone)]
struct Elsewhere {
    control: Control,
    config: Arc<Config>,
}

impl ToolCallHandler for Elsewhere {
    async fn call_tool(&self, call: ToolCall) -> ToolCallResult {
        let request = json!({
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": call.name, "arguments": call.arguments},
        });
        let body = Bytes::from(request.to_string());
        match self.control.send(&Method::POST, "/mcp", body).await {
            Ok((StatusCode::OK, body)) => said(&body)
                .unwrap_or_else(|| ToolCallResult::failure(&"The server's answer cannot be read.")),
            Ok((status, body)) => {
                let why = Refusal::of(&body).map_or_else(String::new, |refusal| refusal.message);
                ToolCallResult::failure(&format!("The server answered {}: {why}", status.as_u16()))
            }
            Err(ControlError::NotRunning(_)) => match open(&self.config) {
                Ok(owned) => call.answer(&owned).await,
                Err(error) => ToolCallResult::failure(&error),
            },
            Err(error) => ToolCallResult::failure(&error),
        }
    }
}

/// The outcome in an answer of the protocol.
fn said(body: &[u8]) -> Option<ToolCallResult> {
    #[derive(Deserialize)]
    struct Answer {
        result: Option<Called>,
        error: Option<Problem>,
    }
    #[derive(Deserialize)]
    struct Called {
        content: Vec<Content>,
        #[serde(default, rename = "isError")]
        failed: bool,
    }
    #[derive(Deserialize)]
    struct Content {
        text: String,
    }
    #[derive(Deserialize)]
    struct Problem {
        message: String,
    }
    let answer: Answer = serde_json::from_slice(body).ok()?;
    if let Some(problem) = answer.error {
        return Some(ToolCallResult::failure(&problem.message));
    }
    let called = answer.result?;
    Some(ToolCallResult {
        text: called.content.into_iter().map(|part| part.text).collect(),
        failed: called.failed,
    })
}
