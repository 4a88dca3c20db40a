//! A small web: what searches find, and pages. It counts what is asked of it.
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use adapters::plan::Retention;
use arc_swap::ArcSwap;
use http::StatusCode;
use kit::player::PlayerWire;
use respondent::artifacts::Artifacts;
use respondent::config::Config;
use respondent::config::search::SearchMode;
use respondent::metrics::Metrics;
use respondent::net::memory::ProcessMemory;
use respondent::tools::live::{CallLimits, LiveWebTools};
use respondent::tools::web::dialler::{Connection, DialFuture, Dialler};
use respondent::tools::web::fetch::{FetchError, FetchLimits};
use respondent::tools::web::page::{FetchStrategy, Page, PageFuture, PageReader};
use respondent::tools::web::reader::{ReaderSettings, WebReader};
use respondent::tools::web::search::{
    SearchEngine, SearchFuture, SearchHit, SearchOutcome, Searcher, WebQuery,
};
use respondent::tools::web::service::WebTools;
use respondent::tools::web_search::WebSearchTool;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// The address of the page of the weather.
pub const WEATHER: &str = "https://weather.example/ulm";
/// An address that leads to it.
pub const MOVED: &str = "https://weather.example/old";
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
        let long: Vec<String> = (0..6_000)
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
        self.made(limits, SearchMode::Auto, &ProcessMemory::unlimited())
    }

    /// The same with `mode` in `[search]`.
    pub fn tool_in_mode(
        self: &Arc<Self>,
        limits: CallLimits,
        mode: SearchMode,
    ) -> Arc<WebSearchTool> {
        self.made(limits, mode, &ProcessMemory::unlimited())
    }

    /// The same with a memory budget.
    pub fn tool_within(
        self: &Arc<Self>,
        limits: CallLimits,
        memory: &ProcessMemory,
    ) -> Arc<WebSearchTool> {
        self.made(limits, SearchMode::Auto, memory)
    }

    /// The same, which keeps pages as artifacts.
    pub fn tool_keeping(self: &Arc<Self>, artifacts: Artifacts) -> Arc<WebSearchTool> {
        tool_over(
            self.tools(),
            artifacts,
            &Config::default(),
            &ProcessMemory::unlimited(),
        )
    }

    /// The same with pages that this reader reads.
    pub fn tool_reading(
        self: &Arc<Self>,
        reader: Arc<dyn PageReader>,
        artifacts: Artifacts,
    ) -> Arc<WebSearchTool> {
        let web = WebTools::new(Arc::clone(self) as _, reader);
        tool_over(
            web,
            artifacts,
            &Config::default(),
            &ProcessMemory::unlimited(),
        )
    }

    /// Searches of this web, and its pages.
    pub fn tools(self: &Arc<Self>) -> WebTools {
        WebTools::new(Arc::clone(self) as _, Arc::clone(self) as _)
    }

    fn made(
        self: &Arc<Self>,
        limits: CallLimits,
        mode: SearchMode,
        memory: &ProcessMemory,
    ) -> Arc<WebSearchTool> {
        let artifacts = Artifacts::without_store(Retention::Nothing, BTreeSet::new());
        let mut config = Config::default();
        config.search.mode = mode;
        config.search.max_searches = limits.searches;
        config.search.max_pages = limits.pages;
        tool_over(self.tools(), artifacts, &config, memory)
    }
}

fn tool_over(
    web: WebTools,
    artifacts: Artifacts,
    config: &Config,
    memory: &ProcessMemory,
) -> Arc<WebSearchTool> {
    let config = Arc::new(ArcSwap::from_pointee(config.clone()));
    let live = LiveWebTools::new(config, &Metrics::new());
    live.fix(web);
    let live = Arc::new(live);
    live.count_memory(memory);
    Arc::new(WebSearchTool::new(live, artifacts))
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
            score: query.text.starts_with("barely").then_some(0.2),
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
        let last = if url == MOVED { WEATHER } else { url };
        let page = self.pages.get(last).map(|(title, text)| {
            Arc::new(Page {
                url: last.to_owned(),
                canonical: None,
                title: (*title).to_owned(),
                published: None,
                markdown: text.clone(),
                received_bytes: text.len(),
                fetched_by: FetchStrategy::Native,
                memory: None,
            })
        });
        Box::pin(async { page.ok_or_else(|| FetchError::Status(StatusCode::NOT_FOUND).into()) })
    }
}

/// Every name and address is the server.
struct ToServer(SocketAddr);

impl Dialler for ToServer {
    fn resolve<'d>(&'d self, _: &'d str) -> DialFuture<'d, Vec<IpAddr>> {
        Box::pin(async { Ok(vec![IpAddr::from([93, 184, 216, 34])]) })
    }

    fn connect(&self, _: SocketAddr) -> DialFuture<'_, Box<dyn Connection>> {
        Box::pin(async {
            let stream: io::Result<_> = TcpStream::connect(self.0).await;
            Ok(Box::new(stream?) as Box<dyn Connection>)
        })
    }
}

/// A reader to which all of the web is this server, and which waits long for it.
pub fn reader(server: SocketAddr, settings: ReaderSettings) -> WebReader {
    let dialler: Arc<dyn Dialler> = Arc::new(ToServer(server));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let limits = FetchLimits {
        head: Duration::from_secs(40),
        total: Duration::from_secs(40),
        ..FetchLimits::default()
    };
    let memory = ProcessMemory::new(256 << 20);
    WebReader::with_limits(&dialler, &Arc::new(tls), &memory, settings, limits)
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
