//! Puts the summaries that compaction items hold into the plan.

use std::collections::BTreeMap;

use super::{Replacement, ReplacementKind};
use crate::compaction_blob::{CompactionBlob, UNREADABLE_SUMMARY};
use crate::turn::{ItemKind, Turn};

/// Adds the text of each compaction item: its summary, or a constant sentence if another server
/// made the item, whose content only that server can read.
pub(super) fn insert_texts(turn: &Turn<'_>, replacements: &mut BTreeMap<usize, Replacement>) {
    for (index, item) in turn.items.iter().enumerate() {
        if item.kind != ItemKind::Compaction {
            continue;
        }
        let blob = item.encrypted_content().unwrap_or_default();
        let text = match CompactionBlob::open(&blob) {
            Some(blob) => blob.message().into(),
            None => UNREADABLE_SUMMARY.into(),
        };
        let summary = Replacement {
            kind: ReplacementKind::Summary,
            text,
            artifact: None,
        };
        replacements.insert(index, summary);
    }
}
