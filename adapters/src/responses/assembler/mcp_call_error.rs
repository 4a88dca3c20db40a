//! Why the call of a tool of an MCP server failed: the `error` of an `mcp_call`, in the forms of
//! OpenAI's API reference.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

// A server that says nothing gives neither a status of HTTP nor an error of JSON-RPC. The SDKs of
// MCP report it to their callers as errors of the protocol with these codes, so a client reads what
// it would read if it called the server itself. An execution error would be one of the tool.

/// What the client and the model read of a call that was cut off.
pub const CALL_INTERRUPTED: &str =
    "The call was interrupted, and it is not known whether it took effect.";

/// The code of a connection that has ended, or that could not be made.
const CONNECTION_CLOSED: i32 = -32_000;
/// The code of a request without an answer in time.
const REQUEST_TIMEOUT: i32 = -32_001;

/// Why a call failed. In a recording an execution error is a plain text, and another one an object.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum McpCallError {
    /// `mcp_protocol_error`: the server refused the request, or gave no answer.
    Protocol {
        /// The code of JSON-RPC.
        code: i32,
        /// What the server says, or what happened.
        message: String,
    },
    /// `http_error`: the server answered with an HTTP status that is no success.
    Http {
        /// The status.
        status: u16,
        /// What happened.
        message: String,
    },
    /// `mcp_tool_execution_error`: the tool says that it failed, or the call was not run.
    #[serde(untagged)]
    Execution(String),
}

impl McpCallError {
    /// There is no connection to the server, or it has ended.
    pub fn of_connection(message: String) -> Self {
        let code = CONNECTION_CLOSED;
        Self::Protocol { code, message }
    }

    /// The answer, or the process, ended while the call ran.
    pub(super) fn of_interruption() -> Self {
        Self::of_connection(CALL_INTERRUPTED.to_owned())
    }

    /// The call took too long.
    pub fn of_time(message: String) -> Self {
        let code = REQUEST_TIMEOUT;
        Self::Protocol { code, message }
    }

    /// The reason, which the model reads.
    pub fn text(&self) -> &str {
        match self {
            Self::Protocol { message, .. } | Self::Http { message, .. } => message,
            Self::Execution(text) => text,
        }
    }

    /// The reason, to redact it.
    pub fn text_mut(&mut self) -> &mut String {
        match self {
            Self::Protocol { message, .. } | Self::Http { message, .. } => message,
            Self::Execution(text) => text,
        }
    }

    /// The object that the client gets.
    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Protocol { code, message } => {
                json!({"type": "mcp_protocol_error", "code": code, "message": message})
            }
            Self::Http { status, message } => {
                json!({"type": "http_error", "code": status, "message": message})
            }
            // One text in the form of MCP.
            Self::Execution(text) => json!({
                "type": "mcp_tool_execution_error",
                "content": [{"type": "text", "text": text}],
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_recorded_in_its_form() {
        for (error, recorded) in [
            (McpCallError::Execution("no".to_owned()), json!("no")),
            (
                McpCallError::of_time("no".to_owned()),
                json!({"protocol": {"code": REQUEST_TIMEOUT, "message": "no"}}),
            ),
            (
                McpCallError::Http {
                    status: 500,
                    message: "no".to_owned(),
                },
                json!({"http": {"status": 500, "message": "no"}}),
            ),
        ] {
            assert_eq!(serde_json::to_value(&error).unwrap(), recorded);
            let read: McpCallError = serde_json::from_value(recorded).unwrap();
            assert_eq!(read, error);
        }
        let unknown = json!({"http": {"status": 500, "message": "no", "more": 1}});
        assert!(serde_json::from_value::<McpCallError>(unknown).is_err());
    }
}
