//! `GET /diagnostics/jobs`, for `respondent jobs`.

use axum::body::Body;
use axum::extract::State;
use http::Response;
use serde::{Deserialize, Serialize};

use super::owner::RequestOwner;
use super::{AppState, respond_with_json};
use crate::serve::error::internal;
use crate::store::JobEntry;

/// The most jobs that are listed.
const MAX_LISTED: usize = 1_000;

/// The background responses, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "object", rename = "job.list")]
pub struct JobList {
    /// The jobs.
    pub data: Vec<JobEntry>,
}

/// Lists the background responses of the owner: a [`JobList`]. The operator sees those of all
/// owners.
pub(super) async fn list(
    State(app): State<AppState>,
    RequestOwner(owner): RequestOwner,
) -> Response<Body> {
    let responses = app.service.responses();
    if responses.unusable_fault().is_some() {
        return internal();
    }
    let Some(store) = responses.store() else {
        return respond_with_json(&JobList::default());
    };
    match store.jobs(&owner, MAX_LISTED).await {
        Ok(data) => respond_with_json(&JobList { data }),
        Err(error) => {
            tracing::error!("the background responses cannot be read: {error}");
            internal()
        }
    }
}
