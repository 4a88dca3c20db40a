//! The body of a streamed response: polling it runs the engine.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use adapters::fault::Fault;
use bytes::Bytes;
use http_body::Frame;

use super::sink::Slot;

/// An engine that writes to a slot. It tells a fault only if nothing was sent.
pub(super) type Engine = Pin<Box<dyn Future<Output = Result<(), Fault>> + Send>>;

/// A running engine and what it writes. Dropping it ends the turn.
pub(super) struct EventStream {
    engine: Option<Engine>,
    slot: Slot,
}

impl EventStream {
    pub(super) fn new(engine: Engine, slot: Slot) -> Self {
        Self {
            engine: Some(engine),
            slot,
        }
    }

    /// Waits for the first event: until it is there, a fault is still an HTTP
    /// status.
    pub(super) async fn committed(&mut self) -> Result<(), Fault> {
        std::future::poll_fn(|cx| match self.advance(cx) {
            Poll::Ready(result) => Poll::Ready(result),
            Poll::Pending if self.slot.is_empty() => Poll::Pending,
            Poll::Pending => Poll::Ready(Ok(())),
        })
        .await
    }

    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
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
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let mut over = false;
        if self.slot.is_empty() {
            over = self.advance(cx).is_ready();
        }
        match self.slot.take() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None if over => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}
