//! A reasoning item: one summary part that holds the thinking, or none where
//! it only carries baggage.

use super::super::event_buffer::EventBuffer;
use super::writer::{ItemPosition, ItemWriter, StreamedText, location_fields, push_escaped};
use crate::baggage::Baggage;
use crate::json;

/// The open reasoning.
#[derive(Debug)]
pub(super) struct ReasoningItem {
    place: ItemPosition,
    locate: Vec<u8>,
    text: StreamedText,
}

impl ReasoningItem {
    pub(super) fn open(writer: &mut ItemWriter, events: &mut EventBuffer) -> Self {
        let place = writer.next_position("rs");
        writer.item_added(&place, &opening(&place), events);
        let locate = location_fields(&place, Some(("summary_index", 0)));
        let reasoning = Self {
            place,
            locate,
            text: StreamedText::default(),
        };
        writer.event(
            "response.reasoning_summary_part.added",
            &reasoning.locate,
            events,
            |out| {
                reasoning.push_part(out);
            },
        );
        reasoning
    }

    pub(super) fn text(
        &mut self,
        escaped: &str,
        writer: &mut ItemWriter,
        events: &mut EventBuffer,
    ) {
        let whole = self.text.push(escaped);
        if !whole.is_empty() {
            self.send(&whole, writer, events);
        }
    }

    fn send(&self, escaped: &str, writer: &mut ItemWriter, events: &mut EventBuffer) {
        writer.event(
            "response.reasoning_summary_text.delta",
            &self.locate,
            events,
            |out| {
                push_escaped(out, "delta", escaped);
            },
        );
    }

    /// Closes it. `baggage` is what is carried, but for the thinking itself.
    pub(super) fn close(
        mut self,
        status: &str,
        baggage: Option<Baggage>,
        writer: &mut ItemWriter,
        events: &mut EventBuffer,
    ) {
        if let Some(rest) = self.text.flush() {
            self.send(rest, writer, events);
        }
        writer.event(
            "response.reasoning_summary_text.done",
            &self.locate,
            events,
            |out| {
                push_escaped(out, "text", &self.text.text);
            },
        );
        writer.event(
            "response.reasoning_summary_part.done",
            &self.locate,
            events,
            |out| {
                self.push_part(out);
            },
        );
        let baggage = baggage.map(|baggage| Baggage {
            reasoning: json::unescape(&self.text.text).into_owned(),
            ..baggage
        });
        let item = item(&self.place, status, &self.text.text, baggage.as_ref());
        writer.item_done(&self.place, &item, events);
    }

    fn push_part(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"part\":{\"type\":\"summary_text\"");
        push_escaped(out, "text", &self.text.text);
        out.push(b'}');
    }
}

/// Writes an item without thinking, which carries something back.
pub(super) fn write_baggage_item(
    status: &str,
    baggage: &Baggage,
    writer: &mut ItemWriter,
    events: &mut EventBuffer,
) {
    let place = writer.next_position("rs");
    writer.item_added(&place, &opening(&place), events);
    let item = item(&place, status, "", Some(baggage));
    writer.item_done(&place, &item, events);
}

/// The item as it is added.
fn opening(place: &ItemPosition) -> Vec<u8> {
    let mut item = vec![b'{'];
    json::field(&mut item, "id", &place.id);
    item.extend_from_slice(br#","type":"reasoning","status":"in_progress","summary":[]}"#);
    item
}

/// The finished item; `text` is escaped.
fn item(place: &ItemPosition, status: &str, text: &str, baggage: Option<&Baggage>) -> Vec<u8> {
    let mut item = Vec::with_capacity(text.len() * 3 + 160);
    item.push(b'{');
    json::field(&mut item, "id", &place.id);
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
