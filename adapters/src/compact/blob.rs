//! A summary as an item carries it.
//!
//! A compaction item's `encrypted_content` is a blob of ours
//! (`rsc1.<crc32>.<base64 of JSON>`). It holds all that it says: no store and no
//! restart can make it unreadable.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::plan::output::OutputKind;
use crate::sealed;

const VERSION: &str = "rsc1";

const HEADING: &str = "The earlier part of this conversation was replaced by the following summary of it. Continue from it; do not repeat what is done.";

const ARTIFACTS: &str = "Tool outputs of that part that can be read again by their artifact id:";

/// What a later request says in the place of a summary that only the server that
/// made it can read.
pub const SEALED: &str = "[The earlier part of this conversation was replaced by a summary that another server has sealed. It cannot be read here: ask the user for what is missing.]";

/// What a compaction item holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    /// The summary, for a model.
    #[serde(rename = "s")]
    pub summary: String,
    /// The outputs that can still be read.
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Line>,
    /// Of a summary that replaces all that is before it: how many of the newest items
    /// before it it does not stand for, system messages and summaries not counted.
    /// `None` where the client decides what of its history it sends with the summary.
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    pub late: Option<usize>,
}

/// An output that can still be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The artifact id.
    pub id: String,
    /// What kind of output.
    pub kind: OutputKind,
    /// Unicode scalar values.
    pub chars: usize,
    /// The tool and what it was called with, shortened. Empty where that is unknown.
    #[serde(rename = "by", default, skip_serializing_if = "String::is_empty")]
    pub made_by: String,
}

impl Blob {
    /// The blob for a compaction item. It needs no escape in a JSON string.
    pub fn seal(&self) -> String {
        sealed::seal(VERSION, self)
    }

    /// The content of a blob that we sealed; `None` for any other string.
    pub fn open(blob: &str) -> Option<Self> {
        sealed::open(VERSION, blob)
    }

    /// The user message in which a later request carries it.
    pub fn message(&self) -> String {
        format!("{HEADING}\n\n{}", self.text())
    }

    /// The same for a client that says itself that it is a summary.
    pub fn text(&self) -> String {
        let mut message = self.summary.trim().to_owned();
        if !self.artifacts.is_empty() {
            message.push_str("\n\n");
            message.push_str(ARTIFACTS);
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
        let blob = Blob {
            summary: "Did \"this\"\nand 漢.".into(),
            artifacts: vec![Line {
                id: "art_0".into(),
                kind: OutputKind::Json,
                chars: 7,
                made_by: "exec_command ls".into(),
            }],
            late: Some(2),
        };
        let sealed = blob.seal();
        assert!(!sealed.contains(['"', '\\']));
        assert_eq!(Blob::open(&sealed), Some(blob));
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
            assert_eq!(Blob::open(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_summary_says_that_it_is_one_and_what_can_be_read() {
        let line = Line {
            id: "art_7".into(),
            kind: OutputKind::CommandOutput,
            chars: 12_345,
            made_by: "exec_command cargo test".into(),
        };
        let blob = Blob {
            summary: "All is done.\n".into(),
            artifacts: vec![line],
            late: None,
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
