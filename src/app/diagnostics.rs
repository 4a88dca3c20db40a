//! The turns that are kept, for `respondent bundle`.

use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, header::CONTENT_TYPE};

use super::{Respondent, reply};
use crate::diagnostics::bundle::BundleError;
use crate::diagnostics::listing::TurnListing;
use crate::diagnostics::selection::BundleQuery;
use crate::serve::Body;
use crate::serve::error::{ErrorBody, INVALID_REQUEST, internal, invalid_request};

/// `GET /diagnostics/turns`: a [`Listing`].
pub(super) async fn turns(app: &Respondent) -> Response<Body> {
    let capture = app.capture.clone();
    let config = app.service.config.load_full();
    let Ok(turns) = tokio::task::spawn_blocking(move || capture.list(&config)).await else {
        return internal();
    };
    let listing = TurnListing {
        started_ms: Some(app.started_ms),
        turns,
    };
    match serde_json::to_vec(&listing) {
        Ok(json) => reply("application/json", json),
        Err(_) => internal(),
    }
}

/// `GET /diagnostics/bundle`: a file of the turns that the query names.
pub(super) async fn bundle(app: &Respondent, head: &Parts) -> Response<Body> {
    let wanted = match BundleQuery::from_query(head.uri.query().unwrap_or_default()) {
        Ok(wanted) => wanted,
        Err(bad) => {
            return ErrorBody {
                message: &bad.to_string(),
                kind: INVALID_REQUEST,
                param: Some(bad.parameter),
                code: Some("invalid_value"),
            }
            .respond(StatusCode::BAD_REQUEST);
        }
    };
    let capture = app.capture.clone();
    let asked = wanted.clone();
    let config = app.service.config.load_full();
    let made = tokio::task::spawn_blocking(move || capture.bundle(&config, &asked)).await;
    match made {
        Ok(Ok(Some(bytes))) => {
            let mut response = Response::new(Body::full(bytes));
            let zstd = HeaderValue::from_static("application/zstd");
            response.headers_mut().insert(CONTENT_TYPE, zstd);
            response
        }
        Ok(Ok(None)) => {
            let message = format!("There is no {}.", wanted.selection.describe());
            invalid_request(StatusCode::NOT_FOUND, NOT_FOUND, &message)
        }
        Ok(Err(error @ BundleError::TooLarge { .. })) => {
            let message = error.to_string();
            invalid_request(StatusCode::UNPROCESSABLE_ENTITY, "too_large", &message)
        }
        Ok(Err(error)) => {
            tracing::error!("no bundle: {error:#}");
            internal()
        }
        Err(_) => internal(),
    }
}

/// The code of the answer when there is no such turn.
pub const NOT_FOUND: &str = "turn_not_found";
