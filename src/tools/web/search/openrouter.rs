//! A model of OpenRouter that searches with the tool of the server, and the pages that it cites.
//!
//! Request: <https://openrouter.ai/docs/guides/features/server-tools/web-search>
//! (OpenRouterTeam/docs, guides/features/server-tools/web-search.mdx): `max_results` is at most 25,
//! but 20 for one of the engines behind it; few of these take both lists of domains; there is no
//! parameter for days, so the model is told. The model may be absent:
//! <https://openrouter.ai/docs/api-reference/chat-completion>. Citations are in `annotations` of
//! the message, and their `content` may be absent: guides/features/plugins/web-search.mdx of the
//! same repository. They have no date and no score. Refusals:
//! <https://openrouter.ai/docs/api/reference/errors-and-debugging>: a 403 is about what was asked,
//! and an answer of the status 200 may be an error with a `code`, which is a status.

use http::StatusCode;
use jiff::civil::Date;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answer::{FirstElements, SearchReply, found, hit, loose};
use super::engine::EngineFacts;
use super::filter::domains;
use super::request::{count, country};
use super::words::{WordLimit, words};
use super::{EngineSettings, SearchError, SearchHit, SearchKind, WebQuery, WebRequest};

pub(super) const FACTS: EngineFacts = EngineFacts {
    kind: SearchKind::Summary,
    key_variables: &["OPENROUTER_API_KEY"],
    base_url: Some("https://openrouter.ai/api/v1"),
    request,
    read,
};

const MAX_RESULTS: usize = 20;

fn request(
    query: &WebQuery,
    settings: &EngineSettings,
    _today: Date,
) -> Result<WebRequest, SearchError> {
    let mut body = Map::new();
    if let Some(model) = &settings.model {
        body.insert("model".into(), model.as_str().into());
    }
    let message = json!({"role": "user", "content": prompt(query)});
    body.insert("messages".into(), json!([message]));
    let tool = json!({"type": "openrouter:web_search", "parameters": parameters(query)});
    body.insert("tools".into(), json!([tool]));
    let url = settings.endpoint(&["chat", "completions"]);
    WebRequest::post(url, body).with_bearer(settings.key()?)
}

/// What the model is told. The citations count, so the text may be short.
fn prompt(query: &WebQuery) -> String {
    let mut prompt = format!(
        "Search the web for the following, and list the pages found: for each, one sentence on \
         what it says, with a citation of it.\n\n{}",
        words(query, &WordLimit::USUAL)
    );
    if let Some(days) = query.recency_days {
        prompt.push_str("\n\nOnly pages of the last days count. Number of days: ");
        prompt.push_str(&days.to_string());
    }
    prompt
}

fn parameters(query: &WebQuery) -> Map<String, Value> {
    let mut parameters = Map::new();
    if let Some(count) = count(query, MAX_RESULTS) {
        parameters.insert("max_results".into(), count.into());
        // The model may search more than once.
        parameters.insert("max_total_results".into(), count.into());
    }
    let allowed = domains(&query.allowed_domains);
    let blocked = domains(&query.blocked_domains);
    if !allowed.is_empty() {
        parameters.insert("allowed_domains".into(), json!(allowed));
    } else if !blocked.is_empty() {
        parameters.insert("excluded_domains".into(), json!(blocked));
    }
    if let Some(location) = user_location(query) {
        parameters.insert("user_location".into(), location.into());
    }
    parameters
}

fn user_location(query: &WebQuery) -> Option<Map<String, Value>> {
    let location = query.location.as_ref()?;
    let mut place = Map::new();
    for (name, value) in [
        ("city", location.city.clone()),
        ("region", location.region.clone()),
        ("country", country(query)),
        ("timezone", location.timezone.clone()),
    ] {
        if let Some(value) = value {
            place.insert(name.into(), value.into());
        }
    }
    if place.is_empty() {
        return None;
    }
    place.insert("type".into(), "approximate".into());
    Some(place)
}

fn read(reply: &SearchReply<'_>) -> Result<Vec<SearchHit>, SearchError> {
    if reply.status == StatusCode::FORBIDDEN {
        return Err(reply.keyless_refusal());
    }
    let answer: OpenrouterAnswer = reply.json()?;
    let mut choices = answer.choices.map(|list| list.elements).unwrap_or_default();
    let choice = choices.pop();
    let error = answer
        .error
        .or(choice.as_ref().and_then(|choice| choice.error));
    if let Some(OpenrouterError { code }) = error {
        let code = code.and_then(|code| StatusCode::from_u16(code).ok());
        let status = code.unwrap_or(StatusCode::BAD_GATEWAY);
        return Err(match status {
            StatusCode::FORBIDDEN => SearchReply { status, ..*reply }.keyless_refusal(),
            _ => SearchReply { status, ..*reply }.refusal(),
        });
    }
    let message = choice.ok_or(SearchError::BadReply)?.message;
    let Some(annotations) = message.and_then(|message| message.annotations) else {
        return Err(SearchError::Empty);
    };
    let cited = annotations.elements.into_iter();
    let cited = cited.filter_map(|annotation| annotation.url_citation);
    let hits = cited.filter_map(|page| hit(&page.url, &page.title, &page.content));
    // Annotations of other kinds, such as those of files, are no results.
    found(0, hits.collect())
}

#[derive(Deserialize)]
struct OpenrouterAnswer {
    choices: Option<FirstElements<OpenrouterChoice>>,
    #[serde(default, deserialize_with = "loose")]
    error: Option<OpenrouterError>,
}

#[derive(Clone, Copy, Deserialize)]
struct OpenrouterError {
    #[serde(default, deserialize_with = "loose")]
    code: Option<u16>,
}

#[derive(Deserialize)]
struct OpenrouterChoice {
    #[serde(default, deserialize_with = "loose")]
    message: Option<OpenrouterMessage>,
    #[serde(default, deserialize_with = "loose")]
    error: Option<OpenrouterError>,
}

#[derive(Deserialize)]
struct OpenrouterMessage {
    #[serde(default, deserialize_with = "loose")]
    annotations: Option<FirstElements<OpenrouterAnnotation>>,
}

#[derive(Deserialize)]
struct OpenrouterAnnotation {
    #[serde(default, deserialize_with = "loose")]
    url_citation: Option<OpenrouterCitation>,
}

#[derive(Deserialize)]
struct OpenrouterCitation {
    #[serde(default, deserialize_with = "loose")]
    url: String,
    #[serde(default, deserialize_with = "loose")]
    title: String,
    #[serde(default, deserialize_with = "loose")]
    content: String,
}
