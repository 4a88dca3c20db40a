use std::sync::Arc;

use arc_swap::ArcSwap;
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
use crate::net::memory::ProcessMemory;
use crate::responses::ResponseStore;
use crate::secrets::Token;
use crate::serve::{Edge, EdgeSettings, GuardSettings, RouteService};
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
    let service = Service::new(
        live,
        Arc::new(Metrics::new()),
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
         GET /v1/responses/{id}, DELETE /v1/responses/{id}, POST /v1/responses/{id}/cancel, \
         GET /v1/responses/{id}/input_items, POST /v1/conversations, \
         GET /v1/conversations/{id}, POST /v1/conversations/{id}, \
         DELETE /v1/conversations/{id}, POST /v1/conversations/{id}/items, \
         GET /v1/conversations/{id}/items, GET /v1/conversations/{id}/items/{item}, \
         DELETE /v1/conversations/{id}/items/{item}, GET /v1/models, \
         GET /v1/models/{id}, GET /v1/artifacts, GET /v1/artifacts/{id}, \
         GET /v1/artifacts/{id}/search, DELETE /v1/artifacts/{id}, \
         DELETE /v1/artifacts/expired, POST /mcp, GET /healthz, GET /metrics, \
         GET /diagnostics/turns, GET /diagnostics/bundle, \
             GET /diagnostics/status, GET /, GET /openapi.json, GET /diagnostics/jobs, \
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
