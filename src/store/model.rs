//! The nouns of the artifact store.

use std::ops::Range;

use adapters::plan::output::OutputKind;

/// A tool output that is to be kept whole.
#[derive(Clone)]
pub struct NewArtifact {
    /// `art_` and 32 hexadecimal digits of the SHA-256 of the text.
    pub id: String,
    /// The call that it answers; empty if that is not known.
    pub call_id: String,
    /// What it is.
    pub kind: OutputKind,
    /// Unicode scalar values.
    pub chars: usize,
    /// Lines.
    pub lines: usize,
    /// The text.
    pub text: String,
}

/// What is known of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactEntry {
    /// As [`New::id`].
    pub id: String,
    /// The session whose tool made it; the latest of several.
    pub session: String,
    /// The call that it answers.
    pub call_id: String,
    /// What it is.
    pub kind: OutputKind,
    /// Unicode scalar values.
    pub chars: u64,
    /// Lines.
    pub lines: u64,
    /// Bytes of UTF-8.
    pub bytes: u64,
    /// Seconds since 1970.
    pub created: u64,
    /// When it was last shown or read, in seconds since 1970.
    pub accessed: u64,
    /// It is on disk, not only in memory.
    pub persistent: bool,
}

/// Which part of an artifact is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArtifactRange {
    /// All of it.
    Whole,
    /// These bytes, widened to whole characters.
    Bytes(Range<u64>),
    /// So many lines from this one on; the first line is 1.
    Lines {
        /// The first line.
        from: u64,
        /// How many.
        count: u64,
    },
}

/// A part of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactText {
    /// What it is a part of.
    pub entry: ArtifactEntry,
    /// Where it stands in the whole.
    pub bytes: Range<u64>,
    /// The line in which it begins; the first line is 1.
    pub first_line: u64,
    /// Its text.
    pub text: String,
}

/// Which artifacts are listed: the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArtifactFilter {
    /// Of this session alone.
    pub session: Option<String>,
    /// At most so many; all when it is 0.
    pub limit: usize,
    /// Only those that come after this one in the list.
    pub after: Option<String>,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepResult {
    /// Artifacts that are gone.
    pub artifacts: u64,
    /// Bytes of disk that are free again.
    pub bytes: u64,
}
