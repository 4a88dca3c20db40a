//! The handshake, and single turns.

use kit::player::{PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};

use super::client::{END, MIDDLE, PART, PING, PONG, ServerFrame, Socket};
use crate::bundles::run;
use crate::faults::{answer, player, repeating_player};
use crate::proxy::{Proxy, Setup};
use crate::stored::{asks, client, provider};
use respondent::secrets::TokenHash;

fn hello() -> Value {
    asks("hello", json!({}))
}

#[kit::test(on_each_wire)]
async fn each_event_of_a_turn_is_one_message(wire: PlayerWire) {
    let player = player(wire).await;
    player.push(answer(json!([
        {"reasoning": "hm"}, {"text": "Hel"}, {"text": "lo"},
        {"call": {"id": "call_1", "name": "read", "arguments": "{}"}}
    ])));
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open(&proxy).await;
    let tools = json!([{"type": "function", "name": "read", "parameters": {"type": "object"}}]);
    let stream = socket.turn(&asks("hello", json!({"tools": tools}))).await;
    assert_eq!((stream.text().as_str(), stream.calls().len()), ("Hello", 1));
    assert_eq!(stream.terminal, "response.completed");
    let request = player.requests()[0].json();
    assert_eq!(request["stream"], true);
    assert!(request.get("type").is_none(), "{request}");
}

#[kit::test]
async fn turns_follow_one_another_on_a_connection() {
    let player = provider(&["one", "two", "three"]).await;
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open(&proxy).await;
    // All at once: they run one after another.
    for _ in 0..3 {
        socket.create(&hello()).await;
    }
    for text in ["one", "two", "three"] {
        assert_eq!(socket.stream_on(None).await.text(), text);
    }
    proxy
        .wait_for_metric("respondent_open_websockets", "", 1.0)
        .await;
    drop(socket);
    proxy
        .wait_for_metric("respondent_open_websockets", "", 0.0)
        .await;
    proxy
        .wait_for_metric("respondent_websocket_lanes", "", 0.0)
        .await;
}

/// Promise: The handshake of a WebSocket is checked like a request: host, origin and token.
#[kit::test]
async fn the_guard_checks_the_handshake_as_it_checks_a_request() {
    let player = provider(&["for a page"]).await;
    let setup = Setup::new()
        .server("token_env = \"TOKEN\"\nallowed_origins = [\"http://localhost:3000\"]")
        .env("TOKEN", "a-token-of-some-length");
    let proxy = Proxy::start_with(&player, setup).await;
    let token = "authorization: Bearer a-token-of-some-length\r\n";
    for (headers, status) in [
        ("", 401),
        ("authorization: Bearer another-token\r\n", 401),
        (
            "authorization: Bearer a-token-of-some-length\r\norigin: http://evil.example\r\n",
            403,
        ),
    ] {
        let (_, head) = Socket::shake(&proxy, headers).await;
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{headers}: {head}"
        );
    }
    let page = format!("{token}origin: http://localhost:3000\r\n");
    let mut socket = Socket::open_with(&proxy, &page).await;
    assert_eq!(socket.turn(&hello()).await.text(), "for a page");
    drop(socket);
    assert!(!proxy.whole_log().await.contains("a-token-of-some-length"));
}

/// Promise: A WebSocket ends with the token that opened it: after its client is removed, its token
/// is changed or the server gets its first token, running turns end, the others are refused with
/// 401, and the connection is closed.
///
/// What lets a connection in at first and no more after an edit: without a client, with another
/// token for the client or the server, and with the first token of a server that needed none.
#[kit::test]
async fn a_connection_ends_with_the_token_that_opened_it() {
    let (ada, bob) = (client("ada", ""), client("bob", ""));
    let other = ada.replace(
        &TokenHash::of(b"ada-token-1").to_string(),
        &TokenHash::of(b"ada-token-2").to_string(),
    );
    let both = format!("{ada}{bob}");
    let file = "token_file = \"token\"";
    for (before, after, token, change) in [
        (&*both, &*bob, "ada-token-1", "client ada removed"),
        (&*ada, &*other, "ada-token-1", "client ada changed"),
        (file, file, "local-token-1", "the token changed"),
        ("", &*ada, "", "client ada added"),
        ("", &*ada, "ada-token-1", "client ada added"),
    ] {
        let player = provider(&["hello"]).await;
        player.push(answer(json!([{"text": "begun"}, {"stall": true}])));
        let setup = |lines: &str| {
            let setup = Setup::new().wire_of(&player);
            match lines {
                "token_file = \"token\"" => setup.server(lines),
                tables => setup.tables(tables),
            }
        };
        let proxy = Proxy::start_with(&player, setup(before).file("token", "local-token-1")).await;
        let header = format!("authorization: Bearer {token}\r\n");
        let mut idle = Socket::open_with(&proxy, &header).await;
        assert_eq!(idle.turn(&hello()).await.text(), "hello", "{change}");
        let mut busy = Socket::open_with(&proxy, &header).await;
        busy.create(&hello()).await;
        busy.until("response.output_text.delta").await;
        busy.create(&asks("waits", json!({}))).await;
        let config = setup(after).config(&player.base_url());
        crate::proxy::write(proxy.folder.path(), "proxy-config.toml", &config);
        crate::proxy::write(proxy.folder.path(), "token", "local-token-22");
        proxy.wait_for_log(change).await;
        for (socket, refusals) in [(&mut idle, 1), (&mut busy, 2)] {
            socket.create(&hello()).await;
            for _ in 0..refusals {
                let refused = socket.event().await;
                assert_eq!(refused["status"], 401, "{change}: {refused}");
            }
        }
        assert_eq!(idle.closed().await.0, 1008);
        assert_eq!(player.requests().len(), 2);
    }
}

/// Promise: Switched off, the handshake of a WebSocket gets 426, and one that breaks a rule gets
/// 400.
#[kit::test]
async fn switched_off_a_handshake_gets_426() {
    let player = provider(&[]).await;
    let setup = Setup::new().server("websocket = false");
    let proxy = Proxy::start_with(&player, setup).await;
    let (_, head) = Socket::shake(&proxy, "").await;
    assert!(head.starts_with("HTTP/1.1 426 "), "{head}");
    assert_eq!(proxy.get("/v1/responses").await.status, 200);
}

/// Promise: Over a WebSocket errors are messages with the status of a request and a code, and the
/// connection stays.
#[kit::test]
async fn an_error_leaves_the_connection_as_it_is() {
    let player = provider(&["still here"]).await;
    player.push(ScriptedAnswer::error(400, "the provider says no"));
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open(&proxy).await;
    socket.send_frame(super::client::TEXT, b"{\"type\":").await;
    assert_eq!(socket.error(400).await, "invalid_json");
    socket.send(&json!({"type": "session.update"})).await;
    assert_eq!(socket.error(400).await, "invalid_event_type");
    socket.create(&json!({"input": "no model"})).await;
    assert_eq!(socket.error(400).await, "missing_required_parameter");
    socket
        .create(&asks("hello", json!({"background": true})))
        .await;
    assert_eq!(socket.error(400).await, "unsupported_parameter");
    let steer = json!({"type": "response.steer", "previous_response_id": "resp_1", "input": "x"});
    socket.send(&steer).await;
    let failed = socket.event().await;
    assert_eq!(failed["type"], "response.steer.failed");
    assert_eq!(failed["error"]["code"], "steering_not_supported");
    let returned = json!({"previous_response_id": "resp_1", "input": "x"});
    assert_eq!(failed["steer"], returned);
    // What a client may send and what says nothing here.
    let told = asks(
        "hello",
        json!({"stream": false, "stream_options": {"include_obfuscation": true}}),
    );
    assert_eq!(socket.turn(&told).await.text(), "still here");
    socket.create(&hello()).await;
    socket.error(400).await;
}

#[kit::test]
async fn codex_gets_faults_as_failed_responses() {
    let player = provider(&[]).await;
    player.push(ScriptedAnswer::error(400, "the provider says no"));
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open_with(&proxy, "originator: codex_exec\r\n").await;
    let stream = socket.turn(&hello()).await;
    assert_eq!(stream.terminal, "response.failed");
    let unknown = asks("hello", json!({"previous_response_id": "resp_unknown"}));
    socket.create(&unknown).await;
    assert_eq!(socket.error(400).await, "previous_response_not_found");
}

/// Promise: Over a WebSocket each event of a turn is one message, and the messages of a turn keep
/// every rule of a stream, also if they come in pieces, slowly, or after an offer of compression,
/// which is declined.
#[kit::test]
async fn a_message_may_come_in_pieces() {
    let player = provider(&["whole"]).await;
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open(&proxy).await;
    let mut message = hello();
    message["type"] = "response.create".into();
    message["metadata"] = json!({"long": "é".repeat(400)});
    let message = message.to_string().into_bytes();
    // Pieces end within characters, and a ping comes between them.
    let pieces: Vec<&[u8]> = message.chunks(7).collect();
    for (at, piece) in pieces.iter().enumerate() {
        let first = match at {
            0 => PART,
            at if at + 1 == pieces.len() => END,
            _ => MIDDLE,
        };
        socket.send_frame(first, piece).await;
        if at == 3 {
            socket.send_frame(PING, b"are you there").await;
            assert_eq!(
                socket.next().await,
                ServerFrame::Pong(b"are you there".to_vec())
            );
            socket.send_frame(PONG, b"unasked").await;
        }
    }
    let stream = socket.stream_on(None).await;
    assert_eq!(stream.text(), "whole");
    assert_eq!(stream.response["metadata"]["long"], "é".repeat(400));
}

/// Promise: A client of a WebSocket that leaves, in order or not, cancels its turns and their
/// upstream requests; one that reads slowly slows them down.
#[kit::test]
async fn a_client_that_leaves_cancels_the_upstream_request() {
    let stalling = answer(json!([{"text": "a"}, {"stall": true}]));
    let player = repeating_player(PlayerWire::Chat, stalling).await;
    let proxy = Proxy::start(&player).await;
    let before = proxy.open_descriptors();
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut socket = Socket::open(&proxy).await;
        socket.create(&hello()).await;
        socket.until("response.output_text.delta").await;
        open.push(socket);
    }
    // One closes in order, one leaves, one leaves with unread bytes before its end.
    open[0]
        .send_frame(super::client::CLOSE, &1000_u16.to_be_bytes())
        .await;
    assert_eq!(open[0].closed().await.0, 1000);
    open[2].send_frame(PART, &[b'x'; 100]).await;
    drop(open);
    for number in 0..3 {
        player.wait_closed(number).await;
    }
    proxy
        .wait_for_metric("respondent_open_streams", "", 0.0)
        .await;
    while proxy.open_descriptors() > before {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[kit::test]
async fn a_slow_reader_slows_the_upstream_down() {
    let endless = answer(json!([{"repeat": {"times": 1_000_000, "steps": [{"text": "x"}]}}]));
    let player = repeating_player(PlayerWire::Chat, endless).await;
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open(&proxy).await;
    socket.create(&hello()).await;
    socket.until("response.output_text.delta").await;
    // Nobody reads: buffers fill up, and then nothing moves.
    proxy.wait_until_idle().await;
    let peak = proxy.memory().peak;
    assert!(peak < 100 * 1024, "{peak} KiB");
    // It goes on when it is read again.
    for _ in 0..20_000 {
        socket.event().await;
    }
    drop(socket);
    player.wait_closed(0).await;
}

#[kit::test]
async fn a_failed_turn_is_replayed_as_one_over_http() {
    let player = provider(&["one"]).await;
    player.push(ScriptedAnswer::error(400, "the provider says no"));
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open(&proxy).await;
    let first = socket.turn(&asks("first", json!({"store": false}))).await;
    let more = json!({"store": false, "previous_response_id": first.response["id"]});
    socket.create(&asks("second", more)).await;
    socket.error(400).await;
    run(&proxy, "bundle create --output it.tar.zst").await.ok();
    let shown = run(&proxy, "bundle show it.tar.zst").await.ok();
    assert!(shown.contains("the provider says no"), "{shown}");
    let replayed = run(&proxy, "replay it.tar.zst").await.ok();
    assert!(replayed.contains("equal"), "{replayed}");
    assert_eq!(player.requests().len(), 2, "a replay went to the provider");
}

/// Promise: Over a WebSocket owners, limits, figures and recordings are those of requests; a failed
/// turn replays as one over HTTP.
#[kit::test]
async fn limits_and_figures_are_those_of_requests() {
    let player = repeating_player(
        PlayerWire::Chat,
        answer(json!([{"text": "a"}, {"stall": true}])),
    )
    .await;
    let setup = Setup::new().tables(&client("ada", "max_concurrent_requests = 1"));
    let proxy = Proxy::start_with(&player, setup).await;
    let token = "authorization: Bearer ada-token-1\r\n";
    let mut socket = Socket::open_with(&proxy, token).await;
    socket.create(&hello()).await;
    socket.until("response.output_text.delta").await;
    let mut other = Socket::open_with(&proxy, token).await;
    other.create(&hello()).await;
    let refused = other.event().await;
    assert_eq!(refused["status"], 429, "{refused}");
    assert_eq!(refused["headers"]["retry-after"], "2");
    let authorization = [("authorization", "Bearer ada-token-1")];
    assert_eq!(proxy.post_with(&hello(), &authorization).await.status, 429);
}
