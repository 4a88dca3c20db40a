//! `DELETE /diagnostics/store`, for `respondent store purge`.

use axum::body::Body;
use axum::extract::State;
use http::{Response, StatusCode};
use serde::{Deserialize, Serialize};

use super::{AppState, respond_with_json};
use crate::serve::error::{ErrorBody, SERVER_ERROR};

/// The result of deleting everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "object", rename = "store.purged")]
pub struct PurgeReport {
    /// Whether the write-ahead log is empty too. It is not if another program reads the database.
    pub complete: bool,
}

/// Deletes all artifacts, responses and conversations and the stored usage: a [`PurgeReport`].
pub(super) async fn purge(State(app): State<AppState>) -> Response<Body> {
    let responses = app.service.responses();
    if let Some(fault) = responses.unusable_fault() {
        return failed(fault.cause.as_deref().unwrap_or_default());
    }
    let responses = match responses.store() {
        Some(store) => store.purge().await.map_err(|error| error.to_string()),
        None => Ok(true),
    };
    // The artifacts keep their own cache of what is on disk, which is cleared too.
    let artifacts = app.service.artifacts().purge().await;
    let artifacts = artifacts.map_err(|error| error.to_string());
    match responses.and_then(|complete| Ok(artifacts? && complete)) {
        Ok(complete) => respond_with_json(&PurgeReport { complete }),
        Err(error) => failed(&error),
    }
}

fn failed(error: &str) -> Response<Body> {
    tracing::error!("what is stored cannot be deleted: {error}");
    let message = format!(
        "What is stored cannot be deleted now: {error}. If the disk is full, delete other files on it first."
    );
    ErrorBody {
        message: &message,
        kind: SERVER_ERROR,
        param: None,
        code: Some("storage_error"),
    }
    .respond(StatusCode::SERVICE_UNAVAILABLE)
}
