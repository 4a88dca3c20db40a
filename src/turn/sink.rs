//! The receivers of a turn's events. The engine is the same for every sink.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use adapters::fault::Fault;
use adapters::responses::event_buffer::{EventBuffer, EventDocument};
use axum::body::Body;
use bytes::Bytes;

use super::context::TurnContext;
use super::observer::TurnEvent;
use super::reply::ReplyBuilder;
use crate::net::websocket_frame::{FrameKind, MAX_FRAME_HEADER};
use crate::responses::ConnectionResponses;
use crate::store::{NewResponse, ToolChanges};
use parking_lot::Mutex;

/// The receiver of a turn's events. It frames the documents as its connection wants them. One type
/// for all of them, so that the engine is compiled once.
pub(super) enum Sink<'s> {
    /// Server-sent events.
    Sse(SseSink),
    /// Messages of a WebSocket.
    Message(&'s mut MessageSink),
    /// The log of a background response.
    Log(&'s mut LogSink),
    /// One JSON document.
    Json(&'s mut JsonSink),
}

impl Sink<'_> {
    /// Whether each event is sent at once. Then the first event commits the response headers, and
    /// heartbeats are sent while the provider is silent.
    pub(super) fn streams(&self) -> bool {
        match self {
            Self::Sse(_) | Self::Message(_) | Self::Log(_) => true,
            Self::Json(_) => false,
        }
    }

    /// Takes the events that were written, shows the observer what the client gets at once, and
    /// waits until there is room for more. Leaves the buffer empty.
    pub(super) async fn send(&mut self, events: &mut EventBuffer, ctx: &TurnContext) {
        match self {
            Self::Sse(sink) => sink.send(events, ctx).await,
            Self::Message(sink) => sink.send(events, ctx).await,
            Self::Log(sink) => sink.send(events).await,
            Self::Json(sink) => sink.keep(events),
        }
    }
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

    /// Puts a chunk there and waits until it was taken.
    async fn send(&self, chunk: Vec<u8>) {
        *self.0.lock() = Some(chunk.into());
        // The task that takes the chunk polls the engine afterwards, so no waker is needed.
        poll_fn(|_| {
            if self.is_empty() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

/// Sends events as server-sent events, through the slot that the response body reads.
pub(super) struct SseSink(pub(super) ChunkSlot);

impl SseSink {
    async fn send(&mut self, events: &mut EventBuffer, ctx: &TurnContext) {
        while !events.is_empty() {
            let count = chunk_events(events);
            let chunk = events.to_sse(count);
            // Only after the observer: if that panics, the events go out with the error.
            ctx.observe(TurnEvent::ClientBody(&chunk));
            events.remove_first(count);
            self.0.send(chunk).await;
        }
    }
}

/// Events of more bytes do not go out together, so that at most one large event is copied at a
/// time.
const CHUNK_BYTES: usize = 1 << 20;

/// How many of the events go out together: one at least.
fn chunk_events(events: &EventBuffer) -> usize {
    if events.json_len() <= CHUNK_BYTES {
        return events.len();
    }
    let mut bytes = 0;
    let fits = |event: &EventDocument<'_>| {
        bytes += event.json_len();
        bytes <= CHUNK_BYTES
    };
    events.documents().take_while(fits).count().max(1)
}

/// Sends each event as a message of a WebSocket, through the slot that its connection reads.
pub(super) struct MessageSink {
    pub(super) slot: ChunkSlot,
    /// The lane, which each message names.
    pub(super) stream_id: Option<String>,
    /// Shows the observer the head of the answer, once that has begun.
    pub(super) reply: Option<ReplyBuilder>,
    /// The id of the response that the turn continues. It is evicted if the turn fails.
    pub(super) continued: Option<String>,
    pub(super) connection: Arc<ConnectionResponses>,
}

impl MessageSink {
    /// Sends an error instead of a response.
    pub(super) async fn refuse(&mut self, fault: &Fault, codex: bool) {
        self.evict();
        let frames = error_message(fault, codex, self.stream_id.as_deref());
        self.slot.send(frames).await;
    }

    fn evict(&self) {
        if let Some(id) = &self.continued {
            self.connection.evict(id);
        }
    }

    /// The first `count` events as messages, in one frame each.
    fn frames(&self, events: &EventBuffer, count: usize) -> Vec<u8> {
        let lane = self.stream_id.as_deref();
        let lane = lane.map_or(String::new(), |lane| format!(",\"stream_id\":\"{lane}\"}}"));
        let framing = MAX_FRAME_HEADER + lane.len();
        let documents = || events.documents().take(count);
        let size: usize = documents().map(|event| event.json_len() + framing).sum();
        let mut frames = Vec::with_capacity(size);
        for event in documents() {
            // The lane takes the place of the brace at the end.
            let brace = usize::from(!lane.is_empty());
            let length = event.json_len().saturating_sub(brace);
            FrameKind::Text.push_header(&mut frames, length + lane.len());
            event.push_json(&mut frames);
            frames.truncate(frames.len() - brace);
            frames.extend_from_slice(lane.as_bytes());
        }
        frames
    }

    async fn send(&mut self, events: &mut EventBuffer, ctx: &TurnContext) {
        if events
            .documents()
            .any(|event| event.name == "response.failed")
        {
            self.evict();
        }
        while !events.is_empty() {
            let count = chunk_events(events);
            let frames = self.frames(events, count);
            if ctx.environment.observer.is_some() {
                // A turn is recorded, and replayed, as one over HTTP.
                ctx.observe(TurnEvent::ClientBody(&events.to_sse(count)));
            }
            events.remove_first(count);
            if let Some(reply) = self.reply.take() {
                reply.stream(Body::empty());
            }
            self.slot.send(frames).await;
        }
    }
}

/// A fault as the frame of an error message, as OpenAI sends it: with the status that it would have
/// over HTTP, and the headers of that which say when to ask again.
pub fn error_message(fault: &Fault, codex: bool, stream_id: Option<&str>) -> Vec<u8> {
    let status = fault.status(codex);
    let lane = stream_id.map_or(String::new(), |lane| format!("\"stream_id\":\"{lane}\","));
    let headers = fault.retry_after().map_or(String::new(), |seconds| {
        format!("\"headers\":{{\"retry-after\":\"{seconds}\"}},")
    });
    let body = fault.message_body();
    let error = String::from_utf8_lossy(&body);
    let error = error.strip_prefix('{').unwrap_or("}");
    let message = format!("{{\"type\":\"error\",\"status\":{status},{lane}{headers}{error}");
    FrameKind::Text.with(message.as_bytes())
}

/// The log of the events of a background response. The engine writes to it; any number of clients
/// read it.
pub trait EventLog: Send + Sync {
    /// Takes the first `count` events, in their order. If too many are not on the disk, the future
    /// that it returns waits for them.
    fn append<'l>(&'l self, events: &EventBuffer, count: usize) -> Option<LogFuture<'l>>;

    /// Stores the events so far together with what tools have done.
    fn checkpoint(&self, tools: ToolChanges) -> LogFuture<'_>;

    /// Stores the last events together with the response, which has ended.
    fn finish<'l>(&'l self, events: &'l EventBuffer, response: NewResponse) -> LogFuture<'l>;
}

/// A part of a log that is being written; true if it is on the disk. Events that cannot be written
/// now stay in memory and are tried again.
pub type LogFuture<'l> = Pin<Box<dyn Future<Output = bool> + Send + 'l>>;

/// Sends events to the log of a background response. The last ones are there already, with the
/// response.
pub(super) struct LogSink {
    pub(super) log: Arc<dyn EventLog>,
    /// The final response object as JSON, for the observer.
    pub(super) response: Option<Vec<u8>>,
}

impl LogSink {
    pub(super) fn new(log: Arc<dyn EventLog>) -> Self {
        Self {
            log,
            response: None,
        }
    }

    async fn send(&mut self, events: &mut EventBuffer) {
        match events.final_response() {
            Some(response) => self.response = Some(response.into_owned()),
            None => log_events(&*self.log, events, events.len()).await,
        }
        events.clear();
    }
}

/// Moves the first `count` events to a log, large ones one after the other.
pub(super) async fn log_events(log: &dyn EventLog, events: &mut EventBuffer, count: usize) {
    let mut left = count;
    while left > 0 {
        let now = chunk_events(events).min(left);
        let written = log.append(events, now);
        events.remove_first(now);
        left -= now;
        if let Some(written) = written {
            written.await;
        }
    }
}

/// Keeps the final response object as JSON and ignores the events before it.
#[derive(Default)]
pub(super) struct JsonSink(pub(super) Option<Vec<u8>>);

impl JsonSink {
    fn keep(&mut self, events: &mut EventBuffer) {
        if let Some(response) = events.final_response() {
            self.0 = Some(response.into_owned());
        }
        events.clear();
    }
}
