//! Another provider answers if the first choice cannot.
use kit::player::{Player, PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};

use super::{answer, player, repeating_player};
use crate::proxy::{Proxy, Setup, streaming};
use crate::status::status;

/// A proxy with the providers `up` and `other`, the fallback of `up`.
async fn proxy_with_fallback(up: &Player, other: &Player, more: &str) -> Proxy {
    Proxy::start_with(up, fallback_setup(other, more)).await
}

/// A setup with `other` as the fallback of `up`.
fn fallback_setup(other: &Player, more: &str) -> Setup {
    Setup::new()
        .tables("[routing.fallbacks]\n\"up/m\" = [\"other/m2\"]")
        .other("other", other, more)
}

fn body() -> Value {
    json!({"model": "up/m", "input": "go"})
}

fn text_answer(text: &str) -> ScriptedAnswer {
    answer(json!([{ "text": text }]))
}

fn quota_error() -> ScriptedAnswer {
    ScriptedAnswer {
        json: Some(json!({"error": {"message": "No money.", "code": "insufficient_quota"}})),
        ..ScriptedAnswer::error(429, "")
    }
}

#[kit::test(on_each_wire)]
async fn a_fallback_answers_for_a_provider_that_is_down(wire: PlayerWire) {
    let mut busy = ScriptedAnswer::error(429, "slow down");
    busy.headers.insert("retry-after".into(), "20".into());
    for first in [
        ScriptedAnswer::error(500, "broken"),
        ScriptedAnswer::error(503, "full"),
        ScriptedAnswer::error(401, "who?"),
        busy,
        quota_error(),
        answer(json!([{"cut": "rst"}])),
        answer(json!([{"raw": "data: what\n\n"}])),
    ] {
        let up = repeating_player(wire, first).await;
        let other = repeating_player(wire, text_answer("there")).await;
        let proxy = proxy_with_fallback(&up, &other, "").await;
        let reply = proxy.post(&streaming(&body())).await;
        assert_eq!(reply.header("x-respondent-route"), Some("other/m2"));
        let notes = reply.header("x-respondent-notes").unwrap_or_default();
        assert!(notes.contains("failover"), "{notes}");
        assert_eq!(reply.stream().text(), "there");
        assert_eq!(proxy.response(&body()).await["status"], "completed");
        proxy.wait_for_log("failover (up: ").await;
        let failovers = proxy.metric("respondent_failovers_total", "from=\"up/m\"");
        assert!(failovers.await >= 1.0);
    }
    let other = repeating_player(wire, text_answer("there")).await;
    let gone = player(wire).await;
    let proxy = proxy_with_fallback(&gone, &other, "").await;
    drop(gone);
    assert_eq!(proxy.stream(&body()).await.text(), "there");
}

#[kit::test(on_each_wire)]
async fn a_fallback_is_not_used_once_an_answer_has_begun(wire: PlayerWire) {
    let up = repeating_player(wire, answer(json!([{"text": "a"}, {"cut": "fin"}]))).await;
    let other = repeating_player(wire, text_answer("there")).await;
    let proxy = proxy_with_fallback(&up, &other, "").await;
    let stream = proxy.stream(&body()).await;
    assert_eq!(stream.terminal, "response.failed");
    assert!(other.requests().is_empty());
}

#[kit::test(on_each_wire)]
async fn a_refused_request_is_not_sent_to_the_fallback(wire: PlayerWire) {
    for (status, message) in [
        (400, "Your messages make no sense."),
        (400, "This model's maximum context length is 10 tokens."),
        (403, "not yours"),
    ] {
        let up = repeating_player(wire, ScriptedAnswer::error(status, message)).await;
        let other = repeating_player(wire, text_answer("there")).await;
        let proxy = proxy_with_fallback(&up, &other, "").await;
        assert_eq!(proxy.post(&body()).await.status, status, "{message}");
        assert!(other.requests().is_empty(), "{message}");
    }
}

#[kit::test(on_each_wire)]
async fn the_fallback_gets_the_turn_encoded_with_its_own_quirks(wire: PlayerWire) {
    let up = repeating_player(wire, quota_error()).await;
    let other = repeating_player(wire, text_answer("there")).await;
    let quirks = match wire {
        PlayerWire::Chat => {
            "system_role = \"developer\"\nmax_tokens_field = \"max_completion_tokens\""
        }
        PlayerWire::Responses => "developer_role = false\nmax_output_tokens = false",
    };
    let quirks = format!("[providers.other.quirks]\n{quirks}");
    let proxy = proxy_with_fallback(&up, &other, &quirks).await;
    let body = json!({"model": "up/m", "max_output_tokens": 99, "input": [
        {"role": "developer", "content": "Be brief."}, {"role": "user", "content": "go"},
    ]});
    assert_eq!(proxy.stream(&body).await.text(), "there");
    let sent: Value = serde_json::from_str(&other.requests()[0].body).unwrap();
    assert_eq!(sent["model"], "m2");
    match wire {
        PlayerWire::Chat => {
            assert_eq!(sent["max_completion_tokens"], 99);
            assert_eq!(sent["messages"][0]["role"], "developer");
        }
        PlayerWire::Responses => {
            assert!(sent.get("max_output_tokens").is_none(), "{sent}");
            assert_eq!(sent["input"][0]["role"], "system");
        }
    }
}

/// A turn of the session with this name.
fn turn(session: &str) -> Value {
    json!({"model": "up/m", "input": "go", "prompt_cache_key": session})
}

#[kit::test(on_each_wire)]
async fn a_session_stays_with_the_fallback_that_answered_it(wire: PlayerWire) {
    let up = player(wire).await;
    let other = repeating_player(wire, text_answer("there")).await;
    let proxy = proxy_with_fallback(&up, &other, "").await;
    // A single failure does not start a cooldown.
    for _ in 0..2 {
        up.push(ScriptedAnswer::error(500, "broken"));
    }
    up.push(text_answer("here"));
    assert_eq!(proxy.stream(&turn("a")).await.text(), "there");
    assert_eq!(proxy.stream(&turn("a")).await.text(), "there");
    assert_eq!(proxy.stream(&turn("b")).await.text(), "here");
}

#[kit::test(on_each_wire)]
async fn a_failed_provider_cools_down(wire: PlayerWire) {
    let up = repeating_player(wire, quota_error()).await;
    let other = repeating_player(wire, text_answer("there")).await;
    let proxy = proxy_with_fallback(&up, &other, "").await;
    for session in ["a", "b", "c"] {
        assert_eq!(proxy.stream(&turn(session)).await.text(), "there");
    }
    assert_eq!(up.requests().len(), 1);
    let down = proxy.metric("respondent_provider_down", "provider=\"up\"");
    assert!((down.await - 1.0).abs() < f64::EPSILON);
    // Each session moved to the fallback once and stays there.
    proxy.stream(&turn("c")).await;
    let failovers = proxy.metric("respondent_failovers_total", "from=\"up/m\"");
    assert!((failovers.await - 3.0).abs() < f64::EPSILON);
    let reply = proxy.post(&streaming(&turn("d"))).await;
    let notes = reply.header("x-respondent-notes").unwrap_or_default();
    assert!(notes.contains("failover"), "{notes}");
}

#[kit::test(on_each_wire)]
async fn after_the_cooldown_a_single_turn_probes_the_provider(wire: PlayerWire) {
    let up = player(wire).await;
    let other = repeating_player(wire, text_answer("there")).await;
    let setup = fallback_setup(&other, "").server("commit_after = \"10ms\"");
    let proxy = Proxy::start_with(&up, setup).await;
    let mut busy = ScriptedAnswer::error(429, "slow down");
    busy.headers.insert("retry-after".into(), "2.1".into());
    up.push(busy);
    up.push(answer(json!([{"stall": true}])));
    let mut sessions = 0..;
    let probe = loop {
        let session = sessions.next().unwrap_or(0).to_string();
        let answer = proxy
            .open(streaming(&turn(&session)).to_string(), &[])
            .await;
        if answer.headers.get("x-respondent-route").unwrap() == "up/m" {
            break answer;
        }
        assert_eq!(answer.read_to_end().await.stream().text(), "there");
    };
    for session in ["b", "c"] {
        assert_eq!(proxy.stream(&turn(session)).await.text(), "there");
    }
    drop(probe);
    assert_eq!(up.requests().len(), 2);
}

/// Accepting a background request sends nothing, nor does finding out that a history has to become
/// a summary.
#[kit::test(on_each_wire)]
async fn after_the_cooldown_a_provider_is_probed_by_what_is_sent(wire: PlayerWire) {
    let job = json!({"model": "up/m", "input": "go", "background": true});
    let mut long = turn("long");
    long["input"] = json!("I have read one more file, and it is as it should be. ".repeat(800));
    long["context_management"] = json!([{"type": "compaction", "compact_threshold": 100_000}]);
    for (body, sent) in [(job, 1), (long, 2)] {
        let up = player(wire).await;
        let other = repeating_player(wire, text_answer("there")).await;
        let setup = fallback_setup(&other, "").provider("models = [{ id = \"m\", window = 8192 }]");
        let proxy = Proxy::start_with(&up, setup.clone()).await;
        let mut busy = ScriptedAnswer::error(429, "slow down");
        busy.headers.insert("retry-after".into(), "2.1".into());
        up.push(busy);
        assert_eq!(proxy.stream(&turn("a")).await.text(), "there");
        while is_down(&proxy, &setup).await {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        for _ in 0..sent {
            up.push(text_answer("here"));
        }
        let reply = proxy.post(&body).await;
        let mut end: Value = serde_json::from_str(&reply.body).unwrap();
        if body["background"] == true {
            let events = format!("/v1/responses/{}?stream=true", end["id"].as_str().unwrap());
            end = proxy.get(&events).await.stream().response;
        }
        assert_eq!(end["status"], "completed", "{end}");
        assert_eq!((up.requests().len(), other.requests().len()), (1 + sent, 1));
    }
}

/// Whether turns that can go elsewhere are not sent to `up`.
async fn is_down(proxy: &Proxy, setup: &Setup) -> bool {
    let status = status(proxy, setup).await;
    let mut providers = status["server"]["providers"].as_array().unwrap().iter();
    let up = providers.find(|provider| provider["id"] == "up").unwrap();
    up["down_ms"].as_u64().unwrap() > 0
}

#[kit::test(on_each_wire)]
async fn a_turn_without_a_free_permit_goes_to_the_fallback(wire: PlayerWire) {
    let up = repeating_player(wire, answer(json!([{"text": "first"}, {"stall": true}]))).await;
    let other = repeating_player(wire, text_answer("there")).await;
    let setup = fallback_setup(&other, "").provider("max_concurrent = 1");
    let proxy = Proxy::start_with(&up, setup).await;
    let mut first = proxy.open(streaming(&body()).to_string(), &[]).await;
    first.read_until("first").await;
    assert_eq!(proxy.stream(&turn("b")).await.text(), "there");
    assert_eq!(up.requests().len(), 1);
}

#[kit::test(on_each_wire)]
async fn a_short_rate_limit_is_waited_for_without_failover(wire: PlayerWire) {
    let up = player(wire).await;
    let other = repeating_player(wire, text_answer("there")).await;
    let proxy = proxy_with_fallback(&up, &other, "").await;
    let mut busy = ScriptedAnswer::error(429, "slow down");
    busy.headers.insert("retry-after".into(), "1.9".into());
    up.push(busy);
    for _ in 0..2 {
        up.push(text_answer("here"));
    }
    let first = proxy.open(streaming(&turn("a")).to_string(), &[]);
    let second = async {
        while up.requests().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        proxy.stream(&turn("b")).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(second.text(), "here");
    assert_eq!(first.read_to_end().await.stream().text(), "here");
    assert!(other.requests().is_empty());
}

#[kit::test(on_each_wire)]
async fn if_all_providers_are_rate_limited_the_shortest_retry_after_is_reported(wire: PlayerWire) {
    let rate_limited = |seconds: &str| {
        let mut answer = ScriptedAnswer::error(429, "slow down");
        answer.headers.insert("retry-after".into(), seconds.into());
        answer
    };
    for second in [
        rate_limited("3000"),
        quota_error(),
        ScriptedAnswer::error(401, "who?"),
    ] {
        let up = repeating_player(wire, rate_limited("40")).await;
        let other = repeating_player(wire, second).await;
        let proxy = proxy_with_fallback(&up, &other, "").await;
        let reply = proxy.post(&body()).await;
        assert_eq!(
            (reply.status, reply.header("retry-after")),
            (429, Some("40"))
        );
        assert_eq!((up.requests().len(), other.requests().len()), (1, 1));
    }
}

#[kit::test(on_each_wire)]
async fn a_session_leaves_a_route_that_was_removed_from_the_configuration(wire: PlayerWire) {
    let up = repeating_player(wire, quota_error()).await;
    let other = repeating_player(wire, text_answer("there")).await;
    let third = repeating_player(wire, text_answer("third")).await;
    let setup = fallback_setup(&other, "").other("third", &third, "");
    let proxy = Proxy::start_with(&up, setup).await;
    assert_eq!(proxy.stream(&turn("a")).await.text(), "there");
    // The fallback of the session is removed from the routes.
    let path = proxy.folder.path().join("proxy-config.toml");
    let config = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, config.replace("other/m2", "third/m3")).unwrap();
    while proxy.stream(&turn("b")).await.text() != "third" {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(proxy.stream(&turn("a")).await.text(), "third");
}

#[kit::test(on_each_wire)]
async fn a_failed_fallback_is_skipped(wire: PlayerWire) {
    for second in [
        quota_error(),
        ScriptedAnswer::error(404, "The model `m2` does not exist"),
        ScriptedAnswer::error(400, "This model's maximum context length is 1000 tokens."),
    ] {
        let up = repeating_player(wire, quota_error()).await;
        let other = repeating_player(wire, second).await;
        let third = repeating_player(wire, text_answer("third")).await;
        let setup = Setup::new()
            .tables("[routing.fallbacks]\n\"*\" = [\"other/m2\", \"third/m3\"]")
            .other("other", &other, "")
            .other("third", &third, "");
        let proxy = Proxy::start_with(&up, setup).await;
        let reply = proxy.post(&streaming(&body())).await;
        assert_eq!(reply.header("x-respondent-route"), Some("third/m3"));
        assert_eq!(reply.stream().text(), "third");
    }
}

#[kit::test(on_each_wire)]
async fn turns_wait_for_a_free_permit(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start_with(&player, Setup::new().provider("max_concurrent = 1")).await;
    player.push(answer(json!([{"text": "first"}, {"stall": true}])));
    player.push(text_answer("second"));
    let mut first = proxy.open(streaming(&body()).to_string(), &[]).await;
    first.read_until("first").await;
    let second = {
        let body = body();
        let reply = proxy.response(&body);
        let release = async {
            proxy
                .wait_for_metric("respondent_open_streams", "", 2.0)
                .await;
            let before = player.requests().len();
            drop(first);
            before
        };
        let (answer, before) = tokio::join!(reply, release);
        assert_eq!(before, 1);
        answer
    };
    assert_eq!(second["output"][0]["content"][0]["text"], "second");
}

#[kit::test(on_each_wire)]
async fn keys_are_distributed_by_weight_and_kept_by_session(wire: PlayerWire) {
    let player = repeating_player(wire, text_answer("there")).await;
    let setup = Setup::new()
        .provider("api_key = [\"key-number-one\", \"key-number-two\"]\nkey_weights = [3, 1]");
    let proxy = Proxy::start_with(&player, setup).await;
    for session in 0..40 {
        for _ in 0..2 {
            proxy.stream(&turn(&session.to_string())).await;
        }
    }
    let used_second_key: Vec<bool> = player
        .requests()
        .iter()
        .map(|request| request.head.contains("key-number-two"))
        .collect();
    for session in used_second_key.chunks(2) {
        assert_eq!(session[0], session[1]);
    }
    let share = used_second_key.iter().filter(|used| **used).count();
    assert!((4..40).contains(&share), "{share} of 80");
}
