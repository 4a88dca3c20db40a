use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use excerpts::OutputKind;
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::*;
use crate::artifacts::Artifacts;
use crate::config::{Inputs, LoadPurpose, load};
use crate::metrics::Metrics;
use crate::metrics::spent::SpentToday;
use crate::metrics::usage::{DailyUsage, UsageLog};
use crate::net::Owner;
use crate::net::memory::{MemoryKind, ProcessMemory};
use crate::responses::ResponseStore;
use crate::secrets::Token;
use crate::serve::{Edge, EdgeSettings, GuardSettings, RouteService};
use crate::store::ArtifactFilter;
use crate::tools::live::LiveWebTools;
use crate::tools::web::page::{FetchStrategy, Page, PageError, PageFuture, PageReader};
use crate::tools::web::search::{
    SearchEngine, SearchFuture, SearchHit, SearchOutcome, Searcher, WebQuery,
};
use crate::tools::web::service::{SearchRequest, WebTools};
use crate::tools::web::shown::{SearchContext, render_page, render_page_error, render_results};
use crate::upstream::discovery::keeper::DiscoveryKeeper;

const CONFIG: &str = r#"
[routing.aliases]
nick = "lab/vendor/some model"
[providers.lab]
base_url = "https://lab.example/v1"
key_required = false
models = [{ id = "vendor/some model" }, { id = "small", window = 4096 }]
[providers.open]
base_url = "https://open.example/v1"
key_required = false
passthrough = true
models = [{ id = "small" }]
"#;

const PREFIXES: [&str; 4] = ["/v1", "/openai/v1", "/openai", ""];

fn service() -> RouteService {
    routes(&app())
}

fn app() -> AppState {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("proxy-config.toml"), CONFIG).unwrap();
    let inputs = Inputs::under(folder.path());
    let config = load(&inputs, LoadPurpose::Serve);
    let live = Arc::new(ArcSwap::from_pointee(config.unwrap()));
    let discovery = Arc::new(DiscoveryKeeper::new(Arc::clone(&live)));
    let metrics = Arc::new(Metrics::new());
    let web = LiveWebTools::new(Arc::clone(&live), &metrics);
    let web = Arc::new(web);
    let service = Service::new(
        live,
        metrics,
        CancellationToken::new(),
        Arc::new(TurnCapture::default()),
        Artifacts::memory(1 << 20),
        ResponseStore::default(),
    );
    AppState {
        service: Arc::new(service),
        capture: TurnCapture::default(),
        started_ms: 0,
        memory: ProcessMemory::unlimited(),
        usage: UsageLog::new(DailyUsage::default(), SpentToday::default(), None),
        discovery,
        jobs: None,
        temporary: false,
        web,
    }
}

struct Reply {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn code(&self) -> Value {
        self.json()["error"]["code"].clone()
    }

    fn message(&self) -> String {
        self.json()["error"]["message"].as_str().unwrap().to_owned()
    }
}

async fn request(service: &RouteService, method: Method, path: &str, body: &str) -> Reply {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost:9797")
        .extension(Owner::local())
        .body(axum::body::Body::from(body.to_owned()))
        .unwrap();
    let response = service.clone().oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Reply {
        status: head.status.as_u16(),
        headers: head.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    }
}

async fn get(service: &RouteService, path: &str) -> Reply {
    request(service, Method::GET, path, "").await
}

#[tokio::test]
async fn the_api_is_served_under_all_prefixes() {
    let service = service();
    for prefix in PREFIXES {
        for (method, path, status, code) in [
            ("POST", "/responses", 404, "model_not_found"),
            ("POST", "/responses/compact", 404, "model_not_found"),
            ("POST", "/responses/compact/", 404, "model_not_found"),
            ("POST", "/responses/input_tokens", 404, "model_not_found"),
            ("GET", "/models", 200, ""),
            ("GET", "/models/", 200, ""),
            ("GET", "/models/vendor/some%20model", 200, ""),
            ("GET", "/artifacts", 200, ""),
            ("GET", "/artifacts/x", 404, "artifact_not_found"),
            ("GET", "/artifacts/x/search?q=a", 404, "artifact_not_found"),
            ("DELETE", "/artifacts/x", 404, "artifact_not_found"),
            ("DELETE", "/artifacts/expired", 200, ""),
        ] {
            let path = format!("{prefix}{path}");
            let body = r#"{"model":"missing","input":"hi"}"#;
            let reply = request(&service, method.parse().unwrap(), &path, body).await;
            assert_eq!(reply.status, status, "{method} {path}: {}", reply.body);
            if status != 200 {
                assert_eq!(reply.code(), code, "{method} {path}");
            }
        }
    }
}

#[tokio::test]
async fn the_address_of_the_server_says_how_to_use_it() {
    let reply = get(&service(), "/").await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.headers["content-type"], "text/plain; charset=utf-8");
    for part in [
        concat!("Respondent ", env!("CARGO_PKG_VERSION"), " is running."),
        "Base URL for clients: http://localhost:9797/v1\n",
        "GET /v1/models ",
        "respondent codex setup ",
        "respondent status ",
    ] {
        assert!(reply.body.contains(part), "{part}: {}", reply.body);
    }
    assert!(reply.body.lines().all(|line| line.len() <= 80));
}

#[tokio::test]
async fn every_path_allows_its_methods() {
    let service = service();
    for (path, allow) in [
        ("/v1/responses", "POST, GET, HEAD"),
        ("/responses/compact", "POST"),
        ("/openai/v1/responses/input_tokens", "POST"),
        ("/v1/models", "GET, HEAD"),
        ("/v1/models/a/b", "GET, HEAD"),
        ("/v1/artifacts", "GET, HEAD"),
        ("/v1/artifacts/x", "GET, HEAD, DELETE"),
        ("/v1/artifacts/x/search", "GET, HEAD"),
        ("/v1/artifacts/expired", "DELETE"),
        ("/mcp", "POST"),
        ("/healthz", "GET, HEAD"),
        ("/metrics", "GET, HEAD"),
        ("/diagnostics/turns", "GET, HEAD"),
        ("/diagnostics/bundle", "GET, HEAD"),
    ] {
        let reply = request(&service, Method::PATCH, path, "").await;
        assert_eq!(reply.status, 405, "{path}");
        assert_eq!(reply.headers["allow"], allow, "{path}");
        assert_eq!(reply.message(), format!("This path answers {allow}."));
    }
}

#[tokio::test]
async fn a_model_is_found_by_every_name_that_a_turn_can_use() {
    let service = service();
    for prefix in PREFIXES {
        for (path, id, owner) in [
            ("small", "small", "lab"),
            ("nick", "nick", "lab"),
            ("vendor/some%20model", "vendor/some model", "lab"),
            ("vendor%2Fsome%20model", "vendor/some model", "lab"),
            ("lab/small", "lab/small", "lab"),
            ("lab%2Fsmall", "lab/small", "lab"),
            ("open%2fsmall/", "open/small", "open"),
            ("open/any/model", "open/any/model", "open"),
        ] {
            let path = format!("{prefix}/models/{path}");
            let reply = get(&service, &path).await;
            assert_eq!(reply.status, 200, "{path}");
            assert_eq!(
                reply.body,
                format!(r#"{{"id":"{id}","object":"model","created":0,"owned_by":"{owner}"}}"#)
            );
            assert_eq!(reply.headers["content-type"], "application/json");
        }
    }
    let head = request(&service, Method::HEAD, "/v1/models/small", "").await;
    assert_eq!((head.status, &*head.body), (200, ""));
}

#[tokio::test]
async fn every_listed_model_is_found() {
    let service = service();
    let list = get(&service, "/v1/models").await.json();
    let models = list["data"].as_array().unwrap();
    assert_eq!(models.len(), 3);
    for listed in models {
        let id = listed["id"].as_str().unwrap();
        let path = percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC);
        assert_eq!(
            get(&service, &format!("/v1/models/{path}")).await.json(),
            *listed
        );
    }
}

#[tokio::test]
async fn an_unknown_model_is_answered_as_a_turn_with_it() {
    let service = service();
    let turn = json!({"model": "smal", "input": "hi"}).to_string();
    let turn = request(&service, Method::POST, "/v1/responses", &turn).await;
    for prefix in PREFIXES {
        let reply = get(&service, &format!("{prefix}/models/smal")).await;
        assert_eq!(
            (reply.status, reply.code()),
            (404, json!("model_not_found"))
        );
        assert_eq!(reply.body, turn.body);
    }
    assert!(turn.message().contains("small"), "{}", turn.body);
}

#[tokio::test]
async fn an_escaped_path_is_no_model_id() {
    let service = service();
    for path in [
        "%FF",
        "%20",
        "open%2F",
        "open/%2e%2e",
        "open/..%2f..%2fetc",
        "open%2f%2fx",
    ] {
        let reply = get(&service, &format!("/v1/models/{path}")).await;
        assert_eq!(
            (reply.status, reply.code()),
            (404, json!("model_not_found")),
            "{path}"
        );
    }
    for path in ["", "/"] {
        let list = get(&service, &format!("/v1/models{path}")).await;
        assert_eq!(list.json()["object"], "list");
    }
}

#[tokio::test]
async fn a_404_says_what_is_served() {
    let service = service();
    let reply = get(&service, "/v1/nowhere?key=secret").await;
    assert_eq!((reply.status, reply.code()), (404, json!("unknown_url")));
    assert_eq!(
        reply.message(),
        "There is nothing at \"/v1/nowhere\". This server has POST /v1/responses, \
         GET /v1/responses, POST /v1/responses/compact, POST /v1/responses/input_tokens, \
         POST /v1/alpha/search, \
         GET /v1/responses/{id}, DELETE /v1/responses/{id}, POST /v1/responses/{id}/cancel, \
         GET /v1/responses/{id}/input_items, GET /v1/responses/{id}/sources, \
         GET /v1/responses/{id}/sources/{source}, POST /v1/conversations, \
         GET /v1/conversations/{id}, POST /v1/conversations/{id}, \
         DELETE /v1/conversations/{id}, POST /v1/conversations/{id}/items, \
         GET /v1/conversations/{id}/items, GET /v1/conversations/{id}/items/{item}, \
         DELETE /v1/conversations/{id}/items/{item}, POST /v1/search, POST /v1/scrape, \
         GET /v1/models, GET /v1/models/{id}, GET /v1/artifacts, GET /v1/artifacts/{id}, \
         GET /v1/artifacts/{id}/search, DELETE /v1/artifacts/{id}, \
         DELETE /v1/artifacts/expired, POST /mcp, GET /healthz, GET /metrics, \
         GET /diagnostics/turns, GET /diagnostics/bundle, \
             GET /diagnostics/status, GET /diagnostics/models, GET /, GET /openapi.json, GET /diagnostics/jobs, \
             DELETE /diagnostics/store. See GET /v1/models for the models."
    );
    for path in [
        "/v1/chat/completions",
        "/completions",
        "/openai/v1/messages/",
    ] {
        let reply = request(&service, Method::POST, path, "{}").await;
        assert_eq!((reply.status, reply.code()), (404, json!("unknown_url")));
        let message = reply.message();
        let beginning = format!(
            "There is nothing at \"{path}\". Respondent answers the Responses API only: \
             use POST /v1/responses. This server has "
        );
        assert!(message.starts_with(&beginning), "{message}");
    }
}

#[tokio::test]
async fn every_route_but_healthz_requires_the_token() {
    let guard = GuardSettings {
        token: Some(Token::new("open-sesame").unwrap()),
        ..GuardSettings::default()
    };
    let settings = EdgeSettings {
        guard,
        ..EdgeSettings::default()
    };
    let settings = Arc::new(ArcSwap::from_pointee(settings));
    let edge = Edge::new(service(), settings, app());
    let message = get(&service(), "/nowhere").await.message();
    let (_, list) = message.split_once("This server has ").unwrap();
    let (list, _) = list.split_once(". ").unwrap();
    let mut without_token = 0;
    for (method, path) in list.split(", ").map(|route| route.split_once(' ').unwrap()) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header(CONTENT_TYPE, "application/json")
            .body(axum::body::Body::empty());
        let response = edge.answer(request.unwrap()).await;
        let expected = if path == "/healthz" { 200 } else { 401 };
        assert_eq!(response.status(), expected, "{method} {path}");
        without_token += usize::from(expected == 200);
    }
    assert_eq!(without_token, 1);
}

/// Finds one page, and reads every page as the same one.
struct FixtureWeb;

impl Searcher for FixtureWeb {
    fn search<'s>(&'s self, query: &'s WebQuery) -> SearchFuture<'s> {
        let hit = |at: usize| SearchHit {
            url: format!("https://{at}.example/"),
            title: format!("{} {at}", query.text),
            snippet: "An excerpt. ".repeat(200),
            score: Some(0.4),
            published: None,
        };
        Box::pin(async move {
            SearchOutcome {
                engine: Some(SearchEngine::Tavily),
                hits: (0..query.results).map(hit).collect(),
                attempts: Vec::new(),
            }
        })
    }
}

impl PageReader for FixtureWeb {
    fn read<'r>(&'r self, url: &'r str) -> PageFuture<'r> {
        Box::pin(async move {
            if url.contains("broken") {
                return Err(PageError::TooShort(7));
            }
            Ok(Arc::new(Page {
                url: url.to_owned(),
                canonical: None,
                title: "A page".to_owned(),
                published: Some("2026-11-01".to_owned()),
                markdown: "# Page\n\nSome words. 日本語\n".repeat(1_000) + "the needle is here\n",
                received_bytes: 99,
                fetched_by: FetchStrategy::Native,
                memory: None,
            }))
        })
    }
}

/// Promise: `POST /v1/search` and `POST /v1/scrape` answer with the text that a model reads, byte
/// for byte.
#[tokio::test]
async fn the_endpoints_answer_what_a_model_reads() {
    let app = app();
    let tools = WebTools::new(Arc::new(FixtureWeb), Arc::new(FixtureWeb));
    let tools = tools.with_cache(Duration::from_mins(15), 1 << 20);
    app.web.fix(tools.clone());
    let memory = ProcessMemory::unlimited();
    app.web.count_memory(&memory);
    let before = memory.used_for(MemoryKind::Memories);
    let service = routes(&app);
    for (size, context) in [
        ("low", SearchContext::Low),
        ("medium", SearchContext::Medium),
        ("high", SearchContext::High),
    ] {
        let wanted = SearchRequest {
            query: WebQuery {
                text: "two words".to_owned(),
                results: context.results(),
                ..WebQuery::default()
            },
            cache_only: false,
        };
        tools.search(&wanted).await;
        let body = json!({"query": "two words", "search_context_size": size}).to_string();
        let reply = request(&service, Method::POST, "/v1/search", &body).await;
        let reply = reply.json();
        // The cache answers the endpoint and the model.
        let report = tools.search(&wanted).await;
        assert_eq!(reply["text"], render_results(&report, context));
        assert_eq!(
            reply["results"].as_array().unwrap().len(),
            context.results()
        );
        assert_eq!(reply["results"][0]["low_relevance"], true);
    }
    let url = "https://a.example/";
    let body = json!({"url": url, "markdown": true}).to_string();
    let reply = request(&service, Method::POST, "/v1/scrape", &body)
        .await
        .json();
    let page = tools.open(url).await.unwrap();
    assert_eq!(reply["text"], render_page(&page, None, 0));
    assert!(reply["text"].as_str().unwrap().chars().count() <= 12_000);
    let chars = page.markdown.chars().count();
    assert_eq!(reply["page"]["content_length"], chars);
    assert_eq!(reply["page"]["markdown"], page.markdown);
    let broken = json!({"url": "https://broken.example/"}).to_string();
    let reply = request(&service, Method::POST, "/v1/scrape", &broken)
        .await
        .json();
    let error = tools.open("https://broken.example/").await.unwrap_err();
    assert_eq!(
        reply["text"],
        render_page_error("https://broken.example/", &error)
    );
    assert_eq!(reply["error"]["code"], "CONTENT_TOO_SHORT");
    for part in ["query", "find"] {
        let body = json!({"url": url, part: "the needle"}).to_string();
        let reply = request(&service, Method::POST, "/v1/scrape", &body).await;
        let text = reply.json()["text"].as_str().unwrap().to_owned();
        assert!(text.contains("the needle is here"), "{text}");
    }
    assert!(memory.used_for(MemoryKind::Memories) > before);
}

/// Promise: `POST /v1/alpha/search` runs what Codex sends when its model calls `web.run`: searches,
/// and pages that are opened, searched and followed by the ids of that session. Its text keeps the
/// `max_output_tokens` of the request.
#[tokio::test]
async fn the_searches_of_codex_are_answered() {
    let app = app();
    let tools = WebTools::new(Arc::new(FixtureWeb), Arc::new(FixtureWeb));
    app.web.fix(tools);
    let service = routes(&app);
    let ask = async |session: &str, commands: Value, tokens: u64| {
        // As Codex 0.171 sends it.
        let body = json!({
            "id": session,
            "model": "small",
            "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]}],
            "commands": commands,
            "settings": {
                "user_location": {"type": "approximate", "country": "FR"},
                "search_context_size": "low",
                "filters": {"blocked_domains": ["1.example"]},
                "allowed_callers": ["direct"],
                "external_web_access": true,
            },
            "max_output_tokens": tokens,
        });
        let path = "/v1/alpha/search";
        let reply = request(&service, Method::POST, path, &body.to_string()).await;
        assert_eq!(reply.status, 200, "{}", reply.json());
        let reply = reply.json();
        assert_eq!(reply["encrypted_output"], Value::Null);
        let output = reply["output"].as_str().unwrap().to_owned();
        let most = usize::try_from(tokens).unwrap() * 4;
        assert!(output.len() <= most, "{output}");
        (output, reply["results"].clone())
    };
    let query = json!({"search_query": [{"q": "tea", "recency": 3}], "response_length": "short"});
    let (output, results) = ask("s", query, 2_500).await;
    assert!(
        output.contains("\n[turn0search0] tea 0 (low relevance)\nhttps://0.example/\n"),
        "{output}"
    );
    assert_eq!(results.as_array().unwrap().len(), 2, "{results}");
    assert_eq!(results[1]["ref_id"], "turn0search1");
    assert_eq!(results[1]["url"], "https://2.example/");
    let open = json!({"open": [{"ref_id": "turn0search1"}]});
    let (output, results) = ask("s", open.clone(), 500).await;
    let head = "[turn1view0] A page\nhttps://2.example/\nPublished: 2026-11-01\nLines 1 to ";
    assert!(output.contains(head), "{output}");
    assert!(
        output.contains("L1: # Page\nL3: Some words. 日本語\nL4: "),
        "{output}"
    );
    assert!(output.len() > 1_900, "{output}");
    assert_eq!(results, Value::Null);
    let find = json!({"find": [{"ref_id": "turn1view0", "pattern": "some WORDS"}]});
    assert!(
        ask("s", find, 2_500)
            .await
            .0
            .contains(": 1000 or more\nL3: Some words")
    );
    // The page is kept whole.
    let of_session = ArtifactFilter {
        session: Some("s".to_owned()),
        ..ArtifactFilter::default()
    };
    let kept = app.service.artifacts().list(&of_session).await.unwrap();
    assert_eq!((kept.len(), kept[0].kind), (1, OutputKind::WebOrSearch));
    let (unknown, _) = ask("other", open, 2_500).await;
    assert!(
        unknown.contains("\"turn0search1\" is no reference of this session"),
        "{unknown}"
    );
    let large = json!({"id": "s", "commands": {"x": "y".repeat(300_000)}}).to_string();
    for (body, param) in [
        ("{}", "body"),
        ("[]", "body"),
        ("", "body"),
        (
            r#"{"id":"s","commands":{"open":[{"lineno":1}]}}"#,
            "commands",
        ),
        (r#"{"id":"s","settings":7}"#, "settings"),
        (&large, "commands"),
    ] {
        let reply = request(&service, Method::POST, "/v1/alpha/search", body).await;
        assert_eq!((reply.status, reply.code()), (400, json!("invalid_value")));
        assert_eq!(reply.json()["error"]["param"], param, "{}", reply.json());
    }
}
