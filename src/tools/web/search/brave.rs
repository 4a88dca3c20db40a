//! Brave Search.
//!
//! Request: <https://api-dashboard.search.brave.com/api-reference/web/search/get>; `count` is at
//! most 20, `q` at most 400 characters and 50 words. Countries, and `freshness`, which takes a
//! range of dates: brave/brave-search-mcp-server, src/tools/web/params.ts. There is no parameter
//! for domains, but operators:
//! <https://api-dashboard.search.brave.com/documentation/resources/search-operators>. Results:
//! src/tools/web/types.ts of the same repository; `web` may be absent, `page_age` is the date of a
//! page, and there is no score. Key: `BRAVE_SEARCH_API_KEY` of
//! <https://skills.sh/brave/brave-search-skills/web-search>, `BRAVE_API_KEY` of
//! <https://docs.openclaw.ai/ar/tools/brave-search>.
//!
//! A wrong key is a 422 with `SUBSCRIPTION_TOKEN_INVALID` in `error.code`, as tests of several
//! clients have it, or in `errors[0].code`, as an example in a copy of the API reference has it.
//! When a limit ends is in `X-RateLimit-Reset`:
//! <https://api.search.brave.com/app/documentation/web-search/response-headers>.

use http::{HeaderName, StatusCode};
use jiff::civil::Date;
use serde::Deserialize;
use serde_json::Value;

use super::answer::{FirstElements, SearchReply, found, hit, loose};
use super::engine::EngineFacts;
use super::recency::first_day;
use super::request::{count, country};
use super::words::{WordLimit, words_with_sites};
use super::{EngineSettings, SearchError, SearchHit, SearchKind, WebQuery, WebRequest};

pub(super) const FACTS: EngineFacts = EngineFacts {
    kind: SearchKind::Raw,
    key_variables: &["BRAVE_API_KEY", "BRAVE_SEARCH_API_KEY"],
    base_url: Some("https://api.search.brave.com/res/v1"),
    request,
    read,
};

const MAX_RESULTS: usize = 20;

const LIMIT: WordLimit = WordLimit {
    chars: 400,
    words: 50,
};

/// Another country is refused.
const COUNTRIES: [&str; 36] = [
    "AR", "AT", "AU", "BE", "BR", "CA", "CH", "CL", "CN", "DE", "DK", "ES", "FI", "FR", "GB", "HK",
    "ID", "IN", "IT", "JP", "KR", "MX", "MY", "NL", "NO", "NZ", "PH", "PL", "PT", "RU", "SA", "SE",
    "TR", "TW", "US", "ZA",
];

const KEY: HeaderName = HeaderName::from_static("x-subscription-token");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

fn request(
    query: &WebQuery,
    settings: &EngineSettings,
    today: Date,
) -> Result<WebRequest, SearchError> {
    let mut url = settings.endpoint(&["web", "search"]);
    {
        let mut pairs = url.query_pairs_mut();
        pairs.append_pair("q", &words_with_sites(query, &LIMIT));
        if let Some(count) = count(query, MAX_RESULTS) {
            pairs.append_pair("count", &count.to_string());
        }
        let country = country(query).filter(|country| COUNTRIES.contains(&country.as_str()));
        if let Some(country) = country {
            pairs.append_pair("country", &country);
        }
        if let Some(days) = query.recency_days {
            let range = format!("{}to{today}", first_day(today, days));
            pairs.append_pair("freshness", &range);
        }
        // Otherwise words of the query are marked with tags.
        pairs.append_pair("text_decorations", "false");
    }
    WebRequest::get(url).with_key(KEY, settings.key()?)
}

fn read(reply: &SearchReply<'_>) -> Result<Vec<SearchHit>, SearchError> {
    if reply.status == StatusCode::UNPROCESSABLE_ENTITY && is_about_the_key(reply.body) {
        return Err(SearchError::Key(reply.status));
    }
    let answer: BraveAnswer = reply.json().map_err(|error| match error {
        SearchError::RateLimit { retry_after } => SearchError::RateLimit {
            retry_after: retry_after.or_else(|| reset(reply)),
        },
        error => error,
    })?;
    let Some(web) = answer.web else {
        // An answer says that it is one.
        return Err(match answer.kind.as_str() {
            "search" => SearchError::Empty,
            _ => SearchError::BadReply,
        });
    };
    let results = web.results.elements.into_iter().filter_map(|result| {
        let hit = hit(&result.url, &result.title, &result.description)?;
        Some(hit.published(&result.page_age))
    });
    found(web.results.listed, results.collect())
}

fn is_about_the_key(body: &[u8]) -> bool {
    let body: Option<Value> = serde_json::from_slice(body).ok();
    let code = body.as_ref().and_then(|body| {
        let code = body.pointer("/error/code");
        code.or_else(|| body.pointer("/errors/0/code"))
    });
    let code = code.and_then(Value::as_str).unwrap_or_default();
    code.starts_with("SUBSCRIPTION_TOKEN")
}

/// The seconds until all windows that are used up have ended. The headers list the windows in the
/// same order: `0, 9000` and `1, 86400`.
fn reset(reply: &SearchReply<'_>) -> Option<u64> {
    let remaining = reply.header(&REMAINING)?.split(',');
    let resets = reply.header(&RESET)?.split(',');
    let windows = remaining.zip(resets);
    let used_up = windows.filter(|(remaining, _)| remaining.trim() == "0");
    used_up
        .filter_map(|(_, reset)| reset.trim().parse().ok())
        .max()
}

#[derive(Deserialize)]
struct BraveAnswer {
    #[serde(default, deserialize_with = "loose", rename = "type")]
    kind: String,
    web: Option<BraveWeb>,
}

#[derive(Deserialize)]
struct BraveWeb {
    results: FirstElements<BraveResult>,
}

#[derive(Deserialize)]
struct BraveResult {
    #[serde(default, deserialize_with = "loose")]
    url: String,
    #[serde(default, deserialize_with = "loose")]
    title: String,
    #[serde(default, deserialize_with = "loose")]
    description: String,
    #[serde(default, deserialize_with = "loose")]
    page_age: String,
}
