//! Clients that go away or do not read.
use kit::player::ScriptedAnswer;
use libtest_mimic::Trial;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::{always, answer, body};
use crate::proxy::{Proxy, Setup, streaming};
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    vec![
        case(
            "R8 a client that leaves mid-stream ends the upstream request",
            mid_stream,
        ),
        case(
            "R8 a client that leaves before the headers ends the upstream request",
            before_headers,
        ),
        case("R9 a slow reader slows the upstream down", slow_reader),
        case("R9 a reader that pauses loses nothing", pausing_reader),
    ]
}

const TURNS: usize = 5;
const COUNTED: f64 = 5.0;

async fn mid_stream() {
    let player = always(answer(json!([{"text": "a"}, {"stall": true}]))).await;
    let proxy = Proxy::start(&player).await;
    assert!(proxy.get("/healthz").await.status == 200);
    let before = proxy.descriptors();
    let mut opened = Vec::new();
    for _ in 0..TURNS {
        let mut open = proxy.open(streaming(&body()).to_string(), &[]).await;
        open.until("response.output_text.delta").await;
        opened.push(open);
    }
    proxy.until("respondent_open_streams", "", COUNTED).await;
    drop(opened);
    for n in 0..TURNS {
        player.wait_closed(n).await;
    }
    gone(&proxy, before).await;
}

async fn before_headers() {
    let player = always(ScriptedAnswer {
        head_delay_ms: 120_000,
        ..ScriptedAnswer::default()
    })
    .await;
    let proxy = Proxy::start(&player).await;
    assert!(proxy.get("/healthz").await.status == 200);
    let before = proxy.descriptors();
    for n in 0..TURNS {
        let body = if n % 2 == 0 {
            body()
        } else {
            streaming(&body())
        };
        let stream = asked(&proxy, &body.to_string()).await;
        player.wait_requests(n + 1).await;
        drop(stream);
        player.wait_closed(n).await;
    }
    gone(&proxy, before).await;
}

/// Nothing is left of the turns.
async fn gone(proxy: &Proxy, descriptors: usize) {
    proxy.until("respondent_open_streams", "", 0.0).await;
    let turns = "respondent_turns_total";
    proxy
        .until(turns, "outcome=\"disconnected\"", COUNTED)
        .await;
    while proxy.descriptors() > descriptors {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// A connection on which a turn was asked for and nothing is read.
async fn asked(proxy: &Proxy, body: &str) -> TcpStream {
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

async fn slow_reader() {
    const STREAMS: u64 = 4;
    // So short that the answer's text, which is kept, does not count: the sockets
    // alone take megabytes of events.
    let flood = json!([{"repeat": {"times": 10_000_000, "steps": [{"text": "x"}]}}]);
    let player = always(answer(flood)).await;
    // Nothing is taken down: what grows is the stream's.
    let setup = Setup::new().server("heartbeat = \"100ms\"");
    let setup = setup.tables("[capture]\nmode = \"off\"");
    let proxy = Proxy::with(&player, setup).await;
    // What is allocated once is no growth.
    let mut first = asked(&proxy, &streaming(&body()).to_string()).await;
    first.read_exact(&mut vec![0; 100_000]).await.unwrap();
    drop(first);
    player.wait_closed(0).await;
    let before = proxy.memory();
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        streams.push(asked(&proxy, &streaming(&body()).to_string()).await);
    }
    player
        .wait_requests(1 + usize::try_from(STREAMS).unwrap())
        .await;
    proxy.at_rest().await;
    assert!(player.requests().iter().all(|request| !request.finished));
    let growth = |peak: u64| peak.saturating_sub(before.peak);
    let limit = STREAMS * 1024 + 2048;
    assert!(
        growth(proxy.memory().peak) < limit,
        "{before:?} {:?}",
        proxy.memory()
    );
    // They go on where they stood, and stop again.
    for stream in &mut streams {
        stream.read_exact(&mut vec![0; 200_000]).await.unwrap();
    }
    proxy.at_rest().await;
    assert!(player.requests().iter().all(|request| !request.finished));
    assert!(
        growth(proxy.memory().peak) < limit,
        "{before:?} {:?}",
        proxy.memory()
    );
    drop(streams);
    proxy.until("respondent_open_streams", "", 0.0).await;
}

async fn pausing_reader() {
    let long = json!([{"repeat": {"times": 10_000, "steps": [{"text": "x".repeat(1000)}]}}]);
    let player = always(answer(long)).await;
    // The pause is the reader's, not the upstream's.
    let setup = Setup::new().provider("timeouts = { idle = \"250ms\" }");
    let proxy = Proxy::with(&player, setup).await;
    let mut open = proxy.open(streaming(&body()).to_string(), &[]).await;
    open.until("response.created").await;
    proxy.at_rest().await;
    let stream = open.rest().await.stream();
    assert_eq!(stream.terminal, "response.completed");
    assert_eq!(stream.text().len(), 10_000_000);
}
