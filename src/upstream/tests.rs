use adapters::failed_request::FailedRequest;
use futures_util::FutureExt;
use kit::player::Player;
use registry::{Route, WireQuirks};
use strum::EnumCount as _;
use tokio::net::{TcpSocket, TcpStream};

use super::*;
use crate::clock::System;
use crate::config::{Inputs, LoadPurpose, load};

/// A configuration with one provider, `lab`, whose table contains `table`.
fn config(table: &str) -> Config {
    config_at("https://lab.example/v1", table)
}

fn config_at(base_url: &str, table: &str) -> Config {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("[providers.lab]\nbase_url = \"{base_url}\"\n{table}");
    std::fs::write(dir.path().join("proxy-config.toml"), text).unwrap();
    let inputs = Inputs::under(dir.path());
    load(&inputs, LoadPurpose::Serve).unwrap()
}

fn route(config: &Config) -> Route {
    config.registry.resolve("lab/model", false).unwrap()
}

fn upstream(upstreams: &Upstreams, config: &Config) -> Arc<Upstream> {
    // Another test may have installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    upstreams.get(config, &route(config).provider).unwrap()
}

fn fault(kind: Kind, retry: Retry) -> Fault {
    Fault {
        retry,
        ..Fault::new(kind, "x")
    }
}

const TWO_KEYS: &str = "passthrough = true\napi_key = [\"key-no-1\", \"key-no-2\"]\n";

fn two_keys() -> Arc<Upstream> {
    upstream(&Upstreams::default(), &config(TWO_KEYS))
}

fn seconds_down(upstream: &Upstream) -> Option<u64> {
    let left = upstream.health().down_for(Instant::now());
    left.map(|left| left.as_secs())
}

#[test]
fn the_key_is_sent_in_the_configured_header() {
    for (setting, name, value) in [
        ("", "authorization", "Bearer key-no-1"),
        ("key_header = \"api-key\"", "api-key", "key-no-1"),
        ("key_scheme = \"Token\"", "authorization", "Token key-no-1"),
        (
            "key_header = \"x-auth\"\nkey_scheme = \"Key\"",
            "x-auth",
            "Key key-no-1",
        ),
    ] {
        let config = config(&format!("{TWO_KEYS}{setting}"));
        let upstream = upstream(&Upstreams::default(), &config);
        let key = upstream.keys().choose(0).unwrap();
        let (mut url, mut headers) = (upstream.url("/x"), http::HeaderMap::new());
        upstream.add_key(key, &mut url, &mut headers);
        let sent = &headers[name];
        assert_eq!((headers.len(), sent.to_str().unwrap()), (1, value));
        assert!(sent.is_sensitive());
        assert_eq!(url, upstream.url("/x"));
        let line = format!("{name}: {value}");
        assert!(!config.redactor().redact(&line).contains("key-no-1"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_switches_keys_and_that_of_the_last_key_marks_the_provider_down() {
    let upstream = two_keys();
    let limit = |seconds| fault(Kind::RateLimit, Retry::After(Duration::from_secs(seconds)));
    let first = upstream.keys().choose(0);
    assert!(upstream.record_failure(first, &limit(60)));
    assert_eq!(seconds_down(&upstream), None);
    let second = upstream.keys().choose(0);
    assert_ne!(second, first);
    assert!(!upstream.record_failure(second, &limit(20)));
    assert_eq!(seconds_down(&upstream), Some(20));
    upstream.health().record_success();
    assert_eq!(seconds_down(&upstream), None);
}

#[tokio::test(start_paused = true)]
async fn the_cooldown_of_a_key_depends_on_its_fault() {
    for (fault, cooldown) in [
        (fault(Kind::RateLimit, Retry::Soon), 10),
        (fault(Kind::Quota, Retry::Never), 600),
        (fault(Kind::Authentication, Retry::Never), 600),
    ] {
        let upstream = two_keys();
        upstream.record_failure(upstream.keys().choose(0), &fault);
        upstream.record_failure(upstream.keys().choose(0), &fault);
        let left = upstream.keys().time_until_available();
        assert_eq!(
            left,
            Some(Duration::from_secs(cooldown)),
            "{:?}",
            fault.kind
        );
        let limit = (fault.kind != Kind::Authentication).then_some(cooldown);
        assert_eq!(seconds_down(&upstream), limit, "{:?}", fault.kind);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_provider_starts_no_cooldown_of_its_keys() {
    let upstream = two_keys();
    for _ in 0..3 {
        let fault = fault(Kind::Unavailable, Retry::Soon);
        assert!(!upstream.record_failure(upstream.keys().choose(0), &fault));
    }
    assert!(upstream.keys().time_until_available().is_none());
    assert_eq!(seconds_down(&upstream), Some(10));
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_marks_a_provider_without_keys_down() {
    let upstream = upstream(
        &Upstreams::default(),
        &config("key_required = false\npassthrough = true"),
    );
    let mut bare = fault(Kind::RateLimit, Retry::Soon);
    assert!(!upstream.record_failure(None, &bare));
    assert_eq!(seconds_down(&upstream), Some(10));
    upstream.set_retry_after(&mut bare);
    assert_eq!(bare.retry_after(), Some(10));
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_without_a_delay_gets_the_time_until_a_key_is_available() {
    let upstream = two_keys();
    let mut bare = fault(Kind::RateLimit, Retry::Soon);
    upstream.set_retry_after(&mut bare);
    assert_eq!(bare.retry, Retry::After(MIN_RETRY_AFTER));
    let limit = fault(Kind::RateLimit, Retry::Soon);
    upstream.record_failure(upstream.keys().choose(0), &limit);
    upstream.record_failure(upstream.keys().choose(0), &limit);
    let mut bare = limit.clone();
    upstream.set_retry_after(&mut bare);
    assert_eq!(bare.retry_after(), Some(10));
    let mut named = fault(Kind::RateLimit, Retry::After(Duration::from_secs(1)));
    upstream.set_retry_after(&mut named);
    assert_eq!(named.retry_after(), Some(1));
    let mut other = fault(Kind::Unavailable, Retry::Soon);
    upstream.set_retry_after(&mut other);
    assert_eq!(other.retry, Retry::Soon);
}

#[tokio::test(start_paused = true)]
async fn a_turn_waits_for_a_permit_for_a_limited_time() {
    let settings = format!("{TWO_KEYS}max_concurrent = 1");
    let patience = Duration::from_secs(7);
    let upstream = upstream(&Upstreams::default(), &config(&settings));
    let permit = upstream.acquire_permit(patience).await.unwrap();
    assert!(upstream.try_acquire_permit().is_none());
    let before = Instant::now();
    let full = upstream.acquire_permit(patience).await.unwrap_err();
    assert_eq!(before.elapsed(), patience);
    assert_eq!((full.kind, full.retry), (Kind::Overloaded, Retry::Never));
    drop(permit);
    assert!(upstream.acquire_permit(patience).now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn running_requests_count_after_a_change_of_settings() {
    let upstreams = Upstreams::default();
    let limited = |max: u32| config(&format!("{TWO_KEYS}max_concurrent = {max}"));
    let before = upstream(&upstreams, &limited(2));
    let permit = before.try_acquire_permit().unwrap();
    let after = upstream(&upstreams, &limited(1));
    assert!(!Arc::ptr_eq(&before, &after));
    assert!(after.try_acquire_permit().is_none());
    drop(permit);
    assert!(after.try_acquire_permit().is_some());
}

#[test]
fn learned_quirks_are_kept_with_new_keys_and_dropped_with_new_settings() {
    let upstreams = Upstreams::default();
    let first = config(TWO_KEYS);
    upstream(&upstreams, &first);
    let learned = || upstreams.learned_quirks().window("lab", "model").is_some();
    upstreams.learned_quirks().learn(
        &route(&first),
        PatchesOf::owner("local"),
        adapters::quirk_patch::ModelPatch::Window(8_192).into(),
        "",
    );
    upstream(&upstreams, &config(TWO_KEYS));
    assert!(learned());
    upstream(
        &upstreams,
        &config("passthrough = true\napi_key = \"third-key\""),
    );
    assert!(learned());
    upstream(&upstreams, &config(&format!("{TWO_KEYS}max_retries = 1")));
    assert!(!learned());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_not_accepted_in_time_is_given_up() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    // The queue has room for one connection.
    let listener = socket.listen(0).unwrap();
    let server = listener.local_addr().unwrap();
    let _queued = TcpStream::connect(server).await.unwrap();
    let base_url = format!("http://{server}/v1");
    let upstream = upstream(&Upstreams::default(), &config_at(&base_url, TWO_KEYS));
    let fault = ask(&upstream).await.unwrap_err();
    assert_eq!((fault.kind, fault.retry), (Kind::Unreachable, Retry::Soon));
    assert_eq!(
        fault.message,
        format!(
            "The provider 'lab' cannot be reached: {server} did not accept the connection within \
             10 s. Check the network and its base_url. The request was POST \
             {base_url}/chat/completions."
        )
    );
}

/// A provider that sends `answer` to every request, and the connection to it.
async fn scripted_provider(answer: serde_json::Value, settings: &str) -> (Player, Arc<Upstream>) {
    let script = serde_json::json!({"answers": [answer]});
    let player = Player::start(serde_json::from_value(script).unwrap())
        .await
        .unwrap();
    let upstream = upstream_at(&player.base_url(), settings);
    (player, upstream)
}

async fn ask(upstream: &Upstream) -> Result<UpstreamResponse, Fault> {
    let permit = upstream.acquire_permit(Duration::from_secs(9)).await?;
    send_request(
        upstream,
        permit,
        upstream.keys().choose(0),
        UpstreamRequest {
            path: "/chat/completions".into(),
            headers: &[],
            body: r#"{"stream":true}"#.into(),
        },
        &WireQuirks::default(),
        &System,
        &|_| {},
    )
    .await
}

#[tokio::test]
async fn a_key_in_the_query_is_in_no_header_and_in_no_message() {
    let settings = "key_query = \"key\"\nquery = { version = \"1 2\", key = \"not-this\" }";
    let answer = serde_json::json!({"status": 401, "body": "no", "repeat": true});
    let (player, upstream) = scripted_provider(answer, settings).await;
    let refused = ask(&upstream).await.unwrap_err();
    let request = player.requests()[0].clone();
    let head = request.head.to_lowercase();
    assert!(
        head.contains("/chat/completions?version=1+2&key=key-no-1 "),
        "{head}"
    );
    assert!(
        !head.contains("authorization") && !head.contains("not-this"),
        "{head}"
    );
    let closed = upstream_at("http://127.0.0.1:1/v1", settings);
    let unreachable = ask(&closed).await.unwrap_err();
    for fault in [refused, unreachable] {
        assert!(!format!("{fault:?}").contains("key-no-1"), "{fault:?}");
    }
    // What is recorded of a request is its address without the key.
    assert!(!upstream.url("/x").as_str().contains("key-no-1"));
}

/// The connection to a provider at this address.
fn upstream_at(base_url: &str, settings: &str) -> Arc<Upstream> {
    let config = config_at(base_url, &format!("{TWO_KEYS}{settings}"));
    upstream(&Upstreams::default(), &config)
}

#[tokio::test]
async fn the_key_header_replaces_authorization_and_a_configured_header() {
    let settings = "key_header = \"api-key\"\nheaders = { api-key = \"not-this\" }";
    let answer = serde_json::json!({"body": "{}", "repeat": true});
    let (player, upstream) = scripted_provider(answer, settings).await;
    ask(&upstream).await.unwrap();
    let head = player.requests()[0].head.to_lowercase();
    assert!(head.contains("\r\napi-key: key-no-1"), "{head}");
    assert!(
        !head.contains("not-this") && !head.contains("authorization"),
        "{head}"
    );
}

#[tokio::test]
async fn a_permit_is_held_until_the_end_of_the_response() {
    let steps = serde_json::json!([{"text": "ho"}, {"stall": true}]);
    let answer = serde_json::json!({"repeat": true, "steps": steps});
    let (_player, upstream) = scripted_provider(answer, "max_concurrent = 1").await;
    let mut answer = ask(&upstream).await.unwrap();
    assert!(answer.read(None).await.unwrap().is_some());
    assert!(upstream.try_acquire_permit().is_none());
    drop(answer);
    assert!(upstream.try_acquire_permit().is_some());
}

#[tokio::test]
async fn an_error_or_a_cancelled_request_releases_the_permit() {
    let answer = serde_json::json!({"repeat": true, "status": 500, "body": "no"});
    let (_player, upstream) = scripted_provider(answer, "max_concurrent = 1").await;
    assert!(ask(&upstream).await.is_err());
    assert!(upstream.try_acquire_permit().is_some());
    let slow = serde_json::json!({"repeat": true, "head_delay_ms": 600_000, "body": "no"});
    let (player, upstream) = scripted_provider(slow, "max_concurrent = 1").await;
    let asking = {
        let upstream = Arc::clone(&upstream);
        tokio::spawn(async move { ask(&upstream).await.map(drop) })
    };
    while player.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(upstream.try_acquire_permit().is_none());
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    assert!(upstream.try_acquire_permit().is_some());
}

/// What the status of the server says of the last request after each kind of fault, and whether
/// three of them are an outage.
const REASONS: &str = "\
invalid_request | it refused the request
model_not_found | it has no such model
context_length | the input was too long
authentication | it does not accept the key
permission | it refuses access with this key
refused | it refused the request
content_filter | its content filter blocked the request
rate_limit | it limits the rate of requests
quota | no credit or quota is left
overloaded | it is overloaded | outage
unavailable | it refused the request | outage
unreachable | it cannot be reached | outage
timeout | it did not answer in time | outage
turn_timeout |
cut | its answer broke off
bad_reply | its answer could not be read
busy |
client_limit |
storage |
draining |
internal |";

#[tokio::test(start_paused = true)]
async fn each_kind_of_fault_has_a_reason() {
    assert_eq!(REASONS.lines().count(), Kind::COUNT);
    for line in REASONS.lines() {
        let mut columns = line.split('|').map(str::trim);
        let name = columns.next().unwrap();
        let kind: Kind = serde_json::from_value(name.into()).unwrap();
        let fault = Fault::new(kind, "x");
        let health = ProviderHealth::default();
        health.note_failure(&fault);
        let last = health.last_request(Instant::now());
        let reason = last.and_then(|last| last.failure).unwrap_or_default();
        assert_eq!(Some(reason.as_str()), columns.next(), "{name}");
        for _ in 0..3 {
            health.record_failure(&fault);
        }
        let is_down = health.down_for(Instant::now()).is_some();
        assert_eq!(is_down, columns.next() == Some("outage"), "{name}");
        let answered = Fault {
            upstream_status: Some(507),
            ..fault
        };
        health.note_failure(&answered);
        let last = health.last_request(Instant::now());
        let by_status = last.and_then(|last| last.failure).unwrap_or_default();
        let has_status = ["invalid_request", "refused", "unavailable"].contains(&name);
        let expected: &str = if has_status {
            "it answered with status 507"
        } else {
            &reason
        };
        assert_eq!(by_status, expected, "{name}");
    }
}

/// What a message says of each kind of fault with the status 500, and what to do about it.
const MESSAGES: &str = "\
invalid_request | The provider 'lab' refused the request. |
model_not_found | The provider 'lab' has no model 'm'. \
    | Check the name of the model, and whether your key may use it.
context_length | The input is too long for the model 'm' of the provider 'lab'. \
    | Shorten the input, or use a model with a larger window.
authentication | The provider 'lab' does not accept the key from api_key in the configuration. \
    | Correct api_key in the section [providers.lab].
permission | The provider 'lab' refuses access with the key from api_key in the configuration. \
    | Check what this key may do at the provider, or give another one.
refused | The provider 'lab' refused the request. |
content_filter | The content filter of the provider 'lab' blocked the request. |
rate_limit | The provider 'lab' limits the rate of requests. |
quota | The account of the provider 'lab' has no credit or quota left \
    (key from api_key in the configuration). \
    | Check your plan and billing at the provider, or give another key.
overloaded | The provider 'lab' is overloaded. | Try again later, or use another model.
unavailable | The provider 'lab' failed. | The fault is the provider's: try again later.
unreachable | The provider 'lab' failed. |
timeout | The provider 'lab' gave up on the request. |
turn_timeout | The provider 'lab' failed. |
cut | The provider 'lab' failed. |
bad_reply | The provider 'lab' sent a web page in place of an answer. \
    | Check its base_url: /chat/completions is appended to it, and most end in /v1.
busy | The provider 'lab' failed. |
client_limit | The provider 'lab' failed. |
storage | The provider 'lab' failed. |
draining | The provider 'lab' failed. |
internal | The provider 'lab' failed. |";

#[test]
fn each_kind_of_fault_has_a_message() {
    assert_eq!(MESSAGES.lines().count(), Kind::COUNT);
    let upstream = two_keys();
    let request = FailedRequest {
        provider: upstream.provider(),
        path: "/chat/completions",
        model: "m",
        key: upstream.key_source(upstream.keys().choose(0)),
        is_answered: false,
        failed: 1,
    };
    for line in MESSAGES.lines() {
        let mut columns = line.split('|').map(str::trim);
        let name = columns.next().unwrap();
        let mut fault = Fault {
            upstream_status: Some(500),
            ..Fault::new(serde_json::from_value(name.into()).unwrap(), "x")
        };
        request.explain(&mut fault);
        let (event, remedy) = (columns.next().unwrap(), columns.next().unwrap());
        let answered = "POST https://lab.example/v1/chat/completions answered 500: \"x\".";
        let expected = format!("{event} {answered} {remedy}");
        assert_eq!(fault.message, expected.trim_end(), "{name}");
    }
}
