//! Texts that are sent instead of an item's own.

use std::sync::Arc;

use serde::Serialize;

use super::output::{OutputKind, OutputMeasure};

/// A text that is sent instead of an item's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replacement {
    /// How the text was made.
    pub kind: ReplacementKind,
    /// The text: for an output or a message the text itself, for a call its `arguments`,
    /// one JSON object.
    pub text: Arc<str>,
    /// The item's own text, where that can be read back.
    pub artifact: Option<Artifact>,
}

/// How a replacement was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplacementKind {
    /// An excerpt of an output that is too long.
    Excerpt,
    /// One line about an old output.
    Notice,
    /// The beginning of a text that was read back from an artifact and is more than may
    /// be read at once.
    Page,
    /// A message, an output or arguments with the middle left out, because the request
    /// does not fit the window.
    Shortened,
    /// The summary that a compaction item holds.
    Summary,
}

/// An output that is kept whole, and can be read back under its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Artifact {
    /// `art_` and the first 32 hexadecimal digits of the SHA-256 of the text.
    pub id: String,
    /// The kind of output.
    pub kind: OutputKind,
    /// Its length in Unicode scalar values.
    pub chars: usize,
    /// Its number of lines, including a last line without a line end.
    pub lines: usize,
    /// Its length in bytes of UTF-8.
    pub bytes: usize,
}

impl From<&OutputMeasure> for Artifact {
    fn from(measure: &OutputMeasure) -> Self {
        Self {
            id: measure.id.clone(),
            kind: measure.kind,
            chars: measure.chars,
            lines: measure.lines,
            bytes: measure.bytes,
        }
    }
}
