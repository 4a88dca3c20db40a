//! Background responses, as the engine sees them: the queue that accepts their requests, and what
//! their turns get.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use adapters::fault::Fault;
use adapters::responses::event_buffer::EventBuffer;
use axum::body::Body;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::caller::CALLER_HEADERS;
use super::sink::{EventLog, LogFuture};
use super::workflow::ResumedResponse;
use crate::net::AdmittedBy;
use crate::net::memory::MemoryShare;
use crate::responses::BusyConversation;
use crate::store::{NewResponse, ResponseText, ToolChanges};

/// Takes the requests for background responses and runs them later. Part of the service; a replay
/// has none.
pub trait BackgroundQueue: Send + Sync {
    /// Takes a request. Resolves to its response once the request is stored.
    fn accept(&self, job: AcceptedJob) -> QueueFuture<'_>;
}

/// A request that is being taken.
pub type QueueFuture<'q> = Pin<Box<dyn Future<Output = Result<Response<Body>, Fault>> + Send + 'q>>;

/// A request for a background response that was found to be valid.
pub struct AcceptedJob {
    /// The owner.
    pub owner: Arc<str>,
    /// What let the request in.
    pub by: AdmittedBy,
    /// The response.
    pub identity: ResponseIdentity,
    /// The response as JSON, which is queued.
    pub response: Vec<u8>,
    /// The same in the pieces that are stored.
    pub text: ResponseText,
    /// The first events.
    pub events: EventBuffer,
    /// The body of the request.
    pub request: String,
    /// The memory of it all.
    pub memory: MemoryShare,
    /// The headers that decide how the turn runs, as JSON.
    pub headers: String,
    /// Whether the client wants the events.
    pub stream: bool,
    /// The conversation that no other turn may use meanwhile.
    pub busy: Option<BusyConversation>,
}

/// The id of a response, and when it was created, in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ResponseIdentity {
    /// The id.
    pub id: String,
    /// The time.
    pub created_at: u64,
}

/// What the job of a background response is given. Made when it begins; it ends with its last
/// event.
#[derive(Clone)]
pub struct BackgroundJob {
    /// Takes the events.
    pub log: Arc<dyn EventLog>,
    /// Cancelled when the client cancels the answer.
    pub cancelled: CancellationToken,
    /// The answer has ended and is being stored, so that it cannot be cancelled any more.
    pub has_ended: Arc<AtomicBool>,
    /// The answer has not ended, and the next process goes on with it.
    pub is_left: Arc<AtomicBool>,
    /// The conversation that no other turn may use meanwhile, until the turn takes it.
    pub busy: Arc<Mutex<Option<BusyConversation>>>,
    /// What an earlier process has done of it, until the turn takes it.
    pub resumed: Arc<Mutex<Option<ResumedResponse>>>,
}

impl BackgroundJob {
    /// Takes what an earlier process has done of the answer, if it had begun.
    pub(super) fn take_resumed(&self) -> Option<ResumedResponse> {
        self.resumed
            .lock()
            .take()
            .filter(ResumedResponse::has_begun)
    }

    /// The job of a recorded answer that is replayed: no client reads its events.
    pub(super) fn replayed() -> Self {
        Self {
            log: Arc::new(UnreadLog),
            cancelled: CancellationToken::new(),
            has_ended: Arc::default(),
            is_left: Arc::default(),
            busy: Arc::default(),
            resumed: Arc::default(),
        }
    }
}

/// A log without readers.
struct UnreadLog;

impl EventLog for UnreadLog {
    fn append<'l>(&'l self, _: &EventBuffer, _: usize) -> Option<LogFuture<'l>> {
        None
    }

    fn checkpoint(&self, _: ToolChanges) -> LogFuture<'_> {
        Box::pin(ready(true))
    }

    fn finish<'l>(&'l self, _: &'l EventBuffer, _: NewResponse) -> LogFuture<'l> {
        Box::pin(ready(true))
    }
}

/// The headers that decide how a turn runs, as JSON.
pub(super) fn kept_headers(headers: &HeaderMap) -> String {
    let kept = CALLER_HEADERS.iter().filter_map(|name| {
        let value = headers.get(name)?.to_str().ok()?;
        Some((name.as_str(), value))
    });
    let kept: Vec<(&str, &str)> = kept.collect();
    serde_json::to_string(&kept).unwrap_or_else(|_| "[]".to_owned())
}

/// The headers of a stored request.
pub fn restored_headers(json: &str) -> HeaderMap {
    let kept: Vec<(String, String)> = serde_json::from_str(json).unwrap_or_default();
    let kept = kept.into_iter().filter_map(|(name, value)| {
        let name = HeaderName::try_from(name).ok()?;
        Some((name, HeaderValue::try_from(value).ok()?))
    });
    kept.collect()
}
