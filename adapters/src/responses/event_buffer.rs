//! The buffer between the assembler and the connection of the client.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use crate::json;
use crate::sse;

/// The initial capacity: enough for a text delta, so that the buffer does not grow in small
/// steps.
const USUAL_EVENT_BYTES: usize = 512;

/// A buffer that grew beyond this is freed when it was sent: the events around the output are
/// large, and the text deltas between them are not. Every open stream keeps such a buffer.
const KEPT_CAPACITY: usize = 2 * USUAL_EVENT_BYTES;

/// A piece of this many bytes or more is shared by the events that have it: the text of an answer
/// is in four of them.
pub(super) const SHARED_BYTES: usize = 64 * 1024;

/// Events that were written and not yet sent, each as one JSON document.
///
/// Made with an answer. The assembler appends documents; a sink sends them, framed as its
/// connection wants them, and clears the buffer.
#[derive(Debug, Default)]
pub struct EventBuffer {
    /// The documents, one after the other, without the shared pieces.
    bytes: Vec<u8>,
    shared: Vec<SharedPiece>,
    documents: Vec<DocumentSpan>,
    /// Where the response object of the terminal event is, once that was written.
    response: Option<Range<usize>>,
}

/// A large piece of a document, and its place: the offset in the other bytes where it is inserted.
#[derive(Debug)]
struct SharedPiece {
    at: usize,
    bytes: Bytes,
}

/// Where a document ends; it begins where the one before it ends.
#[derive(Debug)]
struct DocumentSpan {
    sequence: u64,
    name: &'static str,
    end: usize,
}

/// An event of the Responses API.
#[derive(Clone, Copy, Debug)]
pub struct EventDocument<'b> {
    /// The `sequence_number`: 0 for the first event of an answer, then 1, and so on.
    pub sequence: u64,
    /// The `type`, such as `response.created`.
    pub name: &'static str,
    pieces: JsonPieces<'b>,
}

/// A part of the buffer: bytes, and the shared pieces between them.
#[derive(Clone, Copy, Debug)]
struct JsonPieces<'b> {
    bytes: &'b [u8],
    /// The place of the first byte.
    start: usize,
    shared: &'b [SharedPiece],
}

impl<'b> EventDocument<'b> {
    /// The event as a JSON object on one line, in UTF-8. It is copied if it has shared pieces.
    pub fn json(&self) -> Cow<'b, [u8]> {
        self.pieces.joined()
    }

    /// The length of the JSON in bytes.
    pub fn json_len(&self) -> usize {
        self.pieces.len()
    }

    /// Appends the JSON.
    pub fn push_json(&self, out: &mut Vec<u8>) {
        self.pieces.push(out);
    }
}

impl<'b> JsonPieces<'b> {
    fn len(&self) -> usize {
        let shared = self.shared.iter().map(|piece| piece.bytes.len());
        self.bytes.len() + shared.sum::<usize>()
    }

    fn joined(&self) -> Cow<'b, [u8]> {
        if self.shared.is_empty() {
            return Cow::Borrowed(self.bytes);
        }
        let mut joined = Vec::with_capacity(self.len());
        self.push(&mut joined);
        Cow::Owned(joined)
    }

    fn push(&self, out: &mut Vec<u8>) {
        let mut rest = self.bytes;
        let mut start = self.start;
        for piece in self.shared {
            let (before, after) = rest.split_at_checked(piece.at - start).unwrap_or_default();
            out.extend_from_slice(before);
            out.extend_from_slice(&piece.bytes);
            (rest, start) = (after, piece.at);
        }
        out.extend_from_slice(rest);
    }
}

impl EventBuffer {
    /// Whether the buffer holds no event.
    pub fn is_empty(&self) -> bool {
        self.documents.is_empty()
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.documents.len()
    }

    /// The events, oldest first.
    pub fn documents(&self) -> impl Iterator<Item = EventDocument<'_>> {
        let mut start = 0;
        self.documents.iter().map(move |span| EventDocument {
            sequence: span.sequence,
            name: span.name,
            pieces: self.pieces(std::mem::replace(&mut start, span.end)..span.end),
        })
    }

    fn pieces(&self, range: Range<usize>) -> JsonPieces<'_> {
        JsonPieces {
            bytes: self.bytes.get(range.clone()).unwrap_or_default(),
            start: range.start,
            shared: self.shared_in(range),
        }
    }

    fn shared_in(&self, range: Range<usize>) -> &[SharedPiece] {
        // Nearly all events are small.
        if self.shared.is_empty() {
            return &[];
        }
        let first = self.shared.partition_point(|piece| piece.at < range.start);
        let after = self.shared.partition_point(|piece| piece.at < range.end);
        self.shared.get(first..after).unwrap_or_default()
    }

    /// The first `count` events as server-sent events, each under the name of its type, and
    /// `[DONE]` after the terminal one.
    pub fn to_sse(&self, count: usize) -> Vec<u8> {
        let documents = || self.documents().take(count);
        let frames = documents().map(|event| sse::frame_len(event.name) + event.json_len());
        let mut out = Vec::with_capacity(frames.sum::<usize>() + sse::DONE.len());
        for event in documents() {
            sse::begin_frame(&mut out, event.name.as_bytes());
            event.push_json(&mut out);
            out.extend_from_slice(sse::FRAME_END);
        }
        if self.has_final_response() && count >= self.len() {
            out.extend_from_slice(sse::DONE);
        }
        out
    }

    /// The length of all documents together, in bytes.
    pub fn json_len(&self) -> usize {
        let shared = self.shared.iter().map(|piece| piece.bytes.len());
        self.bytes.len() + shared.sum::<usize>()
    }

    /// The length of all documents together without what they share, in bytes.
    pub fn own_len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the terminal event is here. No event follows it.
    pub fn has_final_response(&self) -> bool {
        self.response.is_some()
    }

    /// The response object of the terminal event as JSON; `None` before that event.
    pub fn final_response(&self) -> Option<Cow<'_, [u8]>> {
        Some(self.pieces(self.response.clone()?).joined())
    }

    /// Removes the events.
    pub fn clear(&mut self) {
        if self.bytes.capacity() > KEPT_CAPACITY {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.shared.clear();
        self.documents.clear();
        self.response = None;
    }

    /// Removes the first `count` events.
    pub fn remove_first(&mut self, count: usize) {
        if count >= self.documents.len() {
            return self.clear();
        }
        let Some(last) = count.checked_sub(1).and_then(|at| self.documents.get(at)) else {
            return;
        };
        let end = last.end;
        self.bytes.drain(..end.min(self.bytes.len()));
        self.documents.drain(..count);
        self.shared.retain(|piece| piece.at >= end);
        for at in self.documents.iter_mut().map(|span| &mut span.end) {
            *at -= end;
        }
        for piece in &mut self.shared {
            piece.at -= end;
        }
        let response = self.response.take();
        self.response = response.and_then(|it| Some(it.start.checked_sub(end)?..it.end - end));
    }

    /// Appends a piece to the event that was begun last. A large one is not copied.
    pub(super) fn push_shared(&mut self, piece: &Bytes) {
        if piece.len() < SHARED_BYTES {
            self.bytes.extend_from_slice(piece);
        } else {
            self.shared.push(SharedPiece {
                at: self.bytes.len(),
                bytes: piece.clone(),
            });
        }
    }

    /// The bytes of the event that was begun last. What follows a shared piece is appended here.
    pub(super) fn open_bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
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
        self.cut();
    }

    /// Removes what follows the last event.
    fn cut(&mut self) {
        let end = self.documents.last().map_or(0, |span| span.end);
        self.bytes.truncate(end);
        self.shared.retain(|piece| piece.at < end);
    }

    /// Removes the event that was written last; false if there is none.
    pub(super) fn remove_last(&mut self) -> bool {
        let removed = self.documents.pop().is_some();
        self.cut();
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

    fn shown(events: &EventBuffer) -> Vec<String> {
        let documents = events.documents();
        documents
            .map(|event| {
                let json = String::from_utf8(event.json().into_owned()).unwrap();
                assert_eq!(json.len(), event.json_len());
                format!("{} {} {json}", event.sequence, event.name)
            })
            .collect()
    }

    fn write(events: &mut EventBuffer, name: &'static str, sequence: u64, field: &[u8]) {
        events.begin_event(name, sequence).extend_from_slice(field);
        events.end_event();
    }

    #[test]
    fn each_event_is_a_document_with_its_name_and_number() {
        let mut events = EventBuffer::default();
        write(&mut events, "a", 3, b"");
        write(&mut events, "b", 4, b",\"x\":1");
        assert_eq!(
            shown(&events),
            [
                r#"3 a {"type":"a","sequence_number":3}"#,
                r#"4 b {"type":"b","sequence_number":4,"x":1}"#,
            ]
        );
        events.clear();
        assert!(events.is_empty());
        assert_eq!(events.documents().count(), 0);
    }

    #[test]
    fn server_sent_events_have_the_name_of_their_type() {
        let mut events = EventBuffer::default();
        write(&mut events, "a", 0, b"");
        write(&mut events, "b", 1, b",\"x\":1");
        let sse = |events: &EventBuffer, count| String::from_utf8(events.to_sse(count)).unwrap();
        let first = "event: a\ndata: {\"type\":\"a\",\"sequence_number\":0}\n\n";
        let second = "event: b\ndata: {\"type\":\"b\",\"sequence_number\":1,\"x\":1}\n\n";
        assert_eq!(sse(&events, 1), first);
        assert_eq!(sse(&events, 2), format!("{first}{second}"));
        events.mark_response(0);
        assert_eq!(sse(&events, 1), first);
        let whole = sse(&events, 2);
        assert_eq!(whole, format!("{first}{second}data: [DONE]\n\n"));
        assert_eq!(events.to_sse(2).capacity(), whole.len());
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
        assert_eq!(*last.json(), *br#"{"type":"c","sequence_number":1}"#);
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
        assert_eq!(
            events.final_response().as_deref(),
            Some(br#"{"id":7}"#.as_slice())
        );
    }

    #[test]
    fn large_pieces_are_shared_and_go_with_their_events() {
        let large = Bytes::from("x".repeat(SHARED_BYTES));
        let small = Bytes::from("y");
        let mut events = EventBuffer::default();
        for (name, sequence) in [("a", 0), ("b", 1), ("c", 2)] {
            events
                .begin_event(name, sequence)
                .extend_from_slice(b",\"t\":\"");
            events.push_shared(&large);
            events.push_shared(&small);
            events.push_shared(&large);
            events.open_bytes().push(b'"');
            events.end_event();
        }
        let whole: String = shown(&events).concat();
        assert_eq!(whole.matches('x').count(), 6 * SHARED_BYTES);
        assert!(events.own_len() < 200);
        let all = shown(&events);
        events.remove_first(1);
        assert_eq!(shown(&events), all[1..]);
        events.begin_event("d", 3).extend_from_slice(b",\"t\":");
        events.push_shared(&large);
        events.discard_open_event();
        assert!(events.remove_last());
        assert_eq!(shown(&events), all[1..2]);
        events.remove_first(1);
        assert!(events.is_empty());
        write(&mut events, "e", 4, b"");
        assert_eq!(shown(&events), [r#"4 e {"type":"e","sequence_number":4}"#]);
    }
}
