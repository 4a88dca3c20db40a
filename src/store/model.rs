//! Artifacts as they are written, listed and read.

use std::ops::Range;

use crate::net::memory::CountedValue;

use adapters::plan::output::{OutputKind, measure};
use serde::{Deserialize, Serialize};

/// A tool output to be kept whole.
#[derive(Clone)]
pub struct NewArtifact {
    /// `art_` and the first 32 hexadecimal digits of the SHA-256 of the text.
    pub id: String,
    /// The id of the call that the output answers; empty if it is unknown.
    pub call_id: String,
    /// The kind of the output.
    pub kind: OutputKind,
    /// Length in Unicode scalar values.
    pub chars: usize,
    /// Number of lines.
    pub lines: usize,
    /// The whole text.
    pub text: String,
}

impl NewArtifact {
    /// The artifact of a text, which answers no call that is known.
    pub fn of_text(text: String) -> Self {
        let measured = measure(&text);
        Self {
            id: measured.id,
            call_id: String::new(),
            kind: measured.kind,
            chars: measured.chars,
            lines: measured.lines,
            text,
        }
    }
}

/// Everything about an artifact but its text, as it is listed too.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "object", rename = "artifact")]
pub struct ArtifactEntry {
    /// See [`NewArtifact::id`].
    pub id: String,
    /// The kind of the output.
    pub kind: OutputKind,
    /// Length in Unicode scalar values.
    #[serde(rename = "characters")]
    pub chars: u64,
    /// Number of lines.
    pub lines: u64,
    /// Length in bytes of UTF-8.
    pub bytes: u64,
    /// The session whose tool call produced it; the latest one if there are several.
    pub session: String,
    /// The id of the call that it answers.
    pub call_id: String,
    /// When it was first kept, in seconds since 1970.
    #[serde(rename = "created_at")]
    pub created: u64,
    /// When it was last shown to a model or read, in seconds since 1970.
    #[serde(rename = "last_used_at")]
    pub accessed: u64,
    /// Whether it is on disk. False if it is in memory only.
    pub persistent: bool,
}

/// The range of an artifact to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArtifactRange {
    /// The whole text.
    Whole,
    /// A range of bytes, widened to whole characters.
    Bytes(Range<u64>),
    /// A number of lines.
    Lines {
        /// The first line; lines are counted from 1.
        from: u64,
        /// The number of lines.
        count: u64,
    },
}

/// A range of an artifact that was read.
#[derive(Debug, PartialEq, Eq)]
pub struct ArtifactText {
    /// The artifact.
    pub entry: ArtifactEntry,
    /// The range in bytes, which may be smaller or wider than the requested one.
    pub bytes: Range<u64>,
    /// The line in which the range begins; lines are counted from 1.
    pub first_line: u64,
    /// The text of the range.
    pub text: CountedValue<String>,
}

/// Selects artifacts to list, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArtifactFilter {
    /// Only artifacts of this session.
    pub session: Option<String>,
    /// Only artifacts whose id begins with this.
    pub id_prefix: Option<String>,
    /// The most artifacts to return; 0 means all.
    pub limit: usize,
    /// Only artifacts that follow the one with this id in the list.
    pub after: Option<String>,
}

/// The sum of what a sweep deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "object", rename = "artifact.sweep")]
pub struct SweepResult {
    /// The number of deleted artifacts.
    pub artifacts: u64,
    /// The disk space they took, in bytes.
    pub bytes: u64,
}
