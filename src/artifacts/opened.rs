//! A range of an artifact that is read piece by piece, as its reader takes it.

use std::ops::Range;
use std::sync::Arc;

use adapters::shared_text::SharedText;
use bytes::Bytes;
use futures_util::stream::{self, Stream};

use super::owner::{OwnerArtifacts, ReadError};
use crate::store::{ArtifactEntry, ArtifactRange, ArtifactText};

/// The most bytes of a piece, apart from the rest of a character.
const PIECE_SIZE: u64 = 256 << 10;

/// A range of an artifact. Made by [`OwnerArtifacts::open`]; it holds one piece of the text, or
/// shares the text that is in memory anyway.
#[derive(Debug)]
pub struct OpenArtifact {
    /// The artifact.
    pub entry: ArtifactEntry,
    /// The range in bytes, at borders of characters.
    pub bytes: Range<u64>,
    /// The line in which the range begins; lines are counted from 1.
    pub first_line: u64,
    first: Bytes,
    /// Reads what follows.
    owned: OwnerArtifacts,
}

impl OpenArtifact {
    pub(super) async fn open(
        owned: &OwnerArtifacts,
        id: &str,
        range: &ArtifactRange,
    ) -> Result<Self, ReadError> {
        let first_piece = match range {
            ArtifactRange::Whole => ArtifactRange::Bytes(0..PIECE_SIZE),
            ArtifactRange::Bytes(bytes) => {
                let end = bytes.start.saturating_add(PIECE_SIZE).min(bytes.end);
                ArtifactRange::Bytes(bytes.start..end)
            }
            // Only reading them tells where they end.
            lines @ ArtifactRange::Lines { .. } => lines.clone(),
        };
        let first = owned.read(id, &first_piece).await?;
        if !first.entry.persistent
            && let Some((text, position)) = owned.shared_text(id, range)
        {
            return Ok(Self {
                entry: first.entry,
                bytes: position.bytes.start as u64..position.bytes.end as u64,
                first_line: position.first_line,
                first: Bytes::from_owner(SharedText::new(text)).slice(position.bytes),
                owned: owned.clone(),
            });
        }
        let ArtifactText {
            entry,
            bytes,
            first_line,
            text,
        } = first;
        let end = match range {
            ArtifactRange::Lines { .. } => bytes.end,
            ArtifactRange::Whole => entry.bytes,
            ArtifactRange::Bytes(range) if range.end >= entry.bytes => entry.bytes,
            ArtifactRange::Bytes(range) if first_piece == ArtifactRange::Bytes(range.clone()) => {
                bytes.end
            }
            ArtifactRange::Bytes(range) => {
                let last = ArtifactRange::Bytes(range.end.saturating_sub(1)..range.end);
                owned.read(id, &last).await?.bytes.end
            }
        };
        let held = usize::try_from(PIECE_SIZE).unwrap_or(usize::MAX);
        let text = text.map(|mut text| {
            text.truncate(text.ceil_char_boundary(held));
            text.shrink_to_fit();
            text
        });
        Ok(Self {
            entry,
            bytes: bytes.start..end.max(bytes.start),
            first_line,
            first: text.into_bytes(),
            owned: owned.clone(),
        })
    }

    /// The pieces of the text. It ends with an error if the artifact is deleted meanwhile.
    pub fn into_pieces(self) -> impl Stream<Item = Result<Bytes, ReadError>> + Send {
        let Self {
            entry,
            bytes,
            first,
            owned,
            ..
        } = self;
        let state = (bytes.start, Some(first));
        let reader = Arc::new((owned, entry.id));
        stream::try_unfold(state, move |(at, first)| {
            let reader = Arc::clone(&reader);
            async move {
                if at >= bytes.end {
                    return Ok(None);
                }
                let (owned, id) = &*reader;
                let piece = if let Some(first) = first {
                    first
                } else {
                    let end = at.saturating_add(PIECE_SIZE).min(bytes.end);
                    let piece = owned.read(id, &ArtifactRange::Bytes(at..end)).await?;
                    piece.text.into_bytes()
                };
                if piece.is_empty() {
                    return Err(owned.missing(id));
                }
                let next = at.saturating_add(piece.len() as u64);
                Ok(Some((piece, (next, None))))
            }
        })
    }
}
