//! The counters that all items share, and the shape of item events.

use std::borrow::Cow;
use std::ops::Range;

use super::super::event_buffer::EventBuffer;
use crate::json;

/// Numbers events and items, and keeps the finished items.
#[derive(Debug)]
pub(super) struct ItemWriter {
    pub(super) sequence: u64,
    /// Finished items, separated by commas, exactly as they were sent.
    pub(super) output: Vec<u8>,
    /// The response id without its prefix: item ids are made of it.
    token: String,
    /// Where each finished item stands in `output`, by its id.
    items: Vec<(String, Range<usize>)>,
    next_index: u32,
}

/// An item's place in the output.
#[derive(Clone, Debug)]
pub(super) struct ItemPosition {
    pub(super) id: String,
    pub(super) index: u32,
}

impl ItemWriter {
    pub(super) fn new(response_id: &str) -> Self {
        let token = response_id
            .split_once('_')
            .map_or(response_id, |(_, token)| token);
        Self {
            sequence: 0,
            output: Vec::new(),
            token: token.to_owned(),
            items: Vec::new(),
            next_index: 0,
        }
    }

    pub(super) fn next_sequence(&mut self) -> u64 {
        let sequence = self.sequence;
        self.sequence += 1;
        sequence
    }

    /// The next place, with an id of this prefix: `msg`, `rs`, `fc` ….
    pub(super) fn next_position(&mut self, prefix: &str) -> ItemPosition {
        let index = self.next_index;
        self.next_index += 1;
        ItemPosition {
            id: format!("{prefix}_{}_{index}", self.token),
            index,
        }
    }

    /// Writes `response.output_item.added`.
    pub(super) fn item_added(
        &mut self,
        place: &ItemPosition,
        item: &[u8],
        events: &mut EventBuffer,
    ) {
        self.item_event("response.output_item.added", place, item, events);
    }

    /// Writes `response.output_item.done` and keeps the item for the output.
    pub(super) fn item_done(
        &mut self,
        place: &ItemPosition,
        item: &[u8],
        events: &mut EventBuffer,
    ) {
        self.item_event("response.output_item.done", place, item, events);
        if !self.output.is_empty() {
            self.output.push(b',');
        }
        let start = self.output.len();
        self.output.extend_from_slice(item);
        self.items
            .push((place.id.clone(), start..self.output.len()));
    }

    /// The finished items: id and JSON.
    pub(super) fn items(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.items
            .iter()
            .filter_map(|(id, range)| Some((id.as_str(), self.output.get(range.clone())?)))
    }

    fn item_event(
        &mut self,
        name: &str,
        place: &ItemPosition,
        item: &[u8],
        events: &mut EventBuffer,
    ) {
        let out = events.begin_event(name, self.next_sequence());
        json::field(out, "output_index", &place.index);
        out.extend_from_slice(b",\"item\":");
        out.extend_from_slice(item);
        events.end_event();
    }

    /// Writes an event about a place: `locate` is what [`locator`] made, the
    /// rest follows it.
    pub(super) fn event(
        &mut self,
        name: &str,
        locate: &[u8],
        events: &mut EventBuffer,
        rest: impl FnOnce(&mut Vec<u8>),
    ) {
        let out = events.begin_event(name, self.next_sequence());
        out.extend_from_slice(locate);
        rest(out);
        events.end_event();
    }
}

/// The fields that say where an event belongs, made once for many deltas:
/// `,"item_id":…,"output_index":…` and, if given, an index inside the item.
pub(super) fn location_fields(place: &ItemPosition, inside: Option<(&str, usize)>) -> Vec<u8> {
    let mut out = Vec::new();
    json::field(&mut out, "item_id", &place.id);
    json::field(&mut out, "output_index", &place.index);
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

/// Text as it grows, still escaped. An upstream may cut between the halves of
/// a surrogate pair; the first half waits for the second.
#[derive(Debug, Default)]
pub(super) struct StreamedText {
    pub(super) text: String,
    half: String,
}

impl StreamedText {
    /// Appends a piece and returns what may be sent of it.
    pub(super) fn push<'f>(&mut self, escaped: &'f str) -> Cow<'f, str> {
        let whole =
            if self.half.is_empty() && memchr::memmem::find(escaped.as_bytes(), b"\\u").is_none() {
                Cow::Borrowed(escaped)
            } else {
                let mut joined = std::mem::take(&mut self.half);
                joined.push_str(escaped);
                if let Some(at) = json::find_lone_surrogate(&joined)
                    && at + 6 == joined.len()
                    && json::is_high_surrogate(&joined, at)
                {
                    self.half = joined.split_off(at);
                }
                Cow::Owned(json::replace_lone_surrogates(&joined))
            };
        self.text.push_str(&whole);
        whole
    }

    /// The half that never got its partner, as U+FFFD.
    pub(super) fn flush(&mut self) -> Option<&'static str> {
        if self.half.is_empty() {
            return None;
        }
        self.half.clear();
        self.text.push_str("\\ufffd");
        Some("\\ufffd")
    }
}
