//! The list of `/v1/responses`, `/v1/responses/{id}` and what is below it.

use std::sync::Arc;

use adapters::responses::request::TurnSource;
use adapters::workflow::{StateDetail, WorkflowProgress};
use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::StoredHttpError;
use super::{StoredReply, items, store};
use crate::app::owner::RequestOwner;
use crate::app::query::{ParameterError, QueryParams};
use crate::app::{AppState, respond_with_counted, respond_with_json};
use crate::clock::{Clock, System};
use crate::jobs::CancelOutcome;
use crate::net::blocking::block_in_place_if_large;
use crate::net::memory::CountedValue;
use crate::net::{AdmittedBy, Owner};
use crate::responses::memory_fault;
use crate::store::{ItemListOf, ListPage, ListedItems, NewItem, UnfinishedJob};

/// What the parameter `status` of a list may be.
const STATUSES: [&str; 6] = [
    "completed",
    "incomplete",
    "failed",
    "cancelled",
    "queued",
    "in_progress",
];

/// `GET /v1/responses`: the responses of the caller, a page of them. OpenAI has no such route.
pub(in crate::app) async fn list(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    RawQuery(query): RawQuery,
) -> StoredReply {
    let page = items::page(query.as_deref())?;
    let params = QueryParams::parse_some(query.as_deref(), &["status"])?;
    let status = params.text("status");
    if let Some(status) = status
        && !STATUSES.contains(&status)
    {
        let expected = format!("one of {}", STATUSES.join(", "));
        return Err(ParameterError::new("status", &expected).into());
    }
    let store = store(&app)?;
    let listed = store.list_responses(&owner, status, &page).await?;
    let listed = listed.ok_or_else(items::unknown_after)?;
    Ok(items::respond_with_made(listed.map(|listed| {
        let entries = listed.responses.iter().map(|(id, json)| (&**id, &**json));
        let push = |list: &mut Vec<u8>, json: &str| list.extend_from_slice(json.as_bytes());
        items::json_of(entries, listed.has_more, push)
    })))
}

/// `GET /v1/responses/{id}`: the response, or its events with `stream=true`.
pub(in crate::app) async fn retrieve(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    Extension(by): Extension<AdmittedBy>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> StoredReply {
    check_id(&id)?;
    let params = QueryParams::parse_some(query.as_deref(), &["stream", "starting_after"])?;
    if params.flag("stream")? {
        let after = params.text("starting_after");
        let after = after.map(|text| {
            let number = text.parse().ok();
            number.ok_or_else(|| ParameterError::new("starting_after", "the number of an event"))
        });
        return events(&app, (&owner, by), &id, after.transpose()?).await;
    }
    let store = store(&app)?;
    let found = store.response(&owner, &id).await?;
    let response = found.ok_or_else(|| missing(&id))?;
    store.mark_response_used(&owner, &id, System.unix());
    let jobs = app.jobs.as_ref();
    let items = jobs.and_then(|jobs| jobs.items_so_far(&owner, &id));
    let workflow = jobs.and_then(|jobs| jobs.workflow_so_far(&owner, &id));
    let response = response.map(|found| match items {
        Some(items) => with_output(&with_workflow(found.json, workflow), &items),
        None => found.json,
    });
    Ok(respond_with_counted("application/json", response))
}

/// A response that goes on, with what became of the nodes of its workflow, if it runs one.
fn with_workflow(response: String, progress: Option<WorkflowProgress>) -> String {
    let Some(progress) = progress.filter(|progress| !progress.is_empty()) else {
        return response;
    };
    let mut object: Value = serde_json::from_str(&response).unwrap_or_default();
    match object
        .get_mut("workflow_state")
        .and_then(Value::as_object_mut)
    {
        Some(state) => progress.write_to(state, StateDetail::Full),
        None => return response,
    }
    object.to_string()
}

/// A response that goes on, whose output is empty, with these items.
fn with_output(response: &str, items: &str) -> String {
    // Nothing that a client has written stands before its output.
    response.replacen("\"output\":[]", &format!("\"output\":{items}"), 1)
}

async fn events(
    app: &AppState,
    (owner, by): (&Arc<str>, AdmittedBy),
    id: &str,
    starting_after: Option<u64>,
) -> StoredReply {
    let store = store(app)?;
    if let Some(jobs) = &app.jobs
        && let Some(events) = jobs.events(owner, by, id, starting_after).await?
    {
        return Ok(events);
    }
    match store.is_background(owner, id).await? {
        Some(_) => Err(StoredHttpError::NotBackground("streamed again")),
        None => Err(missing(id)),
    }
}

/// `DELETE /v1/responses/{id}`. A background response that has not ended is cancelled first.
pub(in crate::app) async fn remove(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    Path(id): Path<String>,
) -> StoredReply {
    check_id(&id)?;
    let store = store(&app)?;
    if let Some(jobs) = &app.jobs
        && store.is_background(&owner, &id).await? == Some(true)
    {
        jobs.cancel(&owner, &id).await?;
    }
    if !store.delete_response(&owner, &id).await? {
        return Err(missing(&id));
    }
    if let Some(jobs) = &app.jobs {
        jobs.forget(&owner, &id);
    }
    Ok(respond_with_json(
        &json!({"id": id, "object": "response", "deleted": true}),
    ))
}

/// `POST /v1/responses/{id}/cancel`: the response when it has ended. One that was cancelled before
/// is cancelled; one that ended otherwise cannot be.
pub(in crate::app) async fn cancel(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    Path(id): Path<String>,
) -> StoredReply {
    check_id(&id)?;
    let store = store(&app)?;
    let outcome = match &app.jobs {
        Some(jobs) => jobs.cancel(&owner, &id).await?,
        None => CancelOutcome::Unknown,
    };
    match outcome {
        CancelOutcome::Ended | CancelOutcome::HadEnded => {}
        CancelOutcome::Unknown => return Err(missing(&id)),
        CancelOutcome::NotBackground => return Err(StoredHttpError::NotBackground("cancelled")),
    }
    let found = store.response(&owner, &id).await?;
    let response = found.ok_or_else(|| missing(&id))?;
    if outcome == CancelOutcome::HadEnded {
        #[derive(Deserialize)]
        struct Ended {
            status: String,
        }
        let ended = serde_json::from_str::<Ended>(&response.json);
        if let Some(Ended { status }) = ended.ok().filter(|it| it.status != "cancelled") {
            return Err(StoredHttpError::HadEnded(status));
        }
    }
    Ok(respond_with_counted(
        "application/json",
        response.map(|it| it.json),
    ))
}

/// `GET /v1/responses/{id}/input_items`.
pub(in crate::app) async fn input_items(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> StoredReply {
    check_id(&id)?;
    let page = items::page(query.as_deref())?;
    let store = store(&app)?;
    if let Some(job) = store.unfinished_job(&owner, &id).await? {
        // Its items are stored when it ends.
        let (job, memory) = job.into_parts();
        let bytes = job.request.len();
        let needed = bytes.saturating_mul(items::COPIES);
        memory.grow(needed).map_err(|full| memory_fault(&full))?;
        let items = block_in_place_if_large(bytes, || own_items(job, &id, &page))?;
        return Ok(items::list(CountedValue::new(items, memory)));
    }
    let list = ItemListOf::Input(id.clone());
    match store.list_items(&owner, &list, &page).await? {
        Some(listed) => Ok(items::list(listed)),
        None if store.is_background(&owner, &id).await?.is_some() => Err(items::unknown_after()),
        None => Err(missing(&id)),
    }
}

/// A page of the items of a job that has not ended.
fn own_items(
    job: UnfinishedJob,
    id: &str,
    page: &ListPage,
) -> Result<ListedItems, StoredHttpError> {
    let own = TurnSource::new(job.request).own_items(id)?;
    let mut items: Vec<NewItem> = own.into_iter().map(NewItem::from).collect();
    if page.newest_first {
        items.reverse();
    }
    if let Some(after) = &page.after {
        let at = items.iter().position(|item| item.id == *after);
        items.drain(..=at.ok_or_else(items::unknown_after)?);
    }
    let has_more = items.len() > page.limit;
    items.truncate(page.limit);
    Ok(ListedItems { items, has_more })
}

pub(super) fn check_id(id: &str) -> Result<(), StoredHttpError> {
    super::check_id(id, "resp_", "response")
}

pub(super) fn missing(id: &str) -> StoredHttpError {
    StoredHttpError::Missing {
        kind: "Response",
        id: id.to_owned(),
    }
}
