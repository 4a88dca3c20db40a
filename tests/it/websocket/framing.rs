//! Streams that were asked for or sent in unusual ways: with an offer of compression, in pieces of
//! one byte, slowly. Each passes the strict checker.

use kit::player::{PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::client::{END, MIDDLE, PART, ServerFrame, Socket, TEXT, is_terminal, masked};
use crate::faults::{answer, player, repeating_player};
use crate::proxy::{Proxy, Setup};
use crate::stored::{asks, says};

/// A bit of the first byte of a frame: its message is compressed (RFC 7692).
const COMPRESSED: u8 = 0x40;

/// What clients write into `Sec-WebSocket-Extensions`.
const OFFERS: [&str; 9] = [
    "permessage-deflate",
    "permessage-deflate; client_max_window_bits",
    "permessage-deflate; client_max_window_bits=10",
    "permessage-deflate; server_max_window_bits=10",
    "permessage-deflate; server_max_window_bits=\"15\"",
    "permessage-deflate; client_no_context_takeover; server_no_context_takeover",
    "permessage-deflate; server_max_window_bits=8; client_max_window_bits, permessage-deflate",
    "permessage-deflate\r\nSec-WebSocket-Extensions: permessage-deflate; client_max_window_bits=8",
    "x-webkit-deflate-frame, permessage-bzip2, permessage-deflate; unknown=1",
];

fn offer(extensions: &str) -> String {
    format!("Sec-WebSocket-Extensions: {extensions}\r\n")
}

#[kit::test]
async fn a_client_that_offers_compression_gets_none() {
    let steps = json!([{"reasoning": "hm"}, {"text": "Hel"}, {"text": "lo"}]);
    let player = repeating_player(PlayerWire::Chat, answer(steps)).await;
    let proxy = Proxy::start(&player).await;
    for extensions in OFFERS {
        // That the answer names no extension, and that no frame has a reserved bit, is checked
        // there.
        let mut socket = Socket::open_with(&proxy, &offer(extensions)).await;
        for _ in 0..2 {
            let stream = socket.turn(&asks("hello", json!({}))).await;
            assert_eq!(stream.text(), "Hello", "{extensions}");
        }
    }
}

#[kit::test]
async fn a_compressed_frame_ends_its_connection_although_it_was_offered() {
    let player = repeating_player(PlayerWire::Chat, says("still here")).await;
    let proxy = Proxy::start(&player).await;
    let offer = offer(OFFERS[0]);
    let mut bystander = Socket::open_with(&proxy, &offer).await;
    // `{}` as permessage-deflate writes it.
    let deflated: &[u8] = &[0xAA, 0xAE, 0x05, 0x00];
    for frames in [
        masked(TEXT | COMPRESSED, deflated),
        [
            masked(PART | COMPRESSED, &deflated[..2]),
            masked(END, &deflated[2..]),
        ]
        .concat(),
        [masked(PART, b"{"), masked(END | COMPRESSED, b"}")].concat(),
    ] {
        let mut socket = Socket::open_with(&proxy, &offer).await;
        socket.stream.write_all(&frames).await.unwrap();
        assert_eq!(socket.closed().await.0, 1002);
        assert_eq!(socket.next().await, ServerFrame::End);
    }
    let stream = bystander.turn(&asks("go", json!({}))).await;
    assert_eq!(stream.text(), "still here");
}

#[kit::test(on_each_wire)]
async fn a_turn_that_comes_byte_by_byte_is_the_same_turn(wire: PlayerWire) {
    let player = player(wire).await;
    for split in [0, 1] {
        let steps = json!([
            {"reasoning": "hm"}, {"text": "Gr\u{fc}"}, {"text": "\u{df}e"},
            {"call": {"id": "call_1", "name": "read", "arguments": "{\"a\":\"\u{e9}\"}"}}
        ]);
        player.push(ScriptedAnswer {
            split,
            ..answer(steps)
        });
    }
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open(&proxy).await;
    let tools = json!([{"type": "function", "name": "read", "parameters": {"type": "object"}}]);
    let request = asks("h\u{e9}llo", json!({"tools": tools, "stream_id": "a"}));
    socket.create(&request).await;
    let whole = socket.stream_on(Some("a")).await;
    // The same message in frames of one byte, each byte of them written by itself.
    let mut message = request;
    message["type"] = "response.create".into();
    let message = message.to_string().into_bytes();
    for (at, byte) in message.iter().enumerate() {
        let first = match at {
            0 => PART,
            at if at + 1 == message.len() => END,
            _ => MIDDLE,
        };
        for byte in masked(first, &[*byte]) {
            socket.stream.write_all(&[byte]).await.unwrap();
        }
    }
    let pieces = socket.stream_on(Some("a")).await;
    assert_eq!(pieces.text(), "Gr\u{fc}\u{df}e");
    assert_eq!(pieces.text(), whole.text());
    assert_eq!(pieces.reasoning(), whole.reasoning());
    assert_eq!(pieces.calls().len(), whole.calls().len());
    let [first, second] = [0, 1].map(|at| player.requests()[at].json());
    assert_eq!(first, second, "the upstream was asked for something else");
}

#[kit::test]
async fn a_stream_that_is_read_slowly_is_whole() {
    const TIMES: usize = 3_000;
    let text = "x".repeat(1_000);
    let long = answer(json!([{"repeat": {"times": TIMES, "steps": [{"text": text}]}}]));
    let player = repeating_player(PlayerWire::Chat, long).await;
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open(&proxy).await;
    socket.create(&asks("go", json!({}))).await;
    let mut messages: Vec<Value> = Vec::new();
    while messages.last().is_none_or(|last| !is_terminal(last)) {
        // Buffers fill up now and then, within the answer and before its long last events.
        if messages.len() % 1_000 == 1 {
            proxy.wait_until_idle().await;
        }
        messages.push(socket.event().await);
    }
    let stream = socket.check(&messages);
    assert_eq!(stream.terminal, "response.completed");
    assert_eq!(stream.text().len(), TIMES * text.len());
}

#[kit::test]
async fn a_silent_upstream_is_heard_of_by_heartbeats() {
    let setup = Setup::new()
        .server("heartbeat = \"50ms\"")
        .provider("max_retries = 0\ntimeouts = { idle = \"2s\" }");
    let silent = answer(json!([{"text": "so far"}, {"stall": true}]));
    let player = repeating_player(PlayerWire::Chat, silent).await;
    let proxy = Proxy::start_with(&player, setup).await;
    let mut socket = Socket::open(&proxy).await;
    let stream = socket.turn(&asks("go", json!({}))).await;
    assert_eq!(stream.terminal, "response.failed");
    assert_eq!(stream.text(), "so far");
    let events = stream.events.iter();
    let heartbeats = events.filter(|(kind, _)| kind == "response.in_progress");
    let heartbeats = heartbeats.count();
    assert!(heartbeats > 2, "{heartbeats} heartbeats");
}
