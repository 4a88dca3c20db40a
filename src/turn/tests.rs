mod bill_simulation;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use adapters::plan::Retention;
use adapters::responses::assembler::{HostedItem, WithheldCall};
use adapters::tools::ProxyTool;
use adapters::turn::Turn;
use arc_swap::ArcSwap;
use http::Response;
use http_body_util::BodyExt as _;
use kit::player::Player;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::observer::{TurnEvent, TurnObserver};
use super::{
    Service, ToolEffect, ToolFuture, ToolResult, ToolRunner, TurnContext, TurnEnvironment,
    TurnEnvironmentFactory, TurnRequest, TurnTools, respond,
};
use crate::artifacts::Artifacts;
use crate::clock::{Clock, System};
use crate::config::{Config, Inputs, LoadPurpose, load};
use crate::metrics::Metrics;
use crate::net::ClientConnection;
use crate::responses::ResponseStore;
use axum::body::Body;

/// A service with one provider `acme` that plays `script`. `settings` are further lines of its
/// configuration table.
async fn service(script: Value, settings: &str) -> (Arc<Service>, Player) {
    // Fails if another test has installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let player = Player::start(serde_json::from_value(script).unwrap())
        .await
        .unwrap();
    let service = service_for(&player.base_url(), settings);
    (service, player)
}

/// A service whose provider `acme` is at this address.
fn service_for(base: &str, settings: &str) -> Arc<Service> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    std::fs::write(
        root.join("proxy-config.toml"),
        format!("[providers.acme]\nwire = \"chat\"\nbase_url = \"{base}\"\n{settings}\n"),
    )
    .unwrap();
    let inputs = Inputs::under(root);
    let config = load(&inputs, LoadPurpose::Serve).unwrap();
    let service = Service::new(
        Arc::new(ArcSwap::from_pointee(config)),
        Arc::new(Metrics::new()),
        CancellationToken::new(),
        Arc::new(System),
        Artifacts::without_store(Retention::Nothing, BTreeSet::new()),
        ResponseStore::default(),
    );
    Arc::new(service)
}

async fn ask(service: &Arc<Service>) -> Response<Body> {
    let body = json!({"model": "acme/m", "input": "hi", "stream": true});
    respond(service, TurnRequest::default(), body.to_string()).await
}

/// The last event of a streamed answer.
async fn last_event(service: &Arc<Service>) -> Value {
    let response = ask(service).await;
    assert_eq!(response.status(), 200);
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let (rest, _) = text.rsplit_once("data: [DONE]").unwrap();
    serde_json::from_str(rest.rsplit_once("data: ").unwrap().1).unwrap()
}

#[tokio::test]
async fn an_answer_that_breaks_after_its_finish_reason_is_complete() {
    for end in [json!({"cut": "rst"}), json!({"cut": "fin"})] {
        let steps = json!([{"text": "ho"}, {"finish": "stop"}, {"delay_ms": 50}, end]);
        let (service, _player) = service(json!({"answers": [{"steps": steps}]}), "").await;
        let last = last_event(&service).await;
        assert_eq!(last["type"], "response.completed", "{last}");
    }
}

#[tokio::test]
async fn an_answer_that_hangs_after_its_finish_reason_is_complete() {
    let steps = json!([{"text": "ho"}, {"finish": "stop"}, {"stall": true}]);
    let (service, _player) = service(
        json!({"answers": [{"steps": steps}]}),
        "[providers.acme.timeouts]\nidle = \"200ms\"",
    )
    .await;
    let last = last_event(&service).await;
    assert_eq!(last["type"], "response.completed", "{last}");
}

/// Promise: A complete answer ends soon although its connection stays open, with the token counts
/// that come behind it.
///
/// A connection that stays open behind a complete answer costs little time, and no token count.
#[tokio::test]
async fn a_complete_answer_ends_although_its_connection_stays_open() {
    let usage = json!({"usage": {"prompt_tokens": 5, "completion_tokens": 77}});
    let (text, finish, stall) = (
        json!({"text": "ho"}),
        json!({"finish": "stop"}),
        json!({"stall": true}),
    );
    let alive =
        json!({"repeat": {"times": 100_000, "steps": [{"raw": ": alive\n\n"}, {"delay_ms": 20}]}});
    for (steps, counted, said) in [
        (json!([text, finish, usage, stall]), true, "ho"),
        (
            json!([text, finish, {"delay_ms": 400}, usage, stall]),
            true,
            "ho",
        ),
        (json!([text, finish, stall]), false, "ho"),
        (json!([text, finish, alive]), false, "ho"),
        (
            json!([text, finish, {"delay_ms": 400}, text, {"delay_ms": 800}, text, finish, usage, stall]),
            true,
            "hohoho",
        ),
    ] {
        let (service, _player) = service(json!({"answers": [{"steps": steps}]}), "").await;
        let begun = std::time::Instant::now();
        let last = last_event(&service).await;
        assert!(begun.elapsed().as_secs() < 4, "{steps}");
        assert_eq!(last["type"], "response.completed", "{steps}: {last}");
        let output = &last["response"]["output"][0]["content"][0]["text"];
        assert_eq!(output, said, "{steps}");
        let tokens = &last["response"]["usage"]["output_tokens"];
        assert_eq!(tokens == &json!(77), counted, "{steps}: {tokens}");
    }
}

/// A provider that sends the beginning of its reply when a request has arrived, and the rest when
/// it is told to.
async fn pausing(begin: &'static str) -> (String, Arc<Notify>, Arc<Notify>) {
    const REST: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" end\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let (arrived, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (has_arrived, told) = (Arc::clone(&arrived), Arc::clone(&go_on));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.ends_with(b"}") {
                stream.read_buf(&mut request).await.unwrap();
            }
            stream.write_all(begin.as_bytes()).await.unwrap();
            has_arrived.notify_one();
            told.notified().await;
            let rest = if begin.is_empty() {
                format!("{HEAD}{REST}")
            } else {
                REST.to_owned()
            };
            stream.write_all(rest.as_bytes()).await.unwrap();
        }
    });
    (base, arrived, go_on)
}

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
const BEGUN: &str = concat!(
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"begun\"}}]}\n\n"
);

/// Lets half an hour pass in which no task runs.
async fn nobody_runs() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_mins(30)).await;
    tokio::time::resume();
}

/// Promise: A client that pauses gets the rest of its answer when it goes on, and a busy machine
/// costs no answer.
///
/// The time in which a client takes nothing is not the provider's silence.
#[tokio::test]
async fn a_client_that_pauses_loses_nothing_when_it_goes_on() {
    let (base, _, go_on) = pausing(BEGUN).await;
    let service = service_for(&base, "max_retries = 0");
    let mut body = ask(&service).await.into_body();
    let mut text = String::new();
    while !text.contains("begun") {
        let frame = body.frame().await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
    }
    nobody_runs().await;
    go_on.notify_one();
    let rest = body.collect().await.unwrap().to_bytes();
    let rest = String::from_utf8(rest.to_vec()).unwrap();
    assert!(rest.contains("response.completed"), "{rest}");
    assert!(rest.contains("begun end"), "{rest}");
}

/// Promise: Only the time in which a provider is read counts as its silence.
///
/// The time in which a busy machine runs no task is none either, before the first byte and after
/// it, whatever the client waits for.
#[tokio::test]
async fn time_in_which_nobody_reads_is_no_silence() {
    for begin in ["", HEAD, BEGUN] {
        for stream in [false, true] {
            let (base, arrived, go_on) = pausing(begin).await;
            let service = service_for(&base, "max_retries = 0");
            let body = json!({"model": "acme/m", "input": "hi", "stream": stream}).to_string();
            let answering = tokio::spawn(async move {
                let response = respond(&service, TurnRequest::default(), body).await;
                let body = response.into_body().collect().await.unwrap().to_bytes();
                String::from_utf8(body.to_vec()).unwrap()
            });
            arrived.notified().await;
            // The beginning of the answer has been read.
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
            nobody_runs().await;
            go_on.notify_one();
            let text = answering.await.unwrap();
            assert!(
                text.contains("\"status\":\"completed\""),
                "{begin} {stream}: {text}"
            );
            assert!(text.contains(" end"), "{begin} {stream}: {text}");
        }
    }
}

#[tokio::test]
async fn the_first_character_decides_whether_an_answer_is_a_stream_or_a_document() {
    let document = r#"{"choices":[{"message":{"content":"ho"},"finish_reason":"stop"}]}"#;
    let events = format!("data: {document}\n\ndata: [DONE]\n\n");
    for (content_type, body) in [
        ("text/event-stream", document),
        ("application/json", document),
        ("application/json", &events),
        ("text/plain", &events),
    ] {
        let answer = json!({"headers": {"content-type": content_type}, "body": body});
        let (service, _player) = service(json!({"answers": [answer]}), "").await;
        let last = last_event(&service).await;
        assert_eq!(last["type"], "response.completed", "{content_type}: {last}");
    }
}

#[tokio::test]
async fn a_key_that_fails_is_replaced_at_once_and_no_retry_after_is_sent() {
    let refusal = json!({"status": 401, "json": {"error": {"message": "no", "param": "sk-canary-0002"}}, "repeat": true});
    let (service, player) = service(
        json!({"answers": [refusal]}),
        "api_key = [\"sk-canary-0001\", \"sk-canary-0002\", \"sk-canary-0003\"]\nmax_retries = 1",
    )
    .await;
    let response = ask(&service).await;
    assert_eq!(response.status(), 401);
    assert_eq!(response.headers().get("retry-after"), None);
    assert_eq!(player.requests().len(), 2);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["error"]["param"], "[redacted]");
}

#[tokio::test]
async fn a_redirect_is_not_retried() {
    let answer = json!({"status": 307, "headers": {"location": "http://127.0.0.1:9/"}, "body": "", "repeat": true});
    let (service, player) = service(json!({"answers": [answer]}), "").await;
    assert_eq!(ask(&service).await.status(), 502);
    assert_eq!(player.requests().len(), 1);
}

/// A clock that goes back by an hour with each reading.
struct BackwardClock(AtomicU64);

impl Clock for BackwardClock {
    fn unix(&self) -> u64 {
        self.0.fetch_sub(3600, Ordering::Relaxed)
    }
}

struct BackwardClocks;

impl TurnEnvironmentFactory for BackwardClocks {
    fn create(&self, request_id: &Arc<str>, config: &Arc<Config>) -> TurnEnvironment {
        TurnEnvironment {
            clock: Arc::new(BackwardClock(AtomicU64::new(1_800_000_000))),
            ..System.create(request_id, config)
        }
    }
}

/// Promise: When the clock is set back, no answer ends before it began; durations do not depend on
/// the clock.
#[tokio::test]
async fn an_answer_does_not_end_before_it_began_when_the_clock_is_set_back() {
    let script = json!({"answers": [{"steps": [{"text": "all"}]}]});
    let (mut service, _player) = service(script, "").await;
    Arc::get_mut(&mut service).unwrap().environments = Arc::new(BackwardClocks);
    let last = last_event(&service).await;
    let time = |name: &str| last["response"][name].as_u64().unwrap();
    assert_eq!(time("completed_at"), time("created_at"), "{last}");
}

/// A tool runner that waits in the middle of the preparation until the work has to stop.
struct UnwantedWork(Arc<AtomicBool>);

impl ToolRunner for UnwantedWork {
    fn offered(&self, ctx: &TurnContext, _: &Turn<'_>) -> Vec<ProxyTool> {
        self.0.store(true, Ordering::Relaxed);
        let begun = std::time::Instant::now();
        while !ctx.stop.is_raised() {
            assert!(begun.elapsed().as_secs() < 120, "nobody stopped the work");
            std::thread::yield_now();
        }
        Vec::new()
    }

    fn begin(&self, _: &TurnContext, _: &Turn<'_>, _: &str) -> Arc<dyn TurnTools> {
        Arc::new(Self(Arc::clone(&self.0)))
    }
}

impl TurnTools for UnwantedWork {
    fn has(&self, _: &str) -> bool {
        false
    }

    fn effect(&self, _: &str) -> ToolEffect {
        ToolEffect::READ_ONLY
    }

    fn shown(&self, _: &WithheldCall) -> Option<HostedItem> {
        None
    }

    fn run<'r>(&'r self, _: &'r TurnContext, _: &'r WithheldCall) -> ToolFuture<'r> {
        Box::pin(async { ToolResult::failure("not offered") })
    }
}

impl TurnEnvironmentFactory for UnwantedWork {
    fn create(&self, request_id: &Arc<str>, config: &Arc<Config>) -> TurnEnvironment {
        TurnEnvironment {
            tools: Some(Arc::new(Self(Arc::clone(&self.0)))),
            ..System.create(request_id, config)
        }
    }
}

/// A service that prepares turns until they have to stop; it says when it has begun.
async fn preparing(settings: &str) -> (Arc<Service>, Player, Arc<AtomicBool>) {
    let script = json!({"answers": [{"repeat": true, "steps": [{"text": "all"}]}]});
    let (mut service, player) = service(script, settings).await;
    let begun = Arc::new(AtomicBool::new(false));
    Arc::get_mut(&mut service).unwrap().environments = Arc::new(UnwantedWork(Arc::clone(&begun)));
    (service, player, begun)
}

/// A request that is large enough to be prepared beside other work.
fn large_body() -> String {
    json!({"model": "acme/m", "input": "word ".repeat(1 << 18), "stream": true}).to_string()
}

/// Answers the large request while `meanwhile` runs, which begins with the preparation, or after
/// an answer that was made before there was any.
async fn answer_meanwhile(
    service: &Arc<Service>,
    request: TurnRequest,
    begun: Arc<AtomicBool>,
    meanwhile: impl FnOnce() + Send + 'static,
) -> tokio::task::JoinHandle<Response<Body>> {
    let service = Arc::clone(service);
    let answering = tokio::spawn(async move { respond(&service, request, large_body()).await });
    while !begun.load(Ordering::Relaxed) && !answering.is_finished() {
        tokio::task::yield_now().await;
    }
    meanwhile();
    answering
}

/// A turn that is being prepared ends when its client leaves, and nothing is sent upstream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_preparation_of_a_turn_ends_when_its_client_leaves() {
    let (service, player, begun) = preparing("").await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = tokio::net::TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let connection = ClientConnection::new(listener.accept().await.unwrap().0);
    let request = TurnRequest {
        client: Some(connection.clone()),
        ..TurnRequest::default()
    };
    let answering = answer_meanwhile(&service, request, begun, move || drop(client)).await;
    connection.left().await;
    answering.abort();
    assert!(answering.await.unwrap_err().is_cancelled());
    assert_eq!(player.requests().len(), 0);
}

/// A turn that is being prepared ends when the process does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_preparation_of_a_turn_ends_with_the_process() {
    let (service, player, begun) = preparing("").await;
    let shutdown = service.shutdown.clone();
    let answering = answer_meanwhile(&service, TurnRequest::default(), begun, move || {
        shutdown.cancel();
    })
    .await;
    assert_eq!(answering.await.unwrap().status(), 503);
    assert_eq!(player.requests().len(), 0);
}

/// A turn that is being prepared ends at its time limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_preparation_of_a_turn_ends_at_its_time_limit() {
    let (service, player, begun) = preparing("[server]\nturn_timeout = \"100ms\"").await;
    let answering = answer_meanwhile(&service, TurnRequest::default(), begun, || ()).await;
    assert_eq!(answering.await.unwrap().status(), 504);
    assert_eq!(player.requests().len(), 0);
}

/// An observer that panics once: at the upstream request, or at the first event to the client.
struct PanickingObserver {
    at_events: bool,
    panicked: AtomicBool,
}

impl TurnObserver for PanickingObserver {
    fn on_event(&self, event: TurnEvent<'_>) {
        let here = match event {
            TurnEvent::UpstreamRequest { .. } => !self.at_events,
            TurnEvent::ClientBody(_) => self.at_events,
            _ => false,
        };
        assert!(
            !here || self.panicked.swap(true, Ordering::Relaxed),
            "a defect"
        );
    }
}

struct PanickingEnvironments(Arc<PanickingObserver>);

impl TurnEnvironmentFactory for PanickingEnvironments {
    fn create(&self, request_id: &Arc<str>, config: &Arc<Config>) -> TurnEnvironment {
        let observer: Arc<PanickingObserver> = Arc::clone(&self.0);
        TurnEnvironment {
            observer: Some(observer),
            ..System.create(request_id, config)
        }
    }
}

/// If the engine panics, the client's stream still gets an end, and the next turn is served.
#[tokio::test]
async fn a_defect_in_the_engine_costs_one_turn() {
    for at_events in [false, true] {
        let script = json!({"answers": [{"repeat": true, "steps": [{"text": "all"}]}]});
        let (mut service, _player) = service(script, "").await;
        let observer = Arc::new(PanickingObserver {
            at_events,
            panicked: AtomicBool::new(false),
        });
        Arc::get_mut(&mut service).unwrap().environments =
            Arc::new(PanickingEnvironments(observer));
        let response = ask(&service).await;
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        if at_events {
            assert_eq!(status, 200);
            let stream = kit::strict::check_or_panic(&body);
            assert_eq!(stream.terminal, "response.failed");
            assert_eq!(stream.error_code(), Some("server_error"));
        } else {
            assert_eq!(status, 500);
            assert_eq!(
                kit::strict::check_error(&body).unwrap()["code"],
                "internal_error"
            );
        }
        assert_eq!(last_event(&service).await["type"], "response.completed");
    }
}
