//! Frames that no client sends. They cost their connection alone.

use kit::player::PlayerWire;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::client::{
    BINARY, CLOSE, END, MIDDLE, PART, PING, PONG, ServerFrame, Socket, TEXT, handshake, masked,
};
use crate::faults::repeating_player;
use crate::proxy::{Proxy, Setup};
use crate::stored::{asks, provider, says};

/// Promise: Frames that break a rule of RFC 6455, messages that are too large or too slow, floods
/// of control frames and clients that answer no ping cost their WebSocket alone, which ends with
/// the code for it.
#[kit::test]
async fn a_frame_that_breaks_a_rule_ends_its_connection_with_a_code() {
    let player = repeating_player(PlayerWire::Chat, says("still here")).await;
    let proxy = Proxy::start(&player).await;
    let mut bystander = Socket::open(&proxy).await;
    let unmasked = vec![TEXT, 2, b'{', b'}'];
    let twice = |first: u8, second: u8| [masked(first, b"a"), masked(second, b"b")].concat();
    for (what, bytes, code) in [
        ("not masked", unmasked, 1002),
        ("compressed", masked(TEXT | 0x40, b"a"), 1002),
        ("a reserved bit", masked(TEXT | 0x10, b"a"), 1002),
        ("binary", masked(BINARY, b"{}"), 1003),
        ("not UTF-8", masked(TEXT, b"\"\xff\""), 1007),
        (
            "not UTF-8 in pieces",
            [masked(PART, b"\xe2\x82"), masked(END, b"\"")].concat(),
            1007,
        ),
        ("goes on without a beginning", masked(END, b"a"), 1002),
        ("begins within another message", twice(PART, TEXT), 1002),
        ("binary within a message", twice(PART, BINARY), 1002),
        ("an unknown kind", masked(0x83, b"a"), 1002),
        ("an unknown control frame", masked(0x8B, b"a"), 1002),
        ("a control frame in pieces", masked(PING & 0x7F, b"a"), 1002),
        ("a long control frame", masked(PING, &[b'a'; 126]), 1002),
        ("half a close code", masked(CLOSE, b"a"), 1002),
        (
            "a code that means no code",
            masked(CLOSE, &1005_u16.to_be_bytes()),
            1002,
        ),
        (
            "a close reason that is not UTF-8",
            masked(CLOSE, b"\x03\xe8\xff"),
            1007,
        ),
        (
            "a length of 2^63",
            vec![TEXT, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4],
            1009,
        ),
    ] {
        let mut socket = Socket::open(&proxy).await;
        socket.stream.write_all(&bytes).await.unwrap();
        assert_eq!(socket.closed().await.0, code, "{what}");
        assert_eq!(socket.next().await, ServerFrame::End, "{what}");
    }
    assert_eq!(
        bystander.turn(&asks("go", json!({}))).await.text(),
        "still here"
    );
    proxy
        .wait_for_metric("respondent_open_websockets", "", 1.0)
        .await;
    let refused = proxy
        .metric("respondent_refused_requests_total", "malformed")
        .await;
    assert!(refused > 5.0, "{refused}");
    // A client that closes gets its own code back.
    let code = [&3123_u16.to_be_bytes()[..], b"bye"].concat();
    bystander.send_frame(CLOSE, &code).await;
    assert_eq!(bystander.closed().await.0, 3123);
}

#[kit::test]
async fn a_message_beyond_the_limit_of_bodies_ends_its_connection() {
    let player = provider(&[]).await;
    let setup = Setup::new().server("body_limit = 2000");
    let proxy = Proxy::start_with(&player, setup).await;
    let mut whole = Socket::open(&proxy).await;
    whole.send_frame(TEXT, &[b'a'; 2001]).await;
    assert_eq!(whole.closed().await.0, 1009);
    let mut pieces = Socket::open(&proxy).await;
    pieces.send_frame(PART, &[b'a'; 1500]).await;
    pieces.send_frame(MIDDLE, &[b'a'; 501]).await;
    assert_eq!(pieces.closed().await.0, 1009);
    let mut fitting = Socket::open(&proxy).await;
    fitting.send_frame(TEXT, &[b'a'; 2000]).await;
    assert_eq!(fitting.error(400).await, "invalid_json");
    let refused = proxy
        .metric("respondent_refused_requests_total", "too_large")
        .await;
    assert!((refused - 2.0).abs() < 0.5, "{refused}");
}

#[kit::test]
async fn a_message_that_comes_too_slowly_ends_its_connection() {
    let player = provider(&[]).await;
    let setup = Setup::new().server("body_timeout = \"200ms\"");
    let proxy = Proxy::start_with(&player, setup).await;
    let mut frame = masked(TEXT, &[b'a'; 100]);
    frame.pop();
    let mut socket = Socket::open(&proxy).await;
    socket.stream.write_all(&frame).await.unwrap();
    let (code, reason) = socket.closed().await;
    assert_eq!((code, reason.as_str()), (1008, "a message came too slowly"));
    let mut between = Socket::open(&proxy).await;
    between.send_frame(PART, b"a").await;
    assert_eq!(between.closed().await.0, 1008);
}

#[kit::test]
async fn a_flood_of_control_frames_ends_its_connection() {
    let player = provider(&[]).await;
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open(&proxy).await;
    let flood = [masked(PING, b""), masked(PONG, b"")]
        .concat()
        .repeat(5_000);
    // It may be closed before everything is written.
    let _ = socket.stream.write_all(&flood).await;
    let mut pongs = 0;
    let code = loop {
        match socket.next().await {
            ServerFrame::Pong(_) => pongs += 1,
            ServerFrame::Close(code, _) => break code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(code, 1008);
    assert!(pongs <= 100, "{pongs}");
}

#[kit::test]
async fn a_silent_client_gets_pings_and_then_counts_as_gone() {
    let player = provider(&["awake"]).await;
    let setup = Setup::new().server("heartbeat = \"50ms\"");
    let proxy = Proxy::start_with(&player, setup).await;
    let mut socket = Socket::open(&proxy).await;
    // As long as it answers, it stays.
    for _ in 0..12 {
        let ServerFrame::Ping(payload) = socket.next().await else {
            panic!("no ping")
        };
        socket.send_frame(PONG, &payload).await;
    }
    assert_eq!(socket.turn(&asks("go", json!({}))).await.text(), "awake");
    let mut pings = 0;
    let (code, reason) = loop {
        match socket.next().await {
            ServerFrame::Ping(_) => pings += 1,
            ServerFrame::Close(code, reason) => break (code, reason),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((code, reason.as_str()), (1008, "no answer to pings"));
    assert!(pings > 2, "{pings}");
}

/// Promise: A message of a WebSocket counts in the memory while it arrives.
#[kit::test]
async fn a_message_counts_in_the_memory_while_it_arrives() {
    const PIECE: usize = 4 << 20;
    let player = provider(&[]).await;
    let proxy = Proxy::start(&player).await;
    let used = || async {
        let name = "respondent_memory_bytes";
        proxy.metric(name, "requests").await
    };
    let mut socket = Socket::open(&proxy).await;
    let before = used().await;
    socket.send_frame(PART, &vec![b'a'; PIECE]).await;
    socket.send_frame(MIDDLE, &vec![b'a'; PIECE]).await;
    while used().await - before < 8_000_000.0 {
        tokio::task::yield_now().await;
    }
    socket.send_frame(END, b"").await;
    assert_eq!(socket.error(400).await, "invalid_json");
    while used().await > before {
        tokio::task::yield_now().await;
    }
}

#[kit::test]
async fn a_handshake_that_breaks_a_rule_is_refused() {
    let player = provider(&[]).await;
    let proxy = Proxy::start(&player).await;
    let host = proxy.address.to_string();
    let good = handshake(&host, "");
    for (what, request) in [
        ("no key", good.replace("Sec-WebSocket-Key", "X-Key")),
        (
            "a short key",
            good.replace("dGhlIHNhbXBsZSBub25jZQ==", "dGhl"),
        ),
        ("another version", good.replace("Version: 13", "Version: 8")),
        (
            "no connection header",
            good.replace("Connection: Upgrade", "Connection: close"),
        ),
        (
            "a body",
            good.replace("\r\n\r\n", "\r\nContent-Length: 5\r\n\r\nhello"),
        ),
        (
            "a body in pieces",
            good.replace(
                "\r\n\r\n",
                "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            ),
        ),
    ] {
        let mut stream = tokio::net::TcpStream::connect(proxy.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let reply = crate::edge::read_to_close(&mut stream).await;
        reply.assert_error(400, "invalid_handshake");
        let version = reply.header("sec-websocket-version");
        assert_eq!(version.is_some(), what == "another version");
    }
    // What asks for no WebSocket is a list of responses.
    assert_eq!(proxy.get("/v1/responses").await.status, 200);
    proxy.get("/v1/models").await;
}
