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
mod query;
mod read;
mod search;

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;
use serde::{Deserialize, Serialize};

pub use self::delete::ArtifactSweep;
pub(super) use self::delete::{remove, sweep};
pub use self::error::{NOT_FOUND, STORE_ERROR};
pub use self::list::ArtifactList;
pub(super) use self::list::list;
pub use self::read::ArtifactTextObject;
pub(super) use self::read::read;
pub use self::search::ArtifactMatches;
pub(super) use self::search::search;
use crate::store::ArtifactEntry;

/// An artifact without its text.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(expecting = "struct Known")]
pub struct ArtifactObject {
    /// `artifact`.
    pub object: String,
    /// Its id.
    pub id: String,
    /// Its kind, such as `command_output`.
    pub kind: String,
    /// Number of Unicode scalar values.
    pub characters: u64,
    /// Number of lines.
    pub lines: u64,
    /// Number of bytes of UTF-8.
    pub bytes: u64,
    /// The session in which the tool ran.
    pub session: String,
    /// The tool call whose output it is.
    pub call_id: String,
    /// Seconds since 1970.
    pub created_at: u64,
    /// When it was last shown or read, in seconds since 1970.
    pub last_used_at: u64,
    /// Whether it is on disk, not only in memory.
    pub persistent: bool,
}

impl From<ArtifactEntry> for ArtifactObject {
    fn from(entry: ArtifactEntry) -> Self {
        Self {
            object: "artifact".to_owned(),
            id: entry.id,
            kind: entry.kind.name().to_owned(),
            characters: entry.chars,
            lines: entry.lines,
            bytes: entry.bytes,
            session: entry.session,
            call_id: entry.call_id,
            created_at: entry.created,
            last_used_at: entry.accessed,
            persistent: entry.persistent,
        }
    }
}

/// The decoded id in the path. [`OwnerArtifacts`](crate::artifacts::owner::OwnerArtifacts) checks its form.
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
