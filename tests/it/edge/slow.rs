//! Peers that send slowly or not at all. The limits are short; no times are measured.
use std::time::Duration;

use kit::player::PlayerWire;
use respondent::serve::{BodyLimits, EdgeSettings, ListenLimits};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::routes::begun;
use super::server::{Reply, Server, read_to_close};
use crate::faults::{answer, body, repeating_player};
use crate::proxy::Proxy;

const SHORT: Duration = Duration::from_millis(200);
const NEVER: Duration = Duration::from_mins(10);

fn short_heads() -> ListenLimits {
    ListenLimits {
        header_timeout: SHORT,
        ..ListenLimits::default()
    }
}

/// Writes a byte now and then until the server closes, and returns its response.
async fn dribble(stream: TcpStream, byte: u8) -> Reply {
    let (mut reading, mut writing) = stream.into_split();
    let mut text = String::new();
    let forever = async {
        while writing.write_all(&[byte]).await.is_ok() {
            sleep(Duration::from_millis(5)).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        // The connection may also be reset after the response.
        _ = reading.read_to_string(&mut text) => Reply { text },
        () = forever => Reply { text: String::new() },
    }
}

#[kit::test]
async fn dribbled_headers_are_cut_off() {
    let server = Server::with(EdgeSettings::default(), short_heads()).await;
    let mut stream = server.connect().await;
    stream
        .write_all(&server.fill(b"GET /v1/models HTTP/1.1\r\nHost: {host}\r\nX: "))
        .await
        .unwrap();
    let reply = dribble(stream, b'x').await;
    assert!([0, 408].contains(&reply.status()), "{reply:?}");
}

#[kit::test]
async fn a_silent_connection_is_cut_off() {
    let server = Server::with(EdgeSettings::default(), short_heads()).await;
    let mut stream = server.connect().await;
    let reply = read_to_close(&mut stream).await;
    assert!([0, 408].contains(&reply.status()), "{reply:?}");
}

#[kit::test]
async fn an_idle_connection_is_closed() {
    let server = Server::with(EdgeSettings::default(), short_heads()).await;
    let mut stream = server.connect().await;
    for _ in 0..2 {
        let request = server.fill(b"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(&request).await.unwrap();
    }
    let reply = read_to_close(&mut stream).await;
    assert_eq!(
        reply.text.matches("HTTP/1.1 200 OK").count(),
        2,
        "{reply:?}"
    );
}

async fn posting(body: BodyLimits) -> (Server, TcpStream) {
    let settings = EdgeSettings {
        body,
        ..EdgeSettings::default()
    };
    let server = Server::with(settings, ListenLimits::default()).await;
    let mut stream = server.connect().await;
    let head = b"POST /v1/responses HTTP/1.1\r\nHost: {host}\r\n\
        Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{";
    stream.write_all(&server.fill(head)).await.unwrap();
    (server, stream)
}

#[kit::test]
async fn a_dribbled_body_is_refused() {
    let limits = BodyLimits {
        grace: SHORT,
        idle: NEVER,
        ..BodyLimits::default()
    };
    let (server, stream) = posting(limits).await;
    dribble(stream, b' ')
        .await
        .assert_error(408, "request_timeout");
    assert_eq!(server.turns(), 0);
}

#[kit::test]
async fn a_body_that_stops_is_refused() {
    let limits = BodyLimits {
        grace: NEVER,
        idle: SHORT,
        ..BodyLimits::default()
    };
    let (server, mut stream) = posting(limits).await;
    read_to_close(&mut stream)
        .await
        .assert_error(408, "request_timeout");
    assert_eq!(*server.log.refused.lock().unwrap(), ["too_slow"]);
}

/// Promise: Connections with slow headers, slow bodies or no activity are closed, as are those
/// whose client takes no byte of its response for five minutes, and hundreds of them do not lock
/// out other clients.
///
/// The server is a process of its own: both ends would be more descriptors than one may have.
#[kit::test]
async fn a_crowd_of_slow_peers_does_not_shut_others_out() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "all"}]))).await;
    let proxy = Proxy::start(&player).await;
    let mut crowd = Vec::new();
    for _ in 0..500 {
        let mut stream = TcpStream::connect(proxy.address).await.unwrap();
        stream
            .write_all(b"POST /v1/responses HTTP/1.1\r\nHo")
            .await
            .unwrap();
        crowd.push(stream);
    }
    assert_eq!(proxy.stream(&body()).await.text(), "all");
    drop(crowd);
}

#[kit::test]
async fn a_client_that_takes_no_byte_is_dropped() {
    let limits = ListenLimits {
        write_timeout: SHORT,
        connections: 1,
        ..ListenLimits::default()
    };
    let server = Server::with(EdgeSettings::default(), limits).await;
    let _stopped = begun(&server, b"flood").await;
    server.log.dropped.notified().await;
    // Its connection is free for others, although the client keeps its own side open.
    server.post_turn(b"{}", "").await.assert_ok("2 bytes");
}

#[kit::test]
async fn a_connection_over_the_limit_waits_until_another_closes() {
    let limits = ListenLimits {
        connections: 1,
        ..ListenLimits::default()
    };
    let server = Server::with(EdgeSettings::default(), limits).await;
    let mut first = server.connect().await;
    let request = server.fill(b"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let request_again = async |first: &mut TcpStream| {
        first.write_all(&request).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\nok") {
            answer.push(first.read_u8().await.unwrap());
        }
    };
    request_again(&mut first).await;
    // The first connection uses the only slot, so the second waits during all of this.
    let second = server.post_turn(b"{}", "");
    tokio::pin!(second);
    for _ in 0..100 {
        tokio::select! {
            biased;
            reply = &mut second => panic!("served beside the first: {reply:?}"),
            () = request_again(&mut first) => {}
        }
    }
    assert_eq!(server.turns(), 0);
    drop(first);
    second.await.assert_ok("2 bytes");
}

#[kit::test]
async fn a_connection_that_has_its_answer_takes_no_place_of_others() {
    let limits = ListenLimits {
        connections: 1,
        ..ListenLimits::default()
    };
    let server = Server::with(EdgeSettings::default(), limits).await;
    let mut first = server.connect().await;
    first.write_all(b"no request\r\n\r\n").await.unwrap();
    assert_eq!(read_to_close(&mut first).await.status(), 400);
    // What it still sends is read, for a while.
    let mut send = async || {
        first.write_all(b"x").await.expect("it is still read");
        sleep(Duration::from_millis(5)).await;
    };
    let second = server.post_turn(b"{}", "");
    tokio::pin!(second);
    loop {
        tokio::select! {
            reply = &mut second => break reply.assert_ok("2 bytes"),
            () = send() => {}
        }
    }
    for _ in 0..5 {
        send().await;
    }
}
