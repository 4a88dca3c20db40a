//! What stands for a result that is missing, and what becomes of one that has
//! no place among the tool messages.

use super::super::content::{Content, Part};
use super::super::group::output_has_parts;
use super::Writer;
use crate::fault::Fault;
use crate::json;
use crate::plan::{Repair, Step};

/// A constant, so that the bytes of a history stay the same.
const INTERRUPTED: &str = "(The call was interrupted: it has no result.)";

impl Writer<'_, '_> {
    /// The result of a call that has none. No item's bytes: no span.
    pub(super) fn interrupted(&mut self, call: usize) {
        let call_id = self.plan.call_id(self.turn, call);
        self.open("tool");
        json::field(self.out, "tool_call_id", call_id.as_ref());
        json::field(self.out, "content", INTERRUPTED);
        self.out.push(b'}');
    }

    /// A user message for a result without a call.
    pub(super) fn stray(&mut self, index: usize) -> Result<(), Fault> {
        let Some(item) = self.turn.items.get(index) else {
            return Ok(());
        };
        let parts = item
            .output()
            .filter(|output| output.get().starts_with('[') && output_has_parts(item.kind));
        let content = Content::read(parts, index, self.notes)?;
        let caption = self.caption(index);
        let start = self.out.len();
        self.open("user");
        json::key(self.out, "content");
        if content.has_media() {
            self.out.push(b'[');
            let mut texts = Content::of(caption.into());
            texts
                .parts
                .extend(content.parts.iter().filter_map(|part| match part {
                    Part::Text(text) => Some(Part::Text(text.clone())),
                    Part::Image(..) | Part::File(..) => None,
                }));
            self.out
                .extend_from_slice(b"{\"type\":\"text\",\"text\":\"");
            texts.push_text(self.out, "\\n");
            self.out.extend_from_slice(b"\"}");
            content.push_media(self.out, self.options.takes(), self.notes);
            self.out.push(b']');
        } else {
            self.out.push(b'"');
            self.out
                .extend_from_slice(json::escape(&caption).as_bytes());
            self.out.extend_from_slice(b"\\n");
            self.tool_output(item, index)?;
            self.out.push(b'"');
        }
        self.out.push(b'}');
        self.span(index, start);
        Ok(())
    }

    fn caption(&self, index: usize) -> String {
        let call_id = self.plan.call_id(self.turn, index);
        let repeated = matches!(
            self.plan.steps.get(index),
            Some(Step::Repair(repairs)) if repairs.contains(&Repair::Repeated)
        );
        if repeated {
            format!("Another result of the earlier tool call {call_id}:")
        } else if call_id.is_empty() {
            "Result of an earlier tool call that is no longer in the history:".to_owned()
        } else {
            format!("Result of the earlier tool call {call_id}, which is no longer in the history:")
        }
    }
}
