//! `DELETE /v1/artifacts/{id}` and `DELETE /v1/artifacts/expired`.
use axum::extract::{RawQuery, State};
use http::Response;
use serde::{Deserialize, Serialize};

use super::ArtifactId;
use super::error::ArtifactHttpError;
use super::query::QueryParams;
use crate::app::respond_with_json;
use crate::artifacts::owner::OwnerArtifacts;
use axum::body::Body;

/// The artifacts that a sweep deleted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(expecting = "struct Sweep")]
pub struct ArtifactSweep {
    /// `artifact.sweep`.
    pub object: String,
    /// Number of artifacts.
    pub artifacts: u64,
    /// Bytes of disk that were freed.
    pub bytes: u64,
}

#[derive(Serialize)]
struct DeletedArtifact<'a> {
    id: &'a str,
    object: &'a str,
    deleted: bool,
}

pub(in crate::app) async fn remove(
    State(owned): State<OwnerArtifacts>,
    ArtifactId(id): ArtifactId,
    RawQuery(query): RawQuery,
) -> Result<Response<Body>, ArtifactHttpError> {
    QueryParams::parse(query.as_deref(), &[])?;
    owned.delete(&id).await?;
    Ok(respond_with_json(&DeletedArtifact {
        id: &id,
        object: "artifact.deleted",
        deleted: true,
    }))
}

/// Deletes the artifacts that are expired.
pub(in crate::app) async fn sweep(
    State(owned): State<OwnerArtifacts>,
    RawQuery(query): RawQuery,
) -> Result<Response<Body>, ArtifactHttpError> {
    QueryParams::parse(query.as_deref(), &[])?;
    let swept = owned.sweep().await?;
    Ok(respond_with_json(&ArtifactSweep {
        object: "artifact.sweep".to_owned(),
        artifacts: swept.artifacts,
        bytes: swept.bytes,
    }))
}
