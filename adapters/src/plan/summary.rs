//! Summaries of earlier parts of the conversation.

use std::collections::BTreeMap;

use super::{Form, Shown};
use crate::compact::{Blob, SEALED};
use crate::turn::{ItemKind, Turn};

/// Shows what compaction items hold. Of one that another server sealed, only that.
pub(super) fn show(turn: &Turn<'_>, shown: &mut BTreeMap<usize, Shown>) {
    for (index, item) in turn.items.iter().enumerate() {
        if item.kind != ItemKind::Compaction {
            continue;
        }
        let blob = item.encrypted_content().unwrap_or_default();
        let text = match Blob::open(&blob) {
            Some(blob) => blob.message().into(),
            None => SEALED.into(),
        };
        let summary = Shown {
            form: Form::Summary,
            text,
            artifact: None,
        };
        shown.insert(index, summary);
    }
}
