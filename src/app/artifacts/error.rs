//! Why a request for artifacts fails.
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_RANGE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};

use super::query::ParameterError;
use crate::app::set_header;
use crate::artifacts::owner::ReadError;
use crate::serve::error::{ErrorBody, INVALID_REQUEST, SERVER_ERROR};

/// The error code when there is no such artifact.
pub const NOT_FOUND: &str = "artifact_not_found";
/// The error code when the store cannot be read.
pub const STORE_ERROR: &str = "artifact_store_error";

/// Seconds after which a request to a store that failed is worth repeating.
const RETRY_SECONDS: u32 = 1;

pub(in crate::app) enum ArtifactHttpError {
    /// A parameter of the query cannot be used.
    Parameter(ParameterError),
    Unread(ReadError),
    /// The range begins beyond the end of the artifact, which has this many bytes.
    Range(u64),
}

impl IntoResponse for ArtifactHttpError {
    fn into_response(self) -> Response {
        let (kind, code, param, status, message) = match &self {
            Self::Parameter(bad) => (
                INVALID_REQUEST,
                "invalid_value",
                bad.name,
                StatusCode::BAD_REQUEST,
                bad.message.clone(),
            ),
            Self::Unread(unread @ (ReadError::Missing { .. } | ReadError::MalformedId)) => (
                INVALID_REQUEST,
                NOT_FOUND,
                None,
                StatusCode::NOT_FOUND,
                unread.to_string(),
            ),
            Self::Unread(unread @ ReadError::SearchTimeout) => (
                INVALID_REQUEST,
                "search_too_slow",
                Some("q"),
                StatusCode::BAD_REQUEST,
                unread.to_string(),
            ),
            Self::Unread(unread @ ReadError::Store(_)) => (
                SERVER_ERROR,
                STORE_ERROR,
                None,
                StatusCode::SERVICE_UNAVAILABLE,
                unread.to_string(),
            ),
            Self::Range(bytes) => (
                INVALID_REQUEST,
                "range_not_satisfiable",
                None,
                StatusCode::RANGE_NOT_SATISFIABLE,
                format!("The artifact has {bytes} bytes."),
            ),
        };
        let mut response = ErrorBody {
            message: &message,
            kind,
            param,
            code: Some(code),
        }
        .respond(status);
        match self {
            Self::Unread(ReadError::Store(error)) => {
                tracing::error!("artifacts cannot be read: {error}");
                let seconds = HeaderValue::from(RETRY_SECONDS);
                response.headers_mut().insert(RETRY_AFTER, seconds);
            }
            Self::Range(bytes) => {
                let range = format!("bytes */{bytes}");
                set_header(response.headers_mut(), CONTENT_RANGE, &range);
            }
            Self::Unread(
                ReadError::Missing { .. } | ReadError::MalformedId | ReadError::SearchTimeout,
            )
            | Self::Parameter(_) => {}
        }
        response.into_response()
    }
}

impl From<ParameterError> for ArtifactHttpError {
    fn from(bad: ParameterError) -> Self {
        Self::Parameter(bad)
    }
}

impl From<ReadError> for ArtifactHttpError {
    fn from(unread: ReadError) -> Self {
        Self::Unread(unread)
    }
}
