//! `POST /v1/search` and `POST /v1/scrape`: what a model sees of the web, for people and programs.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse;
use http::{Response, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::owner::RequestOwner;
use super::stored::error::StoredHttpError;
use super::{AppState, respond_with_counted, respond_with_json};
use crate::clock::milliseconds;
use crate::net::Owner;
use crate::net::blocking::run_at_low_priority;
use crate::net::memory::{CountedValue, MemoryKind, SharedMemory};
use crate::serve::DecodedRequest;
use crate::serve::error::{internal, invalid_request};
use crate::tools::web::page::{Page, PageError};
use crate::tools::web::search::{SearchAttempt, UserLocation, WebQuery};
use crate::tools::web::service::{LimitReached, SearchRequest, SearchResult, WebTools};
use crate::tools::web::shown::{
    SearchContext, render_found, render_page, render_page_error, render_results,
};
use crate::turn::wait_for_midnight;

/// The most results that a request may ask for.
pub const MAX_RESULTS: usize = 20;
/// The most domains of a list.
const MAX_DOMAINS: usize = 100;

/// The body of `POST /v1/search`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SearchBody {
    /// The words.
    pub query: String,
    /// How many results are wanted; those of `search_context_size` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results: Option<usize>,
    /// Only results of these domains and of those below them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_domains: Vec<String>,
    /// No results of these domains.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked_domains: Vec<String>,
    /// Where the user is: two letters of ISO 3166-1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub country: Option<String>,
    /// Only results of the last days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recency_days: Option<u32>,
    /// How much text is wanted.
    #[serde(skip_serializing)]
    pub search_context_size: SearchContext,
}

/// The body of `POST /v1/scrape`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScrapeBody {
    /// The address of the page.
    pub url: String,
    /// What is looked for: of a long page the parts that fit it are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The character to read on from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<usize>,
    /// Only the places with this text are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub find: Option<String>,
    /// Whether the whole page is wanted as well.
    pub markdown: bool,
}

/// The answer to a search.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "object", rename = "web.search")]
pub struct SearchAnswer {
    /// What a model would read.
    pub text: String,
    /// The search engine that answered; `None` if none did.
    pub engine: Option<String>,
    /// Whether it comes from the cache.
    pub cached: bool,
    /// The results.
    pub results: Vec<ShownResult>,
    /// The search engines that were asked, in their order.
    pub attempts: Vec<ShownAttempt>,
}

/// A result.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ShownResult {
    /// The address.
    pub url: String,
    /// The title.
    pub title: String,
    /// What the search engine shows of the page.
    pub snippet: String,
    /// When it was published, as the search engine says it.
    pub published: Option<String>,
    /// How well it fits, from 0 to 1, if the search engine says it.
    pub score: Option<f32>,
    /// Whether it fits less than half.
    pub low_relevance: bool,
    /// Whether it is no result of a search engine, but only the address of a search.
    pub synthetic: bool,
}

/// A search engine that was asked.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ShownAttempt {
    /// Its name.
    pub engine: String,
    /// How long it took, in milliseconds.
    pub ms: u64,
    /// How many results were kept.
    pub results: usize,
    /// Why there are none.
    pub error: Option<String>,
}

/// The answer to a request for a page.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "object", rename = "web.page")]
pub struct ScrapeAnswer {
    /// What a model would read: the page or a part of it, or why there is none.
    pub text: String,
    /// The page; `None` if it was not read.
    pub page: Option<ShownPage>,
    /// Why it was not read.
    pub error: Option<ScrapeFailure>,
}

/// A page that was read.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ShownPage {
    /// Where it was at last.
    pub url: String,
    /// The address that the page gives as its own.
    pub canonical: Option<String>,
    /// The title.
    pub title: String,
    /// When it was published, as the page says it.
    pub published: Option<String>,
    /// How it was got.
    pub fetched_by: String,
    /// The bytes that were received.
    pub received_bytes: usize,
    /// The characters of the whole content.
    pub content_length: usize,
    /// The whole content, if that is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub markdown: Option<String>,
}

/// Why a page was not read.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ScrapeFailure {
    /// The kind, for programs.
    pub code: String,
    /// For people.
    pub message: String,
}

/// Searches.
pub async fn search_answer(
    tools: &WebTools,
    body: SearchBody,
) -> Result<SearchAnswer, LimitReached> {
    let context = body.search_context_size;
    let country = body.country.map(|country| UserLocation {
        country: Some(country),
        ..UserLocation::default()
    });
    let request = SearchRequest {
        query: WebQuery {
            text: body.query,
            results: body.results.unwrap_or_else(|| context.results()),
            allowed_domains: body.allowed_domains,
            blocked_domains: body.blocked_domains,
            location: country,
            recency_days: body.recency_days,
        },
        cache_only: false,
    };
    let report = tools.search(&request).await;
    if let Some(refused) = report.refused {
        return Err(refused);
    }
    Ok(SearchAnswer {
        text: render_results(&report, context),
        engine: report.engine.map(|engine| engine.name().to_owned()),
        cached: report.is_cached,
        results: report.results.into_iter().map(Into::into).collect(),
        attempts: report.attempts.into_iter().map(Into::into).collect(),
    })
}

/// Reads a page.
pub async fn scrape_answer(
    tools: &WebTools,
    body: &ScrapeBody,
) -> Result<ScrapeAnswer, LimitReached> {
    let shown = match tools.open(&body.url).await {
        Ok(page) => shown_text(&page, body).await.map(|text| (page, text)),
        Err(error) => Err(error),
    };
    Ok(match shown {
        Ok((page, text)) => ScrapeAnswer {
            text,
            page: Some(ShownPage::new(&page, body.markdown)),
            error: None,
        },
        Err(PageError::Limit(refused)) => return Err(refused),
        Err(error) => ScrapeAnswer {
            text: render_page_error(&body.url, &error),
            page: None,
            error: Some(ScrapeFailure {
                code: error.code().name().to_owned(),
                message: error.to_string(),
            }),
        },
    })
}

/// What a model would read of a page.
async fn shown_text(page: &Arc<Page>, body: &ScrapeBody) -> Result<String, PageError> {
    let page = Arc::clone(page);
    let (find, query, from) = (
        body.find.clone(),
        body.query.clone(),
        body.from.unwrap_or(0),
    );
    let text = run_at_low_priority(move || match find {
        Some(pattern) => render_found(&page, &pattern),
        None => render_page(&page, query.as_deref(), from),
    });
    text.await.ok_or(PageError::NOT_SHOWN)
}

impl From<LimitReached> for StoredHttpError {
    fn from(refused: LimitReached) -> Self {
        wait_for_midnight(refused.message, refused.wait).into()
    }
}

impl From<SearchResult> for ShownResult {
    fn from(result: SearchResult) -> Self {
        Self {
            url: result.hit.url,
            title: result.hit.title,
            snippet: result.hit.snippet,
            published: result.hit.published,
            score: result.hit.score,
            low_relevance: result.has_low_relevance,
            synthetic: result.is_synthetic,
        }
    }
}

impl From<SearchAttempt> for ShownAttempt {
    fn from(attempt: SearchAttempt) -> Self {
        Self {
            engine: attempt.engine.name().to_owned(),
            ms: milliseconds(attempt.took),
            results: attempt.found.as_ref().map_or(0, |found| *found),
            error: attempt.found.err().map(|failure| failure.to_string()),
        }
    }
}

impl ShownPage {
    fn new(page: &Page, is_whole: bool) -> Self {
        let fetched_by: &str = page.fetched_by.into();
        Self {
            url: page.url.clone(),
            canonical: page.canonical.clone(),
            title: page.title.clone(),
            published: page.published.clone(),
            fetched_by: fetched_by.to_owned(),
            received_bytes: page.received_bytes,
            content_length: page.markdown.chars().count(),
            markdown: is_whole.then(|| page.markdown.clone()),
        }
    }
}

/// `POST /v1/search`: a [`SearchAnswer`].
pub(super) async fn search(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    request: DecodedRequest,
) -> Result<Response<Body>, StoredHttpError> {
    let body: SearchBody = parsed(&request.body)?;
    check_text("query", &body.query)?;
    if body
        .results
        .is_some_and(|results| !(1..=MAX_RESULTS).contains(&results))
    {
        return Err(wrong("results", &format!("must be 1 to {MAX_RESULTS}.")));
    }
    for (name, domains) in [
        ("allowed_domains", &body.allowed_domains),
        ("blocked_domains", &body.blocked_domains),
    ] {
        if domains.len() > MAX_DOMAINS {
            return Err(wrong(name, &format!("may have {MAX_DOMAINS} domains.")));
        }
    }
    let _slot = app.service.admit(&owner, &app.service.config.load())?;
    let Some(tools) = app.web.of_owner(&owner) else {
        return Ok(search_is_off());
    };
    Ok(respond_with_json(&search_answer(&tools, body).await?))
}

/// `POST /v1/scrape`: a [`ScrapeAnswer`]. A page that cannot be read is no error of the request.
pub(super) async fn scrape(
    State(app): State<AppState>,
    RequestOwner(Owner(owner)): RequestOwner,
    request: DecodedRequest,
) -> Result<Response<Body>, StoredHttpError> {
    let body: ScrapeBody = parsed(&request.body)?;
    check_text("url", &body.url)?;
    let _slot = app.service.admit(&owner, &app.service.config.load())?;
    let Some(tools) = app.web.of_owner(&owner) else {
        return Ok(search_is_off());
    };
    let answer = scrape_answer(&tools, &body).await?;
    let Ok(json) = serde_json::to_vec(&answer) else {
        return Ok(internal());
    };
    let mut share = app.memory.of_owner(&owner).share(MemoryKind::Answers);
    share.set(json.len());
    let json = CountedValue::new(json, SharedMemory::new(share));
    Ok(respond_with_counted("application/json", json))
}

pub(super) fn parsed<T: DeserializeOwned>(body: &str) -> Result<T, StoredHttpError> {
    // serde would read a list as the fields in their order.
    if !body.trim_start().starts_with('{') {
        return Err(wrong("body", "must be a JSON object."));
    }
    serde_json::from_str(body).map_err(|error| wrong("body", &format!("cannot be used: {error}.")))
}

fn check_text(name: &str, text: &str) -> Result<(), StoredHttpError> {
    if text.trim().is_empty() {
        return Err(wrong(name, "must be a text that is not empty."));
    }
    Ok(())
}

pub(super) fn wrong(name: &str, why: &str) -> StoredHttpError {
    StoredHttpError::Body {
        param: name.to_owned(),
        message: format!("'{name}' {why}"),
    }
}

pub(super) fn search_is_off() -> Response<Body> {
    let message = "This server neither searches the web nor reads its pages: they are off in its configuration (mode in [search]).";
    invalid_request(StatusCode::NOT_FOUND, "search_off", message).into_response()
}
