//! What turns, endpoints and commands use: searches with a cache, and pages.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::cache::SearchCache;
use super::page::{Page, PageError, PageReader};
use super::search::{SearchAttempt, SearchEngine, SearchHit, Searcher, WebQuery, filter_hits};
use super::shown::synthetic;

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
        }
    }

    /// The same tools, with a cache: results are used again for so long, and take at most so many
    /// bytes. It is that of these search engines in their order.
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

    /// The results that are kept, in bytes.
    pub fn cached_bytes(&self) -> usize {
        self.cache.bytes()
    }

    /// Searches. It always has results, unless only cached ones are wanted: if no search engine has
    /// any, it has one that is synthetic. The same search by several at once is one, which ends
    /// when all of them have dropped the future.
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
        let found = self.cache.once(query, || {
            let (tools, query) = (self.clone(), query.clone());
            Box::pin(async move { tools.ask(query).await })
        });
        SearchReport::clone(&*found.await)
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
        };
        (self.observer)(WebEvent::Searched(&report));
        if report.results.is_empty() {
            report.engine = None;
            report.results.extend(synthetic(&query, &report.attempts));
            return Arc::new(report);
        }
        // Who reads it again has asked nobody.
        let kept = SearchReport {
            attempts: Vec::new(),
            ..report.clone()
        };
        self.cache.keep(query, kept);
        Arc::new(report)
    }

    /// Reads a page.
    pub async fn open(&self, url: &str) -> Result<Arc<Page>, PageError> {
        let page = self.reader.read(url).await;
        let seen = page.as_ref().map(AsRef::as_ref);
        (self.observer)(WebEvent::Opened(seen));
        page
    }
}

#[cfg(test)]
mod tests;
