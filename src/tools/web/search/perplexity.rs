//! The Search API of Perplexity, which ranks pages and writes no text of its own.
//!
//! Request and results: <https://docs.perplexity.ai/api-reference/search-post>, with the names of
//! the fields in api-evangelist/perplexity, json-schema/perplexity-apisearchrequest-schema.json and
//! perplexity-datefilters-schema.json: `max_results` is at most 20 for pages, domains are at most
//! 20, `max_tokens` and `max_tokens_per_page` go from 1 to 1,000,000, dates are `MM/DD/YYYY`,
//! `country` has two letters. Either allowed domains or blocked ones with a `-`:
//! <https://docs.perplexity.ai/docs/cookbook/articles/search-domain-filtering/README>. `date` is
//! the date of a page; there is no score. Refusals have a `message`
//! (perplexity-errorinfo-schema.json). Key:
//! <https://docs.langchain.com/oss/python/integrations/tools/perplexity_search>.

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
    key_variables: &["PERPLEXITY_API_KEY", "PPLX_API_KEY"],
    base_url: Some("https://api.perplexity.ai"),
    request,
    read,
};

const MAX_RESULTS: usize = 20;

const MAX_DOMAINS: usize = 20;

const MAX_TOKENS: usize = 1_000_000;

/// The tokens of a result, of which a model gets about 400.
const TOKENS_PER_PAGE: usize = 512;

fn request(
    query: &WebQuery,
    settings: &EngineSettings,
    today: Date,
) -> Result<WebRequest, SearchError> {
    let mut body = Map::new();
    body.insert("query".into(), words(query, &WordLimit::USUAL).into());
    if let Some(mut results) = count(query, MAX_RESULTS) {
        let of = |limit: Option<u32>| limit.and_then(|limit| usize::try_from(limit).ok());
        let limits = settings.limits;
        results = results.min(of(limits.results).unwrap_or(results));
        let per_page = of(limits.tokens_per_page).unwrap_or(TOKENS_PER_PAGE);
        let all = of(limits.tokens).unwrap_or(results.saturating_mul(per_page));
        body.insert("max_results".into(), results.into());
        body.insert("max_tokens".into(), all.min(MAX_TOKENS).into());
        body.insert(
            "max_tokens_per_page".into(),
            per_page.min(MAX_TOKENS).into(),
        );
    }
    let mut filter = domains(&query.allowed_domains);
    if filter.is_empty() {
        let blocked = domains(&query.blocked_domains).into_iter();
        filter = blocked.map(|domain| format!("-{domain}")).collect();
    }
    filter.truncate(MAX_DOMAINS);
    if !filter.is_empty() {
        body.insert("search_domain_filter".into(), json!(filter));
    }
    if let Some(days) = query.recency_days {
        let first = first_day(today, days).strftime("%m/%d/%Y").to_string();
        body.insert("search_after_date_filter".into(), first.into());
    }
    if let Some(country) = country(query) {
        body.insert("country".into(), country.into());
    }
    let url = settings.endpoint(&["search"]);
    WebRequest::post(url, body).with_bearer(settings.key()?)
}

fn read(reply: &SearchReply<'_>) -> Result<Vec<SearchHit>, SearchError> {
    let answer: PerplexityAnswer = reply.json()?;
    let results = answer.results.elements.into_iter().filter_map(|result| {
        let hit = hit(&result.url, &result.title, &result.snippet)?;
        Some(hit.published(&result.date))
    });
    found(answer.results.listed, results.collect())
}

#[derive(Deserialize)]
struct PerplexityAnswer {
    results: FirstElements<PerplexityResult>,
}

#[derive(Deserialize)]
struct PerplexityResult {
    #[serde(default, deserialize_with = "loose")]
    url: String,
    #[serde(default, deserialize_with = "loose")]
    title: String,
    #[serde(default, deserialize_with = "loose")]
    snippet: String,
    #[serde(default, deserialize_with = "loose")]
    date: String,
}
