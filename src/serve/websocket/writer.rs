//! Writes frames to the client.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::AsyncWrite as _;

use super::SocketEnd;
use crate::serve::client_stream::ClientStream;

/// The most control frames that wait to be written. Of the pongs to a flood of pings the later ones
/// are left out.
const WAITING_CONTROLS: usize = 16;

/// The writing half of a connection.
pub(super) struct FrameWriter {
    stream: ClientStream,
    /// Whole frames. The first may be written in part.
    frames: VecDeque<Bytes>,
}

impl FrameWriter {
    pub(super) fn new(stream: ClientStream) -> Self {
        Self {
            stream,
            frames: VecDeque::new(),
        }
    }

    /// Whether everything is written.
    pub(super) fn is_idle(&self) -> bool {
        self.frames.is_empty()
    }

    /// Adds whole frames.
    pub(super) fn push(&mut self, frames: Bytes) {
        self.frames.push_back(frames);
    }

    /// Adds a control frame.
    pub(super) fn push_control(&mut self, frame: Vec<u8>) {
        if self.frames.len() < WAITING_CONTROLS {
            self.frames.push_back(frame.into());
        }
    }

    /// Writes what there is.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SocketEnd>> {
        while let Some(frames) = self.frames.front_mut() {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, frames)) {
                Ok(0) | Err(_) => return Poll::Ready(Err(SocketEnd::Gone)),
                Ok(written) => frames.advance(written),
            }
            if frames.is_empty() {
                self.frames.pop_front();
            }
        }
        Poll::Ready(Ok(()))
    }
}
