use futures_util::FutureExt;
use kit::player::Player;
use registry::Route;

use super::*;
use crate::config::{Environment, Flags, Inputs, Places as Folders, load};
use crate::turn::System;

/// A configuration of one provider, `lab`, with this in its table.
fn config(table: &str) -> Config {
    config_at("https://lab.example/v1", table)
}

fn config_at(base_url: &str, table: &str) -> Config {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("[providers.lab]\nbase_url = \"{base_url}\"\n{table}");
    std::fs::write(folder.path().join("proxy-config.toml"), text).unwrap();
    let environment: Box<dyn Environment> = Box::new(HashMap::<String, String>::new());
    load(&Inputs {
        flags: Flags::default(),
        environment,
        places: Folders::under(folder.path()),
    })
    .unwrap()
}

fn route(config: &Config) -> Route {
    config.registry.resolve("lab/model", false).unwrap()
}

fn upstream(upstreams: &Upstreams, config: &Config) -> Arc<Upstream> {
    // Another test may have done it.
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

fn down(upstream: &Upstream) -> Option<u64> {
    let left = upstream.health().is_down(Instant::now());
    left.map(|left| left.as_secs())
}

#[test]
fn a_key_goes_as_it_is_into_the_header_of_its_own() {
    for (setting, name, value) in [
        ("", "authorization", "Bearer key-no-1"),
        ("key_header = \"api-key\"", "api-key", "key-no-1"),
    ] {
        let config = config(&format!("{TWO_KEYS}{setting}"));
        let upstream = upstream(&Upstreams::default(), &config);
        let key = upstream.keys().choose(0).unwrap();
        let (header, carried) = upstream.credential(key).unwrap();
        assert_eq!((header.as_str(), carried.to_str().unwrap()), (name, value));
        assert!(carried.is_sensitive());
        let line = format!("{header}: {value}");
        assert!(!config.redactor().redact(&line).contains("key-no-1"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_changes_the_key_and_the_last_one_is_the_providers() {
    let upstream = two_keys();
    let limit = |seconds| fault(Kind::RateLimit, Retry::After(Duration::from_secs(seconds)));
    let first = upstream.keys().choose(0);
    assert!(upstream.failed(first, &limit(60)));
    assert_eq!(down(&upstream), None);
    let second = upstream.keys().choose(0);
    assert_ne!(second, first);
    assert!(!upstream.failed(second, &limit(20)));
    assert_eq!(down(&upstream), Some(20));
    upstream.health().success();
    assert_eq!(down(&upstream), None);
}

#[tokio::test(start_paused = true)]
async fn a_key_rests_as_long_as_its_fault_says() {
    for (fault, rest) in [
        (fault(Kind::RateLimit, Retry::Soon), 10),
        (fault(Kind::Quota, Retry::Never), 600),
        (fault(Kind::Authentication, Retry::Never), 600),
    ] {
        let upstream = two_keys();
        upstream.failed(upstream.keys().choose(0), &fault);
        upstream.failed(upstream.keys().choose(0), &fault);
        let left = upstream.keys().rest_left();
        assert_eq!(left, Some(Duration::from_secs(rest)), "{:?}", fault.kind);
        let limit = (fault.kind != Kind::Authentication).then_some(rest);
        assert_eq!(down(&upstream), limit, "{:?}", fault.kind);
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_fails_keeps_its_keys() {
    let upstream = two_keys();
    for _ in 0..3 {
        let fault = fault(Kind::Unavailable, Retry::Soon);
        assert!(!upstream.failed(upstream.keys().choose(0), &fault));
    }
    assert!(upstream.keys().rest_left().is_none());
    assert_eq!(down(&upstream), Some(10));
}

#[tokio::test(start_paused = true)]
async fn a_provider_without_keys_has_limits_too() {
    let upstream = upstream(
        &Upstreams::default(),
        &config("key_required = false\npassthrough = true"),
    );
    let mut bare = fault(Kind::RateLimit, Retry::Soon);
    assert!(!upstream.failed(None, &bare));
    assert_eq!(down(&upstream), Some(10));
    upstream.date(&mut bare);
    assert_eq!(bare.retry_after(), Some(10));
}

#[tokio::test(start_paused = true)]
async fn a_bare_limit_is_told_with_the_time_until_a_key_wakes() {
    let upstream = two_keys();
    let mut bare = fault(Kind::RateLimit, Retry::Soon);
    upstream.date(&mut bare);
    assert_eq!(bare.retry, Retry::After(SHORTEST_PAUSE));
    let limit = fault(Kind::RateLimit, Retry::Soon);
    upstream.failed(upstream.keys().choose(0), &limit);
    upstream.failed(upstream.keys().choose(0), &limit);
    let mut bare = limit.clone();
    upstream.date(&mut bare);
    assert_eq!(bare.retry_after(), Some(10));
    let mut named = fault(Kind::RateLimit, Retry::After(Duration::from_secs(1)));
    upstream.date(&mut named);
    assert_eq!(named.retry_after(), Some(1));
    let mut other = fault(Kind::Unavailable, Retry::Soon);
    upstream.date(&mut other);
    assert_eq!(other.retry, Retry::Soon);
}

#[tokio::test(start_paused = true)]
async fn a_turn_waits_for_its_place_and_not_for_ever() {
    let settings = format!("{TWO_KEYS}max_concurrent = 1");
    let patience = Duration::from_secs(7);
    let upstream = upstream(&Upstreams::default(), &config(&settings));
    let place = upstream.place(patience).await.unwrap();
    assert!(upstream.try_place().is_none());
    let before = Instant::now();
    let full = upstream.place(patience).await.unwrap_err();
    assert_eq!(before.elapsed(), patience);
    assert_eq!((full.kind, full.retry), (Kind::Overloaded, Retry::Never));
    drop(place);
    assert!(upstream.place(patience).now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn running_requests_count_after_a_change_of_settings() {
    let upstreams = Upstreams::default();
    let limit = |most: u32| config(&format!("{TWO_KEYS}max_concurrent = {most}"));
    let before = upstream(&upstreams, &limit(2));
    let place = before.try_place().unwrap();
    let after = upstream(&upstreams, &limit(1));
    assert!(!Arc::ptr_eq(&before, &after));
    assert!(after.try_place().is_none());
    drop(place);
    assert!(after.try_place().is_some());
}

#[test]
fn other_settings_are_another_provider_and_other_keys_are_not() {
    let upstreams = Upstreams::default();
    let first = config(TWO_KEYS);
    upstream(&upstreams, &first);
    let learned = || upstreams.lessons().window("lab", "model").is_some();
    upstreams
        .lessons()
        .learn(&route(&first), adapters::mend::Mend::Window(8_192));
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

/// A provider that plays `answer` for every request, and the way to it.
async fn played(answer: serde_json::Value, settings: &str) -> (Player, Arc<Upstream>) {
    let script = serde_json::json!({"answers": [answer]});
    let player = Player::start(serde_json::from_value(script).unwrap())
        .await
        .unwrap();
    let base = player.base_url();
    let config = config_at(&base, &format!("{TWO_KEYS}{settings}"));
    (player, upstream(&Upstreams::default(), &config))
}

async fn ask(upstream: &Upstream) -> Result<Answer, Fault> {
    let place = upstream.place(Duration::from_secs(9)).await?;
    open(
        upstream,
        place,
        upstream.keys().choose(0),
        r#"{"stream":true}"#.into(),
        (&System, None),
    )
    .await
}

#[tokio::test]
async fn the_key_header_takes_the_place_of_the_usual_one() {
    let settings = "key_header = \"api-key\"\nheaders = { api-key = \"not-this\" }";
    let answer = serde_json::json!({"body": "{}", "repeat": true});
    let (player, upstream) = played(answer, settings).await;
    ask(&upstream).await.unwrap();
    let head = player.requests()[0].head.to_lowercase();
    assert!(head.contains("\r\napi-key: key-no-1"), "{head}");
    assert!(
        !head.contains("not-this") && !head.contains("authorization"),
        "{head}"
    );
}

#[tokio::test]
async fn a_place_is_held_to_the_end_of_the_answer() {
    let steps = serde_json::json!([{"text": "ho"}, {"stall": true}]);
    let answer = serde_json::json!({"repeat": true, "steps": steps});
    let (_player, upstream) = played(answer, "max_concurrent = 1").await;
    let mut answer = ask(&upstream).await.unwrap();
    assert!(answer.piece(None).await.unwrap().is_some());
    assert!(upstream.try_place().is_none());
    drop(answer);
    assert!(upstream.try_place().is_some());
}

#[tokio::test]
async fn a_refusal_and_a_client_that_leaves_give_the_place_back() {
    let answer = serde_json::json!({"repeat": true, "status": 500, "body": "no"});
    let (_player, upstream) = played(answer, "max_concurrent = 1").await;
    assert!(ask(&upstream).await.is_err());
    assert!(upstream.try_place().is_some());
    let slow = serde_json::json!({"repeat": true, "head_delay_ms": 600_000, "body": "no"});
    let (player, upstream) = played(slow, "max_concurrent = 1").await;
    let asking = {
        let upstream = Arc::clone(&upstream);
        tokio::spawn(async move { ask(&upstream).await.map(drop) })
    };
    while player.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(upstream.try_place().is_none());
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    assert!(upstream.try_place().is_some());
}
