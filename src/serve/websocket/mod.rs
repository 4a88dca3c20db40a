//! WebSockets (RFC 6455): from the handshake to the end of the connection.
//!
//! | module | what it does |
//! |---|---|
//! | `handshake` | checks the request for an upgrade and hands the connection over |
//! | `reader` | reads messages within the limits of request bodies |
//! | `writer` | writes frames |
//! | `close` | why a connection ends, and with which code |
//!
//! Nothing is compressed: no extension is agreed on. The frames are read and written here,
//! because the memory of a message must count while it arrives, and must be free when it was
//! handed on.

mod close;
mod handshake;
mod reader;
mod writer;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

pub use close::{CloseCode, SocketEnd};
pub use handshake::{UpgradeSlot, WebSocketLimits, is_handshake, upgrade};
pub use reader::{Activity, Incoming, MessageReader, ReadResult, TextMessage};

use super::client_stream::ClientStream;
use crate::net::websocket_frame::FrameKind;
use crate::net::{ClientConnection, patience};
use writer::FrameWriter;

/// After this many pings without an answer the client counts as gone.
const UNANSWERED_PINGS: u32 = 8;
/// How many control frames a client may send between two pings of ours.
const CONTROL_FRAMES: u32 = 100;
/// How long a client may take to answer our close frame.
const CLOSE_ANSWER: Duration = Duration::from_secs(1);

/// The connection of a client after the handshake. The code that serves it polls it, and ends it
/// with [`close`](Self::close).
pub struct WebSocket {
    client: ClientConnection,
    reading: Reading,
    writer: FrameWriter,
    activity: Arc<Activity>,
    ping_interval: Duration,
    /// When the client is looked after again.
    timer: Pin<Box<Sleep>>,
    left: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The control frames since the last ping.
    control_frames: u32,
    /// Cancelled when the server shuts down and takes no new work.
    drain: CancellationToken,
}

/// A read under way. It owns the reader, which it gives back.
type Reading = Pin<Box<dyn Future<Output = (ClientReader, ReadResult)> + Send>>;
type ClientReader = MessageReader<ClientStream>;

async fn read(mut reader: ClientReader) -> (ClientReader, ReadResult) {
    let result = reader.next().await;
    (reader, result)
}

impl WebSocket {
    /// A connection whose handshake was answered. `begun` was read after it.
    pub(super) fn new(
        client: ClientConnection,
        begun: Bytes,
        limits: WebSocketLimits,
        write_timeout: Duration,
        drain: CancellationToken,
    ) -> Self {
        let activity = Arc::new(Activity::default());
        let stream = || ClientStream::new(client.clone(), write_timeout);
        let ping_interval = limits.ping_interval;
        let reader = MessageReader::new(stream(), begun, limits.messages, Arc::clone(&activity));
        let watched = client.clone();
        Self {
            reading: Box::pin(read(reader)),
            writer: FrameWriter::new(stream()),
            activity,
            ping_interval,
            timer: Box::pin(sleep_until(Instant::now() + ping_interval)),
            left: Box::pin(async move { watched.left().await }),
            control_frames: 0,
            drain,
            client,
        }
    }

    /// Cancelled when the server shuts down and takes no new work.
    pub fn drain(&self) -> &CancellationToken {
        &self.drain
    }

    /// Ends the connection at this time if it waits for the client to take bytes then.
    pub fn set_write_deadline(&self, deadline: Option<Instant>) {
        self.client.set_write_deadline(deadline);
    }

    /// Waits for the next message. Answers pings, and sends some to a silent client. An error ends
    /// the connection.
    pub fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<TextMessage, SocketEnd>> {
        loop {
            if self.timer.as_mut().poll(cx).is_ready() {
                self.look_after_client()?;
                continue;
            }
            let Poll::Ready((reader, result)) = self.reading.as_mut().poll(cx) else {
                break;
            };
            self.reading = Box::pin(read(reader));
            match result? {
                Incoming::Text(message) => return Poll::Ready(Ok(message)),
                Incoming::Ping(payload) => {
                    self.count_control_frame()?;
                    self.writer.push_control(FrameKind::Pong.with(&payload));
                }
                Incoming::Pong => self.count_control_frame()?,
                Incoming::Close(code) => return Poll::Ready(Err(SocketEnd::ByClient(code))),
            }
        }
        // A failed write is noticed when something is sent.
        let _ = self.writer.poll_flush(cx)?;
        // There may be unread bytes before the end.
        self.left.as_mut().poll(cx).map(|()| Err(SocketEnd::Gone))
    }

    fn count_control_frame(&mut self) -> Result<(), SocketEnd> {
        self.control_frames += 1;
        if self.control_frames > CONTROL_FRAMES {
            return Err(SocketEnd::TooManyControlFrames);
        }
        Ok(())
    }

    /// Pings a client that was silent for a while. One that stays silent is gone. While it takes
    /// nothing, the time limit of writes decides.
    fn look_after_client(&mut self) -> Result<(), SocketEnd> {
        if patience::is_late(self.timer.deadline(), Instant::now()) {
            // What the client sent meanwhile was not read.
            self.activity.begin_again();
        }
        let silent = self.activity.silent_for();
        self.control_frames = 0;
        if self.writer.is_idle() {
            if silent >= self.ping_interval * UNANSWERED_PINGS {
                return Err(SocketEnd::Silent);
            }
            if silent >= self.ping_interval {
                self.writer.push_control(FrameKind::Ping.with(b""));
            }
        }
        self.timer
            .as_mut()
            .reset(Instant::now() + self.ping_interval);
        Ok(())
    }

    /// Waits until everything is written that was sent.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SocketEnd>> {
        self.writer.poll_flush(cx)
    }

    /// Sends whole frames. Everything before them must be [written](Self::poll_flush), so that a
    /// slow client holds back the sender.
    pub fn send(&mut self, frames: Bytes) {
        self.writer.push(frames);
    }

    /// Ends the connection: writes what was sent and the close frame, and gives a client that did
    /// nothing wrong a moment to answer it.
    pub async fn close(mut self, end: SocketEnd) {
        let Some(code) = end.answer() else {
            return;
        };
        let reason = end.to_string();
        self.writer.push(close::frame(code, &reason).into());
        if poll_fn(|cx| self.poll_flush(cx)).await.is_err() || !end.awaits_answer() {
            return;
        }
        let answered = poll_fn(|cx| {
            loop {
                let (reader, result) = ready!(self.reading.as_mut().poll(cx));
                if !matches!(
                    result,
                    Ok(Incoming::Text(_) | Incoming::Ping(_) | Incoming::Pong)
                ) {
                    return Poll::Ready(());
                }
                self.reading = Box::pin(read(reader));
            }
        });
        timeout(CLOSE_ANSWER, answered).await.ok();
    }
}
