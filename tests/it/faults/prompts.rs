//! How many requests one prompt costs a provider that fails, when the client repeats its turn.
use std::time::{Duration, Instant};

use kit::player::{Player, PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};

use super::{answer, body, player, repeating_player};
use crate::proxy::{CODEX, Proxy, Setup, streaming};

/// A failure after which the request may be sent again at once.
fn outage() -> ScriptedAnswer {
    let mut answer = ScriptedAnswer::error(503, "full");
    answer.headers.insert("retry-after-ms".into(), "1".into());
    answer
}

/// Sends the turn of Codex. Returns the code of its failure, and how many requests it cost.
async fn turn(proxy: &Proxy, player: &Player, body: &Value) -> (Option<String>, usize) {
    let before = player.requests().len();
    let reply = proxy.post_with(&streaming(body), CODEX).await;
    let stream = reply.stream_for_codex();
    let code = stream.error_code().map(str::to_owned);
    (code, player.requests().len() - before)
}

/// Promise: One prompt costs a failing provider at most eight requests, those of Respondent and
/// those of a client that repeats its turn together; a client that honours `x-should-retry` is told
/// when to stop.
#[kit::test(on_each_wire)]
async fn a_prompt_of_codex_costs_a_failing_provider_eight_requests(wire: PlayerWire) {
    for (retries, expected) in [(3, &[4, 4][..]), (0, &[1; 8]), (20, &[8])] {
        let player = repeating_player(wire, outage()).await;
        let setup = Setup::new().provider(&format!("max_retries = {retries}"));
        let proxy = Proxy::start_with(&player, setup).await;
        for (number, requests) in expected.iter().enumerate() {
            let is_last = number + 1 == expected.len();
            let code = if is_last {
                "invalid_prompt"
            } else {
                "server_error"
            };
            let seen = turn(&proxy, &player, &body()).await;
            assert_eq!(seen, (Some(code.to_owned()), *requests));
        }
        proxy
            .wait_for_log("8 requests have failed for this prompt")
            .await;
    }
}

#[kit::test(on_each_wire)]
async fn a_prompt_of_another_client_costs_a_failing_provider_seven_requests(wire: PlayerWire) {
    let player = repeating_player(wire, outage()).await;
    let proxy = Proxy::start(&player).await;
    for requests in [4, 2, 1] {
        let before = player.requests().len();
        let reply = proxy.post(&body()).await;
        reply.error(503);
        assert_eq!(reply.header("x-should-retry"), None);
        assert_eq!(player.requests().len() - before, requests);
    }
    let reply = proxy.post(&body()).await;
    assert_eq!(player.requests().len(), 8);
    assert_eq!(reply.header("x-should-retry"), Some("false"));
}

#[kit::test(on_each_wire)]
async fn an_answer_or_another_prompt_makes_room_for_new_requests(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start(&player).await;
    let fail = |count| (0..count).for_each(|_| player.push(outage()));
    let again = || Some("server_error".to_owned());
    fail(4);
    assert_eq!(turn(&proxy, &player, &body()).await, (again(), 4));
    fail(1);
    player.push(answer(json!([{"text": "there"}])));
    assert_eq!(turn(&proxy, &player, &body()).await, (None, 2));
    fail(4);
    assert_eq!(turn(&proxy, &player, &body()).await, (again(), 4));
    let other = json!({"model": "m", "input": "go on"});
    fail(4);
    assert_eq!(turn(&proxy, &player, &other).await, (again(), 4));
}

/// Promise: Pauses that the provider asks for are waited for within the turn. Codex is asked to
/// repeat a turn only if that can help: a permanent fault, or one after the eighth request, ends
/// its turn at once.
#[kit::test(on_each_wire)]
async fn codex_gets_a_rate_limit_after_the_pauses_that_the_provider_asked_for(wire: PlayerWire) {
    let mut limit = ScriptedAnswer::error(429, "slow down");
    limit.headers.insert("retry-after-ms".into(), "300".into());
    let player = repeating_player(wire, limit).await;
    let proxy = Proxy::start(&player).await;
    let start = Instant::now();
    let again = Some("rate_limit_exceeded".to_owned());
    assert_eq!(turn(&proxy, &player, &body()).await, (again, 4));
    assert!(start.elapsed() >= Duration::from_millis(900));
    let stop = Some("invalid_prompt".to_owned());
    assert_eq!(turn(&proxy, &player, &body()).await, (stop, 4));
}

#[kit::test(on_each_wire)]
async fn codex_gets_a_mistake_of_its_request_in_a_stream(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start(&player).await;
    let mistake = json!({"model": "m", "input": [{"type": "item_reference", "id": "msg_gone"}]});
    let error = proxy.post_with(&mistake, CODEX).await.error(400);
    let reply = proxy.post_with(&streaming(&mistake), CODEX).await;
    let stream = reply.stream_for_codex();
    assert_eq!(stream.error_code(), Some("invalid_prompt"));
    assert_eq!(stream.response["error"]["message"], error["message"]);
    proxy.post(&streaming(&mistake)).await.error(400);
    assert!(player.requests().is_empty());
}
