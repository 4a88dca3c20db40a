//! A response body whose bytes count in the memory budget until the client has taken them.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::net::memory::{MemoryKind, ProcessMemory, STEP};

/// Tells the edge, in the extensions of a response, that the bytes of its body hold their share.
#[derive(Clone, Copy, Debug)]
pub struct BodyIsCounted;

/// Counts the body of a response if it is large and complete.
pub(super) fn count_body(response: Response<Body>, memory: &ProcessMemory) -> Response<Body> {
    let size = response.body().size_hint().exact();
    let is_counted = response.extensions().get::<BodyIsCounted>().is_some();
    if is_counted || size.is_none_or(|size| size < STEP as u64) {
        return response;
    }
    response.map(|inner| {
        Body::new(CountedBody {
            inner,
            memory: memory.clone(),
        })
    })
}

struct CountedBody {
    inner: Body,
    memory: ProcessMemory,
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.inner).poll_frame(cx);
        // The bytes have the share, not the body, which is dropped with its last frame: that may
        // still wait in the connection for the client.
        let count = |bytes| self.memory.count_bytes(MemoryKind::Answers, bytes);
        frame.map_ok(|frame| frame.map_data(count))
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}
