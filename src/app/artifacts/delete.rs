//! `DELETE /v1/artifacts/{id}` and `DELETE /v1/artifacts/expired`.
use axum::extract::RawQuery;
use http::Response;
use serde_json::json;

use super::ArtifactId;
use super::error::ArtifactHttpError;
use crate::app::owner::RequestArtifacts;
use crate::app::query::QueryParams;
use crate::app::respond_with_json;
use axum::body::Body;

pub(in crate::app) async fn remove(
    RequestArtifacts(owned): RequestArtifacts,
    ArtifactId(id): ArtifactId,
    RawQuery(query): RawQuery,
) -> Result<Response<Body>, ArtifactHttpError> {
    QueryParams::parse(query.as_deref(), &[])?;
    owned.delete(&id).await?;
    Ok(respond_with_json(&json!({
        "id": id,
        "object": "artifact.deleted",
        "deleted": true,
    })))
}

/// Deletes the artifacts that are expired.
pub(in crate::app) async fn sweep(
    RequestArtifacts(owned): RequestArtifacts,
    RawQuery(query): RawQuery,
) -> Result<Response<Body>, ArtifactHttpError> {
    QueryParams::parse(query.as_deref(), &[])?;
    Ok(respond_with_json(&owned.sweep().await?))
}
