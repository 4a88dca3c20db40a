//! Lists of stored items, in the form of the API.

use adapters::stored_history::listed_item;
use axum::body::Body;
use http::Response;
use serde_json::json;

use super::error::StoredHttpError;
use crate::app::query::{ParameterError, QueryParams};
use crate::app::respond_with;
use crate::store::{ItemPage, ListedItems, NewItem};

/// The most items of a page, and how many there are if the client does not say.
const MAX_LIMIT: u64 = 100;
const USUAL_LIMIT: u64 = 20;

/// Reads the parameters `limit`, `after` and `order` of a query; others are ignored, as `include`
/// and `beta` are.
pub(super) fn page(query: Option<&str>) -> Result<ItemPage, StoredHttpError> {
    let params = QueryParams::parse_some(query, &["limit", "after", "order"])?;
    let limit = params.number("limit", &(1..=MAX_LIMIT), USUAL_LIMIT)?;
    let newest_first = match params.text("order") {
        None | Some("desc") => true,
        Some("asc") => false,
        Some(_) => return Err(ParameterError::new("order", "asc or desc").into()),
    };
    Ok(ItemPage {
        after: params.text("after").map(str::to_owned),
        limit: usize::try_from(limit).unwrap_or(usize::MAX),
        newest_first,
    })
}

/// The response with a page of items.
pub(super) fn list(listed: &ListedItems) -> Response<Body> {
    let items: Vec<String> = listed
        .items
        .iter()
        .map(|it| listed_item(&it.json))
        .collect();
    let id = |item: Option<&NewItem>| json!(item.map(|item| &item.id)).to_string();
    let (first, last) = (id(listed.items.first()), id(listed.items.last()));
    let has_more = listed.has_more;
    let items = items.join(",");
    respond_with(
        "application/json",
        format!(
            r#"{{"object":"list","data":[{items}],"first_id":{first},"last_id":{last},"has_more":{has_more}}}"#
        ),
    )
}

/// The error of an `after` that is not in the list.
pub(super) fn unknown_after() -> StoredHttpError {
    ParameterError::new("after", "the id of an item of this list").into()
}
