//! The buffer between the assembler and the connection of the client.

use std::ops::Range;

use crate::json;

/// The initial capacity: enough for a text delta, so that the buffer does not grow in small
/// steps.
const USUAL_EVENT_BYTES: usize = 512;

/// Events that were written and not yet sent, as the bytes of an SSE stream.
///
/// The assembler appends events; a sink takes them, either as they are or, for a client
/// that wants one JSON object, only the response object of the terminal event.
#[derive(Debug, Default)]
pub struct EventBuffer {
    bytes: Vec<u8>,
    /// The bytes of the response object in the terminal event, once that is written.
    terminal: Option<Range<usize>>,
    /// The end of the last complete event.
    closed: usize,
}

impl EventBuffer {
    /// Whether the buffer holds no event.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The buffered bytes of the SSE stream.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes the buffered bytes of the SSE stream and leaves the buffer empty.
    pub fn take(&mut self) -> Vec<u8> {
        self.terminal = None;
        self.closed = 0;
        std::mem::take(&mut self.bytes)
    }

    /// Takes the response object of the terminal event, if there is one, and discards all
    /// events.
    pub fn take_response(&mut self) -> Option<Vec<u8>> {
        let range = self.terminal.take();
        let response = range
            .and_then(|range| self.bytes.get(range))
            .map(<[u8]>::to_vec);
        self.bytes.clear();
        self.closed = 0;
        response
    }

    /// Appends `data: [DONE]`, the last line of a stream.
    pub(super) fn push_done_marker(&mut self) {
        self.bytes.extend_from_slice(b"data: [DONE]\n\n");
    }

    /// Begins an event. The caller appends its fields and calls [`Self::end_event`].
    pub(super) fn begin_event(&mut self, name: &str, sequence: u64) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(USUAL_EVENT_BYTES);
        }
        self.bytes.extend_from_slice(b"event: ");
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(b"\ndata: ");
        self.bytes.extend_from_slice(b"{\"type\":\"");
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(b"\",\"sequence_number\":");
        json::push(&mut self.bytes, &sequence);
        &mut self.bytes
    }

    /// Ends the event that was begun last.
    pub(super) fn end_event(&mut self) {
        self.bytes.extend_from_slice(b"}\n\n");
        self.closed = self.bytes.len();
    }

    /// Discards an event that was begun and not ended, which happens only if writing it
    /// panicked.
    pub fn discard_open_event(&mut self) {
        self.bytes.truncate(self.closed);
    }

    /// Records that the bytes from `start` on are the response object of the terminal event.
    pub(super) fn mark_terminal(&mut self, start: usize) {
        self.terminal = Some(start..self.bytes.len());
    }
}
