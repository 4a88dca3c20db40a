//! The events of a job: on their way to the disk, and the newest ones in memory for those who read
//! them live.
//!
//! One task writes them within half a second, or within a quarter of a second once there is a
//! kilobyte of them. All jobs write at the same moments, so that one commit is enough. The last
//! events are written together with the response.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use adapters::responses::event_buffer::{EventBuffer, EventDocument};
use adapters::workflow::WorkflowProgress;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, Notify, watch};
use tokio::time::sleep;

use super::items_so_far::ItemsSoFar;
use super::webhooks::Webhooks;
use crate::clock::System;
use crate::net::memory::{MemoryKind, MemoryShare, ProcessMemory};
use crate::store::{
    EndedJob, EventBatch, NewResponse, Store, StoreError, StoredOrigin, ToolChanges,
};
use crate::turn::{EventLog, LogFuture};

/// Jobs write at multiples of this time, so that one commit is enough for all of them. In
/// milliseconds.
const WRITE_STEP: u64 = 250;
/// Events of fewer bytes wait for others of their job for one more [`WRITE_STEP`].
const WRITE_BYTES: usize = 1024;
/// The job waits for a write when this many bytes of its events are not on the disk, unless the
/// last write has failed.
const UNWRITTEN_BYTES: usize = 1 << 20;
/// The bytes of events that stay in memory after they were written to the disk.
const KEPT_BYTES: usize = 256 << 10;
/// The pause before an end that could not be written is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// How often writing the end is tried before clients get it anyway.
const TRIES: u32 = 5;

/// The events of one job. Made when the job is accepted, or found again by the next process; it
/// ends with the job, and is kept while clients read it.
pub(super) struct JobLog {
    owner: Arc<str>,
    id: String,
    store: Arc<Store>,
    webhooks: Webhooks,
    events: Mutex<LoggedEvents>,
    /// How many events there are, and whether the last one is terminal.
    published: watch::Sender<(u64, bool)>,
    /// Its job goes on after a restart: clients only see events that are on the disk, because the
    /// numbers of others may be given away again.
    shows_written: bool,
    /// Something is to be written.
    unwritten: Notify,
    /// Held while events are written, so that they are written in order.
    writing: AsyncMutex<()>,
}

/// Tells how many events there are, and whether the last one is terminal.
pub(super) type LogWatch = watch::Receiver<(u64, bool)>;

struct LoggedEvents {
    /// The newest documents, each with a line end. Those before them are on the disk.
    documents: VecDeque<Bytes>,
    /// The number of the first of them.
    first: u64,
    bytes: usize,
    /// The number of the first document that is not on the disk.
    written: u64,
    unwritten_bytes: usize,
    /// The last event is there, which is written together with the response.
    is_ending: bool,
    /// The last write has failed.
    has_failed: bool,
    items: ItemsSoFar,
    memory: MemoryShare,
}

impl LoggedEvents {
    fn push(&mut self, event: &EventDocument<'_>) {
        let mut line = Vec::with_capacity(event.json_len() + 1);
        event.push_json(&mut line);
        line.push(b'\n');
        let line = Bytes::from(line);
        self.items.add(event.name, &line);
        self.push_line(line);
    }

    fn push_line(&mut self, line: Bytes) {
        self.bytes += line.len();
        self.unwritten_bytes += line.len();
        self.documents.push_back(line);
        self.memory.set(self.bytes + self.items.bytes());
    }

    /// The number of the next document.
    fn next(&self) -> u64 {
        self.first + self.documents.len() as u64
    }

    /// The documents in memory from this number on.
    fn from(&self, number: u64) -> impl Iterator<Item = &Bytes> {
        let skipped = usize::try_from(number.saturating_sub(self.first));
        self.documents.iter().skip(skipped.unwrap_or(usize::MAX))
    }

    /// The documents that are not on the disk.
    fn unwritten(&self) -> EventBatch {
        let mut unwritten = self.from(self.written);
        let documents = if let (Some(only), None) = (unwritten.next(), unwritten.next()) {
            // A large one is not copied.
            only.clone()
        } else {
            let mut lines = Vec::with_capacity(self.unwritten_bytes);
            let all = self.from(self.written);
            all.for_each(|line| lines.extend_from_slice(line));
            lines.into()
        };
        EventBatch {
            first: self.written,
            last: self.next().saturating_sub(1),
            documents,
        }
    }

    /// All documents up to this one are on the disk. Some of them stay in memory for those who read
    /// live.
    fn mark_written(&mut self, last: u64) {
        self.written = last.saturating_add(1);
        self.unwritten_bytes = self.from(self.written).map(Bytes::len).sum();
        while self.first < self.written
            && self.bytes > KEPT_BYTES
            && let Some(oldest) = self.documents.pop_front()
        {
            self.first += 1;
            self.bytes -= oldest.len();
        }
        self.memory.set(self.bytes + self.items.bytes());
    }
}

impl JobLog {
    /// The log of a job whose first `written` events are on the disk already.
    pub(super) fn new(
        (owner, id): (Arc<str>, String),
        (store, webhooks): (Arc<Store>, Webhooks),
        memory: &ProcessMemory,
        written: u64,
    ) -> Self {
        let (published, _) = watch::channel((written, false));
        Self {
            events: Mutex::new(LoggedEvents {
                documents: VecDeque::new(),
                first: written,
                bytes: 0,
                written,
                unwritten_bytes: 0,
                is_ending: false,
                has_failed: false,
                items: ItemsSoFar::default(),
                memory: memory.of_owner(&owner).share(MemoryKind::Answers),
            }),
            owner,
            id,
            store,
            webhooks,
            published,
            shows_written: false,
            unwritten: Notify::new(),
            writing: AsyncMutex::default(),
        }
    }

    /// The log of a job that runs a workflow, if it does: with what earlier responses have done of
    /// it. Such a job goes on after a restart.
    pub(super) fn after_restarts(mut self, workflow: Option<WorkflowProgress>) -> Self {
        if let Some(workflow) = workflow {
            self.shows_written = true;
            self.events.get_mut().items.workflow = workflow;
        }
        self
    }

    /// Takes an event that an earlier process has written, for those who ask for the response.
    pub(super) fn remember(&self, event: &str) {
        let name = event.strip_prefix("{\"type\":\"");
        let name = name.and_then(|rest| rest.split('"').next());
        let line = Bytes::copy_from_slice(event.as_bytes());
        let mut events = self.events.lock();
        events.items.add(name.unwrap_or_default(), &line);
        let bytes = events.bytes + events.items.bytes();
        events.memory.set(bytes);
    }

    /// What became of the nodes of the workflow of the answer; `None` if it has ended.
    pub(super) fn workflow_so_far(&self) -> Option<WorkflowProgress> {
        let events = self.events.lock();
        (!events.is_ending).then(|| events.items.workflow.clone())
    }

    /// The number of events so far.
    pub(super) fn len(&self) -> u64 {
        self.events.lock().next()
    }

    /// Whether the terminal event is there.
    pub(super) fn has_ended(&self) -> bool {
        self.published.borrow().1
    }

    /// The items of the answer so far, as a JSON list; `None` if it has ended.
    pub(super) fn items_so_far(&self) -> Option<String> {
        let events = self.events.lock();
        (!events.is_ending).then(|| events.items.to_json())
    }

    /// The number of clients that read the events.
    pub(super) fn viewers(&self) -> usize {
        self.published.receiver_count()
    }

    /// Tells of further events.
    pub(super) fn watch(&self) -> LogWatch {
        self.published.subscribe()
    }

    /// Some of the events from `number` on that clients may see, about `max_bytes` bytes at most;
    /// `None` if they are only on the disk.
    pub(super) fn from(&self, number: u64, max_bytes: usize) -> Option<Vec<Bytes>> {
        let published = self.published.borrow().0;
        let events = self.events.lock();
        if number < events.first {
            return None;
        }
        let mut left = max_bytes;
        let mut found = Vec::new();
        let visible = usize::try_from(published.saturating_sub(number)).unwrap_or(usize::MAX);
        for document in events.from(number).take(visible) {
            if document.len() > left && !found.is_empty() {
                break;
            }
            left = left.saturating_sub(document.len());
            found.push(document.slice(..document.len().saturating_sub(1)));
        }
        Some(found)
    }

    /// Adds the last events of a job.
    pub(super) fn push_last(&self, last: &EventBuffer) {
        let mut events = self.events.lock();
        for event in last.documents() {
            events.push(&event);
        }
        events.is_ending = true;
    }

    /// Writes the events while the job goes on. Never returns.
    pub(super) async fn write_events(&self) {
        loop {
            self.until_write().await;
            if let Err(error) = self.write(ToolChanges::default()).await {
                tracing::debug!("events of {} cannot be written now: {error}", self.id);
                self.unwritten.notify_one();
            }
        }
    }

    /// Waits until there are events, and then until they are to be written.
    async fn until_write(&self) {
        self.unwritten.notified().await;
        sleep(until_step(System.unix_ms())).await;
        if self.events.lock().unwritten_bytes < WRITE_BYTES {
            sleep(Duration::from_millis(WRITE_STEP)).await;
        }
    }

    /// Writes the events so far, together with what tools have done.
    pub(super) async fn write(&self, tools: ToolChanges) -> Result<(), StoreError> {
        let _writing = self.writing.lock().await;
        let batch = {
            let events = self.events.lock();
            let has_events = events.written < events.next();
            if events.is_ending || !has_events && tools.is_empty() {
                return Ok(());
            }
            has_events.then(|| events.unwritten())
        };
        let last = batch.as_ref().map(|batch| batch.last);
        let (owner, id, batch) = (&self.owner, &self.id, batch.unwrap_or_default());
        let written = self.store.checkpoint(owner, id, batch, tools).await;
        let mut events = self.events.lock();
        events.has_failed = written.is_err();
        if let Some(last) = last.filter(|_| written.is_ok()) {
            events.mark_written(last);
        }
        drop(events);
        if written.is_ok() && self.shows_written {
            self.publish(false);
        }
        written
    }

    /// Writes the end of the job: the response and the events that are not written, the last of
    /// which is terminal. Then tells the clients. An end that cannot be written is tried again as
    /// long as the process runs; clients wait for some seconds. Returns whether it is written.
    pub(super) async fn end(self: &Arc<Self>, response: NewResponse) -> bool {
        let response = Arc::new(response);
        for _ in 0..TRIES {
            if self.write_end(&response).await {
                self.publish(true);
                return true;
            }
            sleep(RETRY_PAUSE).await;
        }
        tracing::warn!(
            "RESPONSES_NOT_STORED: the end of {} cannot be stored yet; it is tried again",
            self.id
        );
        self.publish(true);
        let log = Arc::clone(self);
        tokio::spawn(async move {
            while !log.write_end(&response).await {
                sleep(RETRY_PAUSE).await;
            }
        });
        false
    }

    async fn write_end(&self, response: &Arc<NewResponse>) -> bool {
        let _writing = self.writing.lock().await;
        let batch = self.events.lock().unwritten();
        let last = batch.last;
        match store_end(&self.store, &self.webhooks, response, batch, false).await {
            Ok(()) => self.events.lock().mark_written(last),
            // The response was deleted meanwhile. What it has used still counts.
            Err(StoreError::Gone) => {
                let spent = response.spent.iter().cloned().collect();
                if let Err(error) = self.store.add_spent(spent).await {
                    tracing::debug!("what {} has used cannot be stored: {error}", self.id);
                }
            }
            Err(error) => {
                tracing::debug!("the end of {} cannot be written now: {error}", self.id);
                return false;
            }
        }
        true
    }

    fn publish(&self, has_ended: bool) {
        let count = if self.shows_written && !has_ended {
            self.events.lock().written
        } else {
            self.len()
        };
        self.published.send_replace((count, has_ended));
    }
}

/// The time until jobs write next, at a moment in milliseconds.
fn until_step(now_ms: u64) -> Duration {
    Duration::from_millis(WRITE_STEP - now_ms % WRITE_STEP)
}

/// Stores the end of a job: the response, its last events, and who is to be told of it. It
/// continues nothing if what it continued was deleted meanwhile.
pub(super) async fn store_end(
    store: &Store,
    webhooks: &Webhooks,
    response: &Arc<NewResponse>,
    last: EventBatch,
    was_interrupted: bool,
) -> Result<(), StoreError> {
    let now_ms = System.unix_ms();
    let news = webhooks.news_of_end(response, now_ms / 1_000);
    let ended = EndedJob {
        response: Arc::clone(response),
        events: last,
        was_interrupted,
        deliveries: news.deliveries.clone(),
        now_ms,
    };
    let refused = match store.finish_job(ended.clone()).await {
        Err(StoreError::Gone) => {
            let alone = NewResponse {
                origin: StoredOrigin::Nothing,
                ..NewResponse::clone(response)
            };
            let response = Arc::new(alone);
            store.finish_job(EndedJob { response, ..ended }).await?
        }
        ended => ended?,
    };
    webhooks.stored(&news, &refused);
    Ok(())
}

/// A log as the engine writes to it.
pub(super) struct EngineLog(pub(super) Arc<JobLog>);

impl EventLog for EngineLog {
    fn append<'l>(&'l self, events: &EventBuffer, count: usize) -> Option<LogFuture<'l>> {
        let waits = {
            let mut logged = self.0.events.lock();
            for event in events.documents().take(count) {
                logged.push(&event);
            }
            logged.unwritten_bytes >= UNWRITTEN_BYTES && !logged.has_failed
        };
        self.0.publish(false);
        self.0.unwritten.notify_one();
        let write = async || self.0.write(ToolChanges::default()).await.is_ok();
        waits.then(|| Box::pin(write()) as LogFuture<'l>)
    }

    fn checkpoint(&self, tools: ToolChanges) -> LogFuture<'_> {
        let written = self.0.write(tools);
        Box::pin(async {
            let written = written.await;
            if let Err(error) = &written {
                tracing::debug!(
                    "what tools did for {} cannot be written: {error}",
                    self.0.id
                );
            }
            written.is_ok()
        })
    }

    fn finish<'l>(&'l self, events: &'l EventBuffer, response: NewResponse) -> LogFuture<'l> {
        self.0.push_last(events);
        Box::pin(self.0.end(response))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use adapters::responses::response_object::ResponseStatus;
    use arc_swap::ArcSwap;
    use tempfile::TempDir;
    use tokio::time::Instant;

    use super::*;
    use crate::config::Config;
    use crate::metrics::Metrics;
    use crate::store::{DataDir, NewJob, ResponseText};

    const OWNER: &str = "me";
    const ID: &str = "resp_1";

    /// The log of a job that has begun.
    pub(in crate::jobs) struct TestLog {
        pub(in crate::jobs) log: Arc<JobLog>,
        pub(in crate::jobs) _folder: TempDir,
    }

    impl TestLog {
        pub(in crate::jobs) async fn new() -> Self {
            let _ = rustls::crypto::ring::default_provider().install_default();
            let folder = tempfile::tempdir().unwrap();
            let store = Arc::new(Store::open(&DataDir::new(folder.path()), 0).unwrap());
            let job = NewJob {
                id: ID.to_owned(),
                owner: OWNER.to_owned(),
                text: text(),
                created: 0,
                request: String::new(),
                headers: "{}".to_owned(),
                events: EventBatch::default(),
                now_ms: 0,
            };
            store.create_job(job).await.unwrap();
            assert!(store.claim_job(OWNER, ID, text(), 0).await.unwrap());
            let webhooks = Webhooks::new(
                Arc::new(ArcSwap::from_pointee(Config::default())),
                Arc::clone(&store),
                Arc::new(Metrics::new()),
                Arc::new(System),
                Arc::new(System),
            );
            let named = (OWNER.into(), ID.to_owned());
            let memory = ProcessMemory::unlimited();
            let log = JobLog::new(named, (store, webhooks), &memory, 0);
            Self {
                log: Arc::new(log),
                _folder: folder,
            }
        }

        fn append(&self, document: &str) {
            let line = format!("{document}\n");
            self.log.events.lock().push_line(line.into());
            self.log.unwritten.notify_one();
        }

        /// The time until events are written, in milliseconds.
        async fn wait(&self) -> u128 {
            let start = Instant::now();
            self.log.until_write().await;
            start.elapsed().as_millis()
        }

        /// What is on the disk.
        async fn written(&self) -> String {
            let batch = self.log.store.events_after(OWNER, ID, None).await.unwrap();
            batch.map_or_else(String::new, |batch| {
                String::from_utf8(batch.documents.to_vec()).unwrap()
            })
        }
    }

    fn text() -> ResponseText {
        ResponseText {
            head: "{\"output\":[".to_owned(),
            tail: "]".to_owned(),
            parameters: "}".to_owned(),
        }
    }

    /// Promise: The events of a background response are written within half a second, or within a
    /// quarter of a second once a kilobyte waits, and the last ones in the transaction that stores
    /// the response.
    #[tokio::test(start_paused = true)]
    async fn events_wait_for_half_a_second_or_a_kilobyte() {
        let test = TestLog::new().await;
        test.append("small");
        let waited = test.wait().await;
        assert!((251..=501).contains(&waited), "{waited} ms");
        assert_eq!(test.written().await, "");
        test.log.write(ToolChanges::default()).await.unwrap();
        assert_eq!(test.written().await, "small\n");

        test.append("small");
        test.append(&"a".repeat(WRITE_BYTES - "small\n\n".len()));
        let waited = test.wait().await;
        assert!((1..=251).contains(&waited), "{waited} ms");
        test.log.write(ToolChanges::default()).await.unwrap();

        // One byte too few, with the line end.
        test.append(&"a".repeat(WRITE_BYTES - 2));
        let waited = test.wait().await;
        assert!((251..=501).contains(&waited), "{waited} ms");
    }

    /// Promise: Events that arrive while others are being written wait for that: each is written
    /// once, in its order.
    #[tokio::test]
    async fn writes_follow_one_another() {
        let test = TestLog::new().await;
        for round in 0..20 {
            test.append(&format!("{round} first"));
            let first = test.log.write(ToolChanges::default());
            let second = async {
                test.append(&format!("{round} second"));
                test.log.write(ToolChanges::default()).await
            };
            let (first, second) = tokio::join!(first, second);
            first.and(second).unwrap();
        }
        let written = test.written().await;
        let expected: Vec<String> = (0..20)
            .flat_map(|round| [format!("{round} first"), format!("{round} second")])
            .collect();
        assert_eq!(written.lines().collect::<Vec<_>>(), expected);
    }

    #[tokio::test]
    async fn the_last_events_are_written_with_the_response() {
        let test = TestLog::new().await;
        test.append("first");
        test.log.write(ToolChanges::default()).await.unwrap();
        test.append("last");
        test.log.push_last(&EventBuffer::default());
        test.log.write(ToolChanges::default()).await.unwrap();
        assert_eq!(test.written().await, "first\n");
        let status = ResponseStatus::Failed;
        let response = NewResponse::without_items(OWNER, ID, 0, text(), status, 0);
        assert!(test.log.end(response).await);
        assert_eq!(test.written().await, "first\nlast\n");
        assert!(test.log.store.unfinished_jobs().await.unwrap().is_empty());
    }
}
