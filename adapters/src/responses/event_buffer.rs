//! Events on their way out, already in SSE form.

use std::ops::Range;

use crate::json;

/// Room for one event with a piece of text, so that it does not grow bit by bit.
const USUAL_EVENT_BYTES: usize = 512;

/// A run of events: the bytes of an SSE stream, and where the JSON documents
/// are, for sinks that send them another way.
#[derive(Debug, Default)]
pub struct EventBuffer {
    bytes: Vec<u8>,
    /// The response object of the terminal event, once there is one.
    terminal: Option<Range<usize>>,
    /// The end of the last whole event.
    closed: usize,
}

impl EventBuffer {
    /// Whether there is no event.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The events as they stand in the stream.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes all events as they stand in the stream.
    pub fn take(&mut self) -> Vec<u8> {
        self.terminal = None;
        self.closed = 0;
        std::mem::take(&mut self.bytes)
    }

    /// Forgets all events but the final response object, for a client that
    /// wants only that.
    pub fn take_response(&mut self) -> Option<Vec<u8>> {
        let range = self.terminal.take();
        let response = range
            .and_then(|range| self.bytes.get(range))
            .map(<[u8]>::to_vec);
        self.bytes.clear();
        self.closed = 0;
        response
    }

    /// Ends the stream with `[DONE]`.
    pub(super) fn push_done_marker(&mut self) {
        self.bytes.extend_from_slice(b"data: [DONE]\n\n");
    }

    /// Begins an event; the caller adds fields and calls [`Frames::close`].
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

    /// Ends the open event.
    pub(super) fn end_event(&mut self) {
        self.bytes.extend_from_slice(b"}\n\n");
        self.closed = self.bytes.len();
    }

    /// Forgets an event that was begun and not ended: a defect cut it.
    pub fn discard_open_event(&mut self) {
        self.bytes.truncate(self.closed);
    }

    /// Marks the bytes since `start` as the final response object.
    pub(super) fn mark_terminal(&mut self, start: usize) {
        self.terminal = Some(start..self.bytes.len());
    }
}
