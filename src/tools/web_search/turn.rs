//! The calls of one turn: searches, opened pages, texts found in them.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use adapters::responses::assembler::{CitedSource, HostedItem, WithheldCall};
use adapters::tools::ProxyTool;
use excerpts::OutputKind;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::functions::{FIND, OPEN, SEARCH};
use super::settings::HostedSearchSettings;
use crate::artifacts::Artifacts;
use crate::store::NewArtifact;
use crate::tools::live::CallLimits;
use crate::tools::web::page::{Page, PageError};
use crate::tools::web::search::{SearchHit, WebQuery, filter_hits};
use crate::tools::web::service::{SearchRequest, WebTools};
use crate::tools::web::shown::{render_found, render_page, render_page_error, render_results};
use crate::turn::{ToolEffect, ToolFuture, ToolResult, TurnContext, TurnTools};

/// How long a page may take: its server, and a browser elsewhere where the page needs one.
const PAGE_TIMEOUT: Duration = Duration::from_secs(45);
/// How long a search may take: all search engines together, and a little to say so.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(12);
/// The most bytes of all results of an answer: 128,000 tokens of four bytes.
const ANSWER_BYTES: usize = 128_000 * 4;

/// The tools of one turn.
pub(super) struct SearchTurn {
    web: Option<WebTools>,
    limits: CallLimits,
    settings: HostedSearchSettings,
    session: String,
    artifacts: Artifacts,
    /// The pages that were read in this turn, by the addresses under which they were asked for.
    pages: Mutex<HashMap<String, Arc<Page>>>,
    searches: AtomicU32,
    opened: AtomicU32,
    /// The bytes of all results.
    bytes: AtomicUsize,
}

#[derive(Deserialize)]
struct HostedSearchArguments {
    query: String,
    #[serde(default)]
    domains: Vec<String>,
    recency_days: Option<u32>,
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
    ) -> Self {
        Self {
            web,
            limits,
            settings,
            session,
            artifacts,
            pages: Mutex::default(),
            searches: AtomicU32::new(0),
            opened: AtomicU32::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    async fn call(&self, ctx: &TurnContext, call: &WithheldCall) -> ToolResult {
        let Some(web) = &self.web else {
            return ToolResult::failure("Web search is switched off on this server.");
        };
        if self.bytes.load(Relaxed) >= ANSWER_BYTES {
            return ToolResult::failure(
                "The room for search results in this answer is used up. Answer with what you have.",
            );
        }
        let name = ProxyTool::called(&call.name);
        let (count, most) = match name {
            SEARCH => (&self.searches, self.limits.searches),
            _ => (&self.opened, self.limits.pages),
        };
        if name != FIND && most.is_some_and(|most| count.fetch_add(1, Relaxed) >= most) {
            return ToolResult::failure(format!("The call limit for {name} is reached."));
        }
        let result = match name {
            SEARCH => self.search(web, &call.arguments).await,
            OPEN => self.open(ctx, web, &call.arguments).await,
            FIND => self.find(ctx, web, &call.arguments).await,
            other => ToolResult::failure(format!("There is no tool '{other}'.")),
        };
        self.bytes.fetch_add(result.text.len(), Relaxed);
        result
    }

    async fn search(&self, web: &WebTools, arguments: &str) -> ToolResult {
        let arguments: HostedSearchArguments = match serde_json::from_str(arguments) {
            Ok(arguments) => arguments,
            Err(error) => return unreadable(&error),
        };
        let settings = &self.settings;
        let request = SearchRequest {
            query: WebQuery {
                text: arguments.query.clone(),
                results: settings.context.results(),
                allowed_domains: allowed_domains(&settings.allowed_domains, arguments.domains),
                blocked_domains: settings.blocked_domains.clone(),
                location: settings.location.clone(),
                recency_days: arguments.recency_days,
            },
            cache_only: settings.cache_only,
        };
        let report = web.search(&request).await;
        let found = report.results.iter().filter(|result| !result.is_synthetic);
        let found: Vec<&SearchHit> = found.map(|result| &result.hit).collect();
        let action = self.search_action(&arguments.query, &found);
        let results = settings.shows_results.then(|| {
            let results = found.iter().map(|hit| {
                json!({"type": "text_result", "url": hit.url, "title": hit.title, "snippet": hit.snippet})
            });
            results.collect::<Value>().to_string()
        });
        ToolResult {
            text: render_results(&report, settings.context),
            failed: found.is_empty(),
            item: Some(HostedItem::WebSearchCall { action, results }),
            sources: found.into_iter().map(source_of).collect(),
            may_be_repeated: false,
        }
    }

    fn search_action(&self, query: &str, found: &[&SearchHit]) -> String {
        let sources = found
            .iter()
            .map(|hit| json!({"type": "url", "url": hit.url}));
        let action = if self.settings.shows_sources {
            let sources: Value = sources.collect();
            json!({"type": "search", "query": query, "queries": [query], "sources": sources})
        } else {
            json!({"type": "search", "query": query, "queries": [query]})
        };
        action.to_string()
    }

    async fn open(&self, ctx: &TurnContext, web: &WebTools, arguments: &str) -> ToolResult {
        let arguments: OpenPageArguments = match serde_json::from_str(arguments) {
            Ok(arguments) => arguments,
            Err(error) => return unreadable(&error),
        };
        let page = match self.page(ctx, web, &arguments.url).await {
            Ok(page) => page,
            Err(failed) => return failed,
        };
        let query = arguments.query.as_deref();
        page_result(&page, render_page(&page, query))
    }

    async fn find(&self, ctx: &TurnContext, web: &WebTools, arguments: &str) -> ToolResult {
        let arguments: FindInPageArguments = match serde_json::from_str(arguments) {
            Ok(arguments) => arguments,
            Err(error) => return unreadable(&error),
        };
        match self.page(ctx, web, &arguments.url).await {
            Ok(page) => page_result(&page, render_found(&page, &arguments.pattern)),
            Err(failed) => failed,
        }
    }

    /// The page at an address: as it was read in this turn, or read now and kept as an artifact.
    async fn page(
        &self,
        ctx: &TurnContext,
        web: &WebTools,
        url: &str,
    ) -> Result<Arc<Page>, ToolResult> {
        if !self.may_open(url) {
            return Err(ToolResult::failure(
                "The page is not of the domains that the user allows.",
            ));
        }
        if let Some(page) = self.pages.lock().get(url) {
            return Ok(Arc::clone(page));
        }
        if self.settings.cache_only {
            return Err(ToolResult::failure(
                "The user allows no access to the web in this turn.",
            ));
        }
        let page = web
            .open(url)
            .await
            .map_err(|error| failed_page(url, &error))?;
        if !self.may_open(&page.url) {
            return Err(ToolResult::failure(
                "The page leads to another domain than those that the user allows.",
            ));
        }
        self.keep(ctx, &page).await;
        let mut pages = self.pages.lock();
        pages.insert(url.to_owned(), Arc::clone(&page));
        pages.insert(page.url.clone(), Arc::clone(&page));
        Ok(page)
    }

    fn may_open(&self, url: &str) -> bool {
        let query = WebQuery {
            results: 1,
            allowed_domains: self.settings.allowed_domains.clone(),
            blocked_domains: self.settings.blocked_domains.clone(),
            ..WebQuery::default()
        };
        let is_limited = !query.allowed_domains.is_empty() || !query.blocked_domains.is_empty();
        let hit = SearchHit {
            url: url.to_owned(),
            ..SearchHit::default()
        };
        !is_limited || !filter_hits(&query, vec![hit]).is_empty()
    }

    /// Keeps a page whole as an artifact of the session. The result that quotes it is not sent
    /// before that.
    async fn keep(&self, ctx: &TurnContext, page: &Page) {
        let hash = Sha256::digest(page.markdown.as_bytes());
        let hash: String = hash.iter().take(16).fold(String::new(), |mut hash, byte| {
            let _ = write!(hash, "{byte:02x}");
            hash
        });
        let id = format!("art_{hash}");
        let artifact = NewArtifact {
            id: id.clone(),
            call_id: String::new(),
            kind: OutputKind::WebOrSearch,
            chars: page.markdown.chars().count(),
            lines: page.markdown.lines().count(),
            text: page.markdown.clone(),
        };
        let commit = self.artifacts.keep(
            &ctx.owner,
            &self.session,
            vec![artifact],
            BTreeSet::from([id]),
        );
        commit.wait().await;
    }
}

impl TurnTools for SearchTurn {
    fn effect(&self, name: &str) -> ToolEffect {
        ToolEffect {
            is_read_only: true,
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
        let action = match ProxyTool::called(&call.name) {
            SEARCH => json!({"type": "search", "query": text("query"), "queries": [text("query")]}),
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
}

/// The domains of a search: those of the model, as far as the client allows them.
fn allowed_domains(client: &[String], model: Vec<String>) -> Vec<String> {
    if client.is_empty() {
        return model;
    }
    let is_below = |domain: &String| {
        client.iter().any(|allowed| {
            domain == allowed || domain.ends_with(&format!(".{}", allowed.trim_start_matches('.')))
        })
    };
    let narrowed: Vec<String> = model.into_iter().filter(is_below).collect();
    if narrowed.is_empty() {
        client.to_vec()
    } else {
        narrowed
    }
}

fn page_result(page: &Page, text: String) -> ToolResult {
    let source = CitedSource {
        url: page.url.clone(),
        title: page.title.clone(),
    };
    ToolResult {
        text,
        sources: vec![source],
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
