//! A small web: what searches find, and pages. It counts what is asked of it.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use adapters::plan::Retention;
use arc_swap::ArcSwap;
use http::StatusCode;
use kit::player::PlayerWire;
use respondent::artifacts::Artifacts;
use respondent::config::Config;
use respondent::metrics::Metrics;
use respondent::tools::live::{CallLimits, LiveWebTools};
use respondent::tools::web::fetch::FetchError;
use respondent::tools::web::page::{FetchStrategy, Page, PageFuture, PageReader};
use respondent::tools::web::search::{
    SearchEngine, SearchFuture, SearchHit, SearchOutcome, Searcher, WebQuery,
};
use respondent::tools::web::service::WebTools;
use respondent::tools::web_search::WebSearchTool;
use serde_json::{Value, json};

/// The address of the page of the weather.
pub const WEATHER: &str = "https://weather.example/ulm";
/// That of a page that is long.
pub const LONG: &str = "https://docs.example/long";

/// The web, and what was asked of it.
#[derive(Default)]
pub struct TestWeb {
    pages: BTreeMap<&'static str, (&'static str, String)>,
    asked: Mutex<Vec<String>>,
}

impl TestWeb {
    /// A page about the weather, and a long one.
    pub fn new() -> Arc<Self> {
        let mut pages = BTreeMap::new();
        let weather = "It is 21 degrees in Ulm. 例えば 🦀.\n\nTomorrow it rains.".to_owned();
        pages.insert(WEATHER, ("Weather in Ulm", weather));
        let long: Vec<String> = (0..4_000)
            .map(|n| format!("Line {n} of the text.\n"))
            .collect();
        pages.insert(LONG, ("A long page", long.join("\n")));
        Arc::new(Self {
            pages,
            asked: Mutex::default(),
        })
    }

    /// The searches and pages that were asked for, and forgets them.
    pub fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    /// The tool over this web.
    pub fn tool(self: &Arc<Self>, limits: CallLimits) -> Arc<WebSearchTool> {
        let web = WebTools::new(Arc::clone(self) as _, Arc::clone(self) as _);
        let artifacts = Artifacts::without_store(Retention::Nothing, BTreeSet::new());
        let mut config = Config::default();
        config.search.max_searches = limits.searches;
        config.search.max_pages = limits.pages;
        let config = Arc::new(ArcSwap::from_pointee(config));
        let live = LiveWebTools::new(config, Metrics::new().web().clone());
        live.fix(web);
        Arc::new(WebSearchTool::new(Arc::new(live), artifacts))
    }
}

impl Searcher for TestWeb {
    fn search<'s>(&'s self, query: &'s WebQuery) -> SearchFuture<'s> {
        self.asked.lock().unwrap().push(format!(
            "search {} [{}] {}",
            query.text,
            query.allowed_domains.join(","),
            query.results
        ));
        let hits = self.pages.iter().map(|(url, (title, text))| SearchHit {
            url: (*url).to_owned(),
            title: (*title).to_owned(),
            snippet: text.chars().take(30).collect(),
            ..SearchHit::default()
        });
        let hits = if query.text == "nothing" {
            Vec::new()
        } else {
            hits.collect()
        };
        Box::pin(async {
            SearchOutcome {
                engine: Some(SearchEngine::Brave),
                hits,
                attempts: Vec::new(),
            }
        })
    }
}

impl PageReader for TestWeb {
    fn read<'r>(&'r self, url: &'r str) -> PageFuture<'r> {
        self.asked.lock().unwrap().push(format!("open {url}"));
        let page = self.pages.get(url).map(|(title, text)| {
            Arc::new(Page {
                url: url.to_owned(),
                canonical: None,
                title: (*title).to_owned(),
                published: None,
                markdown: text.clone(),
                received_bytes: text.len(),
                fetched_by: FetchStrategy::Native,
            })
        });
        Box::pin(async { page.ok_or_else(|| FetchError::Status(StatusCode::NOT_FOUND).into()) })
    }
}

/// A request that offers `web_search`, and a function of the client.
pub fn request(input: &Value) -> Value {
    json!({
        "model": "acme/m", "input": input, "prompt_cache_key": "s",
        "tools": [
            {"type": "web_search"},
            {"type": "function", "name": "shell", "parameters": {"type": "object"}},
        ],
    })
}

/// A history of one user message.
pub fn question() -> Value {
    json!([{"role": "user", "content": "How is the weather in Ulm?"}])
}

/// A step that calls a function with arguments.
pub fn call(id: &str, name: &str, arguments: &Value) -> Value {
    json!({"call": {"id": id, "name": name, "arguments": arguments.to_string(), "pieces": 3}})
}

/// The settings of a provider that runs no tools itself. One that speaks the Responses API is taken
/// to run hosted tools unless it says which it takes.
pub fn without_hosted_tools(wire: PlayerWire) -> &'static str {
    match wire {
        PlayerWire::Chat => "",
        PlayerWire::Responses => "quirks = { tools = [] }",
    }
}
