//! Tavily.
//!
//! Request and results: <https://docs.tavily.com/api-reference/endpoint/search>; `max_results` is
//! at most 20. `start_date`, the key and the statuses of refusals, of which 432 and 433 are about
//! the plan: tavily-ai/tavily-python, tavily/tavily.py. A refusal is `{"detail":{"error":"…"}}`,
//! and more than 400 characters are refused: dmbernaal/Maxwell, confluence/tavily-best-practice.md,
//! a copy of Tavily's best practices. The topic `news` alone adds `published_date`:
//! <https://clawhub.ai/api/v1/skills/tavily-best-practices/file?path=references%2Fsearch.md>. A
//! country would be one of Tavily's English names, so none is sent.

use jiff::civil::Date;
use serde::Deserialize;
use serde_json::{Map, json};

use super::answer::{FirstElements, SearchReply, found, hit, loose};
use super::engine::EngineFacts;
use super::filter::domains;
use super::recency::first_day;
use super::request::count;
use super::words::{WordLimit, words};
use super::{EngineSettings, SearchError, SearchHit, SearchKind, WebQuery, WebRequest};

pub(super) const FACTS: EngineFacts = EngineFacts {
    kind: SearchKind::Raw,
    key_variables: &["TAVILY_API_KEY"],
    base_url: Some("https://api.tavily.com"),
    request,
    read,
};

const MAX_RESULTS: usize = 20;

const LIMIT: WordLimit = WordLimit::chars(400);

fn request(
    query: &WebQuery,
    settings: &EngineSettings,
    today: Date,
) -> Result<WebRequest, SearchError> {
    let mut body = Map::new();
    body.insert("query".into(), words(query, &LIMIT).into());
    if let Some(count) = count(query, MAX_RESULTS) {
        body.insert("max_results".into(), count.into());
    }
    let allowed = domains(&query.allowed_domains);
    if !allowed.is_empty() {
        body.insert("include_domains".into(), json!(allowed));
    }
    let blocked = domains(&query.blocked_domains);
    if !blocked.is_empty() {
        body.insert("exclude_domains".into(), json!(blocked));
    }
    if let Some(days) = query.recency_days {
        let first = first_day(today, days).to_string();
        body.insert("start_date".into(), first.into());
    }
    let url = settings.endpoint(&["search"]);
    WebRequest::post(url, body).with_bearer(settings.key()?)
}

fn read(reply: &SearchReply<'_>) -> Result<Vec<SearchHit>, SearchError> {
    if matches!(reply.status.as_u16(), 432 | 433) {
        return Err(SearchError::Key(reply.status));
    }
    let answer: TavilyAnswer = reply.json()?;
    let results = answer.results.elements.into_iter().filter_map(|result| {
        let hit = hit(&result.url, &result.title, &result.content)?;
        Some(hit.published(&result.published_date).scored(result.score))
    });
    found(answer.results.listed, results.collect())
}

#[derive(Deserialize)]
struct TavilyAnswer {
    results: FirstElements<TavilyResult>,
}

#[derive(Deserialize)]
struct TavilyResult {
    #[serde(default, deserialize_with = "loose")]
    url: String,
    #[serde(default, deserialize_with = "loose")]
    title: String,
    #[serde(default, deserialize_with = "loose")]
    content: String,
    #[serde(default, deserialize_with = "loose")]
    published_date: String,
    #[serde(default, deserialize_with = "loose")]
    score: Option<f32>,
}
