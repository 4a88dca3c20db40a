//! A streamed response: polling it runs the engine.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use adapters::fault::Fault;
use bytes::Bytes;
use http_body::Frame;

use super::sink::ChunkSlot;

/// How long after the limit of a turn its client may take no byte of the stream, or its last
/// message may go out. The client gets the last event in this time.
pub const LAST_EVENT_ROOM: Duration = Duration::from_secs(5);

/// A running engine that writes to a slot. Its error is a fault before anything was sent.
pub(super) type EngineFuture = Pin<Box<dyn Future<Output = Result<(), Fault>> + Send>>;

/// A streamed response, which is the body of one over HTTP. Dropping it ends the turn.
pub struct EventStream {
    engine: Option<EngineFuture>,
    slot: ChunkSlot,
}

impl EventStream {
    pub(super) fn new(engine: EngineFuture, slot: ChunkSlot) -> Self {
        Self {
            engine: Some(engine),
            slot,
        }
    }

    /// Runs the engine up to its first event. A fault before that becomes an HTTP status.
    pub(super) async fn wait_for_commit(&mut self) -> Result<(), Fault> {
        std::future::poll_fn(|cx| match self.poll_engine(cx) {
            Poll::Ready(result) => Poll::Ready(result),
            Poll::Pending if self.slot.is_empty() => Poll::Pending,
            Poll::Pending => Poll::Ready(Ok(())),
        })
        .await
    }

    /// Runs the engine up to its next chunk; `None` is the end.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut ended = false;
        if self.slot.is_empty() {
            ended = self.poll_engine(cx).is_ready();
        }
        match self.slot.take() {
            Some(bytes) => Poll::Ready(Some(bytes)),
            None if ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    fn poll_engine(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        let Some(engine) = &mut self.engine else {
            return Poll::Ready(Ok(()));
        };
        let result = std::task::ready!(engine.as_mut().poll(cx));
        self.engine = None;
        Poll::Ready(result)
    }
}

impl http_body::Body for EventStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let chunk = self.poll_chunk(cx);
        chunk.map(|chunk| chunk.map(|bytes| Ok(Frame::data(bytes))))
    }
}
