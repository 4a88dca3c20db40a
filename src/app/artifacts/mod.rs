//! `/v1/artifacts`: stored tool outputs, read back.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/artifacts` | an [`ArtifactList`], newest first |
//! | `GET /v1/artifacts/{id}` | the text or a part of it, or an [`ArtifactTextObject`] |
//! | `GET /v1/artifacts/{id}/search` | [`ArtifactMatches`] |
//! | `DELETE /v1/artifacts/{id}` | the artifact is deleted |
//! | `DELETE /v1/artifacts/expired` | an [`ArtifactSweep`]: expired artifacts are deleted |

mod delete;
mod error;
mod list;
mod read;
mod search;

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;

pub(super) use self::delete::{remove, sweep};
pub use self::error::{NOT_FOUND, STORE_ERROR};
pub use self::list::ArtifactList;
pub(super) use self::list::list;
pub(super) use self::read::read;
pub use self::search::ArtifactMatches;
pub(super) use self::search::search;

/// The decoded id in the path. [`OwnerArtifacts`](crate::artifacts::owner::OwnerArtifacts) checks
/// its form.
pub(super) struct ArtifactId(String);

impl<S: Send + Sync> FromRequestParts<S> for ArtifactId {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(head: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let id = Path::<String>::from_request_parts(head, state).await;
        // A text that is not UTF-8 is no id, and neither is an empty one.
        Ok(Self(id.map_or_else(|_| String::new(), |Path(id)| id)))
    }
}

#[cfg(test)]
mod tests;
