//! The calls of one turn: searches, opened pages, texts found in them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use adapters::responses::assembler::{CitedSource, HostedItem, WithheldCall};
use adapters::tools::ProxyTool;
use excerpts::OutputKind;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::functions::{FIND, OPEN, SEARCH};
use super::record;
use super::settings::HostedSearchSettings;
use crate::artifacts::Artifacts;
use crate::net::blocking::run_at_low_priority;
use crate::net::memory::MemoryShare;
use crate::store::NewArtifact;
use crate::tools::live::CallLimits;
use crate::tools::web::page::{Page, PageError};
use crate::tools::web::reader::PAGE_TIMEOUT;
use crate::tools::web::search::{AllowedDomains, SearchHit, WebQuery};
use crate::tools::web::service::{MAX_SEARCHES, SearchReport, SearchRequest, WebTools};
use crate::tools::web::shown::{render_found, render_page, render_page_error, render_searches};
use crate::turn::{
    CallRecord, ToolEffect, ToolFuture, ToolResult, TurnContext, TurnTools, parse_tool_arguments,
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
    session: String,
    artifacts: Artifacts,
    /// The pages that were read in this turn, by the addresses under which they were asked for.
    /// Calls at the same time for the same page read it once.
    pages: Mutex<HashMap<String, Arc<OnceCell<HeldPage>>>>,
    /// What is stored of the calls, by call id, until it is taken.
    records: Mutex<HashMap<String, CallRecord>>,
    memory: Mutex<HeldMemory>,
    searches: AtomicU32,
    opened: AtomicU32,
    /// What searches have cost in US dollars, until it is taken.
    cost: Mutex<f64>,
}

/// A page that was read, and the artifact that has all of it.
#[derive(Clone)]
struct HeldPage {
    page: Arc<Page>,
    artifact_id: Option<String>,
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
    recency_days: Option<u32>,
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
        session: String,
        artifacts: Artifacts,
        memory: MemoryShare,
    ) -> Self {
        Self {
            web,
            limits,
            domains: AllowedDomains::new(&settings.allowed_domains, &settings.blocked_domains),
            settings,
            session,
            artifacts,
            pages: Mutex::default(),
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

    async fn call(&self, ctx: &TurnContext, call: &WithheldCall) -> ToolResult {
        // The provider searches once it gets its own arguments back.
        if ProxyTool::original_name(&call.name) == ProxyTool::ECHOED_SEARCH {
            return ToolResult {
                text: call.arguments.clone(),
                ..ToolResult::default()
            };
        }
        let Some(web) = &self.web else {
            return ToolResult::failure("Web search is switched off on this server.");
        };
        let result = match ProxyTool::original_name(&call.name) {
            SEARCH => self.search(web, call).await,
            OPEN => self.open(ctx, web, call).await,
            FIND => self.find(ctx, web, call).await,
            other => ToolResult::failure(format!("There is no tool '{other}'.")),
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
                recency_days: arguments.recency_days,
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
        }
    }

    async fn open(&self, ctx: &TurnContext, web: &WebTools, call: &WithheldCall) -> ToolResult {
        let arguments: OpenPageArguments = match parse_tool_arguments(&call.arguments) {
            Ok(arguments) => arguments,
            Err(error) => return unreadable(&error),
        };
        let query = arguments.query;
        let render = move |page: &Page| render_page(page, query.as_deref());
        self.read(ctx, web, call, &arguments.url, render).await
    }

    async fn find(&self, ctx: &TurnContext, web: &WebTools, call: &WithheldCall) -> ToolResult {
        let arguments: FindInPageArguments = match parse_tool_arguments(&call.arguments) {
            Ok(arguments) => arguments,
            Err(error) => return unreadable(&error),
        };
        let pattern = arguments.pattern;
        let render = move |page: &Page| render_found(page, &pattern);
        self.read(ctx, web, call, &arguments.url, render).await
    }

    /// What the model gets of a page.
    async fn read(
        &self,
        ctx: &TurnContext,
        web: &WebTools,
        call: &WithheldCall,
        url: &str,
        render: impl FnOnce(&Page) -> String + Send + 'static,
    ) -> ToolResult {
        // A call that takes too long is dropped, and then this record is the one that is stored.
        let late = "The page was not read in time.";
        self.record(call, record::of_failure(url, late, 0));
        let (result, record) = match self.page(ctx, web, url).await {
            Ok(HeldPage { page, artifact_id }) => {
                let asked = url.to_owned();
                let shown = run_at_low_priority(move || {
                    let result = page_result(&asked, &page, render(&page));
                    let bytes = result.text.len();
                    let record = record::of_page(&asked, &page, artifact_id.as_ref(), bytes);
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
    async fn page(
        &self,
        ctx: &TurnContext,
        web: &WebTools,
        url: &str,
    ) -> Result<HeldPage, ToolResult> {
        if !self.domains.allows(url) {
            return Err(ToolResult::failure(
                "The page is not of the domains that the user allows.",
            ));
        }
        let held = Arc::clone(self.pages.lock().entry(url.to_owned()).or_default());
        let read = held
            .get_or_try_init(|| self.read_new(ctx, web, url))
            .await?;
        let last = read.page.url.clone();
        self.pages
            .lock()
            .entry(last)
            .or_insert_with(|| Arc::clone(&held));
        Ok(read.clone())
    }

    /// A page that was not read in this turn before. It is kept as an artifact.
    async fn read_new(
        &self,
        ctx: &TurnContext,
        web: &WebTools,
        url: &str,
    ) -> Result<HeldPage, ToolResult> {
        if self.settings.cache_only {
            return Err(ToolResult::failure(
                "The user allows no access to the web in this turn.",
            ));
        }
        if is_used_up(&self.opened, self.limits.pages) {
            return Err(limit_reached(OPEN));
        }
        let page = web
            .open(url)
            .await
            .map_err(|error| failed_page(url, &error))?;
        if !self.domains.allows(&page.url) {
            return Err(ToolResult::failure(
                "The page leads to another domain than those that the user allows.",
            ));
        }
        // What is stored of the page, which counts itself.
        if !self.memory.lock().add(page.markdown.len()) {
            return Err(failed_page(url, &PageError::NoMemory));
        }
        let artifact_id = self.keep(ctx, &page).await;
        Ok(HeldPage { page, artifact_id })
    }

    /// Keeps a page whole as an artifact of the session. The result that quotes it is not sent
    /// before that. Returns the id, unless there is no room for it.
    async fn keep(&self, ctx: &TurnContext, page: &Arc<Page>) -> Option<String> {
        let page = Arc::clone(page);
        let artifact = run_at_low_priority(move || NewArtifact {
            kind: OutputKind::WebOrSearch,
            ..NewArtifact::of_text(page.markdown.clone())
        });
        let artifact = artifact.await?;
        let id = artifact.id.clone();
        let named = BTreeSet::from([id.clone()]);
        let commit = self
            .artifacts
            .keep(&ctx.owner, &self.session, vec![artifact], named);
        let unkept = commit.wait().await;
        (!unkept.contains(&id)).then_some(id)
    }
}

impl TurnTools for SearchTurn {
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

    fn run<'r>(&'r self, ctx: &'r TurnContext, call: &'r WithheldCall) -> ToolFuture<'r> {
        Box::pin(self.call(ctx, call))
    }

    fn take_record(&self, call_id: &str) -> CallRecord {
        self.records.lock().remove(call_id).unwrap_or_default()
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

fn page_result(asked: &str, page: &Page, text: String) -> ToolResult {
    let source = |url: &str| CitedSource {
        url: url.to_owned(),
        title: page.title.clone(),
    };
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
    }
}

fn failed_page(url: &str, error: &PageError) -> ToolResult {
    ToolResult::failure(render_page_error(url, error))
}

fn unreadable(error: &serde_json::Error) -> ToolResult {
    ToolResult::failure(format!(
        "The arguments of the call cannot be read: {error}."
    ))
}
