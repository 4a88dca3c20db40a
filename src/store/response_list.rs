//! Lists of the stored responses of an owner, page by page.

use rusqlite::params;

use super::page::{PAGE_BYTES, StoredPage};
use super::reading::StoreRead;
use super::responses::{self, find};
use super::{ListPage, Store, StoreError};
use crate::net::memory::CountedValue;

/// The responses of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedResponses {
    /// The id and the JSON of each.
    pub responses: Vec<(String, String)>,
    /// Whether responses follow.
    pub has_more: bool,
}

impl Store {
    /// A page of the responses of an owner, or of those with a status, in the order in which they
    /// were stored; a background response is stored when it is accepted. `None` if the owner has no
    /// response with the id after which the page begins. A page may have fewer responses than it
    /// could, if they are large.
    pub async fn list_responses(
        &self,
        owner: &str,
        status: Option<&str>,
        page: &ListPage,
    ) -> Result<Option<CountedValue<ListedResponses>>, StoreError> {
        let (status, page) = (status.map(str::to_owned), page.clone());
        let read = move |reading: &StoreRead<'_>, owner: &str| {
            list_responses(reading, owner, status.as_deref(), &page, PAGE_BYTES)
        };
        Ok(self.run_reader(owner, read).await?.transpose())
    }
}

/// The ids of a page of responses with numbers from ?2 to ?3, and of a status if ?4 is one.
pub(super) fn select_ids(newest_first: bool) -> String {
    let order = if newest_first { "DESC" } else { "ASC" };
    format!(
        "SELECT id FROM responses WHERE owner = ?1 AND number > ?2 AND number < ?3
             AND (?4 IS NULL OR status = ?4)
         ORDER BY number {order} LIMIT ?5"
    )
}

pub(super) fn list_responses(
    reading: &StoreRead<'_>,
    owner: &str,
    status: Option<&str>,
    page: &ListPage,
    max_bytes: usize,
) -> Result<Option<ListedResponses>, StoreError> {
    let (mut above, mut below) = (i64::MIN, i64::MAX);
    if let Some(after) = &page.after {
        let Some(row) = find(reading, owner, after)? else {
            return Ok(None);
        };
        if page.newest_first {
            below = row.number;
        } else {
            above = row.number;
        }
    }
    let mut select = reading.prepare_cached(&select_ids(page.newest_first))?;
    // One more than fits shows whether responses follow.
    let limit = page.limit + 1;
    let ids = select.query_map(params![owner, above, below, status, limit], |row| {
        row.get(0)
    })?;
    let mut responses = StoredPage::new(page, max_bytes);
    let mut has_more = false;
    for id in ids {
        let id: String = id?;
        let is_added = responses.add(reading, |reading| {
            let response = responses::read(reading, owner, &id)?.ok_or(StoreError::Gone)?;
            let bytes = response.json.len();
            Ok(((id, response.json), bytes))
        })?;
        if !is_added {
            has_more = true;
            break;
        }
    }
    let responses = responses.entries;
    Ok(Some(ListedResponses {
        responses,
        has_more,
    }))
}
