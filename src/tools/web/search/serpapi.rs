//! SerpApi, which asks DuckDuckGo.
//!
//! Request: <https://serpapi.com/duckduckgo-search-api>, whose parameters are in
//! serpapi/serpapi-mcp, engines/duckduckgo.json: `m` is at most 50, `q` at most 500 characters and
//! takes operators, `df` takes a range of dates and `kl` a region. The key has no other place than
//! the query. Results: <https://serpapi.com/duckduckgo-organic-results>; `date` is the date of a
//! page, and there is no score. Refusals: <https://serpapi.com/api-status-and-error-codes>,
//! `{"error":"…"}`. Nothing found is a success with such an error, which says that DuckDuckGo
//! "hasn't returned any results for this query.". Key:
//! <https://docs.langchain.com/oss/python/integrations/providers/serpapi>.

use http::StatusCode;
use jiff::civil::Date;
use serde::Deserialize;

use super::answer::{FirstElements, SearchReply, found, hit, loose};
use super::engine::EngineFacts;
use super::recency::first_day;
use super::region::region;
use super::request::{count, country};
use super::words::{WordLimit, words_with_sites};
use super::{EngineSettings, SearchError, SearchHit, SearchKind, WebQuery, WebRequest};

pub(super) const FACTS: EngineFacts = EngineFacts {
    kind: SearchKind::Raw,
    key_variables: &["SERPAPI_API_KEY"],
    base_url: Some("https://serpapi.com"),
    request,
    read,
};

const MAX_RESULTS: usize = 50;

const LIMIT: WordLimit = WordLimit::chars(500);

fn request(
    query: &WebQuery,
    settings: &EngineSettings,
    today: Date,
) -> Result<WebRequest, SearchError> {
    let key = settings.key()?;
    let mut url = settings.endpoint(&["search.json"]);
    {
        let mut pairs = url.query_pairs_mut();
        pairs.append_pair("engine", "duckduckgo");
        pairs.append_pair("q", &words_with_sites(query, &LIMIT));
        if let Some(count) = count(query, MAX_RESULTS) {
            pairs.append_pair("m", &count.to_string());
        }
        if let Some(region) = country(query).as_deref().and_then(region) {
            pairs.append_pair("kl", region);
        }
        if let Some(days) = query.recency_days {
            let range = format!("{}..{today}", first_day(today, days));
            pairs.append_pair("df", &range);
        }
        pairs.append_pair("api_key", key.expose());
    }
    Ok(WebRequest::get(url))
}

fn read(reply: &SearchReply<'_>) -> Result<Vec<SearchHit>, SearchError> {
    let is_limit = reply.status == StatusCode::TOO_MANY_REQUESTS;
    // Waiting does not help an account without searches.
    if is_limit && reply.message().contains("run out of searches") {
        return Err(SearchError::Key(reply.status));
    }
    let answer: SerpapiAnswer = reply.json()?;
    if let Some(results) = answer.results {
        let hits = results.elements.into_iter().filter_map(|result| {
            let hit = hit(&result.link, &result.title, &result.snippet)?;
            Some(hit.published(&result.date))
        });
        return found(results.listed, hits.collect());
    }
    Err(match answer.error.as_str() {
        "" => SearchError::BadReply,
        error if error.contains("hasn't returned any results") => SearchError::Empty,
        error => reply.refused(error),
    })
}

#[derive(Deserialize)]
struct SerpapiAnswer {
    #[serde(rename = "organic_results")]
    results: Option<FirstElements<SerpapiResult>>,
    #[serde(default, deserialize_with = "loose")]
    error: String,
}

#[derive(Deserialize)]
struct SerpapiResult {
    #[serde(default, deserialize_with = "loose")]
    link: String,
    #[serde(default, deserialize_with = "loose")]
    title: String,
    #[serde(default, deserialize_with = "loose")]
    snippet: String,
    #[serde(default, deserialize_with = "loose")]
    date: String,
}
