//! SearXNG: an instance of the user, which asks other search engines.
//!
//! Request, and the 403 for JSON that is off: <https://docs.searxng.org/dev/search_api>
//! (searxng/searxng, docs/dev/search_api.rst). It takes no count, no domains and no country, and
//! passes operators on. `time_range`: searx/webadapter.py, `parse_time_range`, which knows weeks as
//! well. Fields of results: docs/dev/engines/engine_overview.rst; `publishedDate` may be null. The
//! score adds up weights and positions (searx/results.py, `calculate_score`), so it is none from 0
//! to 1. Nothing found is an empty list.

use http::StatusCode;
use jiff::civil::Date;
use serde::Deserialize;

use super::answer::{FirstElements, SearchReply, found, hit, loose};
use super::engine::EngineFacts;
use super::recency::Recency;
use super::words::{WordLimit, words_with_sites};
use super::{EngineSettings, SearchError, SearchHit, SearchKind, WebQuery, WebRequest};

pub(super) const FACTS: EngineFacts = EngineFacts {
    kind: SearchKind::Raw,
    key_variables: &[],
    base_url: None,
    request,
    read,
};

const JSON_IS_OFF: &str = "this SearXNG does not answer in JSON; \
    add json to search.formats in its settings.yml";

#[expect(
    clippy::unnecessary_wraps,
    reason = "all search engines have this signature"
)]
fn request(
    query: &WebQuery,
    settings: &EngineSettings,
    _today: Date,
) -> Result<WebRequest, SearchError> {
    let mut url = settings.endpoint(&["search"]);
    {
        let mut pairs = url.query_pairs_mut();
        pairs.append_pair("q", &words_with_sites(query, &WordLimit::USUAL));
        pairs.append_pair("format", "json");
        if let Some(recency) = query.recency_days.and_then(Recency::of) {
            pairs.append_pair("time_range", recency.name());
        }
    }
    Ok(WebRequest::get(url))
}

fn read(reply: &SearchReply<'_>) -> Result<Vec<SearchHit>, SearchError> {
    if reply.status == StatusCode::FORBIDDEN {
        return Err(reply.refused(JSON_IS_OFF));
    }
    if !reply.status.is_success() {
        return Err(reply.keyless_refusal());
    }
    let answer: SearxngAnswer = reply.json()?;
    let results = answer.results.elements.into_iter().filter_map(|result| {
        let hit = hit(&result.url, &result.title, &result.content)?;
        Some(hit.published(&result.date))
    });
    found(answer.results.listed, results.collect())
}

#[derive(Deserialize)]
struct SearxngAnswer {
    results: FirstElements<SearxngResult>,
}

#[derive(Deserialize)]
struct SearxngResult {
    #[serde(default, deserialize_with = "loose")]
    url: String,
    #[serde(default, deserialize_with = "loose")]
    title: String,
    #[serde(default, deserialize_with = "loose")]
    content: String,
    #[serde(default, deserialize_with = "loose", rename = "publishedDate")]
    date: String,
}
