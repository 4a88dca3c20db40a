//! Lists of stored items and responses, in the form of the API.

use std::fmt::Write as _;

use adapters::stored_history::listed_item;
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

/// The response with a page of items, of which the share has room for two copies.
pub(super) fn list(listed: CountedValue<ListedItems>) -> Response<Body> {
    respond_with_list(listed.map(|listed| list_json(&listed)))
}

/// A page of items as JSON.
pub(super) fn list_json(listed: &ListedItems) -> String {
    let items = listed.items.iter();
    let entries = items.map(|it| (&*it.id, listed_item(&it.json)));
    json_of(entries, listed.has_more)
}

/// The response with a list.
pub(super) fn respond_with_list(json: CountedValue<String>) -> Response<Body> {
    json.memory().set(json.capacity());
    respond_with_counted("application/json", json)
}

/// A page of a list as JSON: the id and the JSON of each entry.
pub(super) fn json_of<'a>(
    entries: impl Iterator<Item = (&'a str, impl AsRef<str>)>,
    has_more: bool,
) -> String {
    let mut list = String::from(r#"{"object":"list","data":["#);
    let (mut first, mut last) = (None, None);
    for (id, json) in entries {
        if first.is_none() {
            first = Some(id);
        } else {
            list.push(',');
        }
        last = Some(id);
        list.push_str(json.as_ref());
    }
    let (first, last) = (json!(first), json!(last));
    // Writing to a string does not fail.
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
