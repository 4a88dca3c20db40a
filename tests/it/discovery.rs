//! Models that providers list themselves, with the answers of each kind of server
//! (`fixtures/model_lists`).
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse;
use http::{HeaderMap, Method, StatusCode, Uri};
use kit::address::ReservedAddress;
use kit::harness::rows;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::literals::root;
use crate::proxy::{Proxy, Setup};

/// The answers of a server, and what is read from them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    #[serde(rename = "comment")]
    _comment: String,
    /// The id of the provider in the configuration.
    provider: String,
    /// The answers, by method, path and, for a request with a body, the model that it names.
    pub routes: BTreeMap<String, Value>,
    models: Vec<Expected>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    id: String,
    window: Option<u64>,
    images: Option<bool>,
    max_output: Option<u64>,
}

/// Promise: The models of built-in providers beside those of their files, and those of own
/// providers without a list, are discovered, with the window that the server gives them, in the
/// form of each of Ollama, LM Studio, vLLM, llama.cpp and SGLang; they are in `GET /v1/models`, in
/// `respondent models` and in Codex's catalog. What is configured wins.
#[test]
fn the_models_and_windows_of_each_kind_of_server_are_discovered() {
    let files = fs::read_dir(root().join("fixtures/model_lists")).unwrap();
    let shapes = files.map(|file| {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let shape: Shape = serde_json::from_str(&text).unwrap();
        (path.display().to_string(), shape)
    });
    rows(shapes, Shape::check);
}

impl Shape {
    async fn check(self) {
        let server = ModelServer::start(self.routes).await;
        let table = format!(
            "[providers.{}]\nbase_url = \"{}\"",
            self.provider,
            server.base_url()
        );
        let setup = Setup::new().tables(&table);
        let proxy = Proxy::start_for_url(UNUSED_URL, setup.clone()).await;
        let list = models(&proxy).await;
        let ids: Vec<&str> = self.models.iter().map(|model| model.id.as_str()).collect();
        assert_eq!(ids_of(&list), ids);
        for (info, expected) in list["models"].as_array().unwrap().iter().zip(&self.models) {
            let window = expected.window.unwrap_or(131_072);
            assert_eq!(info["slug"], expected.id);
            assert_eq!(info["context_window"], window, "{info}");
            let modalities = info["input_modalities"].as_array().unwrap();
            let takes_images = modalities.iter().any(|modality| modality == "image");
            assert_eq!(takes_images, expected.images.unwrap_or(true), "{info}");
        }
        // The command asks the server itself.
        let args = ["models", "--json", "--provider", &self.provider];
        let listed = command(&proxy, &setup, &args).await;
        let listed: Value = serde_json::from_str(&listed).unwrap();
        assert_eq!(listed[0]["models_unknown"], Value::Null);
        let listed = listed[0]["models"].as_array().unwrap();
        assert_eq!(listed.len(), self.models.len());
        for (model, expected) in listed.iter().zip(&self.models) {
            assert_eq!(model["id"], expected.id);
            assert_eq!(model["discovered"], true);
            assert_eq!(model["window"].as_u64(), expected.window, "{model}");
            assert_eq!(model["max_output"].as_u64(), expected.max_output, "{model}");
        }
    }
}

/// An address at which nothing listens.
const UNUSED_URL: &str = "http://127.0.0.1:1/v1";

/// A server with lists of models, which also answers prompts.
pub struct ModelServer {
    pub address: SocketAddr,
    pub state: Arc<Mutex<ServerState>>,
    task: JoinHandle<()>,
}

#[derive(Default)]
pub struct ServerState {
    /// The header without which every request is refused, and its value.
    pub key: Option<(&'static str, &'static str)>,
    pub routes: BTreeMap<String, Value>,
    /// The value of `authorization` of each request for a list.
    keys: Vec<String>,
    /// The models of the prompts.
    prompts: Vec<String>,
}

impl ModelServer {
    pub async fn start(routes: BTreeMap<String, Value>) -> Self {
        Self::start_on(([127, 0, 0, 1], 0).into(), routes).await
    }

    /// Starts a server whose list has these models.
    pub async fn with_models(ids: &[&str]) -> Self {
        Self::start(routes_of(ids)).await
    }

    async fn start_on(address: SocketAddr, routes: BTreeMap<String, Value>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(ServerState {
            routes,
            ..ServerState::default()
        }));
        let shared = Arc::clone(&state);
        let handler = move |method: Method, uri: Uri, headers: HeaderMap, body: String| {
            let state = Arc::clone(&shared);
            async move { answer(&state, &method, &uri, &headers, &body).await }
        };
        let router = Router::new().fallback(handler);
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            state,
            task,
        }
    }

    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub fn prompts(&self) -> Vec<String> {
        self.state.lock().unwrap().prompts.clone()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The value of a route that never answers.
const NEVER: &str = "never";

async fn answer(
    state: &Mutex<ServerState>,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: &str,
) -> axum::response::Response {
    if let Some((name, value)) = state.lock().unwrap().key
        && headers.get(name).is_none_or(|key| key != value)
    {
        return (StatusCode::UNAUTHORIZED, "no").into_response();
    }
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let model = body["model"].as_str().unwrap_or_default().to_owned();
    if uri.path().ends_with("/chat/completions") {
        state.lock().unwrap().prompts.push(model);
        let chunks = [
            json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hello."}}]}),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        ];
        let [text, end] = chunks;
        let events = format!("data: {text}\n\ndata: {end}\n\n");
        let head = [("content-type", "text/event-stream")];
        return (head, events + "data: [DONE]\n\n").into_response();
    }
    let route = format!("{method} {} {model}", uri.path());
    let paged = format!("{method} {uri}");
    let found = {
        let mut state = state.lock().unwrap();
        let key = headers.get("authorization");
        state
            .keys
            .push(key.map_or_else(String::new, |key| key.to_str().unwrap().to_owned()));
        let routes = &state.routes;
        routes.get(&paged).or(routes.get(route.trim_end())).cloned()
    };
    match found {
        Some(Value::String(text)) if text == NEVER => std::future::pending().await,
        Some(Value::String(text)) => ([("content-type", "text/html")], text).into_response(),
        Some(value) => ([("content-type", "application/json")], value.to_string()).into_response(),
        None => (StatusCode::NOT_FOUND, "404 page not found").into_response(),
    }
}

/// The route of a list of these models.
fn routes_of(ids: &[&str]) -> BTreeMap<String, Value> {
    let data: Vec<Value> = ids
        .iter()
        .map(|id| json!({"id": id, "object": "model"}))
        .collect();
    BTreeMap::from([(
        "GET /v1/models".to_owned(),
        json!({"object": "list", "data": data}),
    )])
}

/// A configuration whose provider `up` is asked for its models.
fn discovering() -> Setup {
    Setup::new().discovering()
}

/// The list of models of the server.
async fn models(proxy: &Proxy) -> Value {
    let reply = proxy.get("/v1/models").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    serde_json::from_str(&reply.body).unwrap()
}

/// The names of the models for SDKs.
fn ids_of(list: &Value) -> Vec<&str> {
    let data = list["data"].as_array().unwrap();
    data.iter()
        .map(|model| model["id"].as_str().unwrap())
        .collect()
}

/// Asks until the list has these models. A test has no other way to see that a list was asked for
/// in the background.
async fn wait_for_models(proxy: &Proxy, ids: &[&str]) {
    while ids_of(&models(proxy).await) != ids {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What a command prints that uses the configuration of the server.
async fn command(proxy: &Proxy, setup: &Setup, args: &[&str]) -> String {
    let setup = args.iter().fold(setup.clone(), |setup, arg| setup.arg(arg));
    let (code, out, err) = setup.run(proxy.folder.path()).await;
    assert_eq!(code, 0, "{out}{err}");
    out
}

#[kit::test]
async fn what_is_configured_wins_over_what_is_discovered() {
    let mut routes = routes_of(&[]);
    let list = json!({"data": [
        {"id": "new", "max_model_len": 4096},
        {"id": "known", "max_model_len": 4096, "max_output_tokens": 5},
        {"id": "open", "max_model_len": 8192},
    ]});
    routes.insert("GET /v1/models".to_owned(), list);
    let server = ModelServer::start(routes).await;
    let configured = "discover = \"models\"\n[[providers.up.models]]\nid = \"known\"\nwindow = 9000\n\
        [[providers.up.models]]\nid = \"open\"\n";
    let setup = discovering().provider(configured);
    let proxy = Proxy::start_for_url(&server.base_url(), setup.clone()).await;
    let list = models(&proxy).await;
    assert_eq!(ids_of(&list), ["known", "open", "new"]);
    let window = |at: usize| list["models"][at]["context_window"].as_u64().unwrap();
    // A window that is not configured is the one that the provider tells.
    assert_eq!([window(0), window(1), window(2)], [9000, 8192, 4096]);
    assert_eq!(list["models"][0]["input_modalities"], json!(["text"]));
    let text = command(&proxy, &setup, &["models", "--json", "--provider", "up"]).await;
    let listed: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(listed[0]["models"][0]["max_output"], Value::Null);

    // With a list of models in the configuration, nobody is asked unless it says so.
    let setup = discovering().provider("[[providers.up.models]]\nid = \"known\"");
    let proxy = Proxy::start_for_url(&server.base_url(), setup).await;
    assert_eq!(ids_of(&models(&proxy).await), ["known"]);
}

#[kit::test]
async fn a_discovered_model_answers_under_its_own_name() {
    let server = ModelServer::with_models(&["found", "also"]).await;
    // Two providers pass any name on, so that an unknown name leads nowhere.
    let setup = discovering().tables(&format!(
        "[providers.other]\nbase_url = \"{UNUSED_URL}\"\ndiscover = \"off\"\nkey_required = false"
    ));
    let proxy = Proxy::start_for_url(&server.base_url(), setup.clone()).await;
    assert_eq!(ids_of(&models(&proxy).await), ["found", "also"]);
    proxy
        .stream(&json!({"model": "found", "input": "go"}))
        .await;
    proxy
        .stream(&json!({"model": "up/also", "input": "go"}))
        .await;
    assert_eq!(server.prompts(), ["found", "also"]);
    assert_eq!(proxy.get("/v1/models/found").await.status, 200);
    assert_eq!(proxy.get("/v1/models/nobody").await.status, 404);
    // Codex starts with the first one.
    let setup = setup.env("CODEX_HOME", "./codex-home");
    fs::create_dir(proxy.folder.path().join("codex-home")).unwrap();
    let args = ["codex", "setup", "--dry-run", "--codex", "./no-codex"];
    let text = command(&proxy, &setup, &args).await;
    assert!(text.contains("model = \"found\""), "{text}");
}

/// Promise: A name that is of a family of a built-in provider goes there although nobody lists it.
#[kit::test]
async fn what_a_built_in_provider_lists_beside_its_file_is_offered() {
    let server = ModelServer::with_models(&[
        "gpt-5.5",
        "gpt-6-nova",
        "gpt-7",
        "gpt-7-2027-01-31",
        "models/gpt-8",
        "text-embedding-9",
        "gpt-image-9",
        "whisper-9",
    ])
    .await;
    let table = format!(
        "[providers.openai]\nbase_url = \"{}\"\napi_key = \"k\"",
        server.base_url()
    );
    let proxy = Proxy::start_for_url(UNUSED_URL, Setup::new().tables(&table)).await;
    let list = models(&proxy).await;
    let ids = ids_of(&list);
    let new = ["gpt-6-nova", "gpt-7", "gpt-7-2027-01-31", "gpt-8"];
    assert!(ids.ends_with(&new), "{ids:?}");
    assert_eq!(ids.iter().filter(|id| **id == "gpt-5.5").count(), 1);
    let infos = list["models"].as_array().unwrap();
    let info = |slug: &str| infos.iter().find(|info| info["slug"] == slug).unwrap();
    let shown: Vec<&Value> = new.iter().map(|slug| &info(slug)["visibility"]).collect();
    assert_eq!(json!(shown), json!(["list", "list", "hide", "list"]));
    // It is of a family whose models are known.
    let levels = |slug: &str| &info(slug)["supported_reasoning_levels"];
    assert_eq!(levels("gpt-6-nova"), levels("gpt-6-astra"));
    proxy
        .stream(&json!({"model": "gpt-7", "input": "go"}))
        .await;
    assert_eq!(server.prompts(), ["gpt-7"]);
}

#[kit::test]
async fn a_server_that_starts_later_is_found() {
    let reserved = ReservedAddress::new().unwrap();
    let address = reserved.get();
    let server = ModelServer::start_on(address, routes_of(&["early"])).await;
    let base_url = server.base_url();
    drop(server);
    let proxy = Proxy::start_for_url(&base_url, discovering()).await;
    assert_eq!(ids_of(&models(&proxy).await), Vec::<&str>::new());
    proxy.wait_for_log("refused the connection").await;
    let _server = ModelServer::start_on(address, routes_of(&["late"])).await;
    wait_for_models(&proxy, &["late"]).await;
}

/// Promise: No turn waits for a list of models.
#[kit::test]
async fn no_turn_waits_for_a_list_of_models() {
    let never = BTreeMap::from([("GET /v1/models".to_owned(), json!(NEVER))]);
    let server = ModelServer::start(never).await;
    let proxy = Proxy::start_for_url(&server.base_url(), discovering()).await;
    // The list is never answered while these are.
    proxy
        .stream(&json!({"model": "up/any", "input": "go"}))
        .await;
    proxy.stream(&json!({"model": "any", "input": "go"})).await;
    assert_eq!(server.prompts(), ["any", "any"]);
    assert_eq!(ids_of(&models(&proxy).await), Vec::<&str>::new());
    // Who asks for one by its name gets it with the list.
    let reply = proxy.get("/v1/models?with=up%2Fany").await;
    let list: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(ids_of(&list), ["up/any"]);
    assert_eq!(list["models"][0]["slug"], "up/any");
}

#[kit::test]
async fn models_that_change_are_noticed() {
    let server = ModelServer::with_models(&["one", "two"]).await;
    let proxy = Proxy::start_for_url(&server.base_url(), discovering()).await;
    wait_for_models(&proxy, &["one", "two"]).await;
    server.state.lock().unwrap().routes = routes_of(&["two", "three"]);
    wait_for_models(&proxy, &["two", "three"]).await;
    // A server that no longer answers keeps its models for a while.
    server.state.lock().unwrap().routes = BTreeMap::new();
    while !proxy.log().contains("answered 404") {
        assert_eq!(ids_of(&models(&proxy).await), ["two", "three"]);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(ids_of(&models(&proxy).await), ["two", "three"]);
}

/// Promise: A server that is down, slow or empty, that lists thousands of models or something else,
/// or whose list, address or key changes while the program runs, costs nothing but its own models;
/// lists are limited, kept for an hour, and asked for again in the background.
#[kit::test]
async fn thousands_of_models_are_listed_within_the_limits() {
    let ids: Vec<String> = (0..8_000).map(|n| format!("maker/model-{n}")).collect();
    let names: Vec<&str> = ids.iter().map(String::as_str).collect();
    let server = ModelServer::with_models(&names).await;
    let proxy = Proxy::start_for_url(&server.base_url(), discovering()).await;
    let reply = proxy.get("/v1/models").await;
    // Codex reads no more.
    assert!(reply.body.len() < 1 << 20, "{}", reply.body.len());
    let list: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(ids_of(&list), names[..5_000]);
    // One that was not read is passed on all the same.
    for model in ["maker/model-4999", "maker/model-7999"] {
        proxy.stream(&json!({"model": model, "input": "go"})).await;
    }
    assert_eq!(server.prompts(), ["maker/model-4999", "maker/model-7999"]);
}

/// The routes of a list in three pages. Each page says with `next` where the one after it is.
fn pages(next: [(&str, Value); 2]) -> BTreeMap<String, Value> {
    let [(second, to_second), (third, to_third)] = next;
    let page = |id: &str, next: Value| {
        let mut page = json!({"object": "list", "data": [{"id": id}]});
        let members = next.as_object().unwrap().clone();
        page.as_object_mut().unwrap().extend(members);
        page
    };
    BTreeMap::from([
        ("GET /v1/models".to_owned(), page("one", to_second)),
        (format!("GET /v1/models{second}"), page("two", to_third)),
        (
            format!("GET /v1/models{third}"),
            page("three", json!({"has_more": false})),
        ),
    ])
}

/// Promise: All pages of a list are read, up to 50 and 8 MiB; no link leads to another host.
#[kit::test]
async fn all_pages_of_a_list_are_read() {
    for next in [
        [
            ("?after=one", json!({"has_more": true})),
            ("?after=x", json!({"has_more": true, "last_id": "x"})),
        ],
        [
            ("?pageToken=a", json!({"nextPageToken": "a"})),
            ("?pageToken=b", json!({"nextPageToken": "b"})),
        ],
        [
            ("?page=2", json!({"next_page": 2})),
            ("?page=3", json!({"next_page": "3"})),
        ],
        [
            ("/more?p=2", json!({"next": "/v1/models/more?p=2"})),
            ("/more?p=3", json!({"next": "?p=3"})),
        ],
        // The key stays with the provider, whatever the link says.
        [
            (
                "?p=2",
                json!({"next": "https://elsewhere.example/v1/models?p=2"}),
            ),
            (
                "?p=3",
                json!({"links": {"next": "//elsewhere.example/x?p=3"}}),
            ),
        ],
    ] {
        let told = format!("{next:?}");
        let server = ModelServer::start(pages(next)).await;
        let proxy = Proxy::start_for_url(&server.base_url(), discovering()).await;
        assert_eq!(
            ids_of(&models(&proxy).await),
            ["one", "two", "three"],
            "{told}"
        );
    }
    // One that comes again, and one that cannot be read, are the end.
    for (second, third) in [
        ("?after=one", "?after=one"),
        ("?after=nowhere", "?after=two"),
    ] {
        let more = || json!({"has_more": true});
        let server = ModelServer::start(pages([(second, more()), (third, more())])).await;
        let proxy = Proxy::start_for_url(&server.base_url(), discovering()).await;
        assert_eq!(ids_of(&models(&proxy).await)[0], "one");
    }
}

#[kit::test]
async fn a_list_that_cannot_be_read_is_told_with_its_remedy() {
    for (value, told) in [
        (
            json!("<html>LM Studio</html>"),
            "answered with something else",
        ),
        (
            json!({"error": {"message": "no"}}),
            "answered with something else",
        ),
        (Value::Null, "answered with something else"),
    ] {
        let routes = BTreeMap::from([("GET /v1/models".to_owned(), value)]);
        let server = ModelServer::start(routes).await;
        check_unreadable(&server, told).await;
    }
    let server = ModelServer::start(BTreeMap::new()).await;
    check_unreadable(&server, "answered 404. Check its base_url").await;
}

async fn check_unreadable(server: &ModelServer, told: &str) {
    let setup = discovering();
    let proxy = Proxy::start_for_url(&server.base_url(), setup.clone()).await;
    assert_eq!(ids_of(&models(&proxy).await), Vec::<&str>::new());
    let message = format!(
        "The provider 'up' does not list its models: GET {}/models {told}",
        server.base_url()
    );
    proxy.wait_for_log(&message).await;
    let text = command(&proxy, &setup, &["models", "--provider", "up"]).await;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&message), "{text}");
}

#[kit::test]
async fn another_address_has_other_models() {
    let (old, new) = (
        ModelServer::with_models(&["old"]).await,
        ModelServer::start(BTreeMap::new()).await,
    );
    let setup = discovering();
    let proxy = Proxy::start_for_url(&old.base_url(), setup.clone()).await;
    wait_for_models(&proxy, &["old"]).await;
    let file = proxy.folder.path().join("proxy-config.toml");
    fs::write(&file, setup.config(&new.base_url())).unwrap();
    proxy.wait_for_log("provider up changed").await;
    // The list of the address before is gone, although the new one gives none yet.
    assert_eq!(ids_of(&models(&proxy).await), Vec::<&str>::new());
    proxy.wait_for_log("answered 404").await;
    assert_eq!(ids_of(&models(&proxy).await), Vec::<&str>::new());
    new.state.lock().unwrap().routes = routes_of(&["new"]);
    wait_for_models(&proxy, &["new"]).await;
    // So is a list that is no longer wanted.
    let off = setup.provider("discover = \"off\"");
    fs::write(&file, off.config(&new.base_url())).unwrap();
    wait_for_models(&proxy, &[]).await;
}

#[kit::test]
async fn a_list_gets_the_key_and_its_answer_does_not_leave_us() {
    let server = ModelServer::with_models(&["found"]).await;
    let setup = discovering().provider("api_key_command = \"echo key-of-a-command\"");
    let proxy = Proxy::start_for_url(&server.base_url(), setup.clone()).await;
    wait_for_models(&proxy, &["found"]).await;
    let text = command(&proxy, &setup, &["models", "--provider", "up"]).await;
    assert!(text.contains("found"), "{text}");
    let keys = server.state.lock().unwrap().keys.clone();
    assert!(keys.len() >= 2);
    assert!(
        keys.iter().all(|key| key == "Bearer key-of-a-command"),
        "{keys:?}"
    );
    assert!(!proxy.whole_log().await.contains("key-of-a-command"));
}
