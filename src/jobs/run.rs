//! The job of a background response.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use adapters::fault::Fault;
use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::log::{EngineLog, JobLog};
use super::queue::SharedQueue;
use crate::clock::System;
use crate::net::RequestId;
use crate::net::memory::{CountedValue, MemoryKind};
use crate::responses::BusyConversation;
use crate::store::{ResponseText, StoreError, ToolChanges, UnfinishedJob};
use crate::turn::{
    BackgroundJob, ReceivedBody, ResponseIdentity, ResumedResponse, TurnRequest, restored_headers,
    run_in_background,
};

/// A job that waits for its turn. Made when its request is accepted, or by the next process. The
/// request is on the disk until the job begins.
pub(super) struct WaitingJob {
    pub(super) owner: Arc<str>,
    pub(super) identity: ResponseIdentity,
    pub(super) busy: Option<BusyConversation>,
    pub(super) log: Arc<JobLog>,
    /// What an earlier process has done of it.
    pub(super) resumed: Option<ResumedResponse>,
}

/// Runs a response to its end.
pub(super) async fn run(
    shared: &Arc<SharedQueue>,
    mut waiting: WaitingJob,
    cancelled: CancellationToken,
) {
    let (owner, id) = (Arc::clone(&waiting.owner), &waiting.identity.id);
    if !shared.service.config.load().clients.is_owner(&owner) {
        let message = "The client that sent this request is no longer in the configuration.";
        let error = Some(("invalid_api_key", message));
        return shared.end_waiting(waiting, error).await;
    }
    let claimed = cancelled.run_until_cancelled(claim(shared, &owner, id));
    let job = match claimed.await {
        Some(Ok(Some(job))) => job,
        // It was cancelled or deleted at this moment: its clients still get the end.
        None | Some(Ok(None)) => return shared.end_waiting(waiting, None).await,
        Some(Err(error)) => {
            let message = format!("The response could not be begun: {error}.");
            let error = Some(("server_error", message.as_str()));
            return shared.end_waiting(waiting, error).await;
        }
    };
    let log = Arc::clone(&waiting.log);
    let writer = Arc::clone(&log);
    let _writer = AbortOnDropHandle::new(tokio::spawn(async move { writer.write_events().await }));
    let request = TurnRequest {
        id: RequestId::random().0,
        headers: restored_headers(&job.headers),
        owner: Arc::clone(&owner),
        ..TurnRequest::default()
    };
    let (UnfinishedJob { request: text, .. }, share) = job.into_parts();
    let mut memory = shared.memory.of_owner(&owner).share(MemoryKind::Requests);
    memory.set(text.len().saturating_mul(2));
    drop(share);
    let body = ReceivedBody { text, memory };
    let background = BackgroundJob {
        log: Arc::new(EngineLog(Arc::clone(&log))),
        cancelled,
        has_ended: Arc::default(),
        is_left: Arc::default(),
        busy: Arc::new(Mutex::new(waiting.busy.take())),
        resumed: Arc::new(Mutex::new(waiting.resumed.take())),
    };
    let is_left = Arc::clone(&background.is_left);
    let identity = waiting.identity.clone();
    let turn = run_in_background(&shared.service, request, body, identity, background);
    // A panic ends the turn; what it has stored as ended stays.
    AssertUnwindSafe(turn).catch_unwind().await.ok();
    if is_left.load(Relaxed) {
        if let Err(error) = log.write(ToolChanges::default()).await {
            tracing::debug!("the last events of a workflow cannot be written: {error}");
        }
        return;
    }
    if !log.has_ended() {
        let defect = Fault::defect();
        let error = Some((defect.response_code(false), defect.message.as_str()));
        shared.end_waiting(waiting, error).await;
    }
}

/// Reads a job that waits, and takes it; `None` if it does not wait any more.
async fn claim(
    shared: &SharedQueue,
    owner: &str,
    id: &str,
) -> Result<Option<CountedValue<UnfinishedJob>>, StoreError> {
    let Some(job) = shared.waiting_job(owner, id).await? else {
        return Ok(None);
    };
    let text = in_progress(&job.text);
    let claimed = shared.store.claim_job(owner, id, text, System.unix_ms());
    Ok(claimed.await?.then_some(job))
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
