//! Why a server cannot be used, and what the client sees of it where a call fails.

use std::time::Duration;

use adapters::responses::assembler::McpCallError;
use http::StatusCode;
use rmcp::model::ErrorData;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use thiserror::Error;

use super::http::HttpError;
use crate::tools::web::client::WebError;

/// Why a server cannot be used.
#[derive(Clone, Debug, Error)]
pub(super) enum McpError {
    /// It cannot be reached or started, or does not speak the protocol.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// It has refused a request, with a code of JSON-RPC.
    #[error("the server answered with an error: {message}")]
    Refused { code: i32, message: String },
    /// It has answered with an HTTP status that is no success.
    #[error("the server answered with HTTP {0}")]
    Status(u16),
    /// The connection has ended.
    #[error("the connection to the server has ended: {0}")]
    Lost(String),
    /// The answer has ended before it was whole, such as at its limit, or is none.
    #[error("the connection to the server has ended: {0}")]
    Cut(String),
    /// It wants more than an answer.
    #[error("the server asks for input, which nobody can give here")]
    AsksForInput,
    /// It took too long.
    #[error("the server did not answer within {0:?}")]
    Timeout(Duration),
    /// It has ended again and again.
    #[error("the program of the server has ended too often; it is started again in a minute")]
    EndsTooOften,
}

impl McpError {
    #[expect(clippy::needless_pass_by_value, reason = "the form of `map_err`")]
    pub(super) fn out_of_reach(error: impl ToString) -> Self {
        Self::Unreachable(error.to_string())
    }

    /// No connection was made. The first message of the chain that says something is shown: those
    /// around it name parts of a library.
    pub(super) fn of_begin(error: ClientInitializeError) -> Self {
        match error {
            ClientInitializeError::JsonRpcError(error) => Self::refused(&error),
            ClientInitializeError::TransportError { error, .. } => {
                Self::of_transport(&error, Self::Unreachable)
            }
            other => Self::out_of_reach(other),
        }
    }

    /// A request on a connection has failed.
    pub(super) fn of_request(error: ServiceError) -> Self {
        match error {
            ServiceError::McpError(error) => Self::refused(&error),
            ServiceError::TransportSend(error) if is_broken(&error) => {
                Self::of_transport(&error, Self::Lost)
            }
            ServiceError::TransportSend(error) => Self::of_transport(&error, Self::Cut),
            other => Self::Cut(other.to_string()),
        }
    }

    /// `otherwise` is for what is no answer.
    fn of_transport(error: &DynamicTransportError, otherwise: fn(String) -> Self) -> Self {
        match error.error.downcast_ref::<HttpError>() {
            Some(StreamableHttpError::HttpStatus(error)) => Self::Status(error.status),
            Some(StreamableHttpError::SessionExpired) => {
                Self::Status(StatusCode::NOT_FOUND.as_u16())
            }
            Some(StreamableHttpError::ReinitializationFailed(error)) => Self::refused(error),
            _ => otherwise(error.error.to_string()),
        }
    }

    fn refused(error: &ErrorData) -> Self {
        Self::Refused {
            code: error.code.0,
            message: error.message.to_string(),
        }
    }

    /// Whether the same call may succeed at once: no connection was made, it broke, or the server
    /// has an error of its own.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Lost(_) => true,
            Self::Status(status) => (500..600).contains(status),
            Self::Refused { .. }
            | Self::Cut(_)
            | Self::AsksForInput
            | Self::Timeout(_)
            | Self::EndsTooOften => false,
        }
    }

    /// What the client sees of it where a call has failed.
    pub(super) fn into_call_error(self) -> McpCallError {
        let text = self.to_string();
        match self {
            Self::Refused { code, message } => McpCallError::Protocol { code, message },
            Self::Status(status) => McpCallError::Http {
                status,
                message: text,
            },
            // The server was reached, and its tool has not come to an end.
            Self::AsksForInput => McpCallError::Execution(text),
            Self::Timeout(_) => McpCallError::of_time(text),
            // A program that has ended is a connection that has ended.
            Self::Unreachable(_) | Self::Lost(_) | Self::Cut(_) | Self::EndsTooOften => {
                McpCallError::of_connection(text)
            }
        }
    }
}

/// Whether there was no connection, or it broke.
fn is_broken(error: &DynamicTransportError) -> bool {
    match error.error.downcast_ref::<HttpError>() {
        Some(StreamableHttpError::Client(error)) => matches!(error, WebError::Unreachable(_)),
        Some(_) => false,
        // A pipe of a program.
        None => true,
    }
}
