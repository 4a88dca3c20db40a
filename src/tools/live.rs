//! The web tools of a server, which follow its configuration and are counted.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};

use super::setup;
use super::stored_references::StoredReferences;
use super::web::references::WebReferences;
use super::web::service::{
    LimitReached, SearchReport, WebBudget, WebEvent, WebObserver, WebTools, WebUse,
};
use crate::clock::{Clock as _, System};
use crate::config::Config;
use crate::config::search::{SearchConfig, SearchMode};
use crate::metrics::spent::{Spending, SpentToday};
use crate::metrics::{FOUND, Metrics, WebCounts};
use crate::net::memory::{MemoryKind, ProcessMemory};
use crate::turn::check_web_day;

/// The web tools of the configuration in force. They are made when they are first needed, and anew
/// when `[search]` has changed.
#[derive(Debug)]
pub struct LiveWebTools {
    config: Arc<ArcSwap<Config>>,
    counts: WebCounts,
    spent: SpentToday,
    /// What sessions were shown of the web.
    pub references: StoredReferences,
    made: ArcSwapOption<MadeTools>,
    fixed: OnceLock<WebTools>,
    memory: OnceLock<ProcessMemory>,
}

/// The most calls of web tools in one answer, if they are limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallLimits {
    /// Of searches.
    pub searches: Option<u32>,
    /// Of opened pages.
    pub pages: Option<u32>,
}

#[derive(Debug)]
struct MadeTools {
    search: SearchConfig,
    tools: WebTools,
}

impl LiveWebTools {
    /// The tools of a server with this configuration, which are counted here.
    pub fn new(config: Arc<ArcSwap<Config>>, metrics: &Metrics) -> Self {
        let references = WebReferences::new(config.load().references_memory(), System.unix_ms());
        Self {
            config,
            counts: metrics.web().clone(),
            spent: metrics.spent().clone(),
            references: StoredReferences::new(references),
            made: ArcSwapOption::empty(),
            fixed: OnceLock::new(),
            memory: OnceLock::new(),
        }
    }

    /// Whether the configuration has them.
    pub fn are_on(&self) -> bool {
        self.mode() != SearchMode::Off
    }

    /// Who searches where a request offers `web_search`.
    pub fn mode(&self) -> SearchMode {
        self.config.load().search.mode
    }

    /// The most searches and pages of one answer, if they are limited.
    pub fn limits(&self) -> CallLimits {
        let config = self.config.load();
        CallLimits {
            searches: config.search.max_searches,
            pages: config.search.max_pages,
        }
    }

    /// The tools within the limits of an owner's day; `None` if the configuration has none.
    pub fn of_owner(&self, owner: &str) -> Option<WebTools> {
        let budget = self.budget(owner.to_owned());
        self.get().map(|tools| tools.within(budget))
    }

    /// Counts what an owner uses in its day.
    fn budget(&self, owner: String) -> WebBudget {
        let (config, spent) = (Arc::clone(&self.config), self.spent.clone());
        Arc::new(move |used| {
            let mut asked = Spending::default();
            match used {
                WebUse::Search => asked.searches = 1,
                WebUse::Page => asked.pages = 1,
                WebUse::Cost(cost) => asked.cost = cost,
            }
            let limits = config.load().clients.limits(&owner);
            let now = System.unix();
            let check = |spent| check_web_day(&owner, limits, spent, asked, now);
            let counted = spent.reserve(now, &owner, asked, check);
            counted.map_err(|fault| LimitReached {
                wait: Duration::from_secs(fault.retry_after().unwrap_or_default()),
                message: fault.message,
            })
        })
    }

    /// The tools without limits; `None` if the configuration has none.
    fn get(&self) -> Option<WebTools> {
        if !self.are_on() {
            return None;
        }
        let config = self.config.load();
        let search = &config.search;
        if let Some(fixed) = self.fixed.get() {
            return Some(fixed.clone());
        }
        let made = self.made.load();
        if let Some(made) = made.as_ref().filter(|made| made.search == *search) {
            return Some(made.tools.clone());
        }
        match setup::web_tools(search, &self.memory()) {
            Ok(tools) => {
                let tools = tools.observed(counting(self.counts.clone()));
                self.made.store(Some(Arc::new(MadeTools {
                    search: search.clone(),
                    tools: tools.clone(),
                })));
                Some(tools)
            }
            Err(error) => {
                tracing::error!("the web cannot be searched: {error}");
                None
            }
        }
    }

    /// What is received takes memory from this budget, and what is kept counts in it. Called before
    /// the tools are needed.
    pub fn count_memory(self: &Arc<Self>, memory: &ProcessMemory) {
        self.memory.set(memory.clone()).ok();
        let tools = Arc::clone(self);
        memory.add_store(MemoryKind::Memories, move || tools.kept_bytes());
    }

    /// The budget that what is received and held counts in.
    pub fn memory(&self) -> ProcessMemory {
        let memory = self.memory.get().cloned();
        memory.unwrap_or_else(ProcessMemory::unlimited)
    }

    /// These tools are used from now on, whatever the configuration says of search engines.
    pub fn fix(&self, tools: WebTools) {
        self.fixed.set(tools).ok();
    }

    /// What is kept of results and sessions, in bytes.
    fn kept_bytes(&self) -> usize {
        let made = self.made.load();
        let made = made.as_ref().map(|made| &made.tools);
        let all = self.fixed.get().into_iter().chain(made);
        let cached: usize = all.map(WebTools::cached_bytes).sum();
        cached + self.references.bytes()
    }
}

/// Counts and logs what is done, but not what for.
fn counting(counts: WebCounts) -> WebObserver {
    Arc::new(move |event| match event {
        WebEvent::Searched(report) => searched(&counts, report),
        WebEvent::Opened(Ok(page)) => counts.page(page.fetched_by.into(), FOUND),
        WebEvent::Opened(Err(error)) => {
            let code = error.code().name();
            counts.page("none", code);
            tracing::info!("a page was not read: {code}");
        }
    })
}

fn searched(counts: &WebCounts, report: &SearchReport) {
    if report.is_cached {
        return counts.cached();
    }
    for attempt in &report.attempts {
        let engine = attempt.engine.name();
        let ms = attempt.took.as_millis();
        if attempt.cost > 0.0 {
            counts.paid(engine, attempt.cost);
        }
        match &attempt.found {
            Ok(results) => {
                counts.asked(engine, FOUND);
                tracing::info!("{engine} found {results} pages in {ms} ms");
            }
            Err(failure) => {
                let kind = failure.code();
                counts.asked(engine, kind);
                tracing::info!("{engine} found no pages in {ms} ms: {kind}");
            }
        }
    }
}
