//! The buffer between the assembler and the connection of the client.

use std::ops::Range;

use crate::json;

/// The initial capacity: enough for a text delta, so that the buffer does not grow in small
/// steps.
const USUAL_EVENT_BYTES: usize = 512;

/// A buffer that grew beyond this is freed when it was sent: the events around the output are
/// large, and the text deltas between them are not. Every open stream keeps such a buffer.
const KEPT_CAPACITY: usize = 2 * USUAL_EVENT_BYTES;

/// Events that were written and not yet sent, each as one JSON document.
///
/// Made with an answer. The assembler appends documents; a sink sends them, framed as its
/// connection wants them, and clears the buffer.
#[derive(Debug, Default)]
pub struct EventBuffer {
    /// The documents, one after the other.
    bytes: Vec<u8>,
    documents: Vec<DocumentSpan>,
    /// Where the response object of the terminal event is, once that was written.
    response: Option<Range<usize>>,
}

/// Where a document ends; it begins where the one before it ends.
#[derive(Debug)]
struct DocumentSpan {
    sequence: u64,
    name: &'static str,
    end: usize,
}

/// An event of the Responses API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventDocument<'b> {
    /// The `sequence_number`: 0 for the first event of an answer, then 1, and so on.
    pub sequence: u64,
    /// The `type`, such as `response.created`.
    pub name: &'static str,
    /// The event as a JSON object on one line, in UTF-8.
    pub json: &'b [u8],
}

impl EventBuffer {
    /// Whether the buffer holds no event.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// The events, oldest first.
    pub fn documents(&self) -> impl Iterator<Item = EventDocument<'_>> {
        let mut start = 0;
        self.documents.iter().map(move |span| EventDocument {
            sequence: span.sequence,
            name: span.name,
            json: self
                .bytes
                .get(std::mem::replace(&mut start, span.end)..span.end)
                .unwrap_or_default(),
        })
    }

    /// The length of all documents together, in bytes.
    pub fn json_len(&self) -> usize {
        self.bytes.len()
    }

    /// The response object of the terminal event as JSON; `None` before that event. No event
    /// follows it.
    pub fn final_response(&self) -> Option<&[u8]> {
        self.bytes.get(self.response.clone()?)
    }

    /// Removes the events.
    pub fn clear(&mut self) {
        if self.bytes.capacity() > KEPT_CAPACITY {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.documents.clear();
        self.response = None;
    }

    /// Begins an event. The caller appends its fields and calls [`Self::end_event`].
    pub(super) fn begin_event(&mut self, name: &'static str, sequence: u64) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(USUAL_EVENT_BYTES);
        }
        self.documents.push(DocumentSpan {
            sequence,
            name,
            end: OPEN,
        });
        self.bytes.extend_from_slice(b"{\"type\":\"");
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(b"\",\"sequence_number\":");
        json::push(&mut self.bytes, &sequence);
        &mut self.bytes
    }

    /// Ends the event that was begun last.
    pub(super) fn end_event(&mut self) {
        self.bytes.push(b'}');
        if let Some(span) = self.documents.last_mut() {
            span.end = self.bytes.len();
        }
    }

    /// Discards an event that was begun and not ended, which happens only if writing it
    /// panicked.
    pub fn discard_open_event(&mut self) {
        self.documents.pop_if(|span| span.end == OPEN);
        let closed = self.documents.last().map_or(0, |span| span.end);
        self.bytes.truncate(closed);
    }

    /// Removes the event that was written last; false if there is none.
    pub(super) fn remove_last(&mut self) -> bool {
        let removed = self.documents.pop().is_some();
        let end = self.documents.last().map_or(0, |span| span.end);
        self.bytes.truncate(end);
        self.response = None;
        removed
    }

    /// Records that the bytes from `start` on are the response object of the terminal event.
    pub(super) fn mark_response(&mut self, start: usize) {
        self.response = Some(start..self.bytes.len());
    }
}

/// The end of an event that is being written.
const OPEN: usize = usize::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn write(events: &mut EventBuffer, name: &'static str, sequence: u64, field: &[u8]) {
        events.begin_event(name, sequence).extend_from_slice(field);
        events.end_event();
    }

    #[test]
    fn each_event_is_a_document_with_its_name_and_number() {
        let mut events = EventBuffer::default();
        write(&mut events, "a", 3, b"");
        write(&mut events, "b", 4, b",\"x\":1");
        let documents: Vec<_> = events.documents().collect();
        let expected = [
            (3, "a", br#"{"type":"a","sequence_number":3}"#.as_slice()),
            (4, "b", br#"{"type":"b","sequence_number":4,"x":1}"#),
        ];
        let expected = expected.map(|(sequence, name, json)| EventDocument {
            sequence,
            name,
            json,
        });
        assert_eq!(documents, expected);
        events.clear();
        assert!(events.is_empty());
        assert_eq!(events.documents().count(), 0);
    }

    #[test]
    fn an_event_that_was_not_ended_leaves_no_trace() {
        let mut events = EventBuffer::default();
        write(&mut events, "a", 0, b"");
        events.begin_event("b", 1).extend_from_slice(b",\"x");
        events.discard_open_event();
        events.discard_open_event();
        write(&mut events, "c", 1, b"");
        let names: Vec<_> = events.documents().map(|document| document.name).collect();
        assert_eq!(names, ["a", "c"]);
        let last = events.documents().last().unwrap();
        assert_eq!(last.json, br#"{"type":"c","sequence_number":1}"#);
    }

    #[test]
    fn the_terminal_event_holds_the_response() {
        let mut events = EventBuffer::default();
        assert_eq!(events.final_response(), None);
        let out = events.begin_event("response.completed", 9);
        out.extend_from_slice(b",\"response\":");
        let start = out.len();
        out.extend_from_slice(b"{\"id\":7}");
        events.mark_response(start);
        events.end_event();
        assert_eq!(events.final_response(), Some(br#"{"id":7}"#.as_slice()));
    }
}
