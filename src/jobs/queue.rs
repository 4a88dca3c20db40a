//! The background responses that are queued and those that are running.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use adapters::fault::{Fault, Kind};
use adapters::responses::assembler::stored_end::{end_stored, write_terminal_event};
use adapters::responses::event_buffer::EventBuffer;
use adapters::responses::request::TurnSource;
use adapters::workflow::{WorkflowProgress, WorkflowRun};
use axum::body::Body;
use axum::response::IntoResponse;
use http::Response;
use http::header::CONTENT_TYPE;
use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::log::JobLog;
use super::recovery::requested;
use super::run::{WaitingJob, run};
use super::viewer::viewer;
use super::webhooks::Webhooks;
use crate::clock::{Clock, System};
use crate::net::AdmittedBy;
use crate::net::fairness::Sharing;
use crate::net::memory::{CountedValue, MemoryFull, ProcessMemory};
use crate::responses::storage_fault;
use crate::store::{
    EventBatch, NewItem, NewJob, NewResponse, ResponseText, Store, StoreError, StoredOrigin,
    UnfinishedJob,
};
use crate::turn::{
    AcceptedJob, BackgroundQueue, OwnerSlot, QueueFuture, ResponseIdentity, Service,
};

/// How long the events of a job that has ended stay in memory after the last client has read them.
const KEPT_AFTER: Duration = Duration::from_secs(30);
/// How often a server that stops looks whether jobs go on.
const IDLE_CHECK: Duration = Duration::from_millis(20);
/// How long the last writes of jobs may take when the server stops.
const LAST_WRITES: Duration = Duration::from_millis(800);
/// How long the answer to a cancellation waits for the end of the job.
const CANCEL_WAIT: Duration = Duration::from_secs(5);

/// The background responses of a server.
pub struct JobQueue(Arc<SharedQueue>);

pub(super) struct SharedQueue {
    pub(super) service: Arc<Service>,
    pub(super) store: Arc<Store>,
    pub(super) webhooks: Webhooks,
    pub(super) memory: ProcessMemory,
    /// The server stops: no job begins any more.
    stopping: CancellationToken,
    jobs: Mutex<Jobs>,
}

#[derive(Default)]
struct Jobs {
    /// The jobs that wait, by owner.
    waiting: HashMap<Arc<str>, VecDeque<WaitingJob>>,
    /// The owners with jobs that wait; the one whose turn it is comes first.
    next_owners: VecDeque<Arc<str>>,
    /// How many jobs of each owner wait, or are being accepted.
    queued: HashMap<Arc<str>, usize>,
    running: usize,
    /// How many jobs of each owner go on, if any.
    running_of: HashMap<Arc<str>, usize>,
    /// The logs of the jobs that wait, go on or have ended a moment ago, by owner and id.
    live: HashMap<(Arc<str>, String), LiveJob>,
}

#[derive(Clone)]
struct LiveJob {
    log: Arc<JobLog>,
    cancelled: CancellationToken,
}

/// How many background responses have not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// Those that are queued.
    pub queued: usize,
    /// Those that are running.
    pub running: usize,
    /// The clients that read events.
    pub viewers: usize,
}

/// The result of cancelling a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// The response has ended now.
    Ended,
    /// It had ended before.
    HadEnded,
    /// There is no such response of the owner.
    Unknown,
    /// It does not run in the background.
    NotBackground,
}

impl JobQueue {
    /// The queue of a server that stores responses. Call [`Self::recover`] before it takes
    /// requests.
    pub fn new(
        service: Arc<Service>,
        store: Arc<Store>,
        memory: &ProcessMemory,
        stopping: CancellationToken,
    ) -> Self {
        let webhooks = Webhooks::new(
            Arc::clone(&service.config),
            Arc::clone(&store),
            Arc::clone(&service.metrics),
            Arc::new(System),
            Arc::new(System),
        );
        let queue = Self(Arc::new(SharedQueue {
            service,
            store,
            webhooks,
            memory: memory.clone(),
            stopping,
            jobs: Mutex::default(),
        }));
        let shared = Arc::downgrade(&queue.0);
        let slots = Arc::clone(queue.0.service.slots());
        tokio::spawn(async move {
            // An owner who had as many turns running as it may have now has room for another one.
            loop {
                slots.freed().await;
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                shared.begin_jobs();
            }
        });
        queue
    }

    /// Tells the webhooks of responses that have ended, as long as the process runs.
    pub async fn deliver_to_webhooks(&self) {
        self.0.webhooks.clone().run().await;
    }

    /// Looks at the webhooks again, because the configuration has changed.
    pub fn webhooks_changed(&self) {
        self.0.webhooks.wake();
    }

    /// How many jobs there are.
    pub fn counts(&self) -> JobCounts {
        let jobs = self.0.jobs.lock();
        JobCounts {
            queued: jobs.queued.values().sum(),
            running: jobs.running,
            viewers: jobs.live.values().map(|live| live.log.viewers()).sum(),
        }
    }

    /// The events of a background response, from the first on or after the one with this number, as
    /// server-sent events; `None` if the owner has no such response. They end when the client would
    /// not be let in any more.
    pub async fn events(
        &self,
        owner: &Arc<str>,
        by: AdmittedBy,
        id: &str,
        starting_after: Option<u64>,
    ) -> Result<Option<Response<Body>>, Fault> {
        let live = self.0.live(owner, id);
        viewer(&self.0, (owner, by), id, live, starting_after).await
    }

    /// The items of a background response that goes on, as a JSON list.
    pub fn items_so_far(&self, owner: &Arc<str>, id: &str) -> Option<String> {
        self.0.live(owner, id)?.items_so_far()
    }

    /// What became of the nodes of the workflow that a response runs, if it has not ended.
    pub fn workflow_so_far(&self, owner: &Arc<str>, id: &str) -> Option<WorkflowProgress> {
        self.0.live(owner, id)?.workflow_so_far()
    }

    /// Waits until no job goes on, because the server stops and begins none: until `over`, when
    /// they have to end, and then for a moment.
    pub async fn finish(&self, ending: CancellationToken, over: impl Future) {
        let idle = async {
            while self.counts().running > 0 {
                sleep(IDLE_CHECK).await;
            }
        };
        tokio::pin!(idle);
        let is_idle = tokio::select! {
            () = &mut idle => true,
            _ = over => false,
            () = ending.cancelled() => false,
        };
        if !is_idle {
            ending.cancel();
            tokio::time::timeout(LAST_WRITES, idle).await.ok();
        }
    }

    /// Cancels a background response, and waits until it has ended.
    pub async fn cancel(&self, owner: &Arc<str>, id: &str) -> Result<CancelOutcome, Fault> {
        let shared = &self.0;
        if let Some(waiting) = shared.take_waiting(owner, id) {
            let shared = Arc::clone(shared);
            // A task of its own: it ends the job even if the client leaves meanwhile.
            let ending = tokio::spawn(async move { shared.end_waiting(waiting, None).await });
            ending.await.ok();
            return Ok(CancelOutcome::Ended);
        }
        let live = shared.jobs.lock().live.get(&key(owner, id)).cloned();
        if let Some(live) = live {
            let mut watch = live.log.watch();
            if watch.borrow().1 {
                return Ok(CancelOutcome::HadEnded);
            }
            live.cancelled.cancel();
            let ended = watch.wait_for(|(_, has_ended)| *has_ended);
            tokio::time::timeout(CANCEL_WAIT, ended).await.ok();
            return Ok(CancelOutcome::Ended);
        }
        let found = shared.store.is_background(owner, id).await;
        let found = found.map_err(|error| storage_fault(&error))?;
        Ok(match found {
            None => CancelOutcome::Unknown,
            Some(true) => CancelOutcome::HadEnded,
            Some(false) => CancelOutcome::NotBackground,
        })
    }

    /// Forgets the events of a response that was deleted. Clients that read them get the rest.
    pub fn forget(&self, owner: &Arc<str>, id: &str) {
        self.0.jobs.lock().live.remove(&key(owner, id));
        self.0.webhooks.wake();
    }

    pub(super) fn shared(&self) -> &Arc<SharedQueue> {
        &self.0
    }
}

impl BackgroundQueue for JobQueue {
    fn accept(&self, job: AcceptedJob) -> QueueFuture<'_> {
        let shared = Arc::clone(&self.0);
        // A task of its own: a client that leaves must not end this between the disk and the queue.
        let accepted = tokio::spawn(async move { shared.accept(job).await });
        Box::pin(async move {
            let accepted = accepted.await;
            accepted.unwrap_or_else(|_| Err(storage_fault(&StoreError::Closed)))
        })
    }
}

impl SharedQueue {
    /// Stores a request and puts it into the queue. Returns the queued response, or its events.
    async fn accept(self: &Arc<Self>, accepted: AcceptedJob) -> Result<Response<Body>, Fault> {
        let limits = self.service.config.load().jobs;
        {
            let mut jobs = self.jobs.lock();
            let own = jobs.queued.get(&accepted.owner).copied().unwrap_or(0);
            if own >= limits.queued {
                let message = format!(
                    "{} background responses wait already: send this request again later.",
                    limits.queued
                );
                return Err(Fault::new(Kind::ClientLimit, message));
            }
            jobs.count(&accepted.owner);
        }
        let events = EventBatch::new(0, accepted.events.documents().map(|event| event.json()));
        let written = events.last + 1;
        let workflow = WorkflowRun::read(&accepted.request).map(|run| run.progress);
        let job = NewJob {
            id: accepted.identity.id.clone(),
            owner: accepted.owner.to_string(),
            text: accepted.text,
            created: accepted.identity.created_at,
            request: accepted.request,
            headers: accepted.headers,
            events,
            now_ms: System.unix_ms(),
        };
        if let Err(error) = self.store.create_job(job).await {
            self.jobs.lock().uncount(&accepted.owner);
            return Err(storage_fault(&error));
        }
        let (owner, id) = (Arc::clone(&accepted.owner), accepted.identity.id.clone());
        // From here on all of it is on the disk.
        drop(accepted.memory);
        let log = JobLog::new(
            (Arc::clone(&owner), id.clone()),
            (Arc::clone(&self.store), self.webhooks.clone()),
            &self.memory,
            written,
        );
        let log = Arc::new(log.after_restarts(workflow));
        self.add(WaitingJob {
            owner: Arc::clone(&owner),
            identity: accepted.identity,
            busy: accepted.busy,
            log: Arc::clone(&log),
            resumed: None,
        });
        if accepted.stream {
            let client = (&owner, accepted.by);
            let events = viewer(self, client, &id, Some(log), None).await?;
            return events.ok_or_else(|| storage_fault(&StoreError::Gone));
        }
        let headers = [(CONTENT_TYPE, "application/json")];
        Ok((headers, accepted.response).into_response())
    }

    /// Puts a job, which was counted as queued, behind those of its owner, and begins what may
    /// begin.
    pub(super) fn add(self: &Arc<Self>, waiting: WaitingJob) {
        {
            let mut jobs = self.jobs.lock();
            let live = LiveJob {
                log: Arc::clone(&waiting.log),
                cancelled: CancellationToken::new(),
            };
            let owner = Arc::clone(&waiting.owner);
            jobs.live.insert(key(&owner, &waiting.identity.id), live);
            if !jobs.next_owners.contains(&owner) {
                jobs.next_owners.push_back(Arc::clone(&owner));
            }
            jobs.waiting.entry(owner).or_default().push_back(waiting);
        }
        self.begin_jobs();
    }

    /// Counts a job that an earlier process has accepted.
    pub(super) fn count_queued(&self, owner: &Arc<str>) {
        self.jobs.lock().count(owner);
    }

    /// Begins jobs as long as there is room, one of each owner in turn. An owner who has as many
    /// turns running as it may have, or would take the last place of others, is passed over.
    fn begin_jobs(self: &Arc<Self>) {
        let config = self.service.config.load_full();
        let most = config.jobs.running.max(1);
        let slots = self.service.slots();
        loop {
            let (waiting, slot, cancelled) = {
                let mut jobs = self.jobs.lock();
                if jobs.running >= most || self.stopping.is_cancelled() {
                    return;
                }
                let take = |owner: &Arc<str>| slots.take(owner, config.clients.limits(owner));
                let Some((waiting, slot)) = jobs.next(most, self.memory.sharing(), take) else {
                    return;
                };
                jobs.begin(&waiting.owner);
                let live = jobs.live.get(&key(&waiting.owner, &waiting.identity.id));
                let cancelled = live.map(|live| live.cancelled.clone()).unwrap_or_default();
                (waiting, slot, cancelled)
            };
            let shared = Arc::clone(self);
            tokio::spawn(async move {
                let (owner, id) = (Arc::clone(&waiting.owner), waiting.identity.id.clone());
                run(&shared, waiting, cancelled).await;
                shared.jobs.lock().end(&owner);
                drop(slot);
                shared.begin_jobs();
                forget_unread(&shared.jobs, (owner, id)).await;
            });
        }
    }

    /// Takes a job that has not begun out of the queue.
    fn take_waiting(&self, owner: &Arc<str>, id: &str) -> Option<WaitingJob> {
        let mut jobs = self.jobs.lock();
        let of_owner = jobs.waiting.get_mut(owner)?;
        let at = of_owner.iter().position(|job| job.identity.id == id)?;
        let waiting = of_owner.remove(at)?;
        jobs.uncount(owner);
        Some(waiting)
    }

    /// Ends a job that no turn has ended: as failed if there is an error (its code and its
    /// message), else as cancelled.
    pub(super) async fn end_waiting(
        self: &Arc<Self>,
        waiting: WaitingJob,
        error: Option<(&str, &str)>,
    ) {
        let ResponseIdentity { id, created_at } = &waiting.identity;
        let (owner, now) = (&waiting.owner, System.unix());
        let stored = self.waiting_job(owner, id).await.ok().flatten();
        let (job, memory) = stored.map(CountedValue::into_parts).unzip();
        // Its end has to be written whatever the limit.
        if let (Some(job), Some(memory)) = (&job, &memory) {
            memory.set(job.request.len().saturating_mul(3));
        }
        let (text, origin, input) = if let Some(job) = job {
            let (origin, input) = requested(&TurnSource::new(job.request), id);
            (job.text, origin, input)
        } else {
            // One that was deleted has nothing but its id.
            let text = ResponseText {
                head: format!(r#"{{"id":"{id}","object":"response","status":"queued","output":["#),
                tail: "]".to_owned(),
                parameters: String::new(),
            };
            (text, StoredOrigin::Nothing, Vec::new())
        };
        let ended = end_stored(&text.head, &text.tail, error);
        let (status, sequence) = (ended.status, waiting.log.len());
        let text = ResponseText {
            head: ended.head,
            tail: ended.tail,
            parameters: text.parameters,
        };
        let mut last = EventBuffer::default();
        let items = waiting.resumed.as_ref().map(|resumed| &*resumed.items);
        let items = items.unwrap_or_default();
        let texts: Vec<&str> = items.iter().map(|(_, item)| item.as_str()).collect();
        write_terminal_event(
            status,
            sequence,
            &text.head,
            &texts,
            &text.rest(),
            &mut last,
        );
        waiting.log.push_last(&last);
        let output = items.iter().cloned();
        let response = NewResponse {
            origin,
            input,
            output: output.map(|(id, json)| NewItem { id, json }).collect(),
            ..NewResponse::without_items(owner, id, *created_at, text, status, now)
        };
        waiting.log.end(response).await;
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            let key = key(&waiting.owner, &waiting.identity.id);
            forget_unread(&shared.jobs, key).await;
        });
    }

    /// A job that waits, with its request. There may be no memory for it now: then this waits.
    pub(super) async fn waiting_job(
        &self,
        owner: &str,
        id: &str,
    ) -> Result<Option<CountedValue<UnfinishedJob>>, StoreError> {
        loop {
            match self.store.unfinished_job(owner, id).await {
                Err(StoreError::NoMemory {
                    full: MemoryFull::InUse,
                    ..
                }) => {}
                found => return found,
            }
        }
    }

    fn live(&self, owner: &Arc<str>, id: &str) -> Option<Arc<JobLog>> {
        let jobs = self.jobs.lock();
        let live = jobs.live.get(&key(owner, id))?;
        Some(Arc::clone(&live.log))
    }
}

impl Jobs {
    /// The next job: the oldest of the first owner whose turn it is and who gets a slot.
    fn next(
        &mut self,
        most: usize,
        sharing: &Sharing,
        take: impl Fn(&Arc<str>) -> Option<OwnerSlot>,
    ) -> Option<(WaitingJob, OwnerSlot)> {
        let waiting = &mut self.waiting;
        self.next_owners
            .retain(|owner| waiting.get(owner).is_some_and(|jobs| !jobs.is_empty()));
        let held = |owner| self.running_of.get(owner).copied().unwrap_or(0) + 1;
        let may_run = |owner| sharing.allows(most, self.running + 1, || held(owner));
        let owners = self.next_owners.iter().enumerate();
        let mut owners = owners.filter(|(_, owner)| may_run(*owner));
        let (at, slot) = owners.find_map(|(at, owner)| Some((at, take(owner)?)))?;
        let owner = self.next_owners.remove(at)?;
        let of_owner = self.waiting.get_mut(&owner)?;
        let next = of_owner.pop_front()?;
        self.uncount(&owner);
        if self.waiting.get(&owner).is_some_and(VecDeque::is_empty) {
            self.waiting.remove(&owner);
        } else {
            self.next_owners.push_back(owner);
        }
        Some((next, slot))
    }

    /// Counts a job of this owner that goes on.
    fn begin(&mut self, owner: &Arc<str>) {
        self.running += 1;
        *self.running_of.entry(Arc::clone(owner)).or_default() += 1;
    }

    /// A job of this owner has ended.
    fn end(&mut self, owner: &Arc<str>) {
        self.running -= 1;
        take_one(&mut self.running_of, owner);
    }

    /// Counts a job of this owner that waits, or is about to.
    fn count(&mut self, owner: &Arc<str>) {
        *self.queued.entry(Arc::clone(owner)).or_default() += 1;
    }

    /// A job of this owner waits no more.
    fn uncount(&mut self, owner: &Arc<str>) {
        take_one(&mut self.queued, owner);
    }
}

/// Counts one less for an owner.
fn take_one(counts: &mut HashMap<Arc<str>, usize>, owner: &Arc<str>) {
    if let Some(count) = counts.get_mut(owner) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(owner);
        }
    }
}

/// Forgets the log of a job that has ended, once it has not been read for a while.
async fn forget_unread(jobs: &Mutex<Jobs>, key: (Arc<str>, String)) {
    loop {
        sleep(KEPT_AFTER).await;
        let mut jobs = jobs.lock();
        let is_read = jobs.live.get(&key).is_some_and(|it| it.log.viewers() > 0);
        if !is_read {
            jobs.live.remove(&key);
            return;
        }
    }
}

fn key(owner: &Arc<str>, id: &str) -> (Arc<str>, String) {
    (Arc::clone(owner), id.to_owned())
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::time::timeout;

    use super::super::log::tests::TestLog;
    use super::*;

    /// Promise: The events of a background response that has ended leave the memory half a minute
    /// later, or when nobody reads them any more.
    #[tokio::test]
    async fn a_job_that_has_ended_leaves_the_memory() {
        let TestLog { log, _folder } = TestLog::new().await;
        tokio::time::pause();
        let jobs = Mutex::<Jobs>::default();
        let key = key(&"me".into(), "resp_1");
        let live = LiveJob {
            log: Arc::clone(&log),
            cancelled: CancellationToken::new(),
        };
        jobs.lock().live.insert(key.clone(), live);
        let is_live = || !jobs.lock().live.is_empty();
        let mut forgetting = pin!(forget_unread(&jobs, key));
        let mut wait = async |seconds| {
            let waited = timeout(Duration::from_secs(seconds), &mut forgetting).await;
            waited.is_ok()
        };
        let viewer = log.watch();
        assert!(!wait(29).await && is_live());
        assert!(!wait(2).await && is_live(), "it is read");
        drop(viewer);
        let log = (Arc::downgrade(&log), drop(log)).0;
        assert!(!wait(28).await && is_live());
        assert!(wait(2).await && !is_live());
        assert_eq!(log.strong_count(), 0);
    }
}
