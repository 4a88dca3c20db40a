//! Conversations: threads with an id and metadata, to which turns and clients add items.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, params};

use super::Store;
use super::error::StoreError;
use super::page::{COPIES, PAGE_BYTES, StoredPage};
use super::reading::StoreRead;
use super::responses::find;
use super::threads::{self, NewItem, ThreadPart};
use crate::net::memory::CountedValue;

/// A conversation, without its items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredConversation {
    /// Its id.
    pub id: String,
    /// The metadata, a JSON object.
    pub metadata: String,
    /// When it was created, in seconds since 1970.
    pub created: u64,
}

/// What a list of items is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemListOf {
    /// All items of the conversation with this id.
    Conversation(String),
    /// The own input of the response with this id.
    Input(String),
}

/// A page of a list of items or of responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage {
    /// The id of the item or response after which the page begins, in the order of the page.
    pub after: Option<String>,
    /// The most that the page has.
    pub limit: usize,
    /// The newest first.
    pub newest_first: bool,
}

/// The items of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedItems {
    /// The items.
    pub items: Vec<NewItem>,
    /// Whether items follow.
    pub has_more: bool,
}

impl Store {
    /// Stores a new conversation with its first items.
    pub async fn create_conversation(
        &self,
        owner: &str,
        conversation: StoredConversation,
        items: Vec<NewItem>,
    ) -> Result<(), StoreError> {
        let owner = owner.to_owned();
        self.write_with(move |writer| {
            writer.in_transaction(|connection| create(connection, &owner, &conversation, &items))
        })
        .await
    }

    /// A conversation of an owner; `None` if the owner has none with this id.
    pub async fn conversation(
        &self,
        owner: &str,
        id: &str,
    ) -> Result<Option<StoredConversation>, StoreError> {
        let id = id.to_owned();
        self.read_small(owner, move |reading, owner| {
            let mut select = reading.prepare_cached(
                "SELECT metadata, created FROM conversations WHERE id = ?1 AND owner = ?2",
            )?;
            let found = select.query_row([id.as_str(), owner], |row| {
                Ok(StoredConversation {
                    id: id.clone(),
                    metadata: row.get(0)?,
                    created: row.get(1)?,
                })
            });
            Ok(found.optional()?)
        })
        .await
    }

    /// Replaces the metadata of a conversation; false if the owner has none with this id.
    pub async fn update_conversation(
        &self,
        owner: &str,
        id: &str,
        metadata: String,
    ) -> Result<bool, StoreError> {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        self.write_with(move |writer| {
            let mut update = writer.connection.prepare_cached(
                "UPDATE conversations SET metadata = ?3 WHERE id = ?1 AND owner = ?2",
            )?;
            let updated = update.execute(params![id, owner, metadata])? > 0;
            drop(update);
            writer.after_deletion();
            Ok(updated)
        })
        .await
    }

    /// Deletes a conversation, with the items that no response refers to; false if the owner has
    /// none with this id.
    pub async fn delete_conversation(&self, owner: &str, id: &str) -> Result<bool, StoreError> {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        self.delete_with(move |writer| {
            let deleted = writer.in_transaction(|connection| delete(connection, &owner, &id))?;
            writer.after_deletion();
            Ok(deleted)
        })
        .await
    }

    /// Adds items to a conversation; false if the owner has none with this id.
    pub async fn add_conversation_items(
        &self,
        owner: &str,
        id: &str,
        items: Vec<NewItem>,
    ) -> Result<bool, StoreError> {
        let (owner, id) = (owner.to_owned(), id.to_owned());
        self.write_with(move |writer| {
            writer.in_transaction(|connection| add_items(connection, &owner, &id, &items))
        })
        .await
    }

    /// Deletes an item of a conversation, wherever else it is; false if the conversation of this
    /// owner has none with this id.
    pub async fn delete_conversation_item(
        &self,
        owner: &str,
        id: &str,
        item: &str,
    ) -> Result<bool, StoreError> {
        let (owner, id, item) = (owner.to_owned(), id.to_owned(), item.to_owned());
        self.delete_with(move |writer| {
            let deleted = writer.in_transaction(|connection| {
                let list = ItemListOf::Conversation(id.clone());
                let Some(parts) = parts_of(connection, &owner, &list)? else {
                    return Ok(false);
                };
                let Some(number) = number_of(connection, &owner, &parts, &item, true)? else {
                    return Ok(false);
                };
                threads::delete_item(connection, number)?;
                Ok(true)
            })?;
            writer.after_deletion();
            Ok(deleted)
        })
        .await
    }

    /// A page of a list of items; `None` if the owner has no such list, or it has no item with the
    /// id after which the page begins.
    pub async fn list_items(
        &self,
        owner: &str,
        list: &ItemListOf,
        page: &ListPage,
    ) -> Result<Option<CountedValue<ListedItems>>, StoreError> {
        let (list, page) = (list.clone(), page.clone());
        let read = move |reading: &StoreRead<'_>, owner: &str| {
            list_items(reading, owner, &list, &page, PAGE_BYTES)
        };
        Ok(self.run_reader(owner, read).await?.transpose())
    }

    /// An item of a list; `None` if there is none.
    pub async fn item(
        &self,
        owner: &str,
        list: &ItemListOf,
        id: &str,
    ) -> Result<Option<CountedValue<String>>, StoreError> {
        let (list, id) = (list.clone(), id.to_owned());
        let read = move |reading: &StoreRead<'_>, owner: &str| {
            let Some(parts) = parts_of(reading, owner, &list)? else {
                return Ok(None);
            };
            let Some(number) = number_of(reading, owner, &parts, &id, true)? else {
                return Ok(None);
            };
            let json = threads::item(reading, number)?;
            // The form of the API is made of it.
            reading.reserve(json.as_ref().map_or(0, |json| COPIES * json.len()))?;
            Ok(json)
        };
        Ok(self.run_reader(owner, read).await?.transpose())
    }

    /// The newest items of an owner with these ids. Each is read once; unknown ones are missing.
    pub async fn items_by_id(
        &self,
        owner: &str,
        ids: BTreeSet<String>,
    ) -> Result<CountedValue<Vec<NewItem>>, StoreError> {
        self.run_reader(owner, move |reading, owner| {
            items_by_id(reading, owner, &ids)
        })
        .await
    }
}

/// Stores a new conversation with its first items.
pub(super) fn create(
    connection: &Connection,
    owner: &str,
    conversation: &StoredConversation,
    items: &[NewItem],
) -> Result<(), StoreError> {
    let thread = threads::create(connection, owner, &conversation.id, None)?;
    threads::append(connection, thread, items)?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO conversations (id, owner, thread, metadata, created)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    insert.execute(params![
        conversation.id,
        owner,
        thread.thread,
        conversation.metadata,
        conversation.created
    ])?;
    Ok(())
}

/// Deletes a conversation, with the items that no response refers to; false if there is none.
pub(super) fn delete(connection: &Connection, owner: &str, id: &str) -> Result<bool, StoreError> {
    let Some(thread) = thread(connection, owner, id)? else {
        return Ok(false);
    };
    connection
        .prepare_cached("DELETE FROM conversations WHERE thread = ?1")?
        .execute([thread])?;
    threads::trim(connection, thread)?;
    Ok(true)
}

/// Adds items to a conversation; false if there is none.
pub(super) fn add_items(
    connection: &Connection,
    owner: &str,
    id: &str,
    items: &[NewItem],
) -> Result<bool, StoreError> {
    let Some(thread) = thread(connection, owner, id)? else {
        return Ok(false);
    };
    let end = threads::end(connection, thread)?;
    threads::append(connection, end, items)?;
    Ok(true)
}

/// The thread of a conversation of an owner.
pub(super) fn thread(
    connection: &Connection,
    owner: &str,
    id: &str,
) -> Result<Option<i64>, StoreError> {
    let mut select = connection
        .prepare_cached("SELECT thread FROM conversations WHERE id = ?1 AND owner = ?2")?;
    Ok(select.query_row([id, owner], |row| row.get(0)).optional()?)
}

/// Whether a thread is that of a conversation.
pub(super) fn has_thread(connection: &Connection, thread: i64) -> Result<bool, StoreError> {
    let mut select = connection.prepare_cached("SELECT 1 FROM conversations WHERE thread = ?1")?;
    Ok(select.exists([thread])?)
}

/// The parts of threads that a list has its items in; `None` if the owner has no such list.
fn parts_of(
    connection: &Connection,
    owner: &str,
    list: &ItemListOf,
) -> Result<Option<Vec<ThreadPart>>, StoreError> {
    let (from, place) = match list {
        ItemListOf::Conversation(id) => {
            let Some(thread) = thread(connection, owner, id)? else {
                return Ok(None);
            };
            (0, threads::end(connection, thread)?)
        }
        ItemListOf::Input(id) => {
            let Some(row) = find(connection, owner, id)? else {
                return Ok(None);
            };
            let Some(place) = row.place(row.output) else {
                return Ok(Some(Vec::new()));
            };
            (row.input, place)
        }
    };
    threads::parts(connection, from, place).map(Some)
}

/// The number of the newest, or the oldest, item with this id in these parts: the last one in the
/// order of the parts. A client may give several items one id.
fn number_of(
    connection: &Connection,
    owner: &str,
    parts: &[ThreadPart],
    id: &str,
    newest: bool,
) -> Result<Option<i64>, StoreError> {
    let order = if newest { "DESC" } else { "ASC" };
    let mut select = connection.prepare_cached(&format!(
        "SELECT number FROM items WHERE owner = ?4 AND id = ?1 AND number >= ?2 AND number < ?3
         ORDER BY number {order} LIMIT 1",
    ))?;
    for part in parts.iter().rev() {
        let numbers = part.numbers();
        let found = select.query_row(params![id, numbers.start, numbers.end, owner], |row| {
            row.get(0)
        });
        if let Some(number) = found.optional()? {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// See [`Store::items_by_id`].
pub(super) fn items_by_id(
    reading: &StoreRead<'_>,
    owner: &str,
    ids: &BTreeSet<String>,
) -> Result<Vec<NewItem>, StoreError> {
    let mut found = Vec::new();
    for id in ids {
        reading.reserve(0)?;
        if let Some(number) = threads::newest_with_id(reading, owner, id)?
            && let Some(json) = threads::item(reading, number)?
        {
            let id = id.clone();
            found.push(NewItem { id, json });
        }
    }
    Ok(found)
}

pub(super) fn list_items(
    reading: &StoreRead<'_>,
    owner: &str,
    list: &ItemListOf,
    page: &ListPage,
    max_bytes: usize,
) -> Result<Option<ListedItems>, StoreError> {
    let Some(mut parts) = parts_of(reading, owner, list)? else {
        return Ok(None);
    };
    if page.newest_first {
        parts.reverse();
    }
    if let Some(after) = &page.after {
        let Some(number) = number_of(reading, owner, &parts, after, !page.newest_first)? else {
            return Ok(None);
        };
        let is_before = |part: &ThreadPart| !part.numbers().contains(&number);
        let before = parts.iter().take_while(|part| is_before(part)).count();
        parts.drain(..before);
        if let Some(first) = parts.first_mut() {
            first.cut_at(number, page.newest_first);
        }
    }
    let mut items = StoredPage::new(page, max_bytes);
    let mut has_more = false;
    for part in &parts {
        has_more = threads::page(reading, part, page.newest_first, &mut items)?;
        if has_more {
            break;
        }
    }
    let items = items.entries;
    Ok(Some(ListedItems { items, has_more }))
}
