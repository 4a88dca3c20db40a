//! The reasoning item. It has one summary part with the reasoning text, or none if it only
//! carries baggage.

use super::super::event_buffer::EventBuffer;
use super::writer::{ItemPosition, ItemWriter, StreamedText, location_fields, push_escaped};
use crate::baggage::Baggage;
use crate::json;

/// A reasoning item that is open.
#[derive(Debug)]
pub(super) struct ReasoningItem {
    position: ItemPosition,
    location: Vec<u8>,
    text: StreamedText,
}

impl ReasoningItem {
    pub(super) fn open(writer: &mut ItemWriter, events: &mut EventBuffer) -> Self {
        let position = writer.next_position("rs");
        writer.item_added(&position, &item_in_progress(&position), events);
        let location = location_fields(&position, Some(("summary_index", 0)));
        let reasoning = Self {
            position,
            location,
            text: StreamedText::default(),
        };
        writer.event(
            "response.reasoning_summary_part.added",
            &reasoning.location,
            events,
            |out| {
                reasoning.push_part(out);
            },
        );
        reasoning
    }

    pub(super) fn add_text(
        &mut self,
        escaped: &str,
        writer: &mut ItemWriter,
        events: &mut EventBuffer,
    ) {
        let whole = self.text.push(escaped);
        if !whole.is_empty() {
            self.write_delta(&whole, writer, events);
        }
    }

    fn write_delta(&self, escaped: &str, writer: &mut ItemWriter, events: &mut EventBuffer) {
        writer.event(
            "response.reasoning_summary_text.delta",
            &self.location,
            events,
            |out| {
                push_escaped(out, "delta", escaped);
            },
        );
    }

    /// Closes the item. The reasoning text is added to `baggage`.
    pub(super) fn close(
        mut self,
        status: &str,
        baggage: Option<Baggage>,
        writer: &mut ItemWriter,
        events: &mut EventBuffer,
    ) {
        if let Some(rest) = self.text.flush() {
            self.write_delta(rest, writer, events);
        }
        writer.event(
            "response.reasoning_summary_text.done",
            &self.location,
            events,
            |out| {
                push_escaped(out, "text", &self.text.text);
            },
        );
        writer.event(
            "response.reasoning_summary_part.done",
            &self.location,
            events,
            |out| {
                self.push_part(out);
            },
        );
        let baggage = baggage.map(|baggage| Baggage {
            reasoning: json::unescape(&self.text.text).into_owned(),
            ..baggage
        });
        let item = finished_item(&self.position, status, &self.text.text, baggage.as_ref());
        writer.item_done(&self.position, &item, events);
    }

    fn push_part(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"part\":{\"type\":\"summary_text\"");
        push_escaped(out, "text", &self.text.text);
        out.push(b'}');
    }
}

/// Writes a reasoning item without text that carries `baggage`.
pub(super) fn write_baggage_item(
    status: &str,
    baggage: &Baggage,
    writer: &mut ItemWriter,
    events: &mut EventBuffer,
) {
    let position = writer.next_position("rs");
    writer.item_added(&position, &item_in_progress(&position), events);
    let item = finished_item(&position, status, "", Some(baggage));
    writer.item_done(&position, &item, events);
}

fn item_in_progress(position: &ItemPosition) -> Vec<u8> {
    let mut item = vec![b'{'];
    json::field(&mut item, "id", &position.id);
    item.extend_from_slice(br#","type":"reasoning","status":"in_progress","summary":[]}"#);
    item
}

/// The finished item; `text` is escaped.
fn finished_item(
    position: &ItemPosition,
    status: &str,
    text: &str,
    baggage: Option<&Baggage>,
) -> Vec<u8> {
    let mut item = Vec::with_capacity(text.len() * 3 + 160);
    item.push(b'{');
    json::field(&mut item, "id", &position.id);
    json::field(&mut item, "type", "reasoning");
    json::field(&mut item, "status", status);
    json::key(&mut item, "summary");
    item.push(b'[');
    if !text.is_empty() {
        item.extend_from_slice(b"{\"type\":\"summary_text\"");
        push_escaped(&mut item, "text", text);
        item.push(b'}');
    }
    item.push(b']');
    if let Some(baggage) = baggage {
        json::field(&mut item, "encrypted_content", &baggage.seal());
    }
    item.push(b'}');
    item
}
