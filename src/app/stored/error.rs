//! Why a request for something stored fails.

use adapters::fault::Fault;
use axum::response::{IntoResponse, Response};
use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};

use crate::app::query::ParameterError;
use crate::responses::storage_fault;
use crate::serve::error::{ErrorBody, INVALID_REQUEST};
use crate::store::StoreError;

/// The error code of what is not there.
const NOT_FOUND: &str = "not_found";

#[derive(Debug, thiserror::Error)]
pub(in crate::app) enum StoredHttpError {
    /// Nothing is stored.
    #[error("This server stores no responses: they are off in its configuration.")]
    NotStored,
    /// The owner has none with this id.
    #[error("{kind} with id '{id}' not found.")]
    Missing {
        /// What it is.
        kind: &'static str,
        /// The id, which has the form of one.
        id: String,
    },
    /// The id cannot be one.
    #[error("This is not the id of a {0}.")]
    MalformedId(&'static str),
    /// A parameter of the query cannot be used.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The body cannot be used.
    #[error("{message}")]
    Body {
        /// The parameter at fault.
        param: String,
        /// What is wrong with it.
        message: String,
    },
    /// It does not run in the background.
    #[error("Only a background response can be {0}.")]
    NotBackground(&'static str),
    /// It ended with this status before it was to be cancelled.
    #[error("Cannot cancel a response that is {0}.")]
    HadEnded(String),
    /// Anything else.
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
}

impl From<StoreError> for StoredHttpError {
    fn from(error: StoreError) -> Self {
        Self::Fault(Box::new(storage_fault(&error)))
    }
}

impl From<Fault> for StoredHttpError {
    fn from(fault: Fault) -> Self {
        Self::Fault(Box::new(fault))
    }
}

impl IntoResponse for StoredHttpError {
    fn into_response(self) -> Response {
        let (status, code, param) = match &self {
            Self::Parameter(bad) => return bad.clone().into_response(),
            Self::NotStored | Self::Missing { .. } | Self::MalformedId(_) => {
                (StatusCode::NOT_FOUND, Some(NOT_FOUND), None)
            }
            Self::Body { param, .. } => (
                StatusCode::BAD_REQUEST,
                Some("invalid_value"),
                Some(&**param),
            ),
            Self::NotBackground(_) => (StatusCode::BAD_REQUEST, Some("not_background"), None),
            Self::HadEnded(_) => (StatusCode::BAD_REQUEST, None, None),
            Self::Fault(fault) => return of_fault(fault),
        };
        ErrorBody {
            message: &self.to_string(),
            kind: INVALID_REQUEST,
            param,
            code,
        }
        .respond(status)
    }
}

fn of_fault(fault: &Fault) -> Response {
    if let Some(cause) = &fault.cause {
        tracing::error!("what is stored cannot be read or written: {cause}");
    }
    let status = StatusCode::from_u16(fault.status(false));
    let mut response = ErrorBody {
        message: &fault.client_message(),
        kind: fault.error_type(),
        param: fault.param.as_deref(),
        code: fault.code(),
    }
    .respond(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
    if let Some(seconds) = fault.retry_after() {
        let headers = response.headers_mut();
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
