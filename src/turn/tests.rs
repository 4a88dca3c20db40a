use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use adapters::plan::Retention;
use arc_swap::ArcSwap;
use http::Response;
use http_body_util::BodyExt as _;
use kit::player::Player;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::observer::{TurnEvent, TurnObserver};
use super::{Service, TurnEnvironment, TurnEnvironmentFactory, respond};
use crate::artifacts::Artifacts;
use crate::clock::System;
use crate::config::{Config, Flags, Inputs, UserDirs, load};
use crate::metrics::Metrics;
use axum::body::Body;

/// A service with one provider `acme` that plays `script`. `settings` are further lines of its
/// configuration table.
async fn service(script: Value, settings: &str) -> (Arc<Service>, Player) {
    // Fails if another test has installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let player = Player::start(serde_json::from_value(script).unwrap())
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let base = player.base_url();
    std::fs::write(
        root.join("proxy-config.toml"),
        format!("[providers.acme]\nwire = \"chat\"\nbase_url = \"{base}\"\n{settings}\n"),
    )
    .unwrap();
    let config = load(&Inputs {
        flags: Flags::default(),
        environment: Box::new(HashMap::new()),
        dirs: UserDirs {
            working: root.to_owned(),
            home: root.to_owned(),
            config: root.join("config"),
            data: root.join("data"),
        },
    })
    .unwrap();
    let service = Service::new(
        Arc::new(ArcSwap::from_pointee(config)),
        Arc::new(Metrics::new()),
        CancellationToken::new(),
        Arc::new(System),
        Artifacts::without_store(Retention::Nothing),
    );
    (Arc::new(service), player)
}

async fn ask(service: &Arc<Service>) -> Response<Body> {
    let head = http::Request::new(()).into_parts().0;
    let body = json!({"model": "acme/m", "input": "hi", "stream": true});
    respond(service, &head, body.to_string()).await
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

/// R12: if the engine panics, the client's stream still gets an end, and the next turn is served.
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
