//! What an answer has that runs a workflow: the events of its nodes, its state in the response, the
//! items with which it asks a person, and its continuation after a restart.

use bytes::Bytes;

use super::super::answered_item::AnsweredItem;
use super::super::event_buffer::EventBuffer;
use super::{Assembler, RoundItem};
use crate::event::Finish;
use crate::json;

impl Assembler {
    /// Writes an event about a node, which is this JSON object.
    pub fn workflow_event(&mut self, name: &'static str, node: &str, events: &mut EventBuffer) {
        if self.final_status().is_none() {
            let mut out = self.writer.to(events);
            out.event(name, b"", |out| json::raw_field(out, "node", node));
        }
    }

    /// Sets what the response says of its workflow, as JSON.
    pub fn set_workflow_state(&mut self, state: &str) {
        self.writer.response.workflow_state = Some(state.into());
    }

    /// Holds the terminal event back, however the answer ends, unless it fails: see
    /// [`Assembler::awaits_end`].
    pub fn hold_every_end(&mut self) {
        self.holds.end = true;
        self.holds.early_end = true;
    }

    /// Writes an item that asks a person to approve something: an `mcp_approval_request` of this
    /// server and this tool. Returns its id.
    pub fn write_approval_request(
        &mut self,
        (server_label, name): (&str, &str),
        arguments: &str,
        events: &mut EventBuffer,
    ) -> String {
        self.close_text("completed", true, events);
        let mut out = self.writer.to(events);
        let position = out.next_position("mcpr");
        let mut item = vec![b'{'];
        json::field(&mut item, "id", &position.id);
        json::field(&mut item, "type", "mcp_approval_request");
        json::field(&mut item, "server_label", server_label);
        json::field(&mut item, "name", name);
        json::field(&mut item, "arguments", arguments);
        item.push(b'}');
        out.item_added(&position, &item);
        out.item_done(&position, item);
        position.id
    }

    /// Whether the answer has ended early, at a limit for example, and its terminal event is held
    /// back.
    pub fn ends_early(&self) -> bool {
        self.round
            .awaits_end
            .is_some_and(|finish| finish != Finish::Stop)
    }

    /// The text of the messages of this round.
    pub fn answer_text(&self) -> String {
        let items = self.round_items();
        let items = items.iter().flat_map(RoundItem::to_items);
        let items = items.filter_map(|json| serde_json::from_str(json).ok());
        AnsweredItem::parts_of_messages(items)
            .map(|part| part.text)
            .collect()
    }

    /// Goes on with an answer that an earlier process has begun: the next event has this number,
    /// and these items are finished, each with its id and as JSON.
    pub fn resume(&mut self, sequence: u64, items: Vec<(String, String)>) {
        self.is_created = true;
        self.writer.resume(sequence, items.len());
        for (id, item) in items {
            self.writer.response.output.push(&id, Bytes::from(item));
        }
        self.begin_round();
    }
}
