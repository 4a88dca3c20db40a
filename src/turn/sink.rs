//! The receivers of a turn's events. The engine is the same for every sink.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use adapters::responses::event_buffer::EventBuffer;
use bytes::Bytes;

/// A receiver of a turn's events.
pub(super) trait Sink: Send {
    /// Whether each event is sent at once. Then the first event commits the response headers, and
    /// heartbeats are sent while the provider is silent.
    const STREAMS: bool;

    /// Takes the events that were written, and waits until there is room for more.
    fn send(&mut self, frames: &mut EventBuffer) -> impl Future<Output = ()> + Send;
}

/// Holds one chunk on its way from the engine to the response body. Both run in the same task, and
/// the body polls the engine. So they need no channel and no waker, and a slow client stops the
/// engine.
#[derive(Clone, Default)]
pub(super) struct ChunkSlot(Arc<Mutex<Option<Bytes>>>);

impl ChunkSlot {
    pub(super) fn take(&self) -> Option<Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_none()
    }

    fn put(&self, bytes: Bytes) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
    }
}

/// Sends events as an SSE stream, through the slot that the response body reads.
pub(super) struct SseSink(pub(super) ChunkSlot);

impl Sink for SseSink {
    const STREAMS: bool = true;

    async fn send(&mut self, frames: &mut EventBuffer) {
        self.0.put(frames.take().into());
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

/// Keeps the final response object as JSON and ignores the events before it.
#[derive(Default)]
pub(super) struct JsonSink(pub(super) Option<Vec<u8>>);

impl Sink for JsonSink {
    const STREAMS: bool = false;

    async fn send(&mut self, frames: &mut EventBuffer) {
        if let Some(response) = frames.take_response() {
            self.0 = Some(response);
        }
    }
}
