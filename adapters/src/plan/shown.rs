//! What is sent instead of an item's own text.

use std::sync::Arc;

use serde::Serialize;

use super::output::OutputKind;

/// The text that stands for an item's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// What it is.
    pub form: Form,
    /// The text: of an output or message itself, of a call its `arguments`, one
    /// JSON object.
    pub text: Arc<str>,
    /// What the item said, where that can be read back.
    pub artifact: Option<Artifact>,
}

/// The forms of a text that stands for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Evidence of an output that is too long.
    Excerpt,
    /// A line about an output that is long past.
    Notice,
    /// A page of an artifact that is more than may be read at once.
    Page,
    /// A message or arguments with their middle left out.
    Cut,
    /// What a compaction item holds.
    Summary,
}

/// What is known of an output that is kept whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Artifact {
    /// `art_` and 32 hexadecimal digits of the SHA-256 of the text.
    pub id: String,
    /// What kind of output.
    pub kind: OutputKind,
    /// Unicode scalar values.
    pub chars: usize,
    /// Lines, the last one with or without its end.
    pub lines: usize,
    /// Bytes of UTF-8.
    pub bytes: usize,
}
