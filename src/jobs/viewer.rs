//! A client that reads the events of a run as server-sent events: from memory while the run is
//! there, else from the disk.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use adapters::fault::Fault;
use axum::body::Body;
use axum::response::IntoResponse;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::stream::unfold;
use http::Response;
use http::header::CONTENT_TYPE;
use tokio::sync::watch;
use tokio::time::timeout;

use super::log::JobLog;
use super::recovery::INTERRUPTED;
use crate::responses::storage_fault;
use crate::store::{EventBatch, Store};

/// How long a stream may be silent before a comment is sent, so that no proxy takes the connection
/// for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The most bytes of events that are sent at once.
const CHUNK_BYTES: usize = 32 << 10;

/// The response with the events of a run, from the first on or after the one with this number;
/// `None` if the owner has no such background response.
pub(super) async fn viewer(
    store: &Arc<Store>,
    owner: &Arc<str>,
    id: &str,
    live: Option<Arc<JobLog>>,
    starting_after: Option<u64>,
) -> Result<Option<Response<Body>>, Fault> {
    let next = starting_after.map_or(0, |after| after.saturating_add(1));
    let source = if let Some(log) = live {
        EventSource::Live(log.watch(), log)
    } else {
        let job = store.job(owner, id).await;
        if job.map_err(|error| storage_fault(&error))?.is_none() {
            return Ok(None);
        }
        EventSource::Stored(Arc::clone(store), VecDeque::new())
    };
    let state = ViewerState {
        source,
        owner: Arc::clone(owner),
        id: id.to_owned(),
        next,
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
    source: EventSource,
    owner: Arc<str>,
    id: String,
    /// The number of the next event.
    next: u64,
    /// An event was sent. Then the terminal event was sent, too, when the log is read to its end.
    has_sent: bool,
    is_done: bool,
}

enum EventSource {
    Live(watch::Receiver<(usize, bool)>, Arc<JobLog>),
    Stored(Arc<Store>, VecDeque<EventBatch>),
}

impl ViewerState {
    /// The next bytes of the stream; `None` after the end.
    async fn next_chunk(&mut self) -> Option<Bytes> {
        if self.is_done {
            return None;
        }
        let documents = match &mut self.source {
            EventSource::Live(changes, log) => {
                let (count, has_ended) = *changes.borrow_and_update();
                let next = usize::try_from(self.next).unwrap_or(usize::MAX);
                if next >= count {
                    if has_ended {
                        return Some(self.end(""));
                    }
                    return match timeout(KEEP_ALIVE, changes.changed()).await {
                        Ok(Ok(())) => Some(Bytes::new()),
                        // The log outlives its clients.
                        Ok(Err(_)) => None,
                        Err(_) => Some(Bytes::from_static(b": the response goes on\n\n")),
                    };
                }
                log.from(next, CHUNK_BYTES)
            }
            EventSource::Stored(store, batches) => {
                if batches.is_empty() {
                    let after = self.next.checked_sub(1);
                    let found = store.events_after(&self.owner, &self.id, after).await;
                    // Without `[DONE]` the client knows that events are missing, and asks again.
                    batches.extend(found.ok()?);
                }
                let Some(batch) = batches.pop_front() else {
                    return Some(self.end_of_stored().await);
                };
                let skipped = usize::try_from(self.next.saturating_sub(batch.first));
                let lines = batch.documents.lines().skip(skipped.unwrap_or(usize::MAX));
                lines
                    .map(|line| Bytes::copy_from_slice(line.as_bytes()))
                    .collect()
            }
        };
        self.next += documents.len() as u64;
        self.has_sent |= !documents.is_empty();
        let size = documents.iter().map(|document| document.len() + 64).sum();
        let mut chunk = BytesMut::with_capacity(size);
        for document in &documents {
            push_frame(&mut chunk, document);
        }
        Some(chunk.freeze())
    }

    /// The end of a stream from the disk. A client may have seen events that were not written
    /// before the process ended; it gets the terminal event all the same, as the next one.
    async fn end_of_stored(&mut self) -> Bytes {
        if self.has_sent {
            return self.end("");
        }
        let EventSource::Stored(store, _) = &self.source else {
            return Bytes::new();
        };
        let mut last = None;
        let mut after = None;
        while let Ok(batches) = store.events_after(&self.owner, &self.id, after).await
            && let Some(batch) = batches.last()
        {
            after = Some(batch.last);
            last = batch
                .documents
                .lines()
                .last()
                .map(|line| (batch.last, line.to_owned()));
        }
        match last {
            Some((number, document)) if number < self.next && document.contains(INTERRUPTED) => {
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
            push_frame(&mut chunk, document.as_bytes());
        }
        chunk.put_slice(b"data: [DONE]\n\n");
        chunk.freeze()
    }
}

/// Appends an event under the name of its type.
fn push_frame(chunk: &mut BytesMut, document: &[u8]) {
    const TYPE: &[u8] = b"{\"type\":\"";
    let name = document.strip_prefix(TYPE).unwrap_or_default();
    let end = name.iter().position(|byte| *byte == b'"').unwrap_or(0);
    chunk.put_slice(b"event: ");
    chunk.put_slice(name.get(..end).unwrap_or_default());
    chunk.put_slice(b"\ndata: ");
    chunk.put_slice(document);
    chunk.put_slice(b"\n\n");
}
