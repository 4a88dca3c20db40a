//! The receivers of a turn's events. The engine is the same for every sink.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use adapters::responses::event_buffer::EventBuffer;
use bytes::Bytes;

use super::context::TurnContext;
use super::observer::TurnEvent;
use parking_lot::Mutex;

/// A receiver of a turn's events. It frames the documents as its connection wants them.
pub(super) trait Sink: Send {
    /// Whether each event is sent at once. Then the first event commits the response headers, and
    /// heartbeats are sent while the provider is silent.
    const STREAMS: bool;

    /// Takes the events that were written, shows the observer what the client gets at once, and
    /// waits until there is room for more. Leaves the buffer empty.
    fn send(
        &mut self,
        events: &mut EventBuffer,
        ctx: &TurnContext,
    ) -> impl Future<Output = ()> + Send;
}

/// Holds one chunk on its way from the engine to the response body. Both run in the same task, and
/// the body polls the engine. So they need no channel and no waker, and a slow client stops the
/// engine.
#[derive(Clone, Default)]
pub(super) struct ChunkSlot(Arc<Mutex<Option<Bytes>>>);

impl ChunkSlot {
    pub(super) fn take(&self) -> Option<Bytes> {
        self.0.lock().take()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_none()
    }

    fn put(&self, bytes: Bytes) {
        *self.0.lock() = Some(bytes);
    }
}

/// Sends events as server-sent events, through the slot that the response body reads.
pub(super) struct SseSink(pub(super) ChunkSlot);

impl Sink for SseSink {
    const STREAMS: bool = true;

    async fn send(&mut self, events: &mut EventBuffer, ctx: &TurnContext) {
        let chunk = sse_frames(events);
        // Only after the observer: if that panics, the events go out with the error.
        ctx.observe(TurnEvent::ClientBody(&chunk));
        events.clear();
        self.0.put(chunk.into());
        // The response body polls the engine after it took the chunk, so no waker is needed.
        poll_fn(|_| {
            if self.0.is_empty() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

/// The events as server-sent events, each under the name of its type, and `[DONE]` after the
/// terminal one (Open Responses).
fn sse_frames(events: &EventBuffer) -> Vec<u8> {
    const EVENT: &[u8] = b"event: ";
    const DATA: &[u8] = b"\ndata: ";
    const END: &[u8] = b"\n\n";
    const DONE: &[u8] = b"data: [DONE]\n\n";
    let framing: usize = events
        .documents()
        .map(|event| EVENT.len() + event.name.len() + DATA.len() + END.len())
        .sum();
    let mut chunk = Vec::with_capacity(events.json_len() + framing + DONE.len());
    for event in events.documents() {
        chunk.extend_from_slice(EVENT);
        chunk.extend_from_slice(event.name.as_bytes());
        chunk.extend_from_slice(DATA);
        chunk.extend_from_slice(event.json);
        chunk.extend_from_slice(END);
    }
    if events.final_response().is_some() {
        chunk.extend_from_slice(DONE);
    }
    chunk
}

/// Keeps the final response object as JSON and ignores the events before it.
#[derive(Default)]
pub(super) struct JsonSink(pub(super) Option<Vec<u8>>);

impl Sink for JsonSink {
    const STREAMS: bool = false;

    async fn send(&mut self, events: &mut EventBuffer, _: &TurnContext) {
        if let Some(response) = events.final_response() {
            self.0 = Some(response.to_vec());
        }
        events.clear();
    }
}
