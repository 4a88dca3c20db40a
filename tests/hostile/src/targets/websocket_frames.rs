//! `websocket_frames`: what a client sends after the handshake of a WebSocket.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use respondent::net::memory::{MemoryKind, ProcessMemory};
use respondent::serve::BodyLimits;
use respondent::serve::websocket::{Activity, CloseCode, Incoming, MessageReader, SocketEnd};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::runtime::{Builder, Runtime};

/// The largest message. Small, so that short inputs exceed it.
const MAX: usize = 256;
/// The memory is counted in steps of this size.
const STEP: usize = 64 * 1024;
/// The longest payload of a control frame.
const MAX_CONTROL: usize = 125;

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
}

pub(super) fn run(input: &[u8]) {
    let whole = read(input, 0, input.len());
    for piece in [1, 2, 3, 7, 64] {
        assert_eq!(read(input, 0, piece), whole, "in reads of {piece} bytes");
    }
    for begun in [input.len() / 3, input.len()] {
        let what = "with the handshake";
        assert_eq!(read(input, begun, 16), whole, "{begun} bytes {what}");
    }
}

/// What a client has sent, in its order.
#[derive(Debug, PartialEq)]
enum Sent {
    Text(String),
    Ping(Vec<u8>),
    Pong,
    Close(Option<CloseCode>),
    End(SocketEnd),
}

/// Reads everything. The first `begun` bytes come with the handshake, the others in reads of at
/// most `piece` bytes.
fn read(input: &[u8], begun: usize, piece: usize) -> Vec<Sent> {
    let (begun, rest) = input.split_at(begun);
    let memory = ProcessMemory::new(usize::MAX);
    let limits = BodyLimits {
        max: MAX,
        memory: memory.clone(),
        ..BodyLimits::default()
    };
    let pieces = Pieces {
        left: rest,
        size: piece.max(1),
        is_ready: false,
        memory: memory.clone(),
    };
    let begun = begun.to_vec().into();
    let mut reader = MessageReader::new(pieces, begun, limits, Arc::<Activity>::default());
    let mut sent = Vec::new();
    while !matches!(sent.last(), Some(Sent::End(_) | Sent::Close(_))) {
        sent.push(
            match RUNTIME.with(|runtime| runtime.block_on(reader.next())) {
                Ok(Incoming::Text(message)) => {
                    let counted = memory.used_for(MemoryKind::Requests);
                    assert!(message.text.len() <= MAX, "{} bytes", message.text.len());
                    assert!(counted >= 2 * message.text.len(), "{counted} are counted");
                    assert!(message.text.capacity() <= MAX);
                    drop(message.memory);
                    assert_eq!(memory.used(), 0, "after a message");
                    Sent::Text(message.text)
                }
                Ok(Incoming::Ping(payload)) => {
                    assert!(payload.len() <= MAX_CONTROL);
                    Sent::Ping(payload)
                }
                Ok(Incoming::Pong) => Sent::Pong,
                Ok(Incoming::Close(code)) => Sent::Close(code),
                Err(end) => Sent::End(end),
            },
        );
    }
    drop(reader);
    assert_eq!(memory.used(), 0, "after the connection");
    sent
}

/// A connection that gives a piece of what is left at every other time that it is asked.
struct Pieces<'i> {
    left: &'i [u8],
    size: usize,
    is_ready: bool,
    memory: ProcessMemory,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let counted = self.memory.used();
        assert!(
            counted <= MAX + STEP,
            "{counted} are counted within a message"
        );
        self.is_ready = !self.is_ready;
        if self.is_ready {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let size = self.size.min(self.left.len()).min(buffer.remaining());
        let (piece, left) = self.left.split_at(size);
        buffer.put_slice(piece);
        self.left = left;
        Poll::Ready(Ok(()))
    }
}
