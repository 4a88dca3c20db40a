//! Exa.
//!
//! Request and results: <https://exa.ai/docs/reference/search>, and its OpenAPI description in
//! api-evangelist/exa-ai, openapi/exa-ai-search-api-openapi.yml: `numResults` is at most 100, dates
//! are those of ISO 8601, `userLocation` is a country of two letters, `highlights` are excerpts of
//! a page. Both lists of domains may be sent. That description has no `score`; other answers have
//! one from 0 to 1: <https://docs.rs/lc-tools/latest/src/lc_tools/hosted_search/exa.rs.html>.
//! Refusals: <https://exa.ai/docs/admin/error-codes.md>, `{"requestId":"…","error":"…","tag":"…"}`;
//! a 403 comes with a valid key: <https://exa.ai/docs/reference/error-codes>. Key:
//! <https://docs.crewai.com/v1.15.0/ar/tools/search-research/exasearchtool>.

use http::{HeaderName, StatusCode};
use jiff::civil::Date;
use serde::Deserialize;
use serde_json::{Map, json};

use super::answer::{FirstElements, SearchReply, found, hit, loose};
use super::engine::EngineFacts;
use super::filter::domains;
use super::recency::first_day;
use super::request::{count, country};
use super::words::{WordLimit, words};
use super::{EngineSettings, SearchError, SearchHit, SearchKind, WebQuery, WebRequest};

pub(super) const FACTS: EngineFacts = EngineFacts {
    kind: SearchKind::Raw,
    key_variables: &["EXA_API_KEY"],
    base_url: Some("https://api.exa.ai"),
    request,
    read,
};

const MAX_RESULTS: usize = 100;

const KEY: HeaderName = HeaderName::from_static("x-api-key");

fn request(
    query: &WebQuery,
    settings: &EngineSettings,
    today: Date,
) -> Result<WebRequest, SearchError> {
    let mut body = Map::new();
    body.insert("query".into(), words(query, &WordLimit::USUAL).into());
    if let Some(count) = count(query, MAX_RESULTS) {
        body.insert("numResults".into(), count.into());
    }
    let allowed = domains(&query.allowed_domains);
    if !allowed.is_empty() {
        body.insert("includeDomains".into(), json!(allowed));
    }
    let blocked = domains(&query.blocked_domains);
    if !blocked.is_empty() {
        body.insert("excludeDomains".into(), json!(blocked));
    }
    if let Some(days) = query.recency_days {
        let first = format!("{}T00:00:00.000Z", first_day(today, days));
        body.insert("startPublishedDate".into(), first.into());
    }
    if let Some(country) = country(query) {
        body.insert("userLocation".into(), country.into());
    }
    body.insert("contents".into(), json!({"highlights": true}));
    let url = settings.endpoint(&["search"]);
    WebRequest::post(url, body).with_key(KEY, settings.key()?)
}

fn read(reply: &SearchReply<'_>) -> Result<Vec<SearchHit>, SearchError> {
    if reply.status == StatusCode::FORBIDDEN {
        return Err(reply.keyless_refusal());
    }
    let answer: ExaAnswer = reply.json()?;
    let results = answer.results.elements.into_iter().filter_map(|result| {
        let highlights = result.highlights.map(|list| list.elements);
        let highlights = highlights.unwrap_or_default().join("\n[...]\n");
        let snippet = if highlights.is_empty() {
            &result.text
        } else {
            &highlights
        };
        let hit = hit(&result.url, &result.title, snippet)?;
        Some(hit.published(&result.date).scored(result.score))
    });
    found(answer.results.listed, results.collect())
}

#[derive(Deserialize)]
struct ExaAnswer {
    results: FirstElements<ExaResult>,
}

#[derive(Deserialize)]
struct ExaResult {
    #[serde(default, deserialize_with = "loose")]
    url: String,
    #[serde(default, deserialize_with = "loose")]
    title: String,
    #[serde(default, deserialize_with = "loose")]
    highlights: Option<FirstElements<String>>,
    #[serde(default, deserialize_with = "loose")]
    text: String,
    #[serde(default, deserialize_with = "loose", rename = "publishedDate")]
    date: String,
    #[serde(default, deserialize_with = "loose")]
    score: Option<f32>,
}
