//! Webhooks: who is told that background responses have ended.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::player::{Player, PlayerScript, PlayerWire, RecordedRequest, ScriptedAnswer};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::background::{begin, ended, path_of};
use super::{asks, id, killed, ok, says};
use crate::faults::{answer, player};
use crate::proxy::{Proxy, Setup};

const SECRET: &str = "whsec_U3RhbmRhcmQgV2ViaG9va3Mgc2lnbiBldmVudHMu";

/// A receiver that takes every event.
pub async fn receiver() -> Player {
    receiver_with(Vec::new()).await
}

/// A receiver that answers with these first, and then takes every event.
async fn receiver_with(mut answers: Vec<ScriptedAnswer>) -> Player {
    answers.push(ScriptedAnswer {
        repeat: true,
        ..taken()
    });
    let script = PlayerScript {
        answers,
        ..PlayerScript::default()
    };
    Player::start(script).await.unwrap()
}

fn taken() -> ScriptedAnswer {
    ScriptedAnswer {
        body: Some("ok".to_owned()),
        ..ScriptedAnswer::default()
    }
}

/// A server that tells this receiver of all events, under this name.
pub fn told(setup: Setup, name: &str, receiver: &Player) -> Setup {
    let url = format!("http://{}/hook", receiver.address());
    let setup = setup.env("HOOK_SECRET", SECRET);
    setup.tables(&table(name, &url, ""))
}

fn table(name: &str, url: &str, more: &str) -> String {
    format!("[webhooks.{name}]\nurl = \"{url}\"\nsecret_env = \"HOOK_SECRET\"\n{more}")
}

fn setup(name: &str, receiver: &Player) -> Setup {
    told(Setup::new(), name, receiver)
}

/// HMAC-SHA256 as RFC 2104 defines it.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    let pad = |byte: u8| block.map(|of_key| of_key ^ byte);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message);
    let outer = Sha256::new().chain_update(pad(0x5c));
    outer.chain_update(inner.finalize()).finalize().to_vec()
}

fn header<'a>(request: &'a RecordedRequest, name: &str) -> &'a str {
    let line = request.head.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split(": ").nth(1)).unwrap()
}

/// Checks the signature of an event, and returns the id of its response and its type.
pub fn checked(request: &RecordedRequest) -> (String, String) {
    let (event_id, time) = (
        header(request, "webhook-id"),
        header(request, "webhook-timestamp"),
    );
    let key = STANDARD
        .decode(SECRET.strip_prefix("whsec_").unwrap())
        .unwrap();
    let signed = format!("{event_id}.{time}.{}", request.body);
    let expected = format!("v1,{}", STANDARD.encode(hmac(&key, signed.as_bytes())));
    assert_eq!(header(request, "webhook-signature"), expected);
    assert_eq!(header(request, "content-type"), "application/json");
    let event = request.json();
    assert_eq!(
        (&event["id"], &event["object"]),
        (&json!(event_id), &json!("event"))
    );
    let created = event["created_at"].as_u64().unwrap();
    assert!(created.abs_diff(time.parse().unwrap()) < 3_600);
    let kind = event["type"].as_str().unwrap().to_owned();
    (id(&event["data"]), kind)
}

/// Promise: The end of a background response is told to the webhooks of the operator in an event
/// signed as Standard Webhooks says: at least once, also after a kill, under one id, with longer
/// and longer pauses for about a day.
#[kit::test]
async fn each_end_of_a_background_response_is_told_in_a_signed_event() {
    let receiver = receiver().await;
    let failures = self::receiver().await;
    let failures_url = format!("http://{}/failures", failures.address());
    let setup = setup("all", &receiver).tables(&table(
        "failures",
        &failures_url,
        "events = [\"response.failed\"]",
    ));
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start_with(&player, setup).await;
    // A response for which a client waits is not told of.
    player.push(says("at once"));
    proxy.response(&asks("x", json!({}))).await;
    let mut expected = Vec::new();
    for (answer, status) in [
        (says("done"), "completed"),
        (ScriptedAnswer::error(400, "no"), "failed"),
        (
            answer(json!([{"text": "cut"}, {"finish": "length"}])),
            "incomplete",
        ),
    ] {
        player.push(answer);
        let job = begin(&proxy, "x", json!({})).await;
        assert_eq!(ended(&proxy, &job).await["status"], status);
        expected.push((id(&job), format!("response.{status}")));
    }
    player.push(answer(json!([{"stall": true}])));
    let job = begin(&proxy, "x", json!({})).await;
    player.wait_requests(5).await;
    let cancel = format!("{}/cancel", path_of(&job));
    ok(&proxy.post_to(&cancel, &json!({}), &[]).await);
    expected.push((id(&job), "response.cancelled".to_owned()));
    receiver.wait_requests(4).await;
    failures.wait_requests(1).await;
    proxy
        .wait_for_metric("respondent_webhook_attempts_total", "delivered", 5.0)
        .await;
    let mut told: Vec<_> = receiver.requests().iter().map(checked).collect();
    told.sort();
    expected.sort();
    assert_eq!(told, expected);
    let failed: Vec<_> = failures.requests().iter().map(checked).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].1, "response.failed");
    assert!(failures.requests()[0].head.starts_with("POST /failures "));
}

#[kit::test]
async fn an_event_is_told_again_after_the_program_was_killed() {
    let receiver = receiver_with(vec![ScriptedAnswer {
        head_delay_ms: 600_000,
        ..taken()
    }])
    .await;
    let setup = setup("slow", &receiver);
    let player = player(PlayerWire::Chat).await;
    player.push(says("done"));
    let setup = setup.wire_of(&player);
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    let job = begin(&proxy, "x", json!({})).await;
    receiver.wait_requests(1).await;
    let proxy = killed(proxy, &setup).await;
    receiver.wait_requests(2).await;
    proxy
        .wait_for_metric("respondent_webhook_attempts_total", "delivered", 1.0)
        .await;
    let requests = receiver.requests();
    let expected = (id(&job), "response.completed".to_owned());
    for request in &requests {
        assert_eq!(checked(request), expected);
    }
    assert_eq!(
        header(&requests[0], "webhook-id"),
        header(&requests[1], "webhook-id")
    );
    assert_eq!(requests[0].body, requests[1].body);
}

#[kit::test]
async fn a_webhook_that_is_down_is_reported_without_its_secrets() {
    // Nothing listens at the address of a receiver that is gone.
    let address = receiver().await.address();
    let url = format!("http://{address}/a-long-path-with-a-token-0123456789");
    let setup = Setup::new()
        .env("HOOK_SECRET", SECRET)
        .tables(&table("dead", &url, ""));
    let player = player(PlayerWire::Chat).await;
    player.push(says("done"));
    let proxy = Proxy::start_with(&player, setup).await;
    let job = begin(&proxy, "x", json!({})).await;
    assert_eq!(ended(&proxy, &job).await["status"], "completed");
    proxy.wait_for_log("WEBHOOK_FAILED: webhook `dead`").await;
    proxy
        .wait_for_metric("respondent_webhook_deliveries_waiting", "dead", 1.0)
        .await;
    proxy
        .wait_for_metric("respondent_webhook_attempts_total", "retried", 1.0)
        .await;
    let log = proxy.log();
    for secret in [SECRET, &SECRET["whsec_".len()..], "0123456789"] {
        assert!(!log.contains(secret), "{log}");
    }
    // A response that is deleted is not told of any more.
    proxy.delete(&path_of(&job)).await;
    proxy
        .wait_for_metric("respondent_webhook_deliveries_waiting", "dead", 0.0)
        .await;
}

#[kit::test]
async fn a_webhook_that_is_added_to_the_configuration_is_told() {
    let receiver = receiver().await;
    let player = player(PlayerWire::Chat).await;
    player.push(says("done"));
    let without = Setup::new().env("HOOK_SECRET", SECRET).wire_of(&player);
    let proxy = Proxy::start_with(&player, without).await;
    let with = setup("new", &receiver).wire_of(&player);
    let file = proxy.folder.path().join("proxy-config.toml");
    std::fs::write(file, with.config(&player.base_url())).unwrap();
    proxy.wait_for_log("[webhooks] changed").await;
    let job = begin(&proxy, "x", json!({})).await;
    receiver.wait_requests(1).await;
    assert_eq!(checked(&receiver.requests()[0]).0, id(&job));
}
