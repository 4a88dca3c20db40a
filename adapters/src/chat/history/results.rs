//! Writes tool messages: the results of calls, and a constant text for a result
//! that is missing.

use super::MessageWriter;
use crate::chat::group::output_has_parts;
use crate::content::MessageContent;
use crate::fault::Fault;
use crate::json;
use crate::media::AcceptedMedia;
use crate::notes::Notes;
use crate::text::Text;
use crate::turn::{Item, ItemKind};

/// Constant, so that the bytes of a history do not change.
const INTERRUPTED: &str = "(The call was interrupted: it has no result.)";

impl MessageWriter<'_, '_> {
    pub(super) fn push_tool_result(&mut self, index: usize, marked: bool) -> Result<(), Fault> {
        let Some(item) = self.turn.items.get(index) else {
            return Ok(());
        };
        let call_id = self.plan.call_id(self.turn, index);
        let start = self.out.len();
        self.open_message("tool");
        json::field(self.out, "tool_call_id", self.ids.wire_id(&call_id));
        if let Some(name) = self.names.get(call_id.as_ref()) {
            json::field(self.out, "name", name);
        }
        json::key(self.out, "content");
        self.open_text(marked);
        let accepted = self.options.accepted_media();
        let shown = self.plan.replacement_text(index);
        let media = push_output(self.out, item, (index, shown), accepted, self.notes)?;
        if media && !self.plan.is_shortened_to_fit(index) {
            if self.out.last() != Some(&b'"') {
                self.out.extend_from_slice(b"\\n");
            }
            self.out
                .extend_from_slice(b"(The image stands in the next user message.)");
        }
        self.close_text(marked);
        self.out.push(b'}');
        self.add_span(index, start);
        Ok(())
    }

    /// Writes the result of a call that has none. It has no span, because the bytes
    /// belong to no item.
    pub(super) fn push_interrupted(&mut self, call: usize, marked: bool) {
        let call_id = self.plan.call_id(self.turn, call);
        self.open_message("tool");
        json::field(self.out, "tool_call_id", self.ids.wire_id(&call_id));
        if let Some(name) = self.names.get(call_id.as_ref()) {
            json::field(self.out, "name", name);
        }
        json::key(self.out, "content");
        self.open_text(marked);
        self.out.extend_from_slice(INTERRUPTED.as_bytes());
        self.close_text(marked);
        self.out.push(b'}');
    }
}

/// Writes the inside of the string that a result becomes: its text or the plan's
/// replacement, and a line for media that the model does not accept. Returns
/// whether the output has media that must be sent in another message.
pub(super) fn push_output(
    out: &mut Vec<u8>,
    item: &Item<'_>,
    (index, shown): (usize, Option<&str>),
    accepted: AcceptedMedia,
    notes: &mut Notes,
) -> Result<bool, Fault> {
    if item.kind == ItemKind::ToolSearchOutput {
        let names = item
            .tools()
            .map(crate::tools::wire_names)
            .unwrap_or_default();
        let text = if names.is_empty() {
            "No tool was found.".to_owned()
        } else {
            format!("These tools can be called now: {}", names.join(", "))
        };
        Text::from(text).push_escaped(out);
        return Ok(false);
    }
    if let Some(text) = shown {
        Text::from(text).push_escaped(out);
    }
    let Some(output) = item.output() else {
        if shown.is_some() {
            return Ok(false);
        }
        let status = item.status().unwrap_or_else(|| "completed".into());
        Text::from(status.as_ref()).push_escaped(out);
        return Ok(false);
    };
    let is_text = output.get().starts_with('"');
    if shown.is_some() && (is_text || !output_has_parts(item.kind)) {
        return Ok(false);
    }
    if !is_text && !output_has_parts(item.kind) {
        json::escape_json_text(out, output.get());
        return Ok(false);
    }
    let content =
        MessageContent::read(Some(output), index, notes)?.replace_unsupported(accepted, notes);
    if shown.is_none() {
        content.push_text(out, "\\n");
    }
    Ok(content.has_media())
}
