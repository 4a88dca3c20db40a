//! A client that reads the events of a job as server-sent events: the newest ones of a job that
//! goes on from memory, the others from the disk, some at a time.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use adapters::fault::Fault;
use adapters::sse;
use axum::body::Body;
use axum::response::IntoResponse;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream::unfold;
use http::Response;
use http::header::CONTENT_TYPE;
use tokio::time::timeout;

use super::log::{JobLog, LogWatch};
use super::queue::SharedQueue;
use crate::net::AdmittedBy;
use crate::net::memory::{CountedValue, MemoryFull};
use crate::responses::storage_fault;
use crate::store::{EventBatch, StoreError};

/// How long a stream may be silent before a comment is sent, so that no proxy takes the connection
/// for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The most bytes of events that are taken at once, except for a larger event.
const CHUNK_BYTES: usize = 32 << 10;
/// Larger events are not copied to put them into a frame.
const COPIED_BYTES: usize = 16 << 10;

/// The response with the events of a job, from the first on or after the one with this number;
/// `None` if the owner has no such background response.
pub(super) async fn viewer(
    queue: &Arc<SharedQueue>,
    (owner, by): (&Arc<str>, AdmittedBy),
    id: &str,
    live: Option<Arc<JobLog>>,
    starting_after: Option<u64>,
) -> Result<Option<Response<Body>>, Fault> {
    let next = starting_after.map_or(0, |after| after.saturating_add(1));
    if live.is_none() {
        let job = queue.store.job(owner, id).await;
        if job.map_err(|error| storage_fault(&error))?.is_none() {
            return Ok(None);
        }
    }
    let state = ViewerState {
        live: live.map(|log| (log.watch(), log)),
        queue: Arc::clone(queue),
        owner: Arc::clone(owner),
        by,
        id: id.to_owned(),
        next,
        frames: VecDeque::new(),
        has_sent: false,
        is_done: false,
    };
    let chunks = unfold(state, |mut state| async move {
        let chunk = state.next_chunk().await?;
        Some((Ok::<_, Infallible>(chunk), state))
    });
    let headers = [(CONTENT_TYPE, "text/event-stream; charset=utf-8")];
    Ok(Some((headers, Body::from_stream(chunks)).into_response()))
}

/// A client that reads events. Lives as long as its connection.
struct ViewerState {
    /// The job, if it goes on or has ended a moment ago.
    live: Option<(LogWatch, Arc<JobLog>)>,
    queue: Arc<SharedQueue>,
    owner: Arc<str>,
    /// What let the client in.
    by: AdmittedBy,
    id: String,
    /// The number of the next event.
    next: u64,
    /// What is to be sent next.
    frames: VecDeque<Bytes>,
    /// An event was sent. Then the terminal event was sent, too, when the log is read to its end.
    has_sent: bool,
    is_done: bool,
}

impl ViewerState {
    /// The next bytes of the stream; `None` after the end.
    async fn next_chunk(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            // Without `[DONE]` a client whose token is not valid any more asks again.
            if self.is_done || !self.is_admitted() {
                return None;
            }
            if let Some((changes, log)) = &mut self.live {
                let (count, has_ended) = *changes.borrow_and_update();
                if self.next >= count {
                    if has_ended {
                        return Some(self.end(""));
                    }
                    match timeout(KEEP_ALIVE, changes.changed()).await {
                        Ok(Ok(())) => continue,
                        // The log outlives its clients.
                        Ok(Err(_)) => return None,
                        Err(_) => return Some(Bytes::from_static(b": the response goes on\n\n")),
                    }
                }
                if let Some(documents) = log.from(self.next, CHUNK_BYTES) {
                    self.push_all(documents);
                    continue;
                }
            }
            // Without `[DONE]` the client knows that events are missing, and asks again.
            self.read_stored().await.ok()?;
        }
    }

    /// Whether the client would be let in now.
    fn is_admitted(&self) -> bool {
        let config = self.queue.service.config.load();
        config.admits(&self.owner, self.by)
    }

    async fn stored_after(
        &self,
        after: Option<u64>,
    ) -> Result<Option<CountedValue<EventBatch>>, StoreError> {
        let store = &self.queue.store;
        store.events_after(&self.owner, &self.id, after).await
    }

    /// Whether the process ended before the job did.
    async fn was_interrupted(&self) -> bool {
        let found = self.queue.store.was_interrupted(&self.owner, &self.id);
        found.await.unwrap_or(false)
    }

    /// Reads the next events from the disk.
    async fn read_stored(&mut self) -> Result<(), StoreError> {
        let after = self.next.checked_sub(1);
        let batch = match self.stored_after(after).await {
            // A client that waits for its events has begun to read them.
            Err(StoreError::NoMemory {
                full: MemoryFull::InUse,
                ..
            }) => return Ok(()),
            found => found?,
        };
        let Some(batch) = batch else {
            if self.live.is_some() {
                return Err(StoreError::Gone);
            }
            let end = self.end_of_stored().await;
            self.frames.push_back(end);
            return Ok(());
        };
        let skipped = usize::try_from(self.next.saturating_sub(batch.first));
        let bytes = batch.map(|batch| batch.documents).into_bytes();
        let mut lines = Vec::new();
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', &bytes) {
            lines.push(bytes.slice(start..end));
            start = end + 1;
        }
        lines.drain(..skipped.unwrap_or(usize::MAX).min(lines.len()));
        if lines.is_empty() {
            return Err(StoreError::Damaged("events are missing"));
        }
        self.push_all(lines);
        Ok(())
    }

    /// The end of a stream from the disk. A client may have seen events that were not written
    /// before the process ended; it still gets the terminal event, as the next one.
    async fn end_of_stored(&mut self) -> Bytes {
        if self.has_sent || !self.was_interrupted().await {
            return self.end("");
        }
        let mut last = None;
        let mut after = None;
        while let Ok(Some(batch)) = self.stored_after(after).await {
            after = Some(batch.last);
            let line = batch.documents().last();
            last = line.map(|line| (batch.last, line.to_owned()));
        }
        match last {
            Some((number, document)) if number < self.next => {
                let from = format!("\"sequence_number\":{number}");
                let to = format!("\"sequence_number\":{}", self.next);
                self.end(&document.replacen(&from, &to, 1))
            }
            _ => self.end(""),
        }
    }

    /// The end of the stream, after one more event if there is one.
    fn end(&mut self, document: &str) -> Bytes {
        self.is_done = true;
        let mut chunk = BytesMut::new();
        if !document.is_empty() {
            begin_frame(&mut chunk, document.as_bytes());
            chunk.put_slice(document.as_bytes());
            chunk.put_slice(sse::FRAME_END);
        }
        chunk.put_slice(sse::DONE);
        chunk.freeze()
    }

    /// Puts the next events into frames.
    fn push_all(&mut self, documents: Vec<Bytes>) {
        self.next += documents.len() as u64;
        self.has_sent |= !documents.is_empty();
        let mut chunk = BytesMut::new();
        for document in documents {
            begin_frame(&mut chunk, &document);
            if document.len() > COPIED_BYTES {
                self.frames.push_back(chunk.split().freeze());
                self.frames.push_back(document);
            } else {
                chunk.put_slice(&document);
            }
            chunk.put_slice(sse::FRAME_END);
        }
        self.frames.push_back(chunk.freeze());
    }
}

/// Begins the frame of a stored event, whose type is its first member.
fn begin_frame(chunk: &mut BytesMut, document: &[u8]) {
    const TYPE: &[u8] = b"{\"type\":\"";
    let name = document.strip_prefix(TYPE).unwrap_or_default();
    let end = name.iter().position(|byte| *byte == b'"').unwrap_or(0);
    sse::begin_frame(chunk, name.get(..end).unwrap_or_default());
}
