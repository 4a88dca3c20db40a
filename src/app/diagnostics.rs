//! The recent turns, for `respondent bundle`.
use axum::extract::{RawQuery, State};
use http::{Response, StatusCode};

use super::owner::RequestOwner;
use super::{AppState, respond_with, respond_with_json};
use crate::diagnostics::bundle::BundleError;
use crate::diagnostics::capture::CaptureWorkError;
use crate::diagnostics::listing::TurnListing;
use crate::diagnostics::selection::BundleQuery;
use crate::net::memory::MemoryKind;
use crate::serve::error::{ErrorBody, INVALID_REQUEST, internal, invalid_request, memory_full};
use axum::body::Body;

/// The error code when there is no such turn.
pub const NOT_FOUND: &str = "turn_not_found";

/// `GET /diagnostics/turns`: a [`TurnListing`] of the owner's turns; the operator sees all.
pub(super) async fn list_turns(
    State(app): State<AppState>,
    RequestOwner(owner): RequestOwner,
) -> Response<Body> {
    let config = app.service.config.load_full();
    let listed = app.capture.run_work(&app.memory, move |capture, work| {
        capture.list(&config, &owner, work)
    });
    match listed.await {
        Ok(turns) => respond_with_json(&TurnListing {
            started_ms: Some(app.started_ms),
            turns,
        }),
        Err(error) => no_result(&error),
    }
}

/// `GET /diagnostics/bundle`: a file with the turns that the query selects.
pub(super) async fn bundle(
    State(app): State<AppState>,
    RequestOwner(owner): RequestOwner,
    RawQuery(query): RawQuery,
) -> Response<Body> {
    let wanted = match BundleQuery::from_query(&query.unwrap_or_default()) {
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
    let selection = wanted.clone();
    let config = app.service.config.load_full();
    let bundled = app.capture.run_work(&app.memory, move |capture, work| {
        capture.bundle(&config, &owner, &selection, work)
    });
    match bundled.await {
        Ok(Ok(Some(bytes))) => {
            let bytes = app.memory.count_bytes(MemoryKind::Answers, bytes.into());
            respond_with("application/zstd", bytes)
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
        Err(error) => no_result(&error),
    }
}

/// The response when work on recorded turns has no result.
pub(super) fn no_result(error: &CaptureWorkError) -> Response<Body> {
    match error {
        CaptureWorkError::MemoryFull(full) => memory_full(full),
        CaptureWorkError::Failed => internal(),
    }
}
