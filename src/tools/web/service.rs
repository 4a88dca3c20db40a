//! What turns, endpoints and commands use: searches with a cache, and pages.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use thiserror::Error;
use tokio::time::timeout;

use super::cache::{SearchCache, SearchRun};
use super::client::WebError;
use super::fetch::{FetchError, page_url};
use super::page::{Page, PageError, PageReader, RENEWAL_TIMEOUT};
use super::search::{
    SearchAttempt, SearchEngine, SearchHit, Searcher, WebQuery, filter_hits, page_address,
};
use super::shown::synthetic;

/// The most searches of one call of a model.
pub const MAX_SEARCHES: usize = 4;

/// A result that fits less than this is marked.
const LOW_RELEVANCE: f32 = 0.5;

/// Searches the web and reads its pages. Made with the server, or by a command; clones share what
/// is behind the pointers.
#[derive(Clone)]
pub struct WebTools {
    searcher: Arc<dyn Searcher>,
    reader: Arc<dyn PageReader>,
    cache: Arc<SearchCache>,
    observer: WebObserver,
    budget: WebBudget,
}

impl fmt::Debug for WebTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebTools").finish_non_exhaustive()
    }
}

/// Is told of each search and page, to count them.
pub type WebObserver = Arc<dyn Fn(WebEvent<'_>) + Send + Sync>;

/// What was done.
#[derive(Clone, Copy, Debug)]
pub enum WebEvent<'e> {
    /// A search. If several ask for the same at once, it is one.
    Searched(&'e SearchReport),
    /// A page.
    Opened(Result<&'e Page, &'e PageError>),
}

/// Counts what somebody uses of the web, and refuses what is beyond a limit.
pub type WebBudget = Arc<dyn Fn(WebUse) -> Result<(), LimitReached> + Send + Sync>;

/// What is used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WebUse {
    /// A search that is about to be sent to a search engine.
    Search,
    /// A page that is about to be asked for.
    Page,
    /// US dollars of a search that was answered, which is never refused.
    Cost(f64),
}

/// A limit of the day that somebody has reached.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the limit of the day is reached")]
pub struct LimitReached {
    /// For whoever has sent the request: which limit it is, and until when.
    pub message: String,
    /// How long that lasts.
    pub wait: Duration,
}

impl LimitReached {
    /// What the model is told of a search that the limit has refused.
    pub fn of_search(&self) -> String {
        format!("Nothing was searched: {self}.")
    }
}

/// A search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchRequest {
    /// What is searched for.
    pub query: WebQuery,
    /// Only what an earlier search has found is wanted: `external_web_access: false`.
    pub cache_only: bool,
}

/// How a search went.
#[derive(Clone, Debug, Default)]
pub struct SearchReport {
    /// The search engine that answered; `None` if none did.
    pub engine: Option<SearchEngine>,
    /// What it found, at most as many as were asked for.
    pub results: Vec<SearchResult>,
    /// The search engines that were asked, in their order; empty for what comes from the cache.
    pub attempts: Vec<SearchAttempt>,
    /// Whether it comes from the cache.
    pub is_cached: bool,
    /// Why nothing was searched; there are no results then.
    pub refused: Option<LimitReached>,
}

impl SearchReport {
    /// What the search has cost, in US dollars.
    pub fn cost(&self) -> f64 {
        self.attempts.iter().map(|attempt| attempt.cost).sum()
    }
}

/// A result of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchResult {
    /// The page.
    pub hit: SearchHit,
    /// It fits less than half. It is kept, and only marked.
    pub has_low_relevance: bool,
    /// No search engine has found it: it is the address of a search, for a human. Never cited.
    pub is_synthetic: bool,
}

impl WebTools {
    /// Web tools that search and read with these, and keep nothing.
    pub fn new(searcher: Arc<dyn Searcher>, reader: Arc<dyn PageReader>) -> Self {
        Self {
            searcher,
            reader,
            cache: Arc::new(SearchCache::new(Duration::ZERO, 0)),
            observer: Arc::new(|_| {}),
            budget: Arc::new(|_| Ok(())),
        }
    }

    /// The same tools, with a cache: results are used again for `lifetime`, and take `bytes` bytes
    /// at most. It is that of these search engines in their order.
    #[must_use]
    pub fn with_cache(self, lifetime: Duration, bytes: usize) -> Self {
        let cache = Arc::new(SearchCache::new(lifetime, bytes));
        Self { cache, ..self }
    }

    /// The same tools, with an observer.
    #[must_use]
    pub fn observed(self, observer: WebObserver) -> Self {
        Self { observer, ..self }
    }

    /// The same tools, within this budget.
    #[must_use]
    pub fn within(self, budget: WebBudget) -> Self {
        Self { budget, ..self }
    }

    /// The results that are kept, in bytes.
    pub fn cached_bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// Searches. It always has results, unless only cached ones are wanted or the budget allows no
    /// search: if no search engine has any, it has one that is synthetic. A search that is on its
    /// way already is joined: it counts and costs for the one who has begun it, and ends when all
    /// who wait for it have dropped the future.
    pub async fn search(&self, request: &SearchRequest) -> SearchReport {
        let query = &request.query;
        if let Some(results) = self.cache.get(query) {
            let report = SearchReport {
                is_cached: true,
                ..SearchReport::clone(&results)
            };
            (self.observer)(WebEvent::Searched(&report));
            return report;
        }
        if request.cache_only {
            return SearchReport {
                is_cached: true,
                ..SearchReport::default()
            };
        }
        let run = self.cache.once(query, || {
            if !self.searcher.is_paused() {
                (self.budget)(WebUse::Search)?;
            }
            let (tools, query) = (self.clone(), query.clone());
            Ok(Box::pin(async move { tools.ask(query).await }) as _)
        });
        match run {
            Ok(SearchRun::Begun(task)) => SearchReport::clone(&*task.await),
            Ok(SearchRun::Joined(task)) => {
                let mut report = SearchReport::clone(&*task.await);
                for attempt in &mut report.attempts {
                    attempt.cost = 0.0;
                }
                report
            }
            Err(refused) => SearchReport {
                refused: Some(refused),
                ..SearchReport::default()
            },
        }
    }

    /// Searches for all of these at once. The reports are in their order, and have `most` results
    /// together, each page once: the best of each, then the next of each.
    pub async fn search_all(&self, requests: &[SearchRequest], most: usize) -> Vec<SearchReport> {
        let searches: Vec<_> = requests
            .iter()
            .map(|request| self.search(request))
            .collect();
        let mut reports = join_all(searches).await;
        let found = reports
            .iter_mut()
            .map(|report| std::mem::take(&mut report.results).into_iter());
        let mut found: Vec<_> = found.collect();
        let mut seen = HashSet::new();
        for _ in 0..most {
            for (report, found) in reports.iter_mut().zip(&mut found) {
                if seen.len() < most {
                    let is_new = |result: &SearchResult| seen.insert(page_address(&result.hit.url));
                    report.results.extend(found.find(is_new));
                }
            }
        }
        reports
    }

    async fn ask(self, query: WebQuery) -> Arc<SearchReport> {
        let outcome = self.searcher.search(&query).await;
        let results = filter_hits(&query, outcome.hits).into_iter();
        let results = results.map(|hit| SearchResult {
            has_low_relevance: hit.score.is_some_and(|score| score < LOW_RELEVANCE),
            is_synthetic: false,
            hit,
        });
        let mut report = SearchReport {
            engine: outcome.engine,
            results: results.collect(),
            attempts: outcome.attempts,
            is_cached: false,
            refused: None,
        };
        (self.observer)(WebEvent::Searched(&report));
        // A cost is not refused.
        let _ = (self.budget)(WebUse::Cost(report.cost()));
        if report.results.is_empty() {
            report.engine = None;
            report.results.extend(synthetic(&query, &report.attempts));
            return Arc::new(report);
        }
        // A report from the cache names no search engine that was asked.
        let kept = SearchReport {
            attempts: Vec::new(),
            ..report.clone()
        };
        self.cache.keep(query, kept);
        Arc::new(report)
    }

    /// Reads a page of which there is an old copy, which is better than waiting for long.
    pub async fn renew(&self, url: &str) -> Result<Arc<Page>, PageError> {
        let late = |_| FetchError::NoAnswer(WebError::Timeout(RENEWAL_TIMEOUT));
        timeout(RENEWAL_TIMEOUT, self.open(url))
            .await
            .map_err(late)?
    }

    /// Reads a page.
    pub async fn open(&self, url: &str) -> Result<Arc<Page>, PageError> {
        // What is no address is refused by the reader, and no page is asked for.
        if page_url(url).is_ok() {
            (self.budget)(WebUse::Page)?;
        }
        let page = self.reader.read(url).await;
        let seen = page.as_ref().map(AsRef::as_ref);
        (self.observer)(WebEvent::Opened(seen));
        page
    }
}

#[cfg(test)]
mod tests;
