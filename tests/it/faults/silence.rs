//! Silent upstreams: the commit point, heartbeats and timeouts.
use std::time::Duration;

use kit::player::{PlayerWire, ScriptedAnswer};
use serde_json::json;

use super::{answer, body, player, repeating_player};
use crate::proxy::{CODEX, Proxy, Setup, streaming};

/// Promise: While the upstream is silent, the client receives real events as heartbeats; at the
/// configured limit the turn ends. A turn as a whole has a limit too, whatever upstream and client
/// do. Codex does not reconnect in the meantime.
#[kit::test(on_each_wire)]
async fn heartbeats_then_the_idle_timeout(wire: PlayerWire) {
    let setup = Setup::new()
        .server("heartbeat = \"50ms\"")
        .provider("max_retries = 0\ntimeouts = { idle = \"2s\" }");
    let silent = json!([{"reasoning": "so far"}, {"text": "so good"}, {"stall": true}]);
    let player = repeating_player(wire, answer(silent)).await;
    let proxy = Proxy::start_with(&player, setup).await;
    let stream = proxy.stream(&body()).await;
    assert_eq!(stream.terminal, "response.failed");
    assert_eq!(stream.error_code(), Some("server_error"));
    assert_eq!(
        (stream.reasoning().as_str(), stream.text().as_str()),
        ("so far", "so good")
    );
    let heartbeats: Vec<_> = stream
        .events
        .iter()
        .filter(|(kind, _)| kind == "response.in_progress")
        .collect();
    assert!(heartbeats.len() > 2, "{} heartbeats", heartbeats.len());
    let (_, last) = heartbeats.last().unwrap();
    let reasoning = last.pointer("/response/output/0/summary/0/text");
    assert_eq!(reasoning, Some(&json!("so far")));
    player.wait_closed(0).await;
    proxy.post(&body()).await.error(504);
    player.wait_closed(1).await;
}

#[kit::test(on_each_wire)]
async fn a_timeout_before_the_first_byte(wire: PlayerWire) {
    let setup = Setup::new()
        .server("heartbeat = \"50ms\"\ncommit_after = \"50ms\"")
        .provider("max_retries = 0\ntimeouts = { connect = \"100ms\", first_byte = \"300ms\" }");
    let player = repeating_player(
        wire,
        ScriptedAnswer {
            head_delay_ms: 60_000,
            ..ScriptedAnswer::default()
        },
    )
    .await;
    let proxy = Proxy::start_with(&player, setup).await;
    for (body, headers) in [(body(), CODEX), (streaming(&body()), &[])] {
        let error = proxy.post_with(&body, headers).await.error(504);
        assert_eq!(error["code"], "upstream_timeout");
    }
    player.wait_closed(1).await;
}

#[kit::test(on_each_wire)]
async fn a_turn_that_goes_on_for_ever_ends_at_turn_timeout(wire: PlayerWire) {
    // Some providers never stop sending signs of life.
    let signs = json!({"repeat": {"times": 1_000_000, "steps": [{"raw": ": alive\n\n"}, {"delay_ms": 10}]}});
    let begun = answer(json!([{"text": "so far"}, signs]));
    let player = repeating_player(wire, begun).await;
    let setup = Setup::new().server("turn_timeout = \"500ms\"\nheartbeat = \"50ms\"");
    let proxy = Proxy::start_with(&player, setup).await;
    let stream = proxy.stream(&body()).await;
    assert_eq!(stream.terminal, "response.failed");
    assert_eq!(stream.text(), "so far");
    let message = stream.response.pointer("/error/message").unwrap();
    assert!(message.as_str().unwrap().contains("turn_timeout"));
    player.wait_closed(0).await;
    let error = proxy.post(&body()).await.error(504);
    assert_eq!(error["code"], "turn_timeout");
    player.wait_closed(1).await;
}

#[kit::test(on_each_wire)]
async fn a_flood_without_content_delays_neither_heartbeats_nor_the_end(wire: PlayerWire) {
    // There is always something to read.
    let signs = ": alive\n\n".repeat(8_000);
    let signs = json!({"repeat": {"times": 1_000_000, "steps": [{"raw": signs}]}});
    let player = repeating_player(wire, answer(json!([{"text": "so far"}, signs]))).await;
    let setup = Setup::new().server("turn_timeout = \"3s\"\nheartbeat = \"50ms\"");
    let proxy = Proxy::start_with(&player, setup).await;
    let body = body();
    let stream = proxy.stream(&body);
    let stream = tokio::time::timeout(Duration::from_secs(30), stream).await;
    let stream = stream.expect("the turn goes on");
    assert_eq!(stream.terminal, "response.failed");
    assert_eq!(stream.text(), "so far");
    assert!(stream.count("response.in_progress") > 2);
    player.wait_closed(0).await;
}

#[kit::test(on_each_wire)]
async fn a_turn_whose_client_reads_nothing_ends_at_turn_timeout(wire: PlayerWire) {
    let flood = json!([{"repeat": {"times": 10_000_000, "steps": [{"text": "x"}]}}]);
    let player = repeating_player(wire, answer(flood)).await;
    let proxy = Proxy::start_with(&player, Setup::new().server("turn_timeout = \"500ms\"")).await;
    let _unread = proxy.open(streaming(&body()).to_string(), &[]).await;
    player.wait_closed(0).await;
}

#[kit::test(on_each_wire)]
async fn heartbeats_while_a_turn_is_retried(wire: PlayerWire) {
    let setup = Setup::new()
        .server("heartbeat = \"50ms\"")
        .provider("max_retries = 1");
    let player = player(wire).await;
    let proxy = Proxy::start_with(&player, setup).await;
    player.push(answer(json!([{"nothing": true}, {"cut": "fin"}])));
    player.push(answer(json!([{"text": "there"}])));
    let stream = proxy.stream(&body()).await;
    assert_eq!(stream.terminal, "response.completed");
    assert_eq!(stream.text(), "there");
    assert!(stream.count("response.in_progress") > 2);
    assert_eq!(stream.count("response.created"), 1);
}

#[kit::test(on_each_wire)]
async fn a_complete_upstream_answer_on_a_connection_that_stays_open(wire: PlayerWire) {
    let setup = Setup::new().provider("timeouts = { idle = \"300ms\" }");
    let player = repeating_player(
        wire,
        answer(json!([{"text": "all"}, {"finish": "stop"}, {"stall": true}])),
    )
    .await;
    let proxy = Proxy::start_with(&player, setup).await;
    let stream = proxy.stream(&body()).await;
    assert_eq!(stream.terminal, "response.completed");
    let whole = proxy.response(&body()).await;
    kit::strict::same_output(&stream.response, &whole).unwrap();
}

#[kit::test(on_each_wire)]
async fn headers_are_sent_with_the_first_event(wire: PlayerWire) {
    let setup = Setup::new().server("commit_after = \"50s\"");
    let player = repeating_player(wire, answer(json!([{"nothing": true}, {"stall": true}]))).await;
    let proxy = Proxy::start_with(&player, setup).await;
    let mut reply = proxy.open(streaming(&body()).to_string(), &[]).await;
    assert_eq!(reply.status, 200);
    reply.read_until("response.in_progress").await;
}

#[kit::test(on_each_wire)]
async fn headers_are_sent_after_commit_after_at_the_latest(wire: PlayerWire) {
    let setup = Setup::new().server("commit_after = \"100ms\"\nheartbeat = \"50s\"");
    let silent = json!([{"raw": ": connected\n\n"}, {"stall": true}]);
    let player = repeating_player(wire, answer(silent)).await;
    let proxy = Proxy::start_with(&player, setup).await;
    let mut reply = proxy.open(streaming(&body()).to_string(), &[]).await;
    assert_eq!(reply.status, 200);
    reply.read_until("response.created").await;
}

#[kit::test(on_each_wire)]
async fn nothing_is_committed_before_the_upstream_answers(wire: PlayerWire) {
    let setup = Setup::new()
        .server("commit_after = \"20ms\"\nheartbeat = \"20ms\"")
        .provider("max_retries = 0");
    let player = repeating_player(
        wire,
        ScriptedAnswer {
            head_delay_ms: 300,
            ..ScriptedAnswer::error(403, "not for you")
        },
    )
    .await;
    let proxy = Proxy::start_with(&player, setup).await;
    let reply = proxy.post(&streaming(&body())).await;
    let error = reply.error(403);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("\"not for you\""), "{message}");
}
