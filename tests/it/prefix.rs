//! The reused prefix: how much of a request equals the last request of its session, as reported in
//! the header, the log and the metrics. Also `POST /v1/responses/input_tokens`, which estimates
//! the size of a request without sending it.

use kit::player::{Player, PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};

use crate::faults::{answer, player, repeating_player};
use crate::proxy::{Proxy, Setup};

const HEADER: &str = "x-respondent-prefix";

fn turn(items: &[Value]) -> Value {
    json!({
        "model": "m", "instructions": "Be brief.", "input": items, "max_output_tokens": 100,
        "prompt_cache_key": "s1",
    })
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn answer_with_usage() -> ScriptedAnswer {
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13,
        "prompt_tokens_details": {"cached_tokens": 4}});
    answer(json!([{"text": "ho"}, {"usage": usage}]))
}

#[kit::test]
async fn the_reused_prefix_of_a_session_is_reported() {
    let player = repeating_player(PlayerWire::Chat, answer_with_usage()).await;
    let setup = Setup::new().server("log = \"info,respondent::turn=debug\"");
    let proxy = Proxy::start_with(&player, setup).await;
    let history = [user("one"), user("two"), user("three")];
    let other = [user("one"), user("2"), user("three"), user("four")];
    for (items, header) in [
        (&history[..1], "shared=0.0%; reason=first"),
        (&history[..], "shared=100.0%; reason=new_turn"),
        (&other[..], "reason=client_changed_history; at=item 1"),
    ] {
        let reply = proxy.post(&turn(items)).await;
        let shared = reply.header(HEADER).unwrap();
        assert!(shared.ends_with(header), "{shared}");
    }
    let log = proxy.wait_for_log_times(" in (40% cached)", 3).await;
    let debug = log.lines().filter(|line| line.contains("DEBUG"));
    let debug: Vec<&str> = debug.filter(|line| line.contains("req_")).collect();
    let [kept, missed] = debug.as_slice() else {
        panic!("{log}")
    };
    assert!(kept.contains("continues the previous one"), "{log}");
    let missed_at = "cache miss (client changed the history at item 1, ";
    assert!(missed.contains(missed_at), "{log}");
    for reason in ["first", "new_turn", "client_changed_history"] {
        let label = format!("reason=\"{reason}\"");
        let count = proxy.metric("respondent_prefixes_total", &label).await;
        assert!((count - 1.0).abs() < 0.1, "{reason}: {count}");
    }
    let bytes = |kind: &'static str| proxy.metric("respondent_prompt_bytes_total", kind);
    let (sent, shared) = (bytes("sent").await, bytes("shared").await);
    assert!(0.0 < shared && shared < sent, "{shared} {sent}");
    let tokens = |kind: &'static str| proxy.metric("respondent_input_estimates_total", kind);
    assert!((tokens("counted").await - 30.0).abs() < 0.1);
    assert!(tokens("estimated").await > 30.0);
}

/// A provider has not read a request that it refused. So the next request is compared with the last
/// one that was answered, in the form in which that one was accepted.
#[kit::test]
async fn requests_are_compared_with_the_last_one_that_was_answered() {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start_with(&player, Setup::new().provider("max_retries = 0")).await;
    let refusal = json!({"status": 400, "json": {"error": {
        "message": "Unsupported parameter: 'temperature' is not supported with this model.",
        "param": "temperature", "code": "unsupported_parameter"}}});
    let failure = json!({"status": 500, "json": {"error": {"message": "no"}}});
    let script = [json!(refusal), Value::Null, failure, Value::Null];
    for step in script {
        player.push(match step {
            Value::Null => answer_with_usage(),
            step => serde_json::from_value(step).unwrap(),
        });
    }
    let send = async |items: &[Value]| {
        let mut body = turn(items);
        body["temperature"] = json!(0.5);
        let reply = proxy.post(&body).await;
        (reply.status, reply.header(HEADER).unwrap().to_owned())
    };
    let first = (200, "shared=0.0%; reason=first".to_owned());
    let continued = |status: u16| (status, "shared=100.0%; reason=new_turn".to_owned());
    assert_eq!(send(&[user("one")]).await, first);
    let (status, _) = send(&[user("something else")]).await;
    assert_eq!(status, 500);
    assert_eq!(send(&[user("one"), user("two")]).await, continued(200));
}

/// A word with its blank is one token, as OpenAI counts it.
#[kit::test]
async fn input_tokens_are_counted_without_being_sent() {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start(&player).await;
    let mut body = turn(&[user(&"word ".repeat(2_000))]);
    let reply = proxy
        .post_to("/v1/responses/input_tokens", &body, &[])
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let count: Value = serde_json::from_str(&reply.body).unwrap();
    assert_eq!(count["object"], "response.input_tokens");
    let tokens = count["input_tokens"].as_u64().unwrap();
    assert!((1_900..2_300).contains(&tokens), "{tokens}");
    body["input"] = json!([user("word")]);
    let reply = proxy.post_to("/responses/input_tokens", &body, &[]).await;
    let count: Value = serde_json::from_str(&reply.body).unwrap();
    assert!(count["input_tokens"].as_u64().unwrap() < 100);
    assert!(player.requests().is_empty());
    assert!(!proxy.metrics().await.contains("respondent_turns_total{"));
    let captured: Value =
        serde_json::from_str(&proxy.get("/diagnostics/turns").await.body).unwrap();
    assert!(!captured.to_string().contains("req_"), "{captured}");
    // Nor does it count as the last request of the session.
    player.push(answer_with_usage());
    let reply = proxy.post(&body).await;
    assert!(reply.header(HEADER).unwrap().ends_with("reason=first"));
}

#[kit::test]
async fn input_tokens_are_counted_as_the_model_has_counted_them_before() {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start(&player).await;
    let count = async |text: &str| {
        let body = turn(&[user(text)]);
        let reply = proxy.post_to("/v1/responses/input_tokens", &body, &[]);
        let count: Value = serde_json::from_str(&reply.await.body).unwrap();
        count["input_tokens"].as_u64().unwrap()
    };
    let text = "word ".repeat(100);
    let (first, other) = (count(&text).await, count("Another question.").await);
    let usage = json!({"prompt_tokens": first * 2, "completion_tokens": 3});
    player.push(answer(json!([{"text": "ho"}, {"usage": usage}])));
    proxy.response(&turn(&[user(&text)])).await;
    assert_eq!(count(&text).await, first * 2);
    assert_eq!(count("Another question.").await, other * 2);
}

#[kit::test]
async fn input_tokens_of_an_invalid_request_are_refused() {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start_with(&player, Setup::new().provider("passthrough = false")).await;
    for (body, status, code) in [
        (
            json!({"input": "a"}),
            400,
            json!("missing_required_parameter"),
        ),
        (
            json!({"model": "m"}),
            400,
            json!("missing_required_parameter"),
        ),
        (
            json!({"model": "m", "input": {}}),
            400,
            json!("invalid_json"),
        ),
        (
            json!({"model": "nowhere/m", "input": "a"}),
            404,
            json!("model_not_found"),
        ),
    ] {
        let reply = proxy
            .post_to("/v1/responses/input_tokens", &body, &[])
            .await;
        assert_eq!(reply.error(status)["code"], code, "{body}");
    }
}

/// A separate thread parses and encodes large requests.
#[kit::test]
async fn a_large_request_is_answered_like_any_other() {
    let player: Player = repeating_player(PlayerWire::Chat, answer_with_usage()).await;
    let proxy = Proxy::start(&player).await;
    let text = "0123456789abcdef".repeat(512 << 10);
    let reply = proxy.post(&turn(&[user(&text)])).await;
    assert_eq!(reply.status, 200);
    let sent = player.requests()[0].json();
    assert_eq!(sent["messages"][1]["content"], text);
    let stream = proxy.stream(&turn(&[user(&text), user("on")])).await;
    assert_eq!(stream.text(), "ho");
}
