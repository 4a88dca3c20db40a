//! The counters that all items of an answer share, and the events that contain items.

use std::borrow::Cow;

use super::super::event_buffer::EventBuffer;
use super::super::response_object::ResponseObject;
use crate::json;

/// Numbers events and items, writes the events that contain items or the response, and adds
/// the finished items to the response.
#[derive(Debug)]
pub(super) struct ItemWriter {
    /// The response so far.
    pub(super) response: ResponseObject,
    /// The sequence number of the next event.
    sequence: u64,
    next_index: u32,
}

/// The id and `output_index` of an item.
#[derive(Clone, Debug)]
pub(super) struct ItemPosition {
    pub(super) id: String,
    pub(super) index: u32,
}

impl ItemWriter {
    pub(super) fn new(response: ResponseObject) -> Self {
        Self {
            response,
            sequence: 0,
            next_index: 0,
        }
    }

    fn next_sequence(&mut self) -> u64 {
        let sequence = self.sequence;
        self.sequence += 1;
        sequence
    }

    /// Assigns the next output index, with an item id that has this prefix (`msg`, `rs`,
    /// `fc` and so on).
    pub(super) fn next_position(&mut self, prefix: &str) -> ItemPosition {
        let index = self.next_index;
        self.next_index += 1;
        ItemPosition {
            id: self.response.item_id(prefix, index),
            index,
        }
    }

    /// Assigns the next output index to an item that has an id.
    pub(super) fn position_with_id(&mut self, id: String) -> ItemPosition {
        let index = self.next_index;
        self.next_index += 1;
        ItemPosition { id, index }
    }

    /// Writes `response.output_item.added`.
    pub(super) fn item_added(
        &mut self,
        position: &ItemPosition,
        item: &[u8],
        events: &mut EventBuffer,
    ) {
        self.item_event("response.output_item.added", position, item, events);
    }

    /// Writes `response.output_item.done` and adds the item to the response.
    pub(super) fn item_done(
        &mut self,
        position: &ItemPosition,
        item: &[u8],
        events: &mut EventBuffer,
    ) {
        self.item_event("response.output_item.done", position, item, events);
        self.response.output.push(&position.id, item);
    }

    /// How many items are finished.
    pub(super) fn item_count(&self) -> usize {
        self.response.output.len()
    }

    /// Writes an event with the response object.
    pub(super) fn response_event(&mut self, name: &'static str, events: &mut EventBuffer) {
        let out = events.begin_event(name, self.next_sequence());
        out.extend_from_slice(b",\"response\":");
        let start = out.len();
        self.response.push_json(out);
        if self.response.status.is_some() {
            events.mark_response(start);
        }
        events.end_event();
    }

    fn item_event(
        &mut self,
        name: &'static str,
        position: &ItemPosition,
        item: &[u8],
        events: &mut EventBuffer,
    ) {
        let out = events.begin_event(name, self.next_sequence());
        json::field(out, "output_index", &position.index);
        out.extend_from_slice(b",\"item\":");
        out.extend_from_slice(item);
        events.end_event();
    }

    /// Writes an event about an item. `location` comes from [`location_fields`]; `rest`
    /// appends the other fields.
    pub(super) fn event(
        &mut self,
        name: &'static str,
        location: &[u8],
        events: &mut EventBuffer,
        rest: impl FnOnce(&mut Vec<u8>),
    ) {
        let out = events.begin_event(name, self.next_sequence());
        out.extend_from_slice(location);
        rest(out);
        events.end_event();
    }
}

/// The fields that say to which item an event belongs, encoded once for many deltas:
/// `,"item_id":…,"output_index":…` and, if given, the name and value of an index inside the
/// item.
pub(super) fn location_fields(position: &ItemPosition, inside: Option<(&str, usize)>) -> Vec<u8> {
    let mut out = Vec::new();
    json::field(&mut out, "item_id", &position.id);
    json::field(&mut out, "output_index", &position.index);
    if let Some((name, index)) = inside {
        json::field(&mut out, name, &index);
    }
    out
}

/// Appends `,"name":"` escaped `"`.
pub(super) fn push_escaped(out: &mut Vec<u8>, name: &str, escaped: &str) {
    json::key(out, name);
    out.push(b'"');
    out.extend_from_slice(escaped.as_bytes());
    out.push(b'"');
}

/// Text that arrives in pieces, escaped. An upstream may split a surrogate pair between two
/// pieces; the high surrogate is kept back until the low one arrives.
#[derive(Debug, Default)]
pub(super) struct StreamedText {
    pub(super) text: String,
    high_surrogate: String,
}

impl StreamedText {
    /// Appends a piece and returns the text that can be sent.
    pub(super) fn push<'f>(&mut self, escaped: &'f str) -> Cow<'f, str> {
        let whole = if self.high_surrogate.is_empty() && !has_unicode_escape(escaped) {
            Cow::Borrowed(escaped)
        } else {
            let mut joined = std::mem::take(&mut self.high_surrogate);
            joined.push_str(escaped);
            if let Some(at) = json::find_lone_surrogate(&joined)
                && at + 6 == joined.len()
                && json::is_high_surrogate(&joined, at)
            {
                self.high_surrogate = joined.split_off(at);
            }
            Cow::Owned(json::replace_lone_surrogates(&joined))
        };
        self.text.push_str(&whole);
        whole
    }

    /// Ends the text. Returns U+FFFD (escaped) if a high surrogate was kept back.
    pub(super) fn flush(&mut self) -> Option<&'static str> {
        if self.high_surrogate.is_empty() {
            return None;
        }
        self.high_surrogate.clear();
        self.text.push_str("\\ufffd");
        Some("\\ufffd")
    }
}

/// Whether the text may contain a `\u` escape. Most pieces are short and have no escape at
/// all, so looking for the backslash first is cheaper than a search for both characters.
fn has_unicode_escape(escaped: &str) -> bool {
    let bytes = escaped.as_bytes();
    memchr::memchr(b'\\', bytes)
        .and_then(|at| bytes.get(at..))
        .is_some_and(|rest| memchr::memmem::find(rest, b"\\u").is_some())
}
