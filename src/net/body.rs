//! The body of every HTTP response of this server.
use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

/// The body of a response: complete, or a stream that is polled as the client reads.
pub enum Body {
    /// The complete body; `None` after it was taken by the connection, or if it is empty.
    Full(Option<Bytes>),
    /// A body that is produced while it is sent. An error closes the connection without
    /// the end of the body, so that the client notices.
    Stream(Pin<Box<dyn HttpBody<Data = Bytes, Error = io::Error> + Send>>),
}

impl Body {
    /// A complete body.
    pub fn full(content: impl Into<Bytes>) -> Self {
        Self::Full(Some(content.into()))
    }

    /// An empty body.
    pub fn empty() -> Self {
        Self::Full(None)
    }

    /// A body that is produced while it is sent.
    pub fn stream(stream: impl HttpBody<Data = Bytes, Error = io::Error> + Send + 'static) -> Self {
        Self::Stream(Box::pin(stream))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            Self::Full(content) => Poll::Ready(
                content
                    .take()
                    .filter(|content| !content.is_empty())
                    .map(|content| Ok(Frame::data(content))),
            ),
            Self::Stream(stream) => stream.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(content) => content.as_ref().is_none_or(Bytes::is_empty),
            Self::Stream(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(content) => {
                SizeHint::with_exact(content.as_ref().map_or(0, |content| content.len() as u64))
            }
            Self::Stream(stream) => stream.size_hint(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Body::Full",
            Self::Stream(_) => "Body::Stream",
        })
    }
}
