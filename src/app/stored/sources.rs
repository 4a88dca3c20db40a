//! `/v1/responses/{id}/sources`: what was found and read for an answer. OpenAI has no such routes.

use std::fmt::Write as _;

use axum::extract::{Path, RawQuery, State};
use serde_json::{Value, json};

use super::error::StoredHttpError;
use super::responses::{check_id, missing};
use super::{StoredReply, items, store};
use crate::app::owner::RequestOwner;
use crate::app::query::{ParameterError, QueryParams};
use crate::app::{AppState, respond_with_counted};
use crate::net::Owner;
use crate::store::{NewSource, SourceStatus, StoredSource};

/// `GET /v1/responses/{id}/sources`: a page of them, without their texts.
pub(in crate::app) async fn list(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> StoredReply {
    check_id(&id)?;
    let page = items::page(query.as_deref())?;
    let store = store(&app)?;
    let Some(listed) = store.list_sources(&owner, &id, &page).await? else {
        return Err(match store.is_background(&owner, &id).await? {
            Some(_) => items::unknown_after(),
            None => missing(&id),
        });
    };
    Ok(items::respond_with_made(listed.map(|listed| {
        let entries = listed.sources.iter();
        let entries = entries.map(|it| (it.place.to_string(), entry(it).to_string()));
        let entries: Vec<(String, String)> = entries.collect();
        let entries = entries.iter().map(|(id, json)| (&**id, &**json));
        let push = |list: &mut Vec<u8>, json: &str| list.extend_from_slice(json.as_bytes());
        items::json_of(entries, listed.has_more, push)
    })))
}

/// `GET /v1/responses/{id}/sources/{source}`: a source with its text, as JSON or Markdown.
pub(in crate::app) async fn retrieve(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    Path((id, number)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> StoredReply {
    check_id(&id)?;
    let params = QueryParams::parse_some(query.as_deref(), &["format"])?;
    let as_markdown = match params.text("format") {
        None | Some("json") => false,
        Some("markdown") => true,
        Some(_) => return Err(ParameterError::new("format", "json or markdown").into()),
    };
    let place = number.parse().ok().filter(|place| *place > 0);
    let place: u32 = place.ok_or(StoredHttpError::MalformedId("source"))?;
    let found = store(&app)?.source(&owner, &id, place.into()).await?;
    let found = found.ok_or(StoredHttpError::Missing {
        kind: "Source",
        id: number,
    })?;
    Ok(if as_markdown {
        let text = found.map(|found| {
            let source = found.source;
            source.shown.clone().unwrap_or_else(|| snapshot(&source))
        });
        respond_with_counted("text/markdown; charset=utf-8", text)
    } else {
        let json = found.map(|found| {
            let mut entry = entry(&found);
            if let Value::Object(fields) = &mut entry {
                fields.insert("body".to_owned(), json!(found.source.body));
            }
            entry.to_string()
        });
        respond_with_counted("application/json", json)
    })
}

/// A source without its texts.
fn entry(StoredSource { place, source }: &StoredSource) -> Value {
    let status: &str = source.status.into();
    json!({
        "id": place.to_string(),
        "object": "response.source",
        "call_id": source.call_id,
        "url": source.url,
        "title": source.title,
        "domain": source.domain,
        "status": status,
        "error": source.error,
        "relevance": source.relevance,
        "low_relevance": source.has_low_relevance,
        "characters": source.chars,
        "sha256": source.sha256,
        "artifact_id": source.artifact_id,
    })
}

/// What is known of a source, as Markdown.
fn snapshot(source: &NewSource) -> String {
    let mut text = String::new();
    if !source.title.is_empty() {
        let _ = writeln!(text, "# {}\n", source.title);
    }
    let _ = writeln!(text, "{}\n", source.url);
    let _ = match source.status {
        SourceStatus::Found => writeln!(text, "A search has found this page. It was not read."),
        SourceStatus::Input => writeln!(text, "The input of the request names this page."),
        SourceStatus::Failed => {
            let error = source.error.as_deref().unwrap_or("The reason is unknown.");
            writeln!(text, "The page was not read: {error}")
        }
        SourceStatus::Read => {
            let body = source.body.as_deref().unwrap_or_default();
            writeln!(text, "{body}")
        }
    };
    text
}
