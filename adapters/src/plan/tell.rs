//! What a plan changes, as notes.

use super::role::{self, Role};
use super::{Form, Plan, Repair, Step, cut, empty, ids};
use crate::compact::Blob;
use crate::notes::Notes;
use crate::turn::{Item, ItemKind, Turn};

impl Plan {
    /// Says what was changed and what was left out.
    pub fn tell(&self, turn: &Turn<'_>, notes: &mut Notes) {
        let left_out = self.left_out();
        if left_out > 0 {
            let all = turn.items.len();
            let told = format!("{left_out} of {all} items: {}", cut::NO_ROOM);
            notes.add("history_cut", told);
        }
        for (index, (item, step)) in turn.items.iter().zip(&self.steps).enumerate() {
            match step {
                Step::Keep if is_sealed(item) => notes.add(
                    "item_skipped",
                    format!(
                        "{}: its content was sealed by another server",
                        item.type_name()
                    ),
                ),
                // Told together, below.
                Step::Drop(cut::NO_ROOM | cut::THOUGHTS) | Step::Keep => {}
                Step::Drop(reason) => tell_drop(index, item, reason, notes),
                Step::Repair(repairs) => {
                    for repair in repairs {
                        self.tell_repair(turn, index, item, repair, notes);
                    }
                }
            }
        }
        self.tell_outputs(notes);
    }

    /// Says how many outputs are not whole, and how often that changed.
    fn tell_outputs(&self, notes: &mut Notes) {
        let count = |form: Form| {
            let shown = self.shown.values();
            shown.filter(|shown| shown.form == form).count()
        };
        let (excerpts, pages) = (count(Form::Excerpt), count(Form::Page));
        if excerpts + pages > 0 {
            let pages = match pages {
                0 => String::new(),
                _ => format!(", pages: {pages}"),
            };
            notes.add("output_shortened", format!("excerpts: {excerpts}{pages}"));
        }
        let notices = count(Form::Notice);
        if notices > 0 {
            let epoch = self.epochs;
            notes.add(
                "outputs_demoted",
                format!("notices: {notices}, epoch {epoch}"),
            );
        }
    }

    fn tell_repair(
        &self,
        turn: &Turn<'_>,
        index: usize,
        item: &Item<'_>,
        repair: &Repair,
        notes: &mut Notes,
    ) {
        let code = match repair {
            // The result of a call goes where the call goes: one note is enough.
            Repair::Id(_) if !matches!(role::of(item), Role::Call) => return,
            Repair::Id(_) => ids::trouble(item),
            Repair::Nameless => "call_name_missing",
            Repair::Interrupted => "call_interrupted",
            Repair::Moved => "result_moved",
            Repair::Orphan => "result_without_call",
            Repair::Repeated => "result_repeated",
        };
        let id = self.call_id(turn, index);
        let id = if id.is_empty() { "no id" } else { &id };
        notes.add(code, format!("input[{index}]: {id}"));
    }
}

fn tell_drop(index: usize, item: &Item<'_>, reason: &str, notes: &mut Notes) {
    match item.kind {
        ItemKind::Unknown | ItemKind::Hosted | ItemKind::ItemReference => {
            notes.add("item_skipped", format!("{}: {reason}", item.type_name()));
        }
        ItemKind::Reasoning => {
            if !empty::reasoning(item) {
                notes.add("reasoning_skipped", format!("input[{index}]: {reason}"));
            }
        }
        ItemKind::Message => {
            notes.add("empty_message_dropped", format!("input[{index}]: {reason}"));
        }
        ItemKind::FunctionCallOutput
        | ItemKind::CustomToolCallOutput
        | ItemKind::ToolSearchOutput
        | ItemKind::LocalShellCallOutput
        | ItemKind::ShellCallOutput
        | ItemKind::ApplyPatchCallOutput => {
            notes.add("result_repeated", format!("input[{index}]: {reason}"));
        }
        // These were carried out while the request was read, or stand in the
        // text that follows them.
        ItemKind::AdditionalTools
        | ItemKind::ConfigurationUpdate
        | ItemKind::WebSearchCall
        | ItemKind::FunctionCall
        | ItemKind::CustomToolCall
        | ItemKind::ToolSearchCall
        | ItemKind::LocalShellCall
        | ItemKind::ShellCall
        | ItemKind::ApplyPatchCall
        | ItemKind::AgentMessage
        | ItemKind::Compaction
        | ItemKind::CompactionTrigger => {}
    }
}

/// Whether it is a summary that only another server can read.
fn is_sealed(item: &Item<'_>) -> bool {
    item.kind == ItemKind::Compaction
        && item
            .encrypted_content()
            .is_none_or(|blob| Blob::open(&blob).is_none())
}
