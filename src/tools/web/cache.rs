//! Searches that were made a while ago, and those that run.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Shared, WeakShared};
use hashlink::LinkedHashMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::search::WebQuery;
use super::service::SearchReport;

/// Bytes of a result or a query besides its texts.
const FRAME: usize = 200;

/// The searches of one [`WebTools`](super::service::WebTools).
pub(super) struct SearchCache {
    lifetime: Duration,
    /// The most bytes.
    limit: usize,
    state: Mutex<CacheState>,
}

#[derive(Default)]
struct CacheState {
    /// The one that was not read for the longest time comes first.
    kept: LinkedHashMap<WebQuery, KeptSearch>,
    bytes: usize,
    running: HashMap<WebQuery, WeakShared<SearchTask>>,
}

struct KeptSearch {
    report: Arc<SearchReport>,
    until: Instant,
    bytes: usize,
}

/// A search that runs.
type SearchTask = Pin<Box<dyn Future<Output = Arc<SearchReport>> + Send>>;

/// A search that the caller waits for.
pub(super) enum SearchRun {
    /// The caller has begun it.
    Begun(Shared<SearchTask>),
    /// Somebody else has begun it.
    Joined(Shared<SearchTask>),
}

impl SearchCache {
    /// An empty cache, in which results stay for `lifetime` and take at most `limit` bytes.
    pub(super) fn new(lifetime: Duration, limit: usize) -> Self {
        Self {
            lifetime,
            limit,
            state: Mutex::default(),
        }
    }

    /// What is kept, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// What an earlier search has found.
    pub(super) fn get(&self, query: &WebQuery) -> Option<Arc<SearchReport>> {
        let mut state = self.state.lock();
        let kept = state.kept.to_back(query)?;
        if kept.until > Instant::now() {
            return Some(Arc::clone(&kept.report));
        }
        state.remove(query);
        None
    }

    /// Keeps what a search has found.
    pub(super) fn keep(&self, query: WebQuery, report: SearchReport) {
        let bytes = bytes_of(&query, &report);
        if self.lifetime.is_zero() || bytes > self.limit {
            return;
        }
        let mut state = self.state.lock();
        state.remove(&query);
        state.bytes += bytes;
        let kept = KeptSearch {
            report: Arc::new(report),
            until: Instant::now() + self.lifetime,
            bytes,
        };
        state.kept.insert(query, kept);
        while state.bytes > self.limit
            && let Some((_, oldest)) = state.kept.pop_front()
        {
            state.bytes -= oldest.bytes;
        }
    }

    /// The search that runs for this query, or a new one, if there may be one. It ends when nobody
    /// waits for it.
    pub(super) fn once<E>(
        &self,
        query: &WebQuery,
        make: impl FnOnce() -> Result<SearchTask, E>,
    ) -> Result<SearchRun, E> {
        let running = &mut self.state.lock().running;
        let known = running.get(query).and_then(WeakShared::upgrade);
        if let Some(known) = known.filter(|known| known.peek().is_none()) {
            return Ok(SearchRun::Joined(known));
        }
        running.retain(|_, other| other.upgrade().is_some());
        let task = make()?.shared();
        if let Some(weak) = task.downgrade() {
            running.insert(query.clone(), weak);
        }
        Ok(SearchRun::Begun(task))
    }
}

impl CacheState {
    fn remove(&mut self, query: &WebQuery) {
        if let Some(removed) = self.kept.remove(query) {
            self.bytes -= removed.bytes;
        }
    }
}

fn bytes_of(query: &WebQuery, report: &SearchReport) -> usize {
    let domains = query.allowed_domains.iter().chain(&query.blocked_domains);
    let domains: usize = domains.map(|domain| domain.len() + FRAME).sum();
    let location = query.location.iter().flat_map(|place| {
        let parts = [&place.country, &place.region, &place.city, &place.timezone];
        parts.map(|part| part.as_ref().map_or(0, String::len))
    });
    let results = report.results.iter().map(|result| {
        let hit = &result.hit;
        let published = hit.published.as_ref().map_or(0, String::len);
        FRAME + hit.url.len() + hit.title.len() + hit.snippet.len() + published
    });
    FRAME + query.text.len() + domains + location.sum::<usize>() + results.sum::<usize>()
}
