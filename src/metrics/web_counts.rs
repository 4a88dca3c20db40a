//! The counters of web searches and pages.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};

use super::{Counters, Labels, add, count};

/// Counts searches and pages. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct WebCounts {
    searches: Counters<2>,
    cached: Counter,
    cost: Family<Labels<1>, Counter<f64, AtomicU64>>,
    pages: Counters<2>,
    activity: Arc<Mutex<WebActivity>>,
}

/// The searches and pages since the start of the server.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct WebActivity {
    /// The search engines that were asked, by name.
    pub engines: BTreeMap<String, TriedCount>,
    /// What searches have cost in US dollars, by the name of the search engine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub costs: BTreeMap<String, f64>,
    /// The searches that were answered from the cache.
    pub cached_searches: u64,
    /// The pages.
    pub pages: TriedCount,
}

/// What was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct TriedCount {
    /// How often.
    pub tried: u64,
    /// How often it gave nothing.
    pub failed: u64,
}

impl TriedCount {
    fn add(&mut self, has_failed: bool) {
        self.tried += 1;
        self.failed += u64::from(has_failed);
    }
}

impl WebCounts {
    /// Counts a search engine that was asked, or that was not because it is paused. `result` is
    /// `found` or the kind of failure.
    pub fn asked(&self, engine: &'static str, result: &'static str) {
        let labels = [("engine", engine.into()), ("result", result.into())];
        count(&self.searches, &labels);
        let engines = &mut self.activity.lock().engines;
        let of_engine = engines.entry(engine.to_owned()).or_default();
        of_engine.add(result != FOUND);
    }

    /// Counts what a search has cost, in US dollars.
    pub fn paid(&self, engine: &'static str, cost: f64) {
        let labels = [("engine", engine.into())];
        self.cost.get_or_create(&labels).inc_by(cost);
        let costs = &mut self.activity.lock().costs;
        *costs.entry(engine.to_owned()).or_default() += cost;
    }

    /// Counts a search that was answered from the cache.
    pub fn cached(&self) {
        self.cached.inc();
        self.activity.lock().cached_searches += 1;
    }

    /// Counts a page, by how it was got and by `found` or the kind of failure.
    pub fn page(&self, strategy: &'static str, result: &'static str) {
        let labels = [("strategy", strategy.into()), ("result", result.into())];
        count(&self.pages, &labels);
        self.activity.lock().pages.add(result != FOUND);
    }

    /// The sums.
    pub fn activity(&self) -> WebActivity {
        self.activity.lock().clone()
    }

    pub(super) fn registered(all: &mut Registry) -> Self {
        Self {
            searches: add(
                all,
                "web_searches",
                "Search engines that were asked, by what came of it",
            ),
            cached: add(
                all,
                "web_searches_cached",
                "Searches that were answered from the cache",
            ),
            cost: add(
                all,
                "web_search_cost_dollars",
                "US dollars of searches, by the prices in the configuration",
            ),
            pages: add(
                all,
                "web_pages",
                "Pages that were to be read, by how they were got and by what came of it",
            ),
            activity: Arc::default(),
        }
    }
}

/// The result of what has not failed.
pub const FOUND: &str = "found";
