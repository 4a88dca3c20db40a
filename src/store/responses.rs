//! Stored responses.

use adapters::responses::response_object::ResponseStatus;
use rusqlite::{Connection, OptionalExtension, params};

use super::conversations;
use super::error::StoreError;
use super::reading::StoreRead;
use super::threads::{self, NewItem, StoredItems, ThreadPlace};
use super::{PausedRun, SpentRow, Store, ToolChanges, contents, sources, spent, workflow_runs};
use crate::net::memory::CountedValue;

/// The bytes that the row of a response takes besides its texts, with its places in the indexes.
const RESPONSE_BASE: u64 = 256;
/// How much older the time of the last use may be than the use, in seconds.
const ACCESS_STEP: u64 = 3600;
/// The most inputs with which one request is compared, the longest first.
const MAX_PREFIXES: usize = 256;

/// What a response continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredOrigin {
    /// Nothing that is stored.
    Nothing,
    /// The response with this id.
    Response(String),
    /// The conversation with this id, to which its items are added.
    Conversation(String),
    /// The conversation with this id, to which its items are not added, because it failed.
    BesideConversation(String),
}

/// The JSON of a response without the items of its output: what is before them, and by turns pieces
/// about this response and pieces that repeat the request, which many responses share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseText {
    /// Ends with the bracket that begins the output.
    pub head: String,
    /// The pieces about this response, in a line each. The first begins with the bracket that ends
    /// the output.
    pub tail: String,
    /// The pieces that repeat the request, in a line each.
    pub parameters: String,
}

impl ResponseText {
    /// What follows the items of the output.
    pub fn rest(&self) -> String {
        joined(&self.tail, &self.parameters)
    }
}

/// What follows the items of the output, of its two kinds of pieces.
pub(super) fn joined(tail: &str, parameters: &str) -> String {
    let mut rest = String::with_capacity(tail.len() + parameters.len() + 1);
    rest.extend(pieces(tail, parameters));
    rest
}

fn pieces<'p>(tail: &'p str, parameters: &'p str) -> impl Iterator<Item = &'p str> {
    let pieces = tail.split('\n').zip(parameters.split('\n'));
    pieces
        .flat_map(|(own, repeated)| [own, repeated])
        .chain(["}"])
}

/// A response that has ended, to be stored.
#[derive(Clone, Debug)]
pub struct NewResponse {
    /// Its id.
    pub id: String,
    /// The owner.
    pub owner: String,
    /// The session of its turn. A response that continues a stored one has the session of that.
    pub session: String,
    /// What it continues.
    pub origin: StoredOrigin,
    /// The items of its own input.
    pub input: Vec<NewItem>,
    /// A number for each item of the input, which identifies the items up to it.
    pub prefixes: Vec<i64>,
    /// The items of its output.
    pub output: Vec<NewItem>,
    /// The rest of it.
    pub text: ResponseText,
    /// Its final status.
    pub status: &'static str,
    /// When it was created, in seconds since 1970.
    pub created: u64,
    /// The time of writing, in seconds since 1970.
    pub now: u64,
    /// What its turn has used, if that is to be stored with it.
    pub spent: Option<SpentRow>,
    /// What tools of the proxy have done for it, if that is not written yet.
    pub tools: ToolChanges,
    /// The run of a workflow that goes on once a person has decided.
    pub paused: Option<PausedRun>,
}

impl NewResponse {
    /// A response whose answer did not begin: nothing is stored of it but what it says of itself.
    pub fn without_items(
        owner: &str,
        id: &str,
        created: u64,
        text: ResponseText,
        status: ResponseStatus,
        now: u64,
    ) -> Self {
        Self {
            id: id.to_owned(),
            owner: owner.to_owned(),
            session: id.to_owned(),
            origin: StoredOrigin::Nothing,
            input: Vec::new(),
            prefixes: Vec::new(),
            output: Vec::new(),
            text,
            status: status.name(),
            created,
            now,
            spent: None,
            tools: ToolChanges::default(),
            paused: None,
        }
    }
}

/// A stored history, to be continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredHistory {
    /// Its items.
    pub items: StoredItems,
    /// The session of its turns.
    pub session: String,
}

/// A response as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    /// The response as JSON.
    pub json: String,
    /// Whether it runs or ran in the background.
    pub background: bool,
}

/// The row of a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseRow {
    pub(super) number: i64,
    pub(super) thread: Option<i64>,
    pub(super) input: i64,
    pub(super) output: i64,
    pub(super) ends: i64,
}

impl ResponseRow {
    /// The place before the first item of its output, or behind its last item.
    pub(super) fn place(&self, position: i64) -> Option<ThreadPlace> {
        let thread = self.thread?;
        Some(ThreadPlace { thread, position })
    }
}

impl Store {
    /// Stores a response. It is on the disk when this returns.
    pub async fn put_response(&self, response: NewResponse) -> Result<(), StoreError> {
        self.change(move |connection| put(connection, &response))
            .await
    }

    /// A response of an owner; `None` if the owner has none with this id.
    pub async fn response(
        &self,
        owner: &str,
        id: &str,
    ) -> Result<Option<CountedValue<StoredResponse>>, StoreError> {
        let id = id.to_owned();
        let read = move |reading: &StoreRead<'_>, owner: &str| read(reading, owner, &id);
        Ok(self.run_reader(owner, read).await?.transpose())
    }

    /// Whether a response of an owner runs or ran in the background; `None` if the owner has none
    /// with this id.
    pub async fn is_background(&self, owner: &str, id: &str) -> Result<Option<bool>, StoreError> {
        let id = id.to_owned();
        self.read_small(owner, move |reading, owner| {
            let mut select = reading
                .prepare_cached("SELECT background FROM responses WHERE id = ?1 AND owner = ?2")?;
            let found = select.query_row([id.as_str(), owner], |row| row.get(0));
            Ok(found.optional()?)
        })
        .await
    }

    /// The history of what a request continues; `None` if the owner has no such response or
    /// conversation. A background response that has not ended has no history. The share has room
    /// for a copy of the list as well: the request that is made of it for a provider.
    pub async fn history(
        &self,
        owner: &str,
        origin: &StoredOrigin,
    ) -> Result<Option<CountedValue<StoredHistory>>, StoreError> {
        let origin = origin.clone();
        let read = move |reading: &StoreRead<'_>, owner: &str| history(reading, owner, &origin);
        Ok(self.run_reader(owner, read).await?.transpose())
    }

    /// Records that a response was used. Does not wait for the disk.
    pub fn mark_response_used(&self, owner: &str, id: &str, now: u64) {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        self.try_change(move |connection| {
            let mut update = connection.prepare_cached(
                "UPDATE responses SET accessed = ?3
                 WHERE id = ?2 AND owner = ?1 AND accessed < ?3 - ?4",
            )?;
            update.execute(params![owner, id, now, ACCESS_STEP])?;
            Ok(())
        });
    }

    /// Deletes a response; false if the owner has none with this id.
    pub async fn delete_response(&self, owner: &str, id: &str) -> Result<bool, StoreError> {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        self.delete_with(move |writer| {
            let found = writer.in_transaction(|connection| {
                let Some(row) = find(connection, &owner, &id)? else {
                    return Ok(false);
                };
                delete(connection, row.number, row.thread)?;
                Ok(true)
            })?;
            writer.after_deletion();
            Ok(found)
        })
        .await
    }
}

/// The row of a response of an owner.
pub(super) const SELECT_ROW: &str = "SELECT number, thread, input, output, ends FROM responses
     WHERE id = ?1 AND owner = ?2";

/// The row of a response of an owner.
pub(super) fn find(
    connection: &Connection,
    owner: &str,
    id: &str,
) -> Result<Option<ResponseRow>, StoreError> {
    let mut select = connection.prepare_cached(SELECT_ROW)?;
    let row = select.query_row([id, owner], |row| {
        Ok(ResponseRow {
            number: row.get(0)?,
            thread: row.get(1)?,
            input: row.get(2)?,
            output: row.get(3)?,
            ends: row.get(4)?,
        })
    });
    Ok(row.optional()?)
}

/// Writes a response that has ended.
pub(super) fn put(connection: &Connection, response: &NewResponse) -> Result<(), StoreError> {
    let stored = store_items(connection, response)?;
    let parameters = contents::put(connection, &response.text.parameters)?;
    let text = &response.text;
    let bytes = text_bytes(&text.head, &text.tail);
    let mut insert = connection.prepare_cached(
        "INSERT INTO responses (id, owner, thread, input, output, ends, status, background, head,
                                tail, parameters, prefix, bytes, created, accessed)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?;
    let number = insert.insert(params![
        response.id,
        response.owner,
        stored.end.thread,
        stored.input,
        stored.output,
        stored.end.position,
        response.status,
        text.head,
        text.tail,
        parameters,
        stored.prefix,
        bytes,
        response.created,
        response.now
    ])?;
    end_tools(connection, number, response)
}

/// Writes the end of a response whose row is there already, because it runs in the background.
pub(super) fn finish(
    connection: &Connection,
    number: i64,
    response: &NewResponse,
) -> Result<(), StoreError> {
    let stored = store_items(connection, response)?;
    let text = &response.text;
    let mut update = connection.prepare_cached(
        "UPDATE responses SET thread = ?2, input = ?3, output = ?4, ends = ?5, status = ?6,
             head = ?7, tail = ?8, prefix = ?9, accessed = ?10,
             bytes = bytes - octet_length(head) - octet_length(tail) + octet_length(?7)
                 + octet_length(?8)
         WHERE number = ?1",
    )?;
    update.execute(params![
        number,
        stored.end.thread,
        stored.input,
        stored.output,
        stored.end.position,
        response.status,
        text.head,
        text.tail,
        stored.prefix,
        response.now
    ])?;
    end_tools(connection, number, response)
}

/// Writes what tools have done for a response that has ended.
fn end_tools(
    connection: &Connection,
    number: i64,
    response: &NewResponse,
) -> Result<(), StoreError> {
    workflow_runs::put(connection, number, response)?;
    sources::put(connection, number, &response.tools)?;
    sources::interrupt_runs(connection, number, response.now)
}

/// The bytes that a response takes besides its items, its parameters and its events.
pub(super) fn text_bytes(head: &str, tail: &str) -> u64 {
    RESPONSE_BASE + (head.len() + tail.len()) as u64
}

/// Where the items of a response were stored.
struct PlacedItems {
    input: i64,
    output: i64,
    end: ThreadPlace,
    prefix: i64,
}

fn store_items(connection: &Connection, response: &NewResponse) -> Result<PlacedItems, StoreError> {
    let (owner, session) = (&*response.owner, &*response.session);
    if let Some(spent) = &response.spent {
        spent::add(connection, spent)?;
    }
    let mut input = &*response.input;
    let mut first = None;
    let mut prefix = 0;
    let begin = match &response.origin {
        StoredOrigin::Nothing => {
            prefix = response.prefixes.last().copied().unwrap_or(0);
            match shared_prefix(connection, response)? {
                Some((place, shared)) => {
                    first = Some(0);
                    input = input.get(shared..).unwrap_or_default();
                    continued(connection, owner, session, place)?
                }
                None => threads::create(connection, owner, session, None)?,
            }
        }
        StoredOrigin::Response(id) => {
            let row = find(connection, owner, id)?.ok_or(StoreError::Gone)?;
            let place = row.place(row.ends).ok_or(StoreError::Gone)?;
            let session = threads::session(connection, place.thread)?;
            continued(connection, owner, &session, place)?
        }
        StoredOrigin::Conversation(id) => {
            let thread = conversations::thread(connection, owner, id)?.ok_or(StoreError::Gone)?;
            threads::end(connection, thread)?
        }
        StoredOrigin::BesideConversation(id) => {
            let thread = conversations::thread(connection, owner, id)?.ok_or(StoreError::Gone)?;
            let place = threads::end(connection, thread)?;
            threads::create(connection, owner, id, Some(place))?
        }
    };
    let output = threads::append(connection, begin, input)?;
    let end = threads::append(connection, output, &response.output)?;
    Ok(PlacedItems {
        input: first.unwrap_or(begin.position),
        output: output.position,
        end,
        prefix,
    })
}

/// The end of the thread that continues what is before a place: the same thread if nothing follows
/// there and it is no conversation, else a new one.
fn continued(
    connection: &Connection,
    owner: &str,
    session: &str,
    place: ThreadPlace,
) -> Result<ThreadPlace, StoreError> {
    let is_end = threads::end(connection, place.thread)? == place;
    if is_end && !conversations::has_thread(connection, place.thread)? {
        Ok(place)
    } else {
        threads::create(connection, owner, session, Some(place))
    }
}

/// The longest stored input with which the input of this response begins, and how many items it
/// has: a client that sends the whole history repeats the input of its last request.
fn shared_prefix(
    connection: &Connection,
    response: &NewResponse,
) -> Result<Option<(ThreadPlace, usize)>, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT thread, output FROM responses
         WHERE owner = ?1 AND prefix = ?2 AND thread IS NOT NULL AND input = 0 AND output = ?3
         ORDER BY number DESC LIMIT 1",
    )?;
    let numbered = response.prefixes.iter().enumerate();
    for (last, prefix) in numbered.rev().take(MAX_PREFIXES) {
        let items = last + 1;
        let found = select.query_row(params![response.owner, prefix, items], |row| {
            let (thread, position) = (row.get(0)?, row.get(1)?);
            Ok(ThreadPlace { thread, position })
        });
        if let Some(place) = found.optional()? {
            return Ok(Some((place, items)));
        }
    }
    Ok(None)
}

pub(super) fn read(
    reading: &StoreRead<'_>,
    owner: &str,
    id: &str,
) -> Result<Option<StoredResponse>, StoreError> {
    let Some(row) = find(reading, owner, id)? else {
        return Ok(None);
    };
    let mut select = reading.prepare_cached(
        "SELECT head, tail, parameters, background FROM responses WHERE number = ?1",
    )?;
    let mut rows = select.query([row.number])?;
    let columns = rows.next()?.ok_or(StoreError::Gone)?;
    let text = |column| {
        columns
            .get_ref(column)?
            .as_str()
            .map_err(rusqlite::Error::from)
    };
    let (head, tail) = (text(0)?, text(1)?);
    let parameters = contents::read(reading, columns.get(2)?)?;
    let parts = match row.place(row.ends) {
        Some(place) => threads::parts(reading, row.output, place)?,
        None => Vec::new(),
    };
    let (count, bytes) = threads::size(reading, &parts)?;
    let mut json = Vec::new();
    let around = head.len() + tail.len() + parameters.len() + 1;
    contents::reserve(reading, &mut json, around + bytes + count)?;
    json.extend_from_slice(head.as_bytes());
    threads::read(reading, &parts, &mut json, |_| {})?;
    for piece in pieces(tail, &parameters) {
        json.extend_from_slice(piece.as_bytes());
    }
    Ok(Some(StoredResponse {
        json: contents::text_of(json)?,
        background: columns.get(3)?,
    }))
}

pub(super) fn history(
    reading: &StoreRead<'_>,
    owner: &str,
    origin: &StoredOrigin,
) -> Result<Option<StoredHistory>, StoreError> {
    let place = match origin {
        StoredOrigin::Nothing => None,
        StoredOrigin::Response(id) => find(reading, owner, id)?.and_then(|row| row.place(row.ends)),
        StoredOrigin::Conversation(id) | StoredOrigin::BesideConversation(id) => {
            match conversations::thread(reading, owner, id)? {
                Some(thread) => Some(threads::end(reading, thread)?),
                None => None,
            }
        }
    };
    let Some(place) = place else { return Ok(None) };
    let items = threads::history(reading, place)?;
    reading.reserve(items.list.len())?;
    Ok(Some(StoredHistory {
        items,
        session: threads::session(reading, place.thread)?,
    }))
}

/// Deletes a response, and the items that no other one has in its history.
pub(super) fn delete(
    connection: &Connection,
    number: i64,
    thread: Option<i64>,
) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM responses WHERE number = ?1")?
        .execute([number])?;
    match thread {
        Some(thread) => threads::trim(connection, thread),
        None => Ok(()),
    }
}
