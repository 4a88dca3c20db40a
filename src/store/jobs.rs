//! Background responses: their jobs, and the log of their events.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, Row, params};
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

use super::reading::StoreRead;
use super::responses::{NewResponse, ResponseText, find, finish, text_bytes};
use super::{NewDelivery, Store, StoreError, ToolChanges, contents, deliveries, sources};
use crate::net::memory::CountedValue;
use crate::net::{LOCAL_OWNER, Owner, local_owner};

/// The level of zstd for requests, which are deleted when their job ends.
const COMPRESSION_LEVEL: i32 = 1;
/// How many bytes of events are read at once, apart from the rest of their row.
const EVENT_BYTES: usize = 256 << 10;

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, Deserialize, Serialize)]
#[strum(serialize_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It waits for its turn.
    Queued,
    /// It has begun.
    Running,
    /// Its response is final.
    Ended,
}

/// Events with consecutive numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventBatch {
    /// The `sequence_number` of the first one.
    pub first: u64,
    /// The number of the last one.
    pub last: u64,
    /// The JSON of the events, each followed by a line end, in UTF-8.
    pub documents: Bytes,
}

impl EventBatch {
    /// The events from the number `first` on; there is at least one.
    pub fn new(first: u64, events: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        let mut documents = Vec::new();
        let mut next = first;
        for event in events {
            documents.extend_from_slice(event.as_ref());
            documents.push(b'\n');
            next += 1;
        }
        Self {
            first,
            last: next.saturating_sub(1),
            documents: documents.into(),
        }
    }

    /// The JSON of each event.
    pub fn documents(&self) -> impl Iterator<Item = &str> {
        str::from_utf8(&self.documents).unwrap_or_default().lines()
    }
}

/// A background response that was accepted.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// The id of the response.
    pub id: String,
    /// The owner.
    pub owner: String,
    /// The response as it is now; its output is empty.
    pub text: ResponseText,
    /// When the response was created, in seconds since 1970.
    pub created: u64,
    /// The body of the request.
    pub request: String,
    /// The headers of the request that matter to its job, as JSON.
    pub headers: String,
    /// The first events.
    pub events: EventBatch,
    /// Now, in milliseconds since 1970.
    pub now_ms: u64,
}

/// A job that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedJob {
    /// The id of the response.
    pub id: String,
    /// The owner.
    pub owner: String,
    /// Queued or running.
    pub state: JobState,
    /// When the response was created, in seconds since 1970.
    pub created: u64,
    /// The body of the request.
    pub request: String,
    /// The headers of the request that matter to its job, as JSON.
    pub headers: String,
    /// The response as it is now.
    pub text: ResponseText,
}

/// The end of a job.
#[derive(Clone, Debug)]
pub struct EndedJob {
    /// The final response.
    pub response: Arc<NewResponse>,
    /// Its last events.
    pub events: EventBatch,
    /// The process ended before the job did: clients may have seen events that were not written.
    pub was_interrupted: bool,
    /// What webhooks are told of it.
    pub deliveries: Vec<NewDelivery>,
    /// Now, in milliseconds since 1970.
    pub now_ms: u64,
}

/// A job, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct JobEntry {
    /// The id of the response.
    pub id: String,
    /// The owner.
    #[serde(default = "local_owner")]
    pub owner: String,
    /// The state of the job.
    pub state: JobState,
    /// The status of the response.
    pub status: String,
    /// When it was accepted, began and ended, in milliseconds since 1970.
    pub queued_ms: u64,
    /// See `queued_ms`.
    pub started_ms: Option<u64>,
    /// See `queued_ms`.
    pub ended_ms: Option<u64>,
}

impl Store {
    /// Stores an accepted background response and its job. Both are on the disk when this returns.
    pub async fn create_job(&self, job: NewJob) -> Result<(), StoreError> {
        self.change(move |connection| create(connection, &job))
            .await
    }

    /// Takes a queued job, so that it is run once; false if it is not queued any more.
    pub async fn claim_job(
        &self,
        owner: &str,
        id: &str,
        text: ResponseText,
        now_ms: u64,
    ) -> Result<bool, StoreError> {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        self.change(move |connection| {
            let Some(number) = number_of(connection, &owner, &id)? else {
                return Ok(false);
            };
            let mut claim = connection.prepare_cached(
                "UPDATE jobs SET state = 'running', started = ?2
                 WHERE response = ?1 AND state = 'queued'",
            )?;
            let claimed = claim.execute(params![number, now_ms])?;
            let mut update = connection.prepare_cached(
                "UPDATE responses SET status = 'in_progress', head = ?2, tail = ?3,
                     bytes = bytes - octet_length(head) - octet_length(tail)
                         + octet_length(?2) + octet_length(?3)
                 WHERE number = ?1 AND status = 'queued'",
            )?;
            update.execute(params![number, text.head, text.tail])?;
            Ok(claimed > 0)
        })
        .await
    }

    /// Lets a job that an earlier process had begun be taken again, and returns how many sources
    /// and calls of tools are written of it; `None` if there is no such job.
    pub async fn queue_again(
        &self,
        owner: &str,
        id: &str,
    ) -> Result<Option<(usize, usize)>, StoreError> {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        self.change(move |connection| {
            let Some(number) = number_of(connection, &owner, &id)? else {
                return Ok(None);
            };
            let mut queue = connection.prepare_cached(
                "UPDATE jobs SET state = 'queued', started = NULL
                 WHERE response = ?1 AND state IN ('queued', 'running')",
            )?;
            if queue.execute([number])? == 0 {
                return Ok(None);
            }
            sources::count(connection, number).map(Some)
        })
        .await
    }

    /// Appends events to the log of a response that goes on, and writes what its tools have done,
    /// together or not at all. Both are on the disk when this returns.
    pub async fn checkpoint(
        &self,
        owner: &str,
        id: &str,
        events: EventBatch,
        tools: ToolChanges,
    ) -> Result<(), StoreError> {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        let written = self.change(move |connection| {
            let Some(number) = number_of(connection, &owner, &id)? else {
                return Ok(None);
            };
            append(connection, number, &events)?;
            sources::put(connection, number, &tools).map(Some)
        });
        written.await?.ok_or(StoreError::Gone)
    }

    /// Stores the end of a background response, with what webhooks are told of it. Returns the
    /// webhooks for which too many deliveries wait already.
    pub async fn finish_job(&self, job: EndedJob) -> Result<Vec<String>, StoreError> {
        let finished = self.change(move |connection| {
            let response = &job.response;
            let Some(number) = number_of(connection, &response.owner, &response.id)? else {
                return Ok(None);
            };
            append(connection, number, &job.events)?;
            finish(connection, number, response)?;
            let mut end = connection.prepare_cached(
                "UPDATE jobs SET state = 'ended', ended = ?2, interrupted = ?3, request = NULL,
                     headers = NULL
                 WHERE response = ?1",
            )?;
            end.execute(params![number, job.now_ms, job.was_interrupted])?;
            deliveries::create(connection, number, &job.deliveries, job.now_ms / 1_000).map(Some)
        });
        finished.await?.ok_or(StoreError::Gone)
    }

    /// The jobs that have not ended, of all owners, the oldest first: the owner and the id of each.
    /// They are resumed when the server starts.
    pub async fn unfinished_jobs(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.read_small(LOCAL_OWNER, |reading, _| {
            let mut select = reading.prepare_cached(SELECT_UNFINISHED_IDS)?;
            let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    /// A job of an owner that has not ended.
    pub async fn unfinished_job(
        &self,
        owner: &str,
        id: &str,
    ) -> Result<Option<CountedValue<UnfinishedJob>>, StoreError> {
        let id = id.to_owned();
        let read = move |reading: &StoreRead<'_>, owner: &str| {
            let mut select = reading.prepare_cached(SELECT_UNFINISHED)?;
            let mut rows = select.query([id.as_str(), owner])?;
            match rows.next()? {
                Some(row) => read_unfinished(reading, row).map(Some),
                None => Ok(None),
            }
        };
        Ok(self.run_reader(owner, read).await?.transpose())
    }

    /// The jobs of an owner, the newest first; the operator sees those of all.
    pub async fn jobs(&self, owner: &Owner, limit: usize) -> Result<Vec<JobEntry>, StoreError> {
        let sees_all = owner.is_operator();
        self.read_small(&owner.0, move |reading, owner| {
            let whose = if sees_all {
                ""
            } else {
                "WHERE jobs.owner = ?2"
            };
            let mut select = reading.prepare_cached(&format!(
                "{SELECT_JOB} {whose} ORDER BY jobs.response DESC LIMIT ?1"
            ))?;
            let rows = if sees_all {
                select.query_and_then(params![limit], read_entry)?
            } else {
                select.query_and_then(params![limit, owner], read_entry)?
            };
            rows.collect()
        })
        .await
    }

    /// A job of an owner.
    pub async fn job(&self, owner: &str, id: &str) -> Result<Option<JobEntry>, StoreError> {
        let id = id.to_owned();
        self.read_small(owner, move |reading, owner| {
            let mut select = reading.prepare_cached(&format!(
                "{SELECT_JOB} WHERE responses.id = ?1 AND jobs.owner = ?2"
            ))?;
            let mut rows = select.query_and_then([id.as_str(), owner], read_entry)?;
            rows.next().transpose()
        })
        .await
    }

    /// Whether the process ended before a job of this owner did.
    pub async fn was_interrupted(&self, owner: &str, id: &str) -> Result<bool, StoreError> {
        let id = id.to_owned();
        self.read_small(owner, move |reading, owner| {
            let mut select = reading.prepare_cached(SELECT_INTERRUPTED)?;
            Ok(select.exists([id.as_str(), owner])?)
        })
        .await
    }

    /// The next events of a response with numbers above `after`, or from the first one on; `None`
    /// at the end of the log. Not all of them, so that a long log is read in pieces.
    pub async fn events_after(
        &self,
        owner: &str,
        id: &str,
        after: Option<u64>,
    ) -> Result<Option<CountedValue<EventBatch>>, StoreError> {
        let id = id.to_owned();
        let read = move |reading: &StoreRead<'_>, owner: &str| {
            let Some(number) = number_of(reading, owner, &id)? else {
                return Ok(None);
            };
            let mut select = reading.prepare_cached(SELECT_EVENTS)?;
            let after = after.map_or(-1, |after| i64::try_from(after).unwrap_or(i64::MAX));
            let mut rows = select.query(params![number, after])?;
            let (mut numbers, mut documents) = (None, String::new());
            while documents.len() < EVENT_BYTES
                && let Some(row) = rows.next()?
            {
                let (first, _) = numbers.unwrap_or((row.get(0)?, 0));
                numbers = Some((first, row.get(1)?));
                let text = reading.text(row, 2)?;
                if documents.is_empty() {
                    documents = text;
                } else {
                    documents += &text;
                }
            }
            Ok(numbers.map(|(first, last)| EventBatch {
                first,
                last,
                documents: documents.into(),
            }))
        };
        Ok(self.run_reader(owner, read).await?.transpose())
    }
}

/// The next events of a response.
pub(super) const SELECT_EVENTS: &str = "SELECT first, last, documents FROM events
     WHERE response = ?1 AND last > ?2 ORDER BY first";

const SELECT_JOB: &str = "SELECT responses.id, jobs.state, responses.status, jobs.queued,
        jobs.started, jobs.ended, jobs.owner
     FROM jobs JOIN responses ON responses.number = jobs.response";

const SELECT_INTERRUPTED: &str = "SELECT 1
     FROM jobs JOIN responses ON responses.number = jobs.response
     WHERE responses.id = ?1 AND jobs.owner = ?2 AND interrupted = 1";

/// Those that have not ended.
const SELECT_UNFINISHED_IDS: &str = "SELECT jobs.owner, responses.id
     FROM jobs JOIN responses ON responses.number = jobs.response
     WHERE jobs.state IN ('queued', 'running') ORDER BY jobs.response";

/// One that has not ended.
const SELECT_UNFINISHED: &str = "SELECT responses.id, jobs.owner, jobs.state, responses.created,
        jobs.request, jobs.headers, responses.head, responses.tail, responses.parameters
     FROM jobs JOIN responses ON responses.number = jobs.response
     WHERE jobs.state IN ('queued', 'running') AND responses.id = ?1 AND jobs.owner = ?2";

fn create(connection: &Connection, job: &NewJob) -> Result<(), StoreError> {
    let parameters = contents::put(connection, &job.text.parameters)?;
    let bytes = text_bytes(&job.text.head, &job.text.tail);
    let mut insert = connection.prepare_cached(
        "INSERT INTO responses (id, owner, thread, input, output, ends, status, background, head,
                                tail, parameters, prefix, bytes, created, accessed)
         VALUES (?1, ?2, NULL, 0, 0, 0, 'queued', 1, ?3, ?4, ?5, 0, ?6, ?7, ?7)",
    )?;
    let number = insert.insert(params![
        job.id,
        job.owner,
        job.text.head,
        job.text.tail,
        parameters,
        bytes,
        job.created
    ])?;
    let request = zstd::bulk::compress(job.request.as_bytes(), COMPRESSION_LEVEL)?;
    let mut request_with_size = (job.request.len() as u64).to_le_bytes().to_vec();
    request_with_size.extend_from_slice(&request);
    let mut insert = connection.prepare_cached(
        "INSERT INTO jobs (response, owner, state, request, headers, queued)
         VALUES (?1, ?2, 'queued', ?3, ?4, ?5)",
    )?;
    insert.execute(params![
        number,
        job.owner,
        request_with_size,
        job.headers,
        job.now_ms
    ])?;
    append(connection, number, &job.events)
}

fn append(connection: &Connection, response: i64, events: &EventBatch) -> Result<(), StoreError> {
    if events.documents.is_empty() {
        return Ok(());
    }
    let mut insert = connection.prepare_cached(
        "INSERT INTO events (response, first, last, documents) VALUES (?1, ?2, ?3, ?4)",
    )?;
    insert.execute(params![
        response,
        events.first,
        events.last,
        str::from_utf8(&events.documents).map_err(rusqlite::Error::from)?
    ])?;
    connection
        .prepare_cached("UPDATE responses SET bytes = bytes + ?2 WHERE number = ?1")?
        .execute(params![response, events.documents.len()])?;
    Ok(())
}

fn number_of(connection: &Connection, owner: &str, id: &str) -> Result<Option<i64>, StoreError> {
    Ok(find(connection, owner, id)?.map(|row| row.number))
}

fn read_entry(row: &Row<'_>) -> Result<JobEntry, StoreError> {
    Ok(JobEntry {
        id: row.get(0)?,
        state: state(row, 1)?,
        status: row.get(2)?,
        queued_ms: row.get(3)?,
        started_ms: row.get(4)?,
        ended_ms: row.get(5)?,
        owner: row.get(6)?,
    })
}

fn state(row: &Row<'_>, column: usize) -> Result<JobState, StoreError> {
    let name = row.get_ref(column)?;
    let name = name.as_str().map_err(rusqlite::Error::from)?;
    name.parse()
        .map_err(|_| StoreError::Damaged("a job has an unknown state"))
}

fn read_unfinished(reading: &StoreRead<'_>, row: &Row<'_>) -> Result<UnfinishedJob, StoreError> {
    let body = row.get_ref(4)?.as_blob().map_err(rusqlite::Error::from)?;
    let parts = body.split_first_chunk::<8>();
    let (size, frame) = parts.ok_or(StoreError::Damaged("the request of a job is missing"))?;
    let size = usize::try_from(u64::from_le_bytes(*size));
    let size = size.map_err(|_| StoreError::Damaged("the request of a job is too large"))?;
    let parameters = contents::read(reading, row.get(8)?)?;
    Ok(UnfinishedJob {
        id: row.get(0)?,
        owner: row.get(1)?,
        state: state(row, 2)?,
        created: row.get(3)?,
        request: contents::decompressed(reading, frame, size)?,
        headers: reading.text(row, 5)?,
        text: ResponseText {
            head: reading.text(row, 6)?,
            tail: reading.text(row, 7)?,
            parameters,
        },
    })
}
