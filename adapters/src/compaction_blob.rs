//! The `encrypted_content` of a compaction item: a blob of ours
//! (`rsc1.<crc32>.<base64 of JSON>`) that holds a summary. It refers to nothing outside
//! itself, so that it stays readable after a restart and without the store.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::sealed;
use excerpts::OutputKind;

const VERSION: &str = "rsc1";

const HEADING: &str = "The earlier part of this conversation was replaced by the following summary of it. Continue from it; do not repeat what is done.";

const ARTIFACTS_HEADING: &str =
    "Tool outputs of that part that can be read again by their artifact id:";

/// The text that a later request sends instead of a summary that only the server that
/// made it can read.
pub const UNREADABLE_SUMMARY: &str = "[The earlier part of this conversation was replaced by a summary that another server has sealed. It cannot be read here: ask the user for what is missing.]";

/// The content of a compaction item. Made when a history is compacted; the client sends
/// it back with every later request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionBlob {
    /// The summary, as a model reads it.
    #[serde(rename = "s")]
    pub summary: String,
    /// The tool outputs of the replaced history that can still be read.
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<ArtifactLine>,
    /// How many of the newest items before the summary it does not cover, not counting
    /// system messages and summaries: the summary replaces the items before these.
    /// `None` where the client decides which items it sends besides the summary.
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    pub retained_items: Option<usize>,
    /// The JSON of these items, for a client that sends nothing from before the summary. Empty if
    /// they are long; calls whose results are still to come are always there.
    #[serde(rename = "t", default, skip_serializing_if = "Vec::is_empty")]
    pub tail: Vec<String>,
}

/// A tool output that can still be read, as a summary lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactLine {
    /// The artifact id.
    pub id: String,
    /// The kind of output.
    pub kind: OutputKind,
    /// Its length in Unicode scalar values.
    pub chars: usize,
    /// The tool and the arguments of its call, shortened. Empty where they are unknown.
    #[serde(rename = "by", default, skip_serializing_if = "String::is_empty")]
    pub made_by: String,
}

impl CompactionBlob {
    /// Encodes the blob. The result needs no escapes in a JSON string.
    pub fn seal(&self) -> String {
        sealed::seal(VERSION, self)
    }

    /// Decodes a blob that [`seal`](Self::seal) made; `None` for any other string.
    pub fn open(blob: &str) -> Option<Self> {
        sealed::open(VERSION, blob)
    }

    /// The user message that a later request sends for it.
    pub fn message(&self) -> String {
        format!("{HEADING}\n\n{}", self.text())
    }

    /// The summary and the list of artifacts, for a client that adds its own heading.
    pub fn text(&self) -> String {
        let mut message = self.summary.trim().to_owned();
        if !self.artifacts.is_empty() {
            message.push_str("\n\n");
            message.push_str(ARTIFACTS_HEADING);
        }
        for line in &self.artifacts {
            let _ = write!(
                message,
                "\n- {} {}, {} characters",
                line.id,
                line.kind.name(),
                line.chars
            );
            if !line.made_by.is_empty() {
                let _ = write!(message, ": {}", line.made_by);
            }
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_intact_blob_of_ours_opens() {
        let blob = CompactionBlob {
            summary: "Did \"this\"\nand 漢.".into(),
            artifacts: vec![ArtifactLine {
                id: "art_0".into(),
                kind: OutputKind::Json,
                chars: 7,
                made_by: "exec_command ls".into(),
            }],
            retained_items: Some(2),
            tail: vec![r#"{"role":"user","content":"hi"}"#.into()],
        };
        let sealed = blob.seal();
        assert!(!sealed.contains(['"', '\\']));
        assert_eq!(CompactionBlob::open(&sealed), Some(blob));
        let mut damaged = sealed.clone();
        damaged.pop();
        for foreign in [
            damaged.as_str(),
            "",
            "gAAAAAB",
            "rsc1.00000000.e30",
            "rsc2.x.y",
            "rsp1.00000000.e30",
        ] {
            assert_eq!(CompactionBlob::open(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_message_has_the_heading_the_summary_and_the_artifacts() {
        let line = ArtifactLine {
            id: "art_7".into(),
            kind: OutputKind::CommandOutput,
            chars: 12_345,
            made_by: "exec_command cargo test".into(),
        };
        let blob = CompactionBlob {
            summary: "All is done.\n".into(),
            artifacts: vec![line],
            retained_items: None,
            tail: Vec::new(),
        };
        let message = blob.message();
        assert!(message.starts_with(HEADING));
        assert!(message.contains("\n\nAll is done.\n\n"), "{message}");
        assert!(
            message
                .ends_with("\n- art_7 command_output, 12345 characters: exec_command cargo test"),
            "{message}"
        );
    }
}
