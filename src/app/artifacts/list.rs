//! `GET /v1/artifacts`.
use axum::extract::RawQuery;
use http::Response;
use serde::{Deserialize, Serialize};

use super::error::ArtifactHttpError;
use crate::app::owner::RequestArtifacts;
use crate::app::query::{ParameterError, QueryParams};
use crate::app::respond_with_json;
use crate::artifacts::owner::is_artifact_id;
use crate::mcp::list::{DEFAULT_LIMIT, MAX_LIMIT};
use crate::store::{ArtifactEntry, ArtifactFilter};
use axum::body::Body;

/// One page of artifacts, in the form of `OpenAI`'s lists.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "object", rename = "list")]
pub struct ArtifactList {
    /// The artifacts, newest first.
    pub data: Vec<ArtifactEntry>,
    /// Whether there are more after the last one.
    pub has_more: bool,
    /// The id of the first.
    pub first_id: Option<String>,
    /// The id of the last, which is the `after` of the next page.
    pub last_id: Option<String>,
}

/// Lists artifacts, with the parameters `limit`, `after`, `session` and `prefix`, with which the
/// ids begin.
pub(in crate::app) async fn list(
    RequestArtifacts(owned): RequestArtifacts,
    RawQuery(query): RawQuery,
) -> Result<Response<Body>, ArtifactHttpError> {
    let params = QueryParams::parse(query.as_deref(), &["limit", "after", "session", "prefix"])?;
    let limit = params.number("limit", &(1..=MAX_LIMIT as u64), DEFAULT_LIMIT as u64)?;
    let limit = usize::try_from(limit).unwrap_or(MAX_LIMIT);
    let after = params.text("after").map(str::to_owned);
    if !after.as_deref().is_none_or(is_artifact_id) {
        return Err(ParameterError::new("after", "the id of an artifact").into());
    }
    let filter = ArtifactFilter {
        session: params.text("session").map(str::to_owned),
        id_prefix: params.text("prefix").map(str::to_owned),
        // One more shows whether there is another page.
        limit: limit + 1,
        after,
    };
    let mut entries = owned.list(&filter).await?;
    let has_more = entries.len() > limit;
    entries.truncate(limit);
    Ok(respond_with_json(&ArtifactList {
        has_more,
        first_id: entries.first().map(|artifact| artifact.id.clone()),
        last_id: entries.last().map(|artifact| artifact.id.clone()),
        data: entries,
    }))
}
