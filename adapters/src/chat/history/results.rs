//! Tool messages: the results of calls.

use super::{Writer, call_id};
use crate::chat::content::Content;
use crate::chat::group::output_has_parts;
use crate::fault::Fault;
use crate::json;
use crate::text::Text;
use crate::turn::{Item, ItemKind};

impl Writer<'_, '_> {
    pub(super) fn tool(&mut self, index: usize, marked: bool) -> Result<(), Fault> {
        let Some(item) = self.turn.items.get(index) else {
            return Ok(());
        };
        let call_id = call_id(item, index)?;
        let start = self.out.len();
        self.open("tool");
        json::field(self.out, "tool_call_id", self.ids.wire(&call_id));
        if let Some(name) = self.names.get(&call_id) {
            json::field(self.out, "name", name);
        }
        json::key(self.out, "content");
        self.open_text(marked);
        self.tool_output(item, index)?;
        self.close_text(marked);
        self.out.push(b'}');
        self.span(index, start);
        Ok(())
    }

    fn tool_output(&mut self, item: &Item<'_>, index: usize) -> Result<(), Fault> {
        if item.kind == ItemKind::ToolSearchOutput {
            let names = item
                .tools()
                .map(crate::responses::tools::wire_names)
                .unwrap_or_default();
            let text = if names.is_empty() {
                "No tool was found.".to_owned()
            } else {
                format!("These tools can be called now: {}", names.join(", "))
            };
            Text::from(text).push_inner(self.out);
            return Ok(());
        }
        let Some(output) = item.output() else {
            let status = item.status().unwrap_or_else(|| "completed".into());
            Text::from(status.as_ref()).push_inner(self.out);
            return Ok(());
        };
        if !output.get().starts_with('"') && !output_has_parts(item.kind) {
            json::escape_json_text(self.out, output.get());
            return Ok(());
        }
        let content = Content::read(Some(output), index, self.notes)?;
        content.push_text(self.out, "\\n");
        if content.has_media() {
            if self.out.last() != Some(&b'"') {
                self.out.extend_from_slice(b"\\n");
            }
            self.out
                .extend_from_slice(b"(The image stands in the next user message.)");
        }
        Ok(())
    }
}
