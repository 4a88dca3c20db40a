//! Responses that go on from earlier ones, stored or not.

use kit::player::ScriptedAnswer;
use libtest_mimic::Trial;
use serde_json::{Value, json};

use super::client::Socket;
use crate::faults::answer;
use crate::proxy::{Proxy, Setup};
use crate::stored::{asks, messages, provider, says};
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    vec![
        case(
            "R62 websocket: a response that is not stored goes on from its connection",
            continued,
        ),
        case(
            "R62 websocket: a server without a store continues on a connection",
            without_store,
        ),
        case(
            "R62 websocket: a response is unknown on another connection",
            elsewhere,
        ),
        case(
            "R62 websocket: a fork goes on from an earlier response",
            forked,
        ),
        case(
            "R62 websocket: what a failed turn continued is forgotten",
            evicted,
        ),
        case(
            "R62 websocket: the output of a call that nobody made is refused",
            output_of_nobody,
        ),
        case(
            "R62 websocket: the oldest responses are forgotten beyond a number",
            limited,
        ),
        case(
            "R62 websocket: a stored response goes on on a connection",
            stored,
        ),
        case(
            "R62 websocket: a warm-up asks no provider, and is continued",
            warmed_up,
        ),
        case(
            "R32 websocket: a body counts as long as its connection needs it",
            counted,
        ),
    ]
}

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

async fn continued() {
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

async fn without_store() {
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

async fn elsewhere() {
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

async fn forked() {
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

async fn evicted() {
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

async fn output_of_nobody() {
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

async fn limited() {
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

async fn stored() {
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

async fn warmed_up() {
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

async fn counted() {
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
