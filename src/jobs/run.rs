//! One run of a background response.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::http::Request;
use futures_util::FutureExt;
use http::Method;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::log::{EngineLog, JobLog};
use super::queue::SharedQueue;
use crate::clock::System;
use crate::net::RequestId;
use crate::net::memory::MemoryKind;
use crate::responses::BusyConversation;
use crate::store::ResponseText;
use crate::turn::{
    BackgroundRun, ReceivedBody, ResponseIdentity, restored_headers, run_in_background,
};

/// A run that waits for its turn. Made when its request is accepted, or by the next process.
pub(super) struct WaitingRun {
    pub(super) owner: Arc<str>,
    pub(super) identity: ResponseIdentity,
    /// The response as it is stored.
    pub(super) text: ResponseText,
    /// The body of the request.
    pub(super) request: Arc<String>,
    /// The headers that decide how the turn runs, as JSON.
    pub(super) headers: String,
    pub(super) busy: Option<BusyConversation>,
    pub(super) log: Arc<JobLog>,
}

/// Runs a response to its end.
pub(super) async fn run(
    shared: &Arc<SharedQueue>,
    mut waiting: WaitingRun,
    cancelled: CancellationToken,
) {
    let (owner, id) = (Arc::clone(&waiting.owner), &waiting.identity.id);
    if !shared.service.config.load().clients.is_owner(&owner) {
        let message = "The client that sent this request is no longer in the configuration.";
        let error = Some(("invalid_api_key", message));
        return shared.end_waiting(waiting, error).await;
    }
    let text = in_progress(&waiting.text);
    let claimed = shared
        .store
        .claim_job(&owner, id, text, System.unix_ms())
        .await;
    match claimed {
        Ok(true) => {}
        // It was deleted in this moment: its clients get the end all the same.
        Ok(false) => return shared.end_waiting(waiting, None).await,
        Err(error) => {
            let message = format!("The response could not be begun: {error}.");
            let error = Some(("server_error", message.as_str()));
            return shared.end_waiting(waiting, error).await;
        }
    }
    let log = Arc::clone(&waiting.log);
    let writer = Arc::clone(&log);
    let _writer = AbortOnDropHandle::new(tokio::spawn(async move { writer.write_events().await }));
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = http::Uri::from_static("/v1/responses");
    *request.headers_mut() = restored_headers(&waiting.headers);
    request.extensions_mut().insert(RequestId::random());
    let (head, ()) = request.into_parts();
    let mut memory = shared.memory.share(MemoryKind::Requests);
    memory.set(waiting.request.len());
    let body = ReceivedBody {
        text: Arc::unwrap_or_clone(std::mem::take(&mut waiting.request)),
        memory,
    };
    let background = BackgroundRun {
        log: Arc::new(EngineLog(Arc::clone(&log))),
        cancelled,
        has_ended: Arc::default(),
        busy: Arc::new(Mutex::new(waiting.busy.take())),
    };
    let identity = waiting.identity.clone();
    let turn = run_in_background(&shared.service, owner, &head, body, identity, background);
    // A panic ends the turn; what it has stored as ended stays.
    AssertUnwindSafe(turn).catch_unwind().await.ok();
    if !log.has_ended() {
        let message = "Respondent ran into a defect while it answered this request.";
        shared
            .end_waiting(waiting, Some(("server_error", message)))
            .await;
    }
}

/// The response when it has begun.
fn in_progress(text: &ResponseText) -> ResponseText {
    ResponseText {
        head: text
            .head
            .replacen("\"status\":\"queued\"", "\"status\":\"in_progress\"", 1),
        ..text.clone()
    }
}
