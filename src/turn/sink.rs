//! Where events go. The engine is the same for every sink.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use adapters::responses::event_buffer::EventBuffer;
use bytes::Bytes;

/// A receiver of events.
pub(super) trait Sink: Send {
    /// Whether events go out as they come: then the first one commits the
    /// response headers, and silence is filled.
    const STREAMS: bool;

    /// Takes the events; waits until there is room for more.
    fn send(&mut self, frames: &mut EventBuffer) -> impl Future<Output = ()> + Send;
}

/// One piece on its way from the engine to the response body. Both run in the
/// same task, the body polls the engine: no channel and no wake-up between
/// them, and a slow reader stops the engine by itself.
#[derive(Clone, Default)]
pub(super) struct Slot(Arc<Mutex<Option<Bytes>>>);

impl Slot {
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

/// Sends events as an SSE stream.
pub(super) struct SseSink(pub(super) Slot);

impl Sink for SseSink {
    const STREAMS: bool = true;

    async fn send(&mut self, frames: &mut EventBuffer) {
        self.0.put(frames.take().into());
        // Whoever takes the piece polls the engine next: no waker is needed.
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

/// Keeps the final response object.
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
