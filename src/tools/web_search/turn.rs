//! The calls of one turn: searches, opened pages, texts found in them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use adapters::cited_source::CitedSource;
use adapters::responses::assembler::{HostedItem, WithheldCall};
use adapters::tools::ProxyTool;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use super::functions::{FIND, OPEN, SEARCH};
use super::pages::{HeldPage, SessionPages};
use super::record;
use super::settings::HostedSearchSettings;
use crate::clock::{Clock as _, System};
use crate::net::blocking::run_at_low_priority;
use crate::net::memory::MemoryShare;
use crate::tools::live::CallLimits;
use crate::tools::web::page::{Page, PageError};
use crate::tools::web::reader::PAGE_TIMEOUT;
use crate::tools::web::search::{AllowedDomains, SearchHit, WebQuery};
use crate::tools::web::service::{MAX_SEARCHES, SearchReport, SearchRequest, WebTools};
use crate::tools::web::shown::{
    age_note, render_found, render_page, render_page_error, render_searches,
};
use crate::turn::{
    CallRecord, ToolEffect, ToolFuture, ToolResult, TurnContext, TurnTools, parse_tool_arguments,
    whole_number,
};

/// How long a search may take: all search engines together, and a little to say so.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(12);

/// What the model is told if there is no room for a result.
const NO_MEMORY: &str =
    "The server has not enough memory for this result now. Answer with what you have.";

/// The tools of one turn.
pub(super) struct SearchTurn {
    web: Option<WebTools>,
    limits: CallLimits,
    settings: HostedSearchSettings,
    /// The domains of `settings`, parsed.
    domains: AllowedDomains,
    pages: SessionPages,
    /// What is stored of the calls, by call id, until it is taken.
    records: Mutex<HashMap<String, CallRecord>>,
    memory: Mutex<HeldMemory>,
    searches: AtomicU32,
    opened: AtomicU32,
    /// What searches have cost in US dollars, until it is taken.
    cost: Mutex<f64>,
}

/// The share of what the turn holds: pages, results, and what is stored of them.
struct HeldMemory {
    share: MemoryShare,
    bytes: usize,
}

impl HeldMemory {
    /// Counts `bytes` more bytes, if there is room for them.
    fn add(&mut self, bytes: usize) -> bool {
        let all = self.bytes.saturating_add(bytes);
        let has_room = self.share.grow(all).is_ok();
        if has_room {
            self.bytes = all;
        }
        has_room
    }
}

#[derive(Default, Deserialize)]
struct HostedSearchArguments {
    query: Option<String>,
    #[serde(default)]
    queries: Vec<String>,
    #[serde(default)]
    domains: Vec<String>,
    #[serde(default, deserialize_with = "whole_number")]
    recency_days: u32,
}

impl HostedSearchArguments {
    /// What is searched for, each once.
    fn take_queries(&mut self) -> Vec<String> {
        let mut queries: Vec<String> = Vec::new();
        for query in self.query.take().into_iter().chain(self.queries.drain(..)) {
            if !query.trim().is_empty() && !queries.contains(&query) {
                queries.push(query);
            }
        }
        queries
    }
}

#[derive(Deserialize)]
struct OpenPageArguments {
    url: String,
    #[serde(default)]
    query: Option<String>,
    #[serde(default, deserialize_with = "whole_number")]
    from: u32,
}

#[derive(Deserialize)]
struct FindInPageArguments {
    url: String,
    pattern: String,
}

impl SearchTurn {
    pub(super) fn new(
        web: Option<WebTools>,
        limits: CallLimits,
        settings: HostedSearchSettings,
        pages: SessionPages,
        memory: MemoryShare,
    ) -> Self {
        Self {
            web,
            limits,
            domains: AllowedDomains::new(&settings.allowed_domains, &settings.blocked_domains),
            settings,
            pages,
            records: Mutex::default(),
            memory: Mutex::new(HeldMemory {
                share: memory,
                bytes: 0,
            }),
            searches: AtomicU32::new(0),
            opened: AtomicU32::new(0),
            cost: Mutex::default(),
        }
    }

    async fn call(&self, call: &WithheldCall) -> ToolResult {
        // The provider searches once it gets its own arguments back.
        if ProxyTool::original_name(&call.name) == ProxyTool::ECHOED_SEARCH {
            return ToolResult {
                text: call.arguments.clone(),
                ..ToolResult::default()
            };
        }
        let Some(web) = &self.web else {
            return ToolResult::unusable("Web search is switched off on this server.");
        };
        let result = match ProxyTool::original_name(&call.name) {
            SEARCH => self.search(web, call).await,
            OPEN => self.open(web, call).await,
            FIND => self.find(web, call).await,
            other => ToolResult::unusable(format!("There is no tool '{other}'.")),
        };
        let bytes = result.text.len();
        // The result, and its copy in the request of the next round.
        if !result.failed && !self.memory.lock().add(2 * bytes) {
            self.records.lock().remove(&call.id);
            return ToolResult::failure(NO_MEMORY);
        }
        result
    }

    async fn search(&self, web: &WebTools, call: &WithheldCall) -> ToolResult {
        let mut arguments: HostedSearchArguments = match parse_tool_arguments(&call.arguments) {
            Ok(arguments) => arguments,
            Err(error) => return unreadable(&error),
        };
        let wanted = arguments.take_queries();
        if wanted.is_empty() {
            return ToolResult::failure("A search needs words: query, or queries.");
        }
        let all = wanted.len();
        let queries = wanted.into_iter().take(MAX_SEARCHES);
        let may_run = |_: &String| !is_used_up(&self.searches, self.limits.searches);
        let queries: Vec<String> = queries.filter(may_run).collect();
        if queries.is_empty() {
            return limit_reached(SEARCH);
        }
        let settings = &self.settings;
        let request = SearchRequest {
            query: WebQuery {
                text: String::new(),
                results: settings.context.results(),
                allowed_domains: allowed_domains(&settings.allowed_domains, arguments.domains),
                blocked_domains: settings.blocked_domains.clone(),
                location: settings.location.clone(),
                recency_days: Some(arguments.recency_days).filter(|days| *days > 0),
            },
            cache_only: settings.cache_only,
        };
        let requests = queries.iter().map(|text| {
            let mut request = request.clone();
            request.query.text.clone_from(text);
            request
        });
        let requests: Vec<SearchRequest> = requests.collect();
        let reports = web.search_all(&requests, settings.context.results()).await;
        let refused = reports.iter().find_map(|report| report.refused.clone());
        let asked = queries.into_iter().zip(reports);
        let (queries, reports): (Vec<_>, Vec<_>) =
            asked.filter(|(_, report)| report.refused.is_none()).unzip();
        if let Some(refused) = refused.filter(|_| reports.is_empty()) {
            return ToolResult::failure(refused.of_search());
        }
        *self.cost.lock() += reports.iter().map(SearchReport::cost).sum::<f64>();
        let left_out = all - queries.len();
        let (text, places) = render_searches(&queries, &reports, left_out, settings.context);
        self.record(call, record::of_searches(&reports, places));
        let found = reports.iter().flat_map(|report| &report.results);
        let found = found.filter(|result| !result.is_synthetic);
        let found: Vec<&SearchHit> = found.map(|result| &result.hit).collect();
        let sources = settings.shows_sources.then(|| {
            let sources = found.iter();
            sources
                .map(|hit| json!({"type": "url", "url": hit.url}))
                .collect()
        });
        let action = HostedItem::search_action(&queries, sources).to_string();
        let results = settings.shows_results.then(|| {
            let results = found.iter().map(|hit| {
                json!({"type": "text_result", "url": hit.url, "title": hit.title, "snippet": hit.snippet})
            });
            results.collect::<Value>().to_string()
        });
        ToolResult {
            text,
            failed: found.is_empty(),
            item: Some(HostedItem::WebSearchCall { action, results }),
            sources: found.into_iter().map(source_of).collect(),
            ..ToolResult::default()
        }
    }

    async fn open(&self, web: &WebTools, call: &WithheldCall) -> ToolResult {
        let arguments: OpenPageArguments = match parse_tool_arguments(&call.arguments) {
            Ok(arguments) => arguments,
            Err(error) => return unreadable(&error),
        };
        let OpenPageArguments { url, query, from } = arguments;
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let render = move |page: &Page| render_page(page, query.as_deref(), from);
        self.read(web, call, &url, render).await
    }

    async fn find(&self, web: &WebTools, call: &WithheldCall) -> ToolResult {
        let arguments: FindInPageArguments = match parse_tool_arguments(&call.arguments) {
            Ok(arguments) => arguments,
            Err(error) => return unreadable(&error),
        };
        let pattern = arguments.pattern;
        let render = move |page: &Page| render_found(page, &pattern);
        self.read(web, call, &arguments.url, render).await
    }

    /// What the model gets of a page.
    async fn read(
        &self,
        web: &WebTools,
        call: &WithheldCall,
        url: &str,
        render: impl FnOnce(&Page) -> String + Send + 'static,
    ) -> ToolResult {
        // A call that takes too long is dropped, and then this record is the one that is stored.
        let late = "The page was not read in time.";
        self.record(call, record::of_failure(url, late, 0));
        let (result, record) = match self.page(web, url).await {
            Ok(held) => {
                let asked = url.to_owned();
                let shown = run_at_low_priority(move || {
                    let age = held.kept.as_ref().map(|kept| kept.age(System.unix()));
                    let note = age.and_then(age_note).map(|note| note + "\n\n");
                    let text = note.unwrap_or_default() + &render(&held.page);
                    let result = page_result(&asked, &held, text);
                    let record = record::of_page(&asked, &held, result.text.len());
                    (result, record)
                });
                shown.await.unwrap_or_else(|| {
                    let failed = failed_page(url, &PageError::NOT_SHOWN);
                    let record = record::of_failure(url, &failed.text, failed.text.len());
                    (failed, record)
                })
            }
            Err(failed) => {
                let record = record::of_failure(url, &failed.text, failed.text.len());
                (failed, record)
            }
        };
        self.record(call, record);
        result
    }

    fn record(&self, call: &WithheldCall, record: CallRecord) {
        self.records.lock().insert(call.id.clone(), record);
    }

    /// The page at an address: as it was read in this turn, or read now.
    async fn page(&self, web: &WebTools, url: &str) -> Result<HeldPage, ToolResult> {
        if !self.domains.allows(url) {
            return Err(ToolResult::failure(
                "The page is not of the domains that the user allows.",
            ));
        }
        let read = self.read_once(web, url);
        self.pages.get_or_read(url, read).await
    }

    /// A page that was not read in this turn before: as an earlier answer has read it, or read now.
    async fn read_once(&self, web: &WebTools, url: &str) -> Result<HeldPage, ToolResult> {
        let cache_only = self.settings.cache_only;
        if (cache_only || self.pages.is_fresh(url, System.unix()))
            && let Some(earlier) = self.earlier(url).await?
        {
            return Ok(earlier);
        }
        if cache_only {
            return Err(ToolResult::failure(
                "The user allows no access to the web in this turn, and the page was not read before.",
            ));
        }
        match self.read_new(web, url).await {
            // An old page is better than none.
            Err(failed) => self.earlier(url).await?.ok_or(failed),
            read => read,
        }
    }

    async fn earlier(&self, url: &str) -> Result<Option<HeldPage>, ToolResult> {
        let earlier = self.pages.earlier(url).await;
        let Some(held) = earlier.filter(|held| self.domains.allows(&held.page.url)) else {
            return Ok(None);
        };
        if self.count_page(&held.page) {
            Ok(Some(held))
        } else {
            Err(failed_page(url, &PageError::NoMemory))
        }
    }

    /// A page from the web. It is kept as an artifact.
    async fn read_new(&self, web: &WebTools, url: &str) -> Result<HeldPage, ToolResult> {
        if is_used_up(&self.opened, self.limits.pages) {
            return Err(limit_reached(OPEN));
        }
        let page = if self.pages.knows(url) {
            web.renew(url).await
        } else {
            web.open(url).await
        };
        let page = page.map_err(|error| failed_page(url, &error))?;
        if !self.domains.allows(&page.url) {
            return Err(ToolResult::failure(
                "The page leads to another domain than those that the user allows.",
            ));
        }
        if !self.count_page(&page) {
            return Err(failed_page(url, &PageError::NoMemory));
        }
        Ok(self.pages.keep(page).await)
    }

    /// Counts what is stored of a page, which counts itself, if there is room for it.
    fn count_page(&self, page: &Page) -> bool {
        self.memory.lock().add(page.markdown.len())
    }
}

impl TurnTools for SearchTurn {
    fn has(&self, name: &str) -> bool {
        [SEARCH, OPEN, FIND, ProxyTool::ECHOED_SEARCH].contains(&name)
    }

    fn effect(&self, name: &str) -> ToolEffect {
        ToolEffect {
            // The provider searches each time, also for an equal call.
            is_read_only: name != ProxyTool::ECHOED_SEARCH,
            timeout: if name == SEARCH {
                SEARCH_TIMEOUT
            } else {
                PAGE_TIMEOUT
            },
        }
    }

    fn shown(&self, call: &WithheldCall) -> Option<HostedItem> {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        let text = |name: &str| {
            arguments
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let action = match ProxyTool::original_name(&call.name) {
            SEARCH => {
                let arguments = parse_tool_arguments(&call.arguments);
                let mut arguments: HostedSearchArguments = arguments.unwrap_or_default();
                let mut queries = arguments.take_queries();
                queries.truncate(MAX_SEARCHES);
                HostedItem::search_action(&queries, None)
            }
            ProxyTool::ECHOED_SEARCH => HostedItem::search_action(&[], None),
            OPEN => json!({"type": "open_page", "url": text("url")}),
            FIND => json!({"type": "find_in_page", "url": text("url"), "pattern": text("pattern")}),
            _ => return None,
        };
        Some(HostedItem::WebSearchCall {
            action: action.to_string(),
            results: None,
        })
    }

    fn run<'r>(&'r self, _: &'r TurnContext, call: &'r WithheldCall) -> ToolFuture<'r> {
        Box::pin(self.call(call))
    }

    fn take_record(&self, call: &WithheldCall) -> CallRecord {
        self.records.lock().remove(&call.id).unwrap_or_default()
    }

    fn take_cost(&self) -> f64 {
        std::mem::take(&mut *self.cost.lock())
    }
}

/// The domains of a search: those of the model, as far as the client allows them.
fn allowed_domains(client: &[String], model: Vec<String>) -> Vec<String> {
    if client.is_empty() {
        return model;
    }
    let domains = AllowedDomains::new(client, &[]);
    let is_below = |domain: &String| domains.allows(&format!("https://{domain}/"));
    let narrowed: Vec<String> = model.into_iter().filter(is_below).collect();
    if narrowed.is_empty() {
        client.to_vec()
    } else {
        narrowed
    }
}

/// Counts one more of what is limited, and whether that is too many.
fn is_used_up(count: &AtomicU32, most: Option<u32>) -> bool {
    most.is_some_and(|most| count.fetch_add(1, Relaxed) >= most)
}

fn limit_reached(name: &str) -> ToolResult {
    ToolResult::failure(format!("The call limit for {name} is reached."))
}

fn page_result(asked: &str, held: &HeldPage, text: String) -> ToolResult {
    let page = &held.page;
    let source = |url: &str| held.source(url);
    // A model may cite the address that the user has named, which redirects.
    let redirected = (asked != page.url).then(|| source(asked));
    ToolResult {
        text,
        sources: [source(&page.url)].into_iter().chain(redirected).collect(),
        ..ToolResult::default()
    }
}

fn source_of(hit: &SearchHit) -> CitedSource {
    CitedSource {
        url: hit.url.clone(),
        title: hit.title.clone(),
        kept: None,
    }
}

fn failed_page(url: &str, error: &PageError) -> ToolResult {
    ToolResult::failure(render_page_error(url, error))
}

fn unreadable(error: &serde_json::Error) -> ToolResult {
    ToolResult::unusable(format!(
        "The arguments of the call cannot be read: {error}."
    ))
}

#[cfg(test)]
mod tests;
