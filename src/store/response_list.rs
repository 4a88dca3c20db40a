//! Lists of the stored responses of an owner, page by page.

use rusqlite::{Connection, params};

use super::responses::{self, find};
use super::{ListPage, Store, StoreError};

/// A page ends with the response that brings it to so many bytes, whatever the client asked for:
/// the outputs of a hundred responses may have gigabytes.
const PAGE_BYTES: usize = 8 << 20;

/// The responses of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedResponses {
    /// The id and the JSON of each.
    pub responses: Vec<(String, String)>,
    /// Whether responses follow.
    pub has_more: bool,
}

impl Store {
    /// A page of the responses of an owner, or of those with a status, in the order in which they were stored; a background
    /// response is stored when it is accepted. `None` if the owner has no response with the id
    /// after which the page begins. A page may have fewer responses than it could, if they are
    /// large.
    pub async fn list_responses(
        &self,
        owner: &str,
        status: Option<&str>,
        page: &ListPage,
    ) -> Result<Option<ListedResponses>, StoreError> {
        let (owner, status, page) = (owner.to_owned(), status.map(str::to_owned), page.clone());
        self.run_reader(move |connection| {
            list_responses(connection, &owner, status.as_deref(), &page, PAGE_BYTES)
        })
        .await
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
    connection: &Connection,
    owner: &str,
    status: Option<&str>,
    page: &ListPage,
    max_bytes: usize,
) -> Result<Option<ListedResponses>, StoreError> {
    let (mut above, mut below) = (i64::MIN, i64::MAX);
    if let Some(after) = &page.after {
        let Some(row) = find(connection, owner, after)? else {
            return Ok(None);
        };
        if page.newest_first {
            below = row.number;
        } else {
            above = row.number;
        }
    }
    let mut select = connection.prepare_cached(&select_ids(page.newest_first))?;
    // One more than fits shows whether responses follow.
    let limit = page.limit + 1;
    let ids = select.query_map(params![owner, above, below, status, limit], |row| {
        row.get(0)
    })?;
    let mut listed = ListedResponses::default();
    let mut bytes = 0;
    for id in ids {
        if listed.responses.len() == page.limit || bytes >= max_bytes {
            listed.has_more = true;
            break;
        }
        let id: String = id?;
        let Some(response) = responses::read(connection, owner, &id)? else {
            continue;
        };
        bytes += response.json.len();
        listed.responses.push((id, response.json));
    }
    Ok(Some(listed))
}
