//! Writes tool messages: the results of calls, and a constant text for a result
//! that is missing.

use super::MessageWriter;
use crate::content::MessagePart;
use crate::fault::Fault;
use crate::json;
use crate::result_text::{missing_result, push_output};

/// The result of a call that returned nothing.
const NO_OUTPUT: &[u8] = b"(no output)";

impl MessageWriter<'_, '_> {
    pub(super) fn push_tool_result(&mut self, index: usize, marked: bool) -> Result<(), Fault> {
        let Some(item) = self.turn.items.get(index) else {
            return Ok(());
        };
        let start = self.out.len();
        self.open_tool_message(index, marked);
        let text = self.out.len();
        let accepted = self.options.accepted_media();
        let shown = self.plan.replacement_text(index);
        let media = push_output(self.out, item, (index, shown), accepted, self.notes)?;
        if media && !self.plan.is_shortened_to_fit(index) {
            if self.out.last() != Some(&b'"') {
                self.out.extend_from_slice(b"\\n");
            }
            let has_image = |part: &MessagePart<'_>| matches!(part, MessagePart::Image(..));
            let media = self.plan.result_media(item, index, accepted)?;
            let what = if media.parts.iter().any(has_image) {
                "image"
            } else {
                "attachment"
            };
            let line = format!("(The {what} stands in the next user message.)");
            self.out.extend_from_slice(line.as_bytes());
        }
        if self.out.len() == text {
            // Some providers refuse an empty text.
            self.out.extend_from_slice(NO_OUTPUT);
        }
        self.close_text(marked);
        self.out.push(b'}');
        self.add_span(index, start);
        Ok(())
    }

    /// Begins the message for a call or its result, up to its text.
    fn open_tool_message(&mut self, index: usize, marked: bool) {
        let call_id = self.plan.call_id(self.turn, index);
        self.open_message("tool");
        json::field(self.out, "tool_call_id", self.ids.wire_id(&call_id));
        if let Some(name) = self.names.get(call_id.as_ref()) {
            json::field(self.out, "name", name);
        }
        json::key(self.out, "content");
        self.open_text(marked);
    }

    /// Writes the result of a call that has none. It has no span, because the bytes
    /// belong to no item.
    pub(super) fn push_interrupted(&mut self, call: usize, marked: bool) {
        self.open_tool_message(call, marked);
        let missing = missing_result(self.turn.items.get(call));
        self.out.extend_from_slice(missing.as_bytes());
        self.close_text(marked);
        self.out.push(b'}');
    }
}
