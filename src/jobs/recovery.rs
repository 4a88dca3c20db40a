//! The jobs that an earlier process has left: those that had not begun wait again, and those that
//! had begun end as failed, but for workflows, which go on.

use std::sync::Arc;

use adapters::responses::assembler::open_item::OpenLogItem;
use adapters::responses::assembler::stored_end::{
    end_stored, finished_item, item_id_of, write_terminal_event,
};
use adapters::responses::event_buffer::EventBuffer;
use adapters::responses::request::TurnSource;
use adapters::turn::Continuation;
use adapters::workflow::{WorkflowRun, node_of_event};

use super::log::{EngineLog, JobLog, store_end};
use super::queue::{JobQueue, SharedQueue};
use super::run::WaitingJob;
use crate::clock::{Clock, System};
use crate::net::memory::{CountedValue, MemoryKind};
use crate::store::{
    EventBatch, JobState, NewItem, NewResponse, ResponseText, StoreError, StoredOrigin,
    ToolChanges, UnfinishedJob,
};
use crate::turn::{EventLog as _, ResponseIdentity, ResumedResponse, Session};

/// What the client reads of a job that the end of the process has ended.
const INTERRUPTED: &str = "The server ended while it answered this request, so the answer is not complete: send the request again.";

impl JobQueue {
    /// Takes up the jobs that an earlier process has left. Nothing of them is lost if this fails:
    /// the next start tries again.
    pub async fn recover(&self) {
        let shared = self.shared();
        let left = match shared.store.unfinished_jobs().await {
            Ok(left) => left,
            Err(error) => {
                tracing::warn!(
                    "the background responses of an earlier process cannot be read: {error}"
                );
                return;
            }
        };
        for (owner, id) in left {
            if let Err(error) = shared.take_up(&owner, &id).await {
                tracing::warn!("the background response {id} cannot be taken up: {error}");
            }
        }
    }
}

impl SharedQueue {
    async fn take_up(self: &Arc<Self>, owner: &str, id: &str) -> Result<(), StoreError> {
        let Some(job) = self.store.unfinished_job(owner, id).await? else {
            return Ok(());
        };
        if let Some(run) = WorkflowRun::read(&job.request) {
            return self.resume(job, run).await;
        }
        match job.state {
            JobState::Queued => self.wait_again(job).await,
            JobState::Running | JobState::Ended => self.end_interrupted(job).await,
        }
    }

    async fn wait_again(
        self: &Arc<Self>,
        job: CountedValue<UnfinishedJob>,
    ) -> Result<(), StoreError> {
        let mut events = 0;
        self.each_event(&job, |_| events += 1).await?;
        let log = Arc::new(self.log_of(&job, events));
        self.wait_for_turn(&job, log, None);
        Ok(())
    }

    /// Lets a workflow go on where its events on the disk end. What was open there is closed with
    /// what was written of it.
    async fn resume(
        self: &Arc<Self>,
        job: CountedValue<UnfinishedJob>,
        run: WorkflowRun,
    ) -> Result<(), StoreError> {
        let mut resumed = ResumedResponse::default();
        let mut open = OpenLogItem::default();
        let mut memory = self.memory.of_owner(&job.owner).share(MemoryKind::Answers);
        let mut bytes: usize = 0;
        let mut to_remember = Vec::new();
        self.each_event(&job, |event| {
            resumed.sequence += 1;
            open.take(event);
            let item = finished_item(event.as_bytes()).map(|item| (item_id_of(&item), item));
            let node = node_of_event(event);
            if item.is_some() || node.is_some() {
                bytes = bytes.saturating_add(event.len());
                memory.set(bytes.saturating_mul(3));
                to_remember.push(event.to_owned());
            }
            resumed.items.extend(item);
            resumed.nodes.extend(node);
        })
        .await?;
        let log = self.log_of(&job, resumed.sequence);
        let log = log.after_restarts(Some(run.progress));
        for event in &to_remember {
            log.remember(event);
        }
        let mut closing = EventBuffer::default();
        resumed.sequence = open.close(resumed.sequence, &mut closing);
        for event in closing.documents() {
            let item = finished_item(&event.json());
            let item = item.map(|item| (item_id_of(&item), item));
            resumed.items.extend(item);
        }
        let log = Arc::new(log);
        EngineLog(Arc::clone(&log)).append(&closing, closing.len());
        log.write(ToolChanges::default()).await?;
        if let Some(places) = self.store.queue_again(&job.owner, &job.id).await? {
            resumed.tool_places = places;
            self.wait_for_turn(&job, log, Some(resumed));
        }
        Ok(())
    }

    /// The log of a job with this many events.
    fn log_of(&self, job: &UnfinishedJob, events: u64) -> JobLog {
        JobLog::new(
            (job.owner.as_str().into(), job.id.clone()),
            (Arc::clone(&self.store), self.webhooks.clone()),
            &self.memory,
            events,
        )
    }

    fn wait_for_turn(
        self: &Arc<Self>,
        job: &UnfinishedJob,
        log: Arc<JobLog>,
        resumed: Option<ResumedResponse>,
    ) {
        let owner: Arc<str> = job.owner.as_str().into();
        let continues = continuation(&TurnSource::new(job.request.clone()));
        let busy = match &continues {
            Some(Continuation::Conversation(id)) => {
                self.service.responses().begin_turn(&owner, id).ok()
            }
            Some(Continuation::Response(_)) | None => None,
        };
        self.count_queued(&owner);
        self.add(WaitingJob {
            owner,
            identity: ResponseIdentity {
                id: job.id.clone(),
                created_at: job.created,
            },
            busy,
            log,
            resumed,
        });
    }

    /// Ends a job that had begun. Its response has the items that were finished and written.
    async fn end_interrupted(&self, job: CountedValue<UnfinishedJob>) -> Result<(), StoreError> {
        let mut first = 0;
        let mut open = OpenLogItem::default();
        let mut items: Vec<String> = Vec::new();
        // Its end has to be written whatever the limit. Items are written and sent as well.
        let mut memory = self.memory.of_owner(&job.owner).share(MemoryKind::Answers);
        let mut bytes: usize = 0;
        self.each_event(&job, |event| {
            first += 1;
            open.take(event);
            if let Some(item) = finished_item(event.as_bytes()) {
                bytes = bytes.saturating_add(item.len());
                memory.set(bytes.saturating_mul(2));
                items.push(item);
            }
        })
        .await?;
        let (job, _request_memory) = job.into_parts();
        // An item that was open is closed with what was written of it.
        let mut last = EventBuffer::default();
        let sequence = open.close(first, &mut last);
        let closed = last
            .documents()
            .filter_map(|event| finished_item(&event.json()));
        items.extend(closed);
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
        let source = TurnSource::new(job.request);
        // By its session the next turn finds what tools have returned in the rounds that ended.
        let session = Session::of_stored_request(&job.headers, &job.owner, &source);
        let session = session.map_or_else(|| job.id.clone(), |session| session.id);
        let (origin, input) = requested(&source, &job.id);
        let (created, now) = (job.created, System.unix());
        let response = NewResponse {
            session,
            origin,
            input,
            output: items
                .into_iter()
                .map(|json| NewItem {
                    id: item_id_of(&json),
                    json,
                })
                .collect(),
            ..NewResponse::without_items(&job.owner, &job.id, created, text, status, now)
        };
        let last = EventBatch::new(first, last.documents().map(|event| event.json()));
        store_end(&self.store, &self.webhooks, &Arc::new(response), last, true).await
    }

    /// Reads the events of a job that are on the disk, some at a time.
    async fn each_event(
        &self,
        job: &UnfinishedJob,
        mut each: impl FnMut(&str),
    ) -> Result<(), StoreError> {
        let mut after = None;
        while let Some(batch) = self.store.events_after(&job.owner, &job.id, after).await? {
            after = Some(batch.last);
            batch.documents().for_each(&mut each);
        }
        Ok(())
    }
}

/// What a stored request continues, and the items that it has itself.
pub(super) fn requested(source: &TurnSource, id: &str) -> (StoredOrigin, Vec<NewItem>) {
    let origin = match continuation(source) {
        None => StoredOrigin::Nothing,
        Some(Continuation::Response(id)) => StoredOrigin::Response(id),
        Some(Continuation::Conversation(id)) => StoredOrigin::BesideConversation(id),
    };
    let own = source.own_items(id).unwrap_or_default();
    (origin, own.into_iter().map(NewItem::from).collect())
}

fn continuation(source: &TurnSource) -> Option<Continuation> {
    let turn = source.turn().ok()?;
    turn.continues.clone()
}
