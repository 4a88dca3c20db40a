//! Clients that disconnect or do not read.
use kit::player::{PlayerWire, ScriptedAnswer};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::{answer, body, repeating_player};
use crate::proxy::{Proxy, Setup, streaming};

const TURNS: usize = 5;
/// The same number as a metric.
const TURNS_METRIC: f64 = 5.0;

#[kit::test(on_each_wire)]
async fn a_client_that_disconnects_mid_stream_cancels_the_upstream_request(wire: PlayerWire) {
    let player = repeating_player(wire, answer(json!([{"text": "a"}, {"stall": true}]))).await;
    let proxy = Proxy::start(&player).await;
    assert!(proxy.get("/healthz").await.status == 200);
    let before = proxy.open_descriptors();
    let mut opened = Vec::new();
    for _ in 0..TURNS {
        let mut reply = proxy.open(streaming(&body()).to_string(), &[]).await;
        reply.read_until("response.output_text.delta").await;
        opened.push(reply);
    }
    proxy
        .wait_for_metric("respondent_open_streams", "", TURNS_METRIC)
        .await;
    drop(opened);
    for n in 0..TURNS {
        player.wait_closed(n).await;
    }
    assert_nothing_left(&proxy, before).await;
}

#[kit::test(on_each_wire)]
async fn a_client_that_disconnects_before_the_headers_cancels_the_upstream_request(
    wire: PlayerWire,
) {
    let player = repeating_player(
        wire,
        ScriptedAnswer {
            head_delay_ms: 120_000,
            ..ScriptedAnswer::default()
        },
    )
    .await;
    let proxy = Proxy::start(&player).await;
    assert!(proxy.get("/healthz").await.status == 200);
    let before = proxy.open_descriptors();
    for n in 0..TURNS {
        let body = if n % 2 == 0 {
            body()
        } else {
            streaming(&body())
        };
        let stream = send_without_reading(&proxy, &body.to_string()).await;
        player.wait_requests(n + 1).await;
        drop(stream);
        player.wait_closed(n).await;
    }
    assert_nothing_left(&proxy, before).await;
}

/// Waits until no stream is open, all turns are counted as disconnected, and their sockets are
/// closed.
async fn assert_nothing_left(proxy: &Proxy, descriptors: usize) {
    proxy
        .wait_for_metric("respondent_open_streams", "", 0.0)
        .await;
    let turns = "respondent_turns_total";
    proxy
        .wait_for_metric(turns, "outcome=\"disconnected\"", TURNS_METRIC)
        .await;
    while proxy.open_descriptors() > descriptors {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Sends a turn on a new connection from which nothing is read.
async fn send_without_reading(proxy: &Proxy, body: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(8 * 1024).unwrap();
    let mut stream = socket.connect(proxy.address).await.unwrap();
    let request = format!(
        "POST /v1/responses HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        proxy.address,
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Promise: A client that reads slowly slows down its upstream; data does not pile up in memory.
#[kit::test(on_each_wire)]
async fn a_slow_reader_slows_the_upstream_down(wire: PlayerWire) {
    const STREAMS: u64 = 4;
    // The pieces of text are so short that the text of the answer, which is kept in memory, does
    // not matter: the socket buffers alone hold megabytes of events.
    let flood = json!([{"repeat": {"times": 10_000_000, "steps": [{"text": "x"}]}}]);
    let player = repeating_player(wire, answer(flood)).await;
    // The capture is off, so that only the streams can use more memory.
    let setup = Setup::new().server("heartbeat = \"100ms\"");
    let setup = setup.tables("[capture]\nmode = \"off\"");
    let proxy = Proxy::start_with(&player, setup).await;
    // The first turn makes the allocations that happen only once.
    let mut first = send_without_reading(&proxy, &streaming(&body()).to_string()).await;
    first.read_exact(&mut vec![0; 100_000]).await.unwrap();
    drop(first);
    player.wait_closed(0).await;
    let before = proxy.memory();
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        streams.push(send_without_reading(&proxy, &streaming(&body()).to_string()).await);
    }
    player
        .wait_requests(1 + usize::try_from(STREAMS).unwrap())
        .await;
    proxy.wait_until_idle().await;
    assert!(player.requests().iter().all(|request| !request.finished));
    let growth = |peak: u64| peak.saturating_sub(before.peak);
    // The buffers of a connection grow when a busy machine runs its task late. Without the limit,
    // gigabytes of each answer would arrive.
    let limit = STREAMS * 4 * 1024;
    assert!(
        growth(proxy.memory().peak) < limit,
        "{before:?} {:?}",
        proxy.memory()
    );
    // The streams continue where they stopped, and stop again.
    for stream in &mut streams {
        stream.read_exact(&mut vec![0; 200_000]).await.unwrap();
    }
    proxy.wait_until_idle().await;
    assert!(player.requests().iter().all(|request| !request.finished));
    assert!(
        growth(proxy.memory().peak) < limit,
        "{before:?} {:?}",
        proxy.memory()
    );
    drop(streams);
    proxy
        .wait_for_metric("respondent_open_streams", "", 0.0)
        .await;
}

#[kit::test(on_each_wire)]
async fn a_reader_that_pauses_loses_nothing(wire: PlayerWire) {
    // Many messages, so that no event but the last has all of the text.
    let text = json!({"repeat": {"times": 100, "steps": [{"text": "x".repeat(1000)}]}});
    let long = json!([{"repeat": {"times": 70, "steps": [{"reasoning": "hm"}, text]}}]);
    let player = repeating_player(wire, answer(long)).await;
    // The client pauses, not the upstream, so the idle timeout must not apply.
    let setup = Setup::new().provider("timeouts = { idle = \"3s\" }");
    let proxy = Proxy::start_with(&player, setup).await;
    let mut reply = proxy.open(streaming(&body()).to_string(), &[]).await;
    reply.read_until("response.created").await;
    proxy.wait_until_idle().await;
    tokio::time::sleep(std::time::Duration::from_millis(3300)).await;
    let stream = reply.read_to_end().await.stream();
    assert_eq!(
        stream.terminal, "response.completed",
        "{}",
        stream.response["error"]
    );
    assert_eq!(stream.text().len(), 7_000_000);
}
