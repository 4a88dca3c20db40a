//! Retries, and switching to another API key.
use std::time::{Duration, Instant};

use kit::player::{Player, PlayerWire, ScriptedAnswer};
use serde_json::json;

use super::{answer, body, player, repeating_player};
use crate::proxy::{CODEX, Proxy, Setup, streaming};
use crate::stored::background::ended;
use crate::websocket::client::Socket;

#[kit::test(on_each_wire)]
async fn a_turn_is_retried_before_content(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start_with(&player, Setup::new().provider("max_retries = 1")).await;
    for first in [
        ScriptedAnswer::error(503, "full"),
        ScriptedAnswer::error(500, "broken"),
        answer(json!([{"cut": "fin"}])),
        answer(json!([{"cut": "rst"}])),
        answer(json!([{"raw": "data: what\n\n"}])),
        answer(json!([{"nothing": true}, {"cut": "fin"}])),
    ] {
        let before = player.requests().len();
        for stream in [true, false] {
            player.push(first.clone());
            player.push(answer(json!([{"text": "there"}])));
            if stream {
                let stream = proxy.stream(&body()).await;
                assert_eq!(stream.terminal, "response.completed");
                assert_eq!(stream.text(), "there");
            } else {
                let whole = proxy.response(&body()).await;
                assert_eq!(whole["output"][0]["content"][0]["text"], "there");
            }
        }
        let requests = &player.requests()[before..];
        assert_eq!(requests.len(), 4);
        assert_eq!(requests[0].body, requests[1].body);
    }
    assert!((proxy.metric("respondent_upstream_retries_total", "").await - 12.0).abs() < 0.1);
    proxy.wait_for_log("1 retry").await;
    proxy.wait_for_log("retried (overloaded)").await;
}

/// Promise: A turn is retried only before any content has arrived, a limited number of times, and
/// not before the time that the upstream's `Retry-After` names.
#[kit::test(on_each_wire)]
async fn a_turn_is_never_retried_after_content(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start_with(&player, Setup::new().provider("max_retries = 5")).await;
    for content in [
        json!({"text": "a"}),
        json!({"reasoning": "a"}),
        json!({"refusal": "a"}),
        json!({"call": {"id": "c", "name": "look"}}),
        // White space is held back, but it is content.
        json!({"text": "\n"}),
    ] {
        let before = player.requests().len();
        player.push(answer(json!([content, {"cut": "fin"}])));
        let stream = proxy.stream(&body()).await;
        assert_eq!(stream.terminal, "response.failed");
        assert_eq!(player.requests().len() - before, 1, "{content}");
    }
}

/// Promise: A call is completed only if its arguments are whole, whatever the finish reason says,
/// and what stands around them is taken away with a note; a call without a name, or an answer with
/// nothing and an unknown reason, is asked for again and then fails.
///
/// Answers that end although a call in them is not whole, or has no name.
#[kit::test(on_each_wire)]
async fn a_call_that_is_not_whole_is_asked_for_again(wire: PlayerWire) {
    let player = player(wire).await;
    let setup = Setup::new().provider("max_retries = 1");
    let proxy = Proxy::start_with(&player, setup).await;
    let call = |name: &str, arguments: &str| json!({"call": {"id": "c", "name": name, "arguments": arguments}});
    let cut = call("look", "{\"at\": \"the lef");
    let whole = call("look", "{\"at\": \"the left\"}");
    let body = json!({"model": "m", "input": "go", "store": false,
        "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}]});
    let text = json!({"text": "I look."});
    for broken in [json!([cut]), json!([call("", "{}")]), json!([text, cut])] {
        // Codex has seen nothing of a call before it is whole, and a client that does not stream
        // nothing at all.
        for stream in [true, false] {
            if stream && broken[1] == cut {
                continue;
            }
            player.push(answer(broken.clone()));
            player.push(answer(json!([whole])));
            let output = if stream {
                let reply = proxy.post_with(&streaming(&body), CODEX).await;
                reply.stream_for_codex().response
            } else {
                proxy.response(&body).await
            };
            assert_eq!(output["status"], "completed", "{output}");
            assert_eq!(output["output"][0]["arguments"], "{\"at\": \"the left\"}");
            assert_eq!(output["output"][0]["call_id"], "c");
            assert_eq!(output["output"].as_array().unwrap().len(), 1);
        }
    }
    let headers = "user-agent: codex_cli_rs/0.171.0\r\noriginator: codex_cli_rs\r\n";
    let mut socket = Socket::open_with(&proxy, headers).await;
    player.push(answer(json!([cut])));
    player.push(answer(json!([whole])));
    let response = socket.turn(&body).await.response;
    assert_eq!(response["output"][0]["arguments"], "{\"at\": \"the left\"}");
    // A client that streams has seen the beginning.
    player.push(answer(json!([cut])));
    let stream = proxy.stream(&body).await;
    assert_eq!(stream.terminal, "response.incomplete");
    assert_eq!(stream.response["output"][0]["status"], "incomplete");
    player.push(answer(json!([cut])));
    let mut socket = Socket::open(&proxy).await;
    let response = socket.turn(&body).await.response;
    assert_eq!(response["status"], "incomplete");
    assert_eq!(response["output"][0]["status"], "incomplete");
    // So may the readers of a background response.
    player.push(answer(json!([text, cut])));
    let mut queued = body.clone();
    (queued["background"], queued["store"]) = (json!(true), json!(true));
    let queued = serde_json::from_str(&proxy.post(&queued).await.body).unwrap();
    let response = ended(&proxy, &queued).await;
    assert_eq!(response["status"], "incomplete");
    assert_eq!(response["output"][1]["status"], "incomplete");
    // No answer is whole.
    for _ in 0..2 {
        player.push(answer(json!([cut])));
    }
    let error = proxy.post(&body).await.error(502);
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("a call of 'look' whose arguments are not whole"),
        "{message}"
    );
    // One that is stored.
    player.push(answer(json!([cut])));
    let mut stored = body.clone();
    stored["store"] = json!(true);
    let stream = proxy.stream(&stored).await;
    let id = stream.response["id"].as_str().unwrap();
    let kept = proxy.get(&format!("/v1/responses/{id}")).await;
    let kept: serde_json::Value = serde_json::from_str(&kept.body).unwrap();
    assert_eq!(kept["status"], "incomplete");
    assert_eq!(kept["output"][0]["status"], "incomplete");
}

#[kit::test(on_each_wire)]
async fn the_number_of_retries_is_limited(wire: PlayerWire) {
    let player = repeating_player(wire, ScriptedAnswer::error(503, "full")).await;
    for retries in [0, 1, 2] {
        let before = player.requests().len();
        let setup = Setup::new().provider(&format!("max_retries = {retries}"));
        let proxy = Proxy::start_with(&player, setup).await;
        let error = proxy.post(&streaming(&body())).await.error(503);
        assert_eq!(error["code"], "server_is_overloaded");
        assert_eq!(player.requests().len() - before, 1 + retries);
    }
}

#[kit::test(on_each_wire)]
async fn permanent_faults_are_not_retried(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start_with(&player, Setup::new().provider("max_retries = 3")).await;
    for status in [400, 401, 403, 404, 422] {
        let before = player.requests().len();
        player.push(ScriptedAnswer::error(status, "no"));
        let reply = proxy.post(&body()).await;
        assert_eq!(reply.status, status);
        assert_eq!(player.requests().len() - before, 1, "{status}");
    }
}

fn rate_limited(retry_after: &str) -> ScriptedAnswer {
    let mut answer = ScriptedAnswer::error(429, "slow down");
    answer
        .headers
        .insert("retry-after".into(), retry_after.into());
    answer
}

#[kit::test(on_each_wire)]
async fn retry_after_is_waited_for(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start_with(&player, Setup::new().provider("max_retries = 1")).await;
    for (name, value) in [("retry-after", "2"), ("retry-after-ms", "1500")] {
        let mut answer = ScriptedAnswer::error(429, "slow down");
        answer.headers.insert(name.into(), value.into());
        player.push(answer);
        player.push(super::answer(json!([{"text": "there"}])));
        let start = Instant::now();
        assert_eq!(proxy.stream(&body()).await.text(), "there");
        assert!(start.elapsed() >= Duration::from_millis(1500), "{name}");
    }
}

#[kit::test(on_each_wire)]
async fn a_long_retry_after_is_passed_on_to_the_client(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start_with(&player, Setup::new().provider("max_retries = 3")).await;
    player.push(rate_limited("100"));
    let reply = proxy.post(&streaming(&body())).await;
    let error = reply.error(429);
    assert_eq!(error["code"], "rate_limit_exceeded");
    assert_eq!(reply.header("retry-after"), Some("100"));
    assert_eq!(player.requests().len(), 1);
}

/// The `Authorization` header of an upstream request.
fn authorization(player: &Player, request: usize) -> String {
    let head = player.requests()[request].head.clone();
    let line = head
        .lines()
        .find_map(|line| line.strip_prefix("authorization: "))
        .unwrap();
    line.to_owned()
}

#[kit::test(on_each_wire)]
async fn a_retry_uses_another_key(wire: PlayerWire) {
    for first in [
        ScriptedAnswer::error(401, "who?"),
        rate_limited("30"),
        ScriptedAnswer {
            json: Some(
                json!({"error": {"message": "money", "type": "insufficient_quota", "code": "insufficient_quota"}}),
            ),
            ..ScriptedAnswer::error(429, "")
        },
    ] {
        let player = player(wire).await;
        let setup = Setup::new().provider("api_key = [\"key-number-one\", \"key-number-two\"]");
        let proxy = Proxy::start_with(&player, setup).await;
        player.push(first);
        for _ in 0..2 {
            player.push(answer(json!([{"text": "there"}])));
        }
        assert_eq!(proxy.stream(&body()).await.text(), "there");
        // The first key cools down, so the next turn begins with the second.
        assert_eq!(proxy.stream(&body()).await.text(), "there");
        assert_eq!(player.requests().len(), 3);
        assert_eq!(authorization(&player, 0), "Bearer key-number-one");
        assert_eq!(authorization(&player, 1), "Bearer key-number-two");
        assert_eq!(authorization(&player, 2), "Bearer key-number-two");
    }
}
