//! Threads: the sequences of items of responses and conversations.
//!
//! A thread only grows at its end. A response that continues another one is appended to its thread
//! if that ends with it; else a new thread begins there, which has the other one as its parent. So
//! each turn stores what is new in it, and a thread is trimmed to what is still referred to.

use std::ops::Range;

use adapters::stored_history::OwnItem;
use rusqlite::{Connection, OptionalExtension, params};

use super::contents::{self, ContentReader};
use super::error::StoreError;
use super::page::StoredPage;
use super::reading::StoreRead;

/// The bits of an item's number that are its position.
const POSITION_BITS: u32 = 24;
/// The most items of a thread, with those of its ancestors.
pub(super) const MAX_POSITION: i64 = 1 << POSITION_BITS;
/// Items of at least this many bytes are stored as contents.
const CONTENT_BYTES: usize = 16 << 10;
/// The bytes that the row of an item takes besides its JSON, with its place in the index.
const ITEM_BASE: u64 = 96;

/// An item to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewItem {
    /// Its id, which is also in the JSON.
    pub id: String,
    /// The item.
    pub json: String,
}

impl From<OwnItem> for NewItem {
    fn from(item: OwnItem) -> Self {
        Self {
            id: item.id,
            json: item.json,
        }
    }
}

/// Items that were read: a JSON list, and the place of each item in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredItems {
    /// The list.
    pub list: String,
    /// The range of each item in the list.
    pub ranges: Vec<Range<usize>>,
}

/// A place in a thread: all items before the position, with those of the thread's ancestors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThreadPlace {
    pub(super) thread: i64,
    pub(super) position: i64,
}

/// A part of a thread: the thread and the positions in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ThreadPart {
    thread: i64,
    positions: Range<i64>,
}

impl ThreadPart {
    /// The numbers of its items.
    pub(super) fn numbers(&self) -> Range<i64> {
        let first = self.thread << POSITION_BITS;
        first + self.positions.start..first + self.positions.end
    }

    /// Leaves what follows the item with this number, in an order.
    pub(super) fn cut_at(&mut self, number: i64, newest_first: bool) {
        let position = number - (self.thread << POSITION_BITS);
        if newest_first {
            self.positions.end = position;
        } else {
            self.positions.start = position + 1;
        }
    }
}

/// Begins a thread. It continues what is before a place, if one is given.
pub(super) fn create(
    connection: &Connection,
    owner: &str,
    session: &str,
    parent: Option<ThreadPlace>,
) -> Result<ThreadPlace, StoreError> {
    let parent = parent
        .map(|place| ancestor(connection, place))
        .transpose()?;
    let position = parent.map_or(0, |place| place.position);
    let mut insert = connection.prepare_cached(
        "INSERT INTO threads (owner, session, parent, begins, ends, bytes)
         VALUES (?1, ?2, ?3, ?4, ?4, 0)",
    )?;
    let parent = parent.map(|place| place.thread);
    let thread = insert.insert(params![owner, session, parent, position])?;
    Ok(ThreadPlace { thread, position })
}

/// The same place in the thread that has the item before it.
fn ancestor(connection: &Connection, mut place: ThreadPlace) -> Result<ThreadPlace, StoreError> {
    loop {
        let (parent, begins): (Option<i64>, i64) = row_of(connection, place.thread)?;
        match parent {
            Some(parent) if place.position <= begins => place.thread = parent,
            Some(_) | None => return Ok(place),
        }
    }
}

fn row_of(connection: &Connection, thread: i64) -> Result<(Option<i64>, i64), StoreError> {
    let mut select =
        connection.prepare_cached("SELECT parent, begins FROM threads WHERE number = ?1")?;
    let row = select.query_row([thread], |row| Ok((row.get(0)?, row.get(1)?)));
    row.optional()?
        .ok_or(StoreError::Damaged("a thread is missing"))
}

/// The place behind the last item of a thread.
pub(super) fn end(connection: &Connection, thread: i64) -> Result<ThreadPlace, StoreError> {
    let mut select = connection.prepare_cached("SELECT ends FROM threads WHERE number = ?1")?;
    let position = select.query_row([thread], |row| row.get(0)).optional()?;
    let position = position.ok_or(StoreError::Damaged("a thread is missing"))?;
    Ok(ThreadPlace { thread, position })
}

/// The positions of a thread's own items.
pub(super) fn span(connection: &Connection, thread: i64) -> Result<Range<i64>, StoreError> {
    let mut select =
        connection.prepare_cached("SELECT begins, ends FROM threads WHERE number = ?1")?;
    Ok(select.query_row([thread], |row| Ok(row.get(0)?..row.get(1)?))?)
}

/// The session of a thread.
pub(super) fn session(connection: &Connection, thread: i64) -> Result<String, StoreError> {
    let mut select = connection.prepare_cached("SELECT session FROM threads WHERE number = ?1")?;
    Ok(select.query_row([thread], |row| row.get(0))?)
}

/// Appends items behind the last one. Returns the new end.
pub(super) fn append(
    connection: &Connection,
    end: ThreadPlace,
    items: &[NewItem],
) -> Result<ThreadPlace, StoreError> {
    let mut bytes = 0;
    let mut position = end.position;
    for item in items {
        if position >= MAX_POSITION {
            return Err(StoreError::TooLong);
        }
        bytes += insert(connection, end.thread, position, item)?;
        position += 1;
    }
    let mut update = connection
        .prepare_cached("UPDATE threads SET ends = ?2, bytes = bytes + ?3 WHERE number = ?1")?;
    update.execute(params![end.thread, position, bytes])?;
    Ok(ThreadPlace { position, ..end })
}

/// Writes an item at a position. Returns the bytes that its row takes.
fn insert(
    connection: &Connection,
    thread: i64,
    position: i64,
    item: &NewItem,
) -> Result<u64, StoreError> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO items (number, id, json, content, owner)
             VALUES (?1, ?2, ?3, ?4, (SELECT owner FROM threads WHERE number = ?5))",
    )?;
    let number = (thread << POSITION_BITS) + position;
    let mut bytes = ITEM_BASE + item.id.len() as u64;
    if item.json.len() < CONTENT_BYTES {
        bytes += item.json.len() as u64;
        insert.execute(params![number, item.id, item.json, None::<i64>, thread])?;
    } else {
        let content = contents::put(connection, &item.json)?;
        insert.execute(params![number, item.id, None::<&str>, content, thread])?;
    }
    Ok(bytes)
}

/// Creates a thread with the positions that it has in another store. Its items follow.
pub(super) fn import(
    connection: &Connection,
    owner: &str,
    session: &str,
    parent: Option<i64>,
    positions: Range<i64>,
) -> Result<i64, StoreError> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO threads (owner, session, parent, begins, ends, bytes)
         VALUES (?1, ?2, ?3, ?4, ?5, 0)",
    )?;
    Ok(insert.insert(params![
        owner,
        session,
        parent,
        positions.start,
        positions.end
    ])?)
}

/// Writes an item of an imported thread; false if the thread has no such position, or an item
/// there.
pub(super) fn import_item(
    connection: &Connection,
    thread: i64,
    position: i64,
    item: &NewItem,
) -> Result<bool, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT 1 FROM threads WHERE number = ?1 AND begins <= ?2 AND ends > ?2
                 AND NOT EXISTS (SELECT 1 FROM items WHERE number = ?3)",
    )?;
    // Within its thread this is the number of the item.
    let number = (thread << POSITION_BITS).saturating_add(position);
    if !select.exists([thread, position, number])? {
        return Ok(false);
    }
    let bytes = insert(connection, thread, position, item)?;
    connection
        .prepare_cached("UPDATE threads SET bytes = bytes + ?2 WHERE number = ?1")?
        .execute(params![thread, bytes])?;
    Ok(true)
}

/// Reads the own items of a thread with their positions, in their order.
pub(super) fn each_item<E: From<rusqlite::Error> + From<StoreError>>(
    reading: &StoreRead<'_>,
    thread: i64,
    mut each: impl FnMut(i64, NewItem) -> Result<(), E>,
) -> Result<(), E> {
    let mut select = reading.prepare_cached(
        "SELECT number, id, json, content FROM items WHERE number >= ?1 AND number < ?2
         ORDER BY number",
    )?;
    let first = thread << POSITION_BITS;
    let mut rows = select.query([first, first + MAX_POSITION])?;
    let mut contents = ContentReader::default();
    while let Some(row) = rows.next()? {
        let mut json = Vec::new();
        push_json(reading, row, 2, &mut contents, &mut json)?;
        let number: i64 = row.get(0)?;
        let id = row.get(1)?;
        let json = contents::text_of(json)?;
        each(number - first, NewItem { id, json })?;
    }
    Ok(())
}

/// The parts that the positions from `from` on before a place are in, in their order.
pub(super) fn parts(
    connection: &Connection,
    from: i64,
    place: ThreadPlace,
) -> Result<Vec<ThreadPart>, StoreError> {
    let mut parts = Vec::new();
    let (mut thread, mut to) = (place.thread, place.position);
    while from < to {
        let (parent, begins) = row_of(connection, thread)?;
        if begins < to {
            let positions = begins.max(from)..to;
            parts.push(ThreadPart { thread, positions });
            to = begins;
        }
        match parent {
            Some(parent) => thread = parent,
            None => break,
        }
    }
    parts.reverse();
    Ok(parts)
}

/// Appends the JSON of the items in these parts, with commas between them. The caller checks the
/// whole when it makes a text of it. `each` gets the place of each item.
pub(super) fn read(
    reading: &StoreRead<'_>,
    parts: &[ThreadPart],
    text: &mut Vec<u8>,
    mut each: impl FnMut(Range<usize>),
) -> Result<(), StoreError> {
    let mut select = reading.prepare_cached(
        "SELECT json, content FROM items WHERE number >= ?1 AND number < ?2 ORDER BY number",
    )?;
    let mut is_first = true;
    let mut contents = ContentReader::default();
    for part in parts {
        let numbers = part.numbers();
        let mut rows = select.query([numbers.start, numbers.end])?;
        while let Some(row) = rows.next()? {
            if !std::mem::take(&mut is_first) {
                text.push(b',');
            }
            let start = text.len();
            push_json(reading, row, 0, &mut contents, text)?;
            each(start..text.len());
        }
    }
    Ok(())
}

/// Reads all items before a place.
pub(super) fn history(
    reading: &StoreRead<'_>,
    place: ThreadPlace,
) -> Result<StoredItems, StoreError> {
    let parts = parts(reading, 0, place)?;
    let (count, bytes) = size(reading, &parts)?;
    // The items, a comma after each but the last, and the two brackets.
    let mut list = Vec::new();
    contents::reserve(reading, &mut list, bytes + count.max(1) + 1)?;
    reading.reserve(count * size_of::<Range<usize>>())?;
    let mut ranges = Vec::with_capacity(count);
    list.push(b'[');
    read(reading, &parts, &mut list, |range| ranges.push(range))?;
    list.push(b']');
    Ok(StoredItems {
        list: contents::text_of(list)?,
        ranges,
    })
}

/// The most items that these parts have, and the most bytes of JSON: a text that grows is copied.
pub(super) fn size(
    connection: &Connection,
    parts: &[ThreadPart],
) -> Result<(usize, usize), StoreError> {
    let mut sum = (0, 0);
    for part in parts {
        let numbers = part.numbers();
        let own = match bytes_of_whole(connection, part)? {
            Some(bytes) => (part.positions.end - part.positions.start, bytes),
            None => count_rows(connection, &numbers)?,
        };
        // The index has the large items, so that the others need not be read for it.
        let mut select = connection.prepare_cached(
            "SELECT coalesce(sum(contents.bytes), 0)
             FROM items INDEXED BY items_with_content
             JOIN contents ON contents.number = items.content
             WHERE items.number >= ?1 AND items.number < ?2 AND items.content IS NOT NULL",
        )?;
        let large: i64 = select.query_row([numbers.start, numbers.end], |row| row.get(0))?;
        let usize_of = |number: i64| usize::try_from(number).unwrap_or_default();
        sum.0 += usize_of(own.0);
        sum.1 += usize_of(own.1) + usize_of(large);
    }
    Ok(sum)
}

/// The bytes that the items of a part take without contents, if it is a whole thread: a little more
/// than their JSON has.
fn bytes_of_whole(connection: &Connection, part: &ThreadPart) -> Result<Option<i64>, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT bytes FROM threads WHERE number = ?1 AND begins = ?2 AND ends = ?3",
    )?;
    let whole = params![part.thread, part.positions.start, part.positions.end];
    Ok(select.query_row(whole, |row| row.get(0)).optional()?)
}

/// How many items have these numbers, and the bytes of their JSON without contents.
fn count_rows(connection: &Connection, numbers: &Range<i64>) -> Result<(i64, i64), StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT count(*), coalesce(sum(octet_length(json)), 0)
         FROM items WHERE number >= ?1 AND number < ?2",
    )?;
    let row = select.query_row([numbers.start, numbers.end], |row| {
        Ok((row.get(0)?, row.get(1)?))
    });
    Ok(row?)
}

/// Deletes the items of a thread that nothing refers to, the thread if nothing is left, and so on
/// for its ancestors.
pub(super) fn trim(connection: &Connection, thread: i64) -> Result<(), StoreError> {
    let mut next = Some(thread);
    while let Some(thread) = next.take() {
        let mut select = connection.prepare_cached(
            "SELECT parent, begins, ends,
                    EXISTS (SELECT 1 FROM conversations WHERE thread = ?1),
                    (SELECT max(ends) FROM responses WHERE thread = ?1),
                    (SELECT max(begins) FROM threads WHERE parent = ?1)
             FROM threads WHERE number = ?1",
        )?;
        let row = select.query_row([thread], |row| {
            Ok((
                row.get::<_, Option<i64>>(0)?,
                row.get::<_, i64>(1)?,
                row.get::<_, i64>(2)?,
                row.get::<_, bool>(3)?,
                row.get::<_, Option<i64>>(4)?,
                row.get::<_, Option<i64>>(5)?,
            ))
        });
        let Some((parent, begins, ends, is_conversation, responses, children)) = row.optional()?
        else {
            return Ok(());
        };
        if is_conversation {
            return Ok(());
        }
        let needed = responses.max(children);
        let kept = needed.map_or(begins, |needed| needed.max(begins));
        if kept < ends {
            let first = thread << POSITION_BITS;
            delete_items(connection, thread, first + kept..first + ends)?;
        }
        if needed.is_none() {
            connection
                .prepare_cached("DELETE FROM threads WHERE number = ?1")?
                .execute([thread])?;
            next = parent;
        } else if kept < ends {
            connection
                .prepare_cached("UPDATE threads SET ends = ?2 WHERE number = ?1")?
                .execute([thread, kept])?;
        }
    }
    Ok(())
}

/// Deletes the item of a conversation's history with this number.
pub(super) fn delete_item(connection: &Connection, number: i64) -> Result<(), StoreError> {
    delete_items(connection, number >> POSITION_BITS, number..number + 1)
}

/// Deletes the items with these numbers, which are in one thread.
fn delete_items(
    connection: &Connection,
    thread: i64,
    numbers: Range<i64>,
) -> Result<(), StoreError> {
    let mut sum = connection.prepare_cached(
        "SELECT coalesce(sum(?3 + octet_length(id) + coalesce(octet_length(json), 0)), 0)
         FROM items WHERE number >= ?1 AND number < ?2",
    )?;
    let range = params![numbers.start, numbers.end, ITEM_BASE];
    let bytes: i64 = sum.query_row(range, |row| row.get(0))?;
    connection
        .prepare_cached("DELETE FROM items WHERE number >= ?1 AND number < ?2")?
        .execute([numbers.start, numbers.end])?;
    connection
        .prepare_cached("UPDATE threads SET bytes = bytes - ?2 WHERE number = ?1")?
        .execute([thread, bytes])?;
    Ok(())
}

/// The newest item of an owner with an id.
pub(super) const SELECT_NEWEST: &str =
    "SELECT number FROM items WHERE owner = ?1 AND id = ?2 ORDER BY number DESC LIMIT 1";

/// The newest item of an owner with this id.
pub(super) fn newest_with_id(
    connection: &Connection,
    owner: &str,
    id: &str,
) -> Result<Option<i64>, StoreError> {
    let mut select = connection.prepare_cached(SELECT_NEWEST)?;
    let found = select.query_row([owner, id], |row| row.get(0));
    Ok(found.optional()?)
}

/// The JSON of an item.
pub(super) fn item(reading: &StoreRead<'_>, number: i64) -> Result<Option<String>, StoreError> {
    let mut select = reading.prepare_cached("SELECT json, content FROM items WHERE number = ?1")?;
    let mut rows = select.query([number])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let mut json = Vec::new();
    push_json(reading, row, 0, &mut ContentReader::default(), &mut json)?;
    Ok(Some(contents::text_of(json)?))
}

/// Adds the items of a part to a page, in an order, until the page is full. Returns whether items
/// of the part are left then.
pub(super) fn page(
    reading: &StoreRead<'_>,
    part: &ThreadPart,
    newest_first: bool,
    page: &mut StoredPage<NewItem>,
) -> Result<bool, StoreError> {
    let order = if newest_first { "DESC" } else { "ASC" };
    let mut select = reading.prepare_cached(&format!(
        "SELECT id, json, content FROM items WHERE number >= ?1 AND number < ?2
         ORDER BY number {order}"
    ))?;
    let numbers = part.numbers();
    let mut rows = select.query([numbers.start, numbers.end])?;
    let mut contents = ContentReader::default();
    while let Some(row) = rows.next()? {
        let is_added = page.add(reading, |reading| {
            let mut json = Vec::new();
            push_json(reading, row, 1, &mut contents, &mut json)?;
            let id = row.get(0)?;
            let (bytes, json) = (json.len(), contents::text_of(json)?);
            Ok((NewItem { id, json }, bytes))
        })?;
        if !is_added {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Appends the JSON of an item, whose columns `json` and `content` begin at `column`.
fn push_json(
    reading: &StoreRead<'_>,
    row: &rusqlite::Row<'_>,
    column: usize,
    contents: &mut ContentReader,
    text: &mut Vec<u8>,
) -> Result<(), StoreError> {
    let json = row.get_ref(column)?.as_bytes_or_null();
    match json.map_err(rusqlite::Error::from)? {
        Some(json) => {
            contents::reserve(reading, text, json.len())?;
            text.extend_from_slice(json);
        }
        None => contents.read(reading, row.get(column + 1)?, text)?,
    }
    Ok(())
}
