//! A line for the user of Codex that says what the answer waits for.
//!
//! The terminal of Codex shows the bold text of a reasoning summary as its status. The line is the
//! summary of an item that never ends: Codex keeps only items that have ended, so that the line
//! gets into no history, and it is no part of the response. The next item takes its place in the
//! output.

use super::super::event_buffer::EventBuffer;
use super::writer::{ItemOutput, ItemPosition, location_fields};
use super::{Assembler, OpenItem};
use crate::json;

/// What the terminal of Codex shows of a turn that says nothing about itself.
const AT_WORK: &str = "Working";

/// The item with the line. The next wait shows its line in it too, unless there was output.
#[derive(Debug)]
pub(super) struct WaitingItem {
    position: ItemPosition,
    /// How many lines were shown.
    lines: usize,
    /// The line that is shown now.
    line: String,
}

impl Assembler {
    /// Shows what the answer waits for until [`Self::end_wait`], if the client is Codex and no item
    /// is open.
    pub fn show_wait(&mut self, line: &str, events: &mut EventBuffer) {
        let is_possible = self.settings.caller_is_codex
            && self.final_status().is_none()
            && matches!(self.open, OpenItem::Nothing);
        if is_possible {
            self.show_line(line, events);
        }
    }

    /// Shows that the wait is over. False if none was shown.
    pub fn end_wait(&mut self, events: &mut EventBuffer) -> bool {
        let is_shown = |it: &WaitingItem| it.line != AT_WORK;
        let ends = self.waiting.as_ref().is_some_and(is_shown);
        if ends {
            self.show_line(AT_WORK, events);
        }
        ends
    }

    fn show_line(&mut self, line: &str, events: &mut EventBuffer) {
        let mut out = self.writer.to(events);
        let place = out.position_of_next("rs_wait");
        let same = self.waiting.take_if(|it| it.position.id == place.id);
        let mut item = same.unwrap_or_else(|| WaitingItem::open(place, &mut out));
        if item.line != line {
            item.show(line, &mut out);
        }
        self.waiting = Some(item);
    }
}

impl WaitingItem {
    fn open(position: ItemPosition, out: &mut ItemOutput<'_>) -> Self {
        let mut item = vec![b'{'];
        json::field(&mut item, "id", &position.id);
        item.extend_from_slice(br#","type":"reasoning","summary":[]}"#);
        out.item_added(&position, &item);
        Self {
            position,
            lines: 0,
            line: String::new(),
        }
    }

    /// Shows a line, as a part of the summary.
    fn show(&mut self, line: &str, out: &mut ItemOutput<'_>) {
        let text = format!("**{line}**\n\n");
        let location = location_fields(&self.position, Some(("summary_index", self.lines)));
        let mut event = |name, key, value: &serde_json::Value| {
            out.event(name, &location, |out| json::field(out, key, value));
        };
        let part = |text: &str| serde_json::json!({"type": "summary_text", "text": text});
        let whole = text.as_str().into();
        event("response.reasoning_summary_part.added", "part", &part(""));
        event("response.reasoning_summary_text.delta", "delta", &whole);
        event("response.reasoning_summary_text.done", "text", &whole);
        event("response.reasoning_summary_part.done", "part", &part(&text));
        self.lines += 1;
        line.clone_into(&mut self.line);
    }
}
