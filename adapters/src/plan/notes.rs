//! Notes about what a plan changes. They reach the log and the response headers.

use super::{ItemAction, Plan, Repair, ReplacementKind, call_ids, empty, fit_window};
use crate::compaction_blob::CompactionBlob;
use crate::notes::Notes;
use crate::turn::{Item, ItemKind, Turn};

impl Plan {
    /// Adds a note for each repair, each dropped item that the model could miss, and each
    /// kind of replacement.
    pub fn add_notes(&self, turn: &Turn<'_>, notes: &mut Notes) {
        let left_out = self.count_left_out();
        if left_out > 0 {
            let all = turn.items.len();
            let text = format!("{left_out} of {all} items: {}", fit_window::REASON_NO_ROOM);
            notes.add("history_cut", text);
        }
        for (index, (item, action)) in turn.items.iter().zip(&self.actions).enumerate() {
            match action {
                ItemAction::Keep if is_unreadable_summary(item) => notes.add(
                    "item_skipped",
                    format!(
                        "{}: its content was sealed by another server",
                        item.type_name()
                    ),
                ),
                // Items without room have one common note, above.
                ItemAction::Drop(fit_window::REASON_NO_ROOM | fit_window::REASON_REASONING)
                | ItemAction::Keep => {}
                ItemAction::Drop(reason) => add_drop_note(index, item, reason, notes),
                ItemAction::Repair(repairs) => {
                    for repair in repairs {
                        self.add_repair_note(turn, index, item, repair, notes);
                    }
                }
            }
        }
        self.add_output_notes(notes);
    }

    /// Adds how many outputs are not sent whole, and the number of the epoch.
    fn add_output_notes(&self, notes: &mut Notes) {
        let count = |kind: ReplacementKind| {
            let replacements = self.replacements.values();
            replacements.filter(|found| found.kind == kind).count()
        };
        let excerpts = count(ReplacementKind::Excerpt);
        let pages = count(ReplacementKind::Page);
        if excerpts + pages > 0 {
            let pages = match pages {
                0 => String::new(),
                _ => format!(", pages: {pages}"),
            };
            notes.add("output_shortened", format!("excerpts: {excerpts}{pages}"));
        }
        let notices = count(ReplacementKind::Notice);
        if notices > 0 {
            let epoch = self.epochs;
            notes.add(
                "outputs_demoted",
                format!("notices: {notices}, epoch {epoch}"),
            );
        }
    }

    fn add_repair_note(
        &self,
        turn: &Turn<'_>,
        index: usize,
        item: &Item<'_>,
        repair: &Repair,
        notes: &mut Notes,
    ) {
        let code = match repair {
            // A result has the id of its call, whose note is enough.
            Repair::Id(_) if !item.kind.is_call() => return,
            Repair::Id(_) => call_ids::minted_id_note(item),
            Repair::Nameless => "call_name_missing",
            Repair::Interrupted => "call_interrupted",
            Repair::Moved if item.kind.is_output() => "result_moved",
            Repair::Moved => "message_moved",
            Repair::Orphan => "result_without_call",
            Repair::Repeated => "result_repeated",
        };
        let id = self.call_id(turn, index);
        let detail = match id.as_ref() {
            _ if item.kind == ItemKind::Message => format!("input[{index}]"),
            "" => format!("input[{index}]: no id"),
            id => format!("input[{index}]: {id}"),
        };
        notes.add(code, detail);
    }
}

/// Other items than these took effect when the request was parsed, or their content is in the text
/// that follows them.
fn add_drop_note(index: usize, item: &Item<'_>, reason: &str, notes: &mut Notes) {
    let code = match item.kind {
        ItemKind::Unknown | ItemKind::McpListTools | ItemKind::ItemReference => {
            return notes.add("item_skipped", format!("{}: {reason}", item.type_name()));
        }
        ItemKind::Reasoning if empty::is_empty_reasoning(item) => return,
        ItemKind::Reasoning => "reasoning_skipped",
        ItemKind::Message => "empty_message_dropped",
        kind if kind.is_output() => "result_repeated",
        _ => return,
    };
    notes.add(code, format!("input[{index}]: {reason}"));
}

/// Whether an item is a summary that only the server that made it can read.
fn is_unreadable_summary(item: &Item<'_>) -> bool {
    item.kind == ItemKind::Compaction
        && item
            .encrypted_content()
            .is_none_or(|blob| CompactionBlob::open(&blob).is_none())
}
