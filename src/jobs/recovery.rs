//! The runs that an earlier process has left: those that had not begun wait again, those that had
//! begun end as failed.

use std::sync::Arc;

use adapters::responses::assembler::open_item::close_open_item;
use adapters::responses::assembler::stored_end::{
    end_stored, finished_item, item_id_of, write_terminal_event,
};
use adapters::responses::event_buffer::EventBuffer;
use adapters::responses::request::TurnSource;
use adapters::turn::Continuation;
use bytes::Bytes;

use super::log::{JobLog, store_end};
use super::queue::{JobQueue, SharedQueue};
use super::run::WaitingRun;
use crate::clock::{Clock, System};
use crate::store::{
    EventBatch, JobState, NewItem, NewResponse, ResponseText, StoreError, StoredOrigin,
    UnfinishedJob,
};
use crate::turn::ResponseIdentity;

/// What the client reads of a run that the end of the process has ended.
pub(super) const INTERRUPTED: &str = "The server ended while it answered this request, so the answer is not complete: send the request again.";

impl JobQueue {
    /// Takes up the runs that an earlier process has left. Nothing of them is lost if this fails:
    /// the next start tries again.
    pub async fn recover(&self) {
        let shared = self.shared();
        let left = match shared.store.unfinished_jobs().await {
            Ok(left) => left,
            Err(error) => {
                tracing::warn!(
                    "the background responses of an earlier run cannot be read: {error}"
                );
                return;
            }
        };
        for job in left {
            let (id, state) = (job.id.clone(), job.state);
            let taken = match state {
                JobState::Queued => shared.wait_again(job).await,
                JobState::Running | JobState::Ended => shared.end_interrupted(job).await,
            };
            if let Err(error) = taken {
                tracing::warn!("the background response {id} cannot be taken up: {error}");
            }
        }
    }
}

impl SharedQueue {
    async fn wait_again(self: &Arc<Self>, job: UnfinishedJob) -> Result<(), StoreError> {
        let documents = self.documents(&job).await?;
        let owner: Arc<str> = job.owner.as_str().into();
        let log = JobLog::new(
            Arc::clone(&owner),
            job.id.clone(),
            (Arc::clone(&self.store), self.webhooks.clone()),
            documents.into_iter().map(Bytes::from),
        );
        let continues = continuation(&job.request);
        let busy = match &continues {
            Some(Continuation::Conversation(id)) => {
                self.service.responses().begin_turn(&owner, id).ok()
            }
            Some(Continuation::Response(_)) | None => None,
        };
        self.count_queued(&owner);
        self.add(WaitingRun {
            owner,
            identity: ResponseIdentity {
                id: job.id,
                created_at: job.created,
            },
            text: job.text,
            request: Arc::new(job.request),
            headers: job.headers,
            busy,
            log: Arc::new(log),
        });
        Ok(())
    }

    /// Ends a run that had begun. Its response has the items that were finished and written.
    async fn end_interrupted(&self, job: UnfinishedJob) -> Result<(), StoreError> {
        let documents = self.documents(&job).await?;
        // An item that was open is closed with what was written of it.
        let first = documents.len() as u64;
        let mut last = EventBuffer::default();
        let sequence = close_open_item(&documents, first, &mut last);
        let written = documents.iter().map(String::as_bytes);
        let events = written.chain(last.documents().map(|event| event.json));
        let items: Vec<String> = events.filter_map(finished_item).collect();
        let texts: Vec<&str> = items.iter().map(String::as_str).collect();
        let error = Some(("server_error", INTERRUPTED));
        let ended = end_stored(&job.text.head, &job.text.tail, error);
        let status = ended.status;
        let text = ResponseText {
            head: ended.head,
            tail: ended.tail,
            parameters: job.text.parameters,
        };
        let rest = text.rest();
        write_terminal_event(status, sequence, &text.head, &texts, &rest, &mut last);
        let origin = match continuation(&job.request) {
            None => StoredOrigin::Nothing,
            Some(Continuation::Response(id)) => StoredOrigin::Response(id),
            Some(Continuation::Conversation(id)) => StoredOrigin::BesideConversation(id),
        };
        let source = TurnSource::new(job.request);
        let own = source.own_items(&job.id).unwrap_or_default();
        let (created, now) = (job.created, System.unix());
        let response = NewResponse {
            origin,
            input: own.into_iter().map(NewItem::from).collect(),
            output: items
                .into_iter()
                .map(|json| NewItem {
                    id: item_id_of(&json),
                    json,
                })
                .collect(),
            ..NewResponse::without_items(&job.owner, &job.id, created, text, status, now)
        };
        let last = EventBatch::new(first, last.documents().map(|event| event.json));
        store_end(&self.store, &self.webhooks, response, last).await
    }

    /// The events of a run that are on the disk.
    async fn documents(&self, job: &UnfinishedJob) -> Result<Vec<String>, StoreError> {
        let mut documents: Vec<String> = Vec::new();
        let mut after = None;
        loop {
            let batches = self.store.events_after(&job.owner, &job.id, after).await?;
            let Some(last) = batches.last() else {
                return Ok(documents);
            };
            after = Some(last.last);
            let lines = batches.iter().flat_map(|batch| batch.documents.lines());
            documents.extend(lines.map(str::to_owned));
        }
    }
}

/// What a stored request continues.
fn continuation(request: &str) -> Option<Continuation> {
    let source = TurnSource::new(request.to_owned());
    let turn = source.turn().ok()?;
    turn.continues.clone()
}
