//! Lists of stored items and responses, in the form of the API.

use std::io::Write as _;

use adapters::stored_history::push_listed_item;
use axum::body::Body;
use http::Response;
use serde_json::json;

use super::error::StoredHttpError;
use crate::app::query::{ParameterError, QueryParams};
use crate::app::respond_with_counted;
use crate::net::memory::CountedValue;
use crate::store::{ListPage, ListedItems};

/// The most entries of a page, and how many there are if the client does not say.
const MAX_LIMIT: u64 = 100;
const USUAL_LIMIT: u64 = 20;

/// Reads the parameters `limit`, `after` and `order` of a query; others are ignored, as `include`
/// and `beta` are.
pub(super) fn page(query: Option<&str>) -> Result<ListPage, StoredHttpError> {
    let params = QueryParams::parse_some(query, &["limit", "after", "order"])?;
    let limit = params.number("limit", &(1..=MAX_LIMIT), USUAL_LIMIT)?;
    let newest_first = match params.text("order") {
        None | Some("desc") => true,
        Some("asc") => false,
        Some(_) => return Err(ParameterError::new("order", "asc or desc").into()),
    };
    Ok(ListPage {
        after: params.text("after").map(str::to_owned),
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
        newest_first,
    })
}

/// The response with a page of items. The share has room for two copies of them.
pub(super) fn list(listed: CountedValue<ListedItems>) -> Response<Body> {
    respond_with_made(listed.map(|listed| list_json(&listed)))
}

/// A page of items as JSON.
pub(super) fn list_json(listed: &ListedItems) -> Vec<u8> {
    let items = listed.items.iter();
    let entries = items.map(|it| (&*it.id, &*it.json));
    json_of(entries, listed.has_more, push_listed_item)
}

/// The response with JSON that was made of stored JSON, which is gone: its share shrinks to what
/// was made.
pub(super) fn respond_with_made(json: CountedValue<Vec<u8>>) -> Response<Body> {
    json.memory().set(json.capacity());
    respond_with_counted("application/json", json)
}

/// How many times the size of a request with items is needed to make a list of the items: for the
/// request, what it is read into, the items, and the one that gets the form of the API.
pub(super) const COPIES: usize = 4;

/// What an entry of a list needs besides its JSON, and a list besides its entries; in bytes, about.
const OVERHEAD: usize = 512;

/// A page of a list as JSON: the id and the JSON of each entry, which `push` appends.
pub(super) fn json_of<'a>(
    entries: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    has_more: bool,
    push: impl Fn(&mut Vec<u8>, &str),
) -> Vec<u8> {
    let sizes = entries.clone().map(|(_, json)| json.len() + OVERHEAD);
    let mut list = Vec::with_capacity(sizes.sum::<usize>() + OVERHEAD);
    list.extend_from_slice(br#"{"object":"list","data":["#);
    let (mut first, mut last) = (None, None);
    for (id, json) in entries {
        if first.is_none() {
            first = Some(id);
        } else {
            list.push(b',');
        }
        last = Some(id);
        push(&mut list, json);
    }
    let (first, last) = (json!(first), json!(last));
    // Writing to memory does not fail.
    let _ = write!(
        list,
        r#"],"first_id":{first},"last_id":{last},"has_more":{has_more}}}"#
    );
    list
}

/// The error of an `after` that is not in the list.
pub(super) fn unknown_after() -> StoredHttpError {
    ParameterError::new("after", "the id of an entry of this list").into()
}
