//! Lists of stored items and responses, in the form of the API.

use adapters::stored_history::listed_item;
use axum::body::Body;
use http::Response;
use serde_json::json;

use super::error::StoredHttpError;
use crate::app::query::{ParameterError, QueryParams};
use crate::app::respond_with;
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

/// The response with a page of items.
pub(super) fn list(listed: &ListedItems) -> Response<Body> {
    let items = listed.items.iter();
    let entries = items.map(|it| (&*it.id, listed_item(&it.json)));
    list_of(entries, listed.has_more)
}

/// The response with a page of a list: the id and the JSON of each entry.
pub(super) fn list_of<'a>(
    entries: impl Iterator<Item = (&'a str, impl AsRef<str>)>,
    has_more: bool,
) -> Response<Body> {
    let mut data = String::new();
    let (mut first, mut last) = (None, None);
    for (id, json) in entries {
        if first.is_none() {
            first = Some(id);
        } else {
            data.push(',');
        }
        last = Some(id);
        data.push_str(json.as_ref());
    }
    let (first, last) = (json!(first), json!(last));
    respond_with(
        "application/json",
        format!(
            r#"{{"object":"list","data":[{data}],"first_id":{first},"last_id":{last},"has_more":{has_more}}}"#
        ),
    )
}

/// The error of an `after` that is not in the list.
pub(super) fn unknown_after() -> StoredHttpError {
    ParameterError::new("after", "the id of an entry of this list").into()
}
