//! Why a request for artifacts fails.
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_RANGE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};

use crate::app::query::ParameterError;
use crate::app::set_header;
use crate::artifacts::owner::ReadError;
use crate::serve::error::{ErrorBody, INVALID_REQUEST, SERVER_ERROR};

/// The error code when there is no such artifact.
pub const NOT_FOUND: &str = "artifact_not_found";
/// The error code when the store cannot be read.
pub const STORE_ERROR: &str = "artifact_store_error";

/// Seconds after which a request to a store that failed is worth repeating.
const RETRY_SECONDS: u32 = 1;

#[derive(Debug, thiserror::Error)]
pub(in crate::app) enum ArtifactHttpError {
    /// A parameter of the query cannot be used.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    #[error(transparent)]
    Unread(#[from] ReadError),
    /// The range begins beyond the end of the artifact, which has this many bytes.
    #[error("The artifact has {0} bytes.")]
    Range(u64),
}

impl IntoResponse for ArtifactHttpError {
    fn into_response(self) -> Response {
        let (status, code, param) = match &self {
            Self::Parameter(bad) => (StatusCode::BAD_REQUEST, "invalid_value", bad.name),
            Self::Unread(ReadError::Missing { .. } | ReadError::MalformedId) => {
                (StatusCode::NOT_FOUND, NOT_FOUND, None)
            }
            Self::Unread(ReadError::SearchTimeout) => {
                (StatusCode::BAD_REQUEST, "search_too_slow", Some("q"))
            }
            Self::Unread(ReadError::Store(_)) => {
                (StatusCode::SERVICE_UNAVAILABLE, STORE_ERROR, None)
            }
            Self::Range(_) => (
                StatusCode::RANGE_NOT_SATISFIABLE,
                "range_not_satisfiable",
                None,
            ),
        };
        let mut response = ErrorBody {
            message: &self.to_string(),
            kind: if status.is_server_error() {
                SERVER_ERROR
            } else {
                INVALID_REQUEST
            },
            param,
            code: Some(code),
        }
        .respond(status);
        let headers = response.headers_mut();
        match self {
            Self::Unread(ReadError::Store(error)) => {
                tracing::error!("artifacts cannot be read: {error}");
                headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_SECONDS));
            }
            Self::Range(bytes) => {
                set_header(headers, CONTENT_RANGE, &format!("bytes */{bytes}"));
            }
            Self::Unread(_) | Self::Parameter(_) => {}
        }
        response
    }
}
