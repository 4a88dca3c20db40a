//! The web tools of a server, which follow its configuration and are counted.

use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, ArcSwapOption};

use super::setup;
use super::web::client::WebError;
use super::web::references::WebReferences;
use super::web::search::{SearchError, SearchFailure};
use super::web::service::{SearchReport, WebEvent, WebObserver, WebTools};
use crate::clock::System;
use crate::config::Config;
use crate::config::search::{SearchConfig, SearchMode};
use crate::metrics::{FOUND, WebCounts};
use crate::net::memory::{MemoryKind, ProcessMemory};

/// The web tools of the configuration in force. They are made when they are first needed, and anew
/// when `[search]` has changed.
#[derive(Debug)]
pub struct LiveWebTools {
    config: Arc<ArcSwap<Config>>,
    counts: WebCounts,
    /// What sessions were shown of the web.
    pub references: WebReferences,
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
    pub fn new(config: Arc<ArcSwap<Config>>, counts: WebCounts) -> Self {
        let references = WebReferences::new(config.load().references_memory(), System.unix_ms());
        Self {
            config,
            counts,
            references,
            made: ArcSwapOption::empty(),
            fixed: OnceLock::new(),
            memory: OnceLock::new(),
        }
    }

    /// Whether the configuration has them.
    pub fn are_on(&self) -> bool {
        match self.config.load().search.mode {
            SearchMode::Off => false,
            SearchMode::Proxy => true,
        }
    }

    /// The most searches and pages of one answer, if they are limited.
    pub fn limits(&self) -> CallLimits {
        let config = self.config.load();
        CallLimits {
            searches: config.search.max_searches,
            pages: config.search.max_pages,
        }
    }

    /// The tools; `None` if the configuration has none.
    pub fn get(&self) -> Option<WebTools> {
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
        let memory = self.memory.get().cloned();
        let memory = memory.unwrap_or_else(ProcessMemory::unlimited);
        match setup::web_tools(search, &memory) {
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
        match &attempt.found {
            Ok(results) => {
                counts.asked(engine, FOUND);
                tracing::info!("{engine} found {results} pages in {ms} ms");
            }
            Err(failure) => {
                let kind = search_failure(failure);
                counts.asked(engine, kind);
                tracing::info!("{engine} found no pages in {ms} ms: {kind}");
            }
        }
    }
}

fn search_failure(failure: &SearchFailure) -> &'static str {
    match failure {
        SearchFailure::Refused(refusal) => match refusal {
            SearchError::Key(_) => "key",
            SearchError::RateLimit { .. } => "rate_limit",
            SearchError::Challenge => "challenge",
            SearchError::Refused { .. } => "refused",
            SearchError::BadReply => "bad_reply",
            SearchError::Empty => "empty",
        },
        SearchFailure::NoAnswer(error) => web_failure(error),
        SearchFailure::Paused(_) => "paused",
        SearchFailure::OtherDomains => "other_domains",
    }
}

fn web_failure(error: &WebError) -> &'static str {
    match error {
        WebError::BadUrl(_) => "bad_url",
        WebError::NotPublic(_) => "not_public",
        WebError::Unreachable(_) => "unreachable",
        WebError::Timeout(_) => "timeout",
        WebError::TooLarge(_) => "too_large",
        WebError::BadReply(_) => "bad_reply",
        WebError::NoMemory => "no_memory",
    }
}
