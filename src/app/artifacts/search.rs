//! `GET /v1/artifacts/{id}/search`.
use axum::extract::RawQuery;
use http::Response;
use serde::{Deserialize, Serialize};

use super::ArtifactId;
use super::error::ArtifactHttpError;
use crate::app::owner::RequestArtifacts;
use crate::app::query::{ParameterError, QueryParams};
use crate::app::respond_with_json;
use crate::artifacts::search::{FoundLine, MAX_CONTEXT_LINES, SearchLimits, SearchQuery};
use crate::mcp::unsearchable;
use axum::body::Body;

/// Matches shown when the request does not say.
const DEFAULT_LIMIT: usize = 50;
/// Largest number of matches shown.
const MAX_LIMIT: usize = 1000;
/// Bytes of all lines that are shown.
const MAX_BYTES: usize = 200_000;

/// The matches of a search.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "object", rename = "artifact.search")]
pub struct ArtifactMatches {
    /// The artifact.
    pub id: String,
    /// Number of matches from `from_byte` on.
    pub matches: u64,
    /// Number of them in `lines`.
    pub shown: u64,
    /// Whether there are more, which begin at `next_byte`.
    pub has_more: bool,
    /// The `from_byte` of the next page.
    pub next_byte: Option<u64>,
    /// The bytes up to which a match in a very long line is sure to be found and counted once;
    /// absent if all matches are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_limit: Option<u64>,
    /// Matching lines and their context.
    pub lines: Vec<FoundLine>,
}

/// Searches an artifact for `q`, with the parameters `regex`, `ignore_case`, `context`,
/// `limit` and `from_byte`.
pub(in crate::app) async fn search(
    RequestArtifacts(owned): RequestArtifacts,
    ArtifactId(id): ArtifactId,
    RawQuery(query): RawQuery,
) -> Result<Response<Body>, ArtifactHttpError> {
    let names = ["q", "regex", "ignore_case", "context", "limit", "from_byte"];
    let params = QueryParams::parse(query.as_deref(), &names)?;
    let pattern = params.text("q").unwrap_or_default();
    let (regex, ignore_case) = (params.flag("regex")?, params.flag("ignore_case")?);
    let mut query =
        SearchQuery::new(pattern, regex, ignore_case).map_err(|error| ParameterError {
            name: Some("q"),
            message: unsearchable("q", &error),
        })?;
    let context = params.number("context", &(0..=MAX_CONTEXT_LINES as u64), 0)?;
    query.context = usize::try_from(context).unwrap_or(MAX_CONTEXT_LINES);
    let limit = params.number("limit", &(1..=MAX_LIMIT as u64), DEFAULT_LIMIT as u64)?;
    query.limits = SearchLimits {
        matches: usize::try_from(limit).unwrap_or(MAX_LIMIT),
        bytes: MAX_BYTES,
    };
    query.from_byte = params.number("from_byte", &(0..=u64::MAX), 0)?;
    let (entry, found) = owned.search(&id, &query).await?;
    Ok(respond_with_json(&ArtifactMatches {
        id: entry.id,
        matches: found.matches,
        shown: found.shown,
        has_more: found.next_byte.is_some(),
        next_byte: found.next_byte,
        match_limit: found.match_limit,
        lines: found.lines,
    }))
}
