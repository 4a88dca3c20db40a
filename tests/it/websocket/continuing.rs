//! Responses that go on from earlier ones, stored or not.

use kit::player::ScriptedAnswer;
use serde_json::{Value, json};

use super::client::Socket;
use crate::faults::answer;
use crate::proxy::{Proxy, Setup};
use crate::stored::{asks, messages, provider, says};

/// A request that is not stored, after this response.
fn next(input: &str, after: &Value) -> Value {
    asks(
        input,
        json!({"store": false, "previous_response_id": after}),
    )
}

fn first(input: &str) -> Value {
    asks(input, json!({"store": false}))
}

/// Promise: Over a WebSocket a response that is not stored can be continued on its connection,
/// within limits of number and bytes, and a stored one everywhere.
#[kit::test]
async fn a_response_that_is_not_stored_goes_on_from_its_connection() {
    let player = provider(&["Hello Ada.", "You are Ada.", "Yes."]).await;
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open(&proxy).await;
    let one = socket.turn(&first("I am Ada.")).await.response;
    assert_eq!(one["store"], false);
    let two = socket.turn(&next("Who am I?", &one["id"])).await.response;
    assert_eq!(two["previous_response_id"], one["id"]);
    socket.turn(&next("Sure?", &two["id"])).await;
    assert_eq!(
        messages(&player, 2),
        [
            "user: I am Ada.",
            "assistant: Hello Ada.",
            "user: Who am I?",
            "assistant: You are Ada.",
            "user: Sure?"
        ]
    );
    let path = format!("/v1/responses/{}", two["id"].as_str().unwrap());
    proxy.get(&path).await.error(404);
}

#[kit::test]
async fn a_server_without_a_store_continues_on_a_connection() {
    let player = provider(&["one", "two"]).await;
    let setup = Setup::new().tables("[responses]\nmode = \"off\"");
    let proxy = Proxy::start_with(&player, setup).await;
    let mut socket = Socket::open(&proxy).await;
    let one = socket.turn(&asks("1", json!({}))).await.response;
    assert_eq!(one["store"], false);
    socket
        .turn(&asks("2", json!({"previous_response_id": one["id"]})))
        .await;
    assert_eq!(
        messages(&player, 1),
        ["user: 1", "assistant: one", "user: 2"]
    );
}

#[kit::test]
async fn a_response_is_unknown_on_another_connection() {
    let player = provider(&["one", "two"]).await;
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open(&proxy).await;
    let one = socket.turn(&first("1")).await.response;
    let mut other = Socket::open(&proxy).await;
    other.create(&next("2", &one["id"])).await;
    let error = other.event().await;
    assert_eq!(
        (&error["type"], &error["status"]),
        (&json!("error"), &json!(400))
    );
    assert_eq!(error["error"]["code"], "previous_response_not_found");
    assert_eq!(error["error"]["param"], "previous_response_id");
    // The client sends everything again.
    assert_eq!(other.turn(&first("all of it")).await.text(), "two");
}

#[kit::test]
async fn a_fork_goes_on_from_an_earlier_response() {
    let player = provider(&["root", "left", "right", "left again"]).await;
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open(&proxy).await;
    let root = socket.turn(&first("0")).await.response;
    let left = socket.turn(&next("l", &root["id"])).await.response;
    socket.turn(&next("r", &root["id"])).await;
    assert_eq!(
        messages(&player, 2),
        ["user: 0", "assistant: root", "user: r"]
    );
    socket.turn(&next("l2", &left["id"])).await;
    assert_eq!(
        messages(&player, 3)[2..],
        ["user: l", "assistant: left", "user: l2"]
    );
}

/// Promise: Over a WebSocket an unknown id, and one that a failed turn continued, is answered with
/// `previous_response_not_found`.
#[kit::test]
async fn what_a_failed_turn_continued_is_forgotten() {
    let player = provider(&["one"]).await;
    let proxy = Proxy::start(&player).await;
    for (headers, number) in [("", 0), ("originator: codex_exec\r\n", 2)] {
        if number > 0 {
            player.push(says("one"));
        }
        player.push(ScriptedAnswer::error(400, "no"));
        let mut socket = Socket::open_with(&proxy, headers).await;
        let one = socket.turn(&first("1")).await.response;
        socket.create(&next("2", &one["id"])).await;
        if headers.is_empty() {
            socket.error(400).await;
        } else {
            assert_eq!(socket.stream_on(None).await.terminal, "response.failed");
        }
        socket.create(&next("2", &one["id"])).await;
        assert_eq!(socket.error(400).await, "previous_response_not_found");
        assert_eq!(player.requests().len(), number + 2);
    }
}

/// Promise: Over a WebSocket the output of a call that neither the continued response nor the
/// request has is refused.
#[kit::test]
async fn the_output_of_a_call_that_nobody_made_is_refused() {
    let call = json!({"index": 0, "id": "call_1", "name": "look", "arguments": "{}"});
    let player = provider(&[]).await;
    player.push(answer(json!([{"call": call}])));
    player.push(says("seen"));
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open(&proxy).await;
    let one = socket.turn(&first("1")).await.response;
    let after = |call: &str, id: &Value| {
        let output = json!([{"type": "function_call_output", "call_id": call, "output": "x"}]);
        asks(output, json!({"store": false, "previous_response_id": id}))
    };
    let two = socket.turn(&after("call_1", &one["id"])).await.response;
    socket.create(&after("call_2", &two["id"])).await;
    assert_eq!(socket.error(400).await, "call_not_found");
    socket.create(&next("on", &two["id"])).await;
    assert_eq!(socket.error(400).await, "previous_response_not_found");
    // A request that continues nothing brings its history, which is repaired.
    player.push(says("repaired"));
    let mut alone = after("call_2", &Value::Null);
    alone
        .as_object_mut()
        .unwrap()
        .remove("previous_response_id");
    assert_eq!(socket.turn(&alone).await.text(), "repaired");
    assert_eq!(player.requests().len(), 3);
}

#[kit::test]
async fn the_oldest_responses_are_forgotten_beyond_a_number() {
    let player = provider(&[]).await;
    for _ in 0..=66 {
        player.push(says("a"));
    }
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open(&proxy).await;
    let oldest = socket.turn(&first("0")).await.response;
    let second = socket.turn(&first("1")).await.response;
    for _ in 0..63 {
        socket.turn(&first("n")).await;
    }
    socket.create(&next("on", &oldest["id"])).await;
    assert_eq!(socket.error(400).await, "previous_response_not_found");
    socket.turn(&next("on", &second["id"])).await;
}

#[kit::test]
async fn a_stored_response_goes_on_on_a_connection() {
    let player = provider(&["one", "two", "three", "four"]).await;
    let proxy = Proxy::start(&player).await;
    let over_http = proxy.response(&asks("1", json!({}))).await;
    let mut socket = Socket::open(&proxy).await;
    let two = socket
        .turn(&asks("2", json!({"previous_response_id": over_http["id"]})))
        .await
        .response;
    assert_eq!(two["store"], true);
    // From the store to the connection, and on there.
    let three = socket.turn(&next("3", &two["id"])).await.response;
    socket.turn(&next("4", &three["id"])).await;
    assert_eq!(
        messages(&player, 3),
        [
            "user: 1",
            "assistant: one",
            "user: 2",
            "assistant: two",
            "user: 3",
            "assistant: three",
            "user: 4"
        ]
    );
    // What a failed turn continued stays in the store.
    player.push(ScriptedAnswer::error(400, "no"));
    player.push(says("again"));
    socket.create(&next("5", &two["id"])).await;
    socket.error(400).await;
    assert_eq!(socket.turn(&next("5", &two["id"])).await.text(), "again");
}

/// Promise: Over a WebSocket a warm-up asks no provider and can be continued.
#[kit::test]
async fn a_warm_up_asks_no_provider_and_is_continued() {
    let player = provider(&["Hello."]).await;
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open(&proxy).await;
    let request = asks("Be kind.", json!({"store": false, "generate": false}));
    let warm = socket.turn(&request).await;
    assert_eq!(warm.terminal, "response.completed");
    assert_eq!(warm.response["output"], json!([]));
    assert_eq!(warm.response["usage"]["total_tokens"], 0);
    assert!(player.requests().is_empty());
    let answered = socket.turn(&next("hello", &warm.response["id"])).await;
    assert_eq!(answered.text(), "Hello.");
    assert_eq!(messages(&player, 0), ["user: Be kind.", "user: hello"]);
    // It is checked like a turn.
    socket
        .create(&json!({"generate": false, "input": "no model"}))
        .await;
    assert_eq!(socket.error(400).await, "missing_required_parameter");
}

/// Promise: The body of a turn that a WebSocket keeps for the next one counts as memory until the
/// turn has ended.
#[kit::test]
async fn a_body_counts_as_long_as_its_connection_needs_it() {
    const BODY: f64 = 4_000_000.0;
    let player = provider(&[]).await;
    player.push(answer(json!([{"text": "begun"}, {"stall": true}])));
    let setup = Setup::new().tables("[capture]\nmode = \"off\"\n[artifacts]\nmode = \"off\"");
    let proxy = Proxy::start_with(&player, setup).await;
    let used = || proxy.metric("respondent_memory_bytes", "kind=\"requests\"");
    let mut socket = Socket::open(&proxy).await;
    socket.create(&first(&"word ".repeat(800_000))).await;
    socket.until("response.output_text.delta").await;
    let bytes = used().await;
    assert!(bytes >= BODY, "{bytes}");
    drop(socket);
    while used().await > 0.0 {
        tokio::task::yield_now().await;
    }
}
