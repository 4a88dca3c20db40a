//! Excessively large messages do not make the memory of the process grow without bounds.
use std::io::Write as _;

use kit::player::{Player, PlayerWire, ScriptStep};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{answer, body, player};
use crate::proxy::{Proxy, Setup, streaming};
use crate::turns::parse_steps;

/// A MiB in KiB.
const MIB: u64 = 1024;

/// A proxy without capture, so that only the answers can use more memory.
async fn proxy_without_capture(player: &Player) -> Proxy {
    let setup = Setup::new().provider("max_retries = 0");
    Proxy::start_with(player, setup.tables("[capture]\nmode = \"off\"")).await
}

/// Promise: An upstream event of more than 8 MB ends the answer, and memory stays bounded.
#[kit::test(on_each_wire)]
async fn an_event_of_10_mb_ends_the_answer(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = proxy_without_capture(&player).await;
    let before = proxy.memory();
    let line = |size: usize| ScriptStep::Text("x".repeat(size));
    player.push(kit::player::ScriptedAnswer::steps(vec![line(10_000_000)]));
    let error = proxy.post(&body()).await.error(502);
    assert_eq!(error["code"], "upstream_bad_reply");
    let late = [
        vec![ScriptStep::Text("begun ".into())],
        vec![line(10_000_000)],
    ]
    .concat();
    player.push(kit::player::ScriptedAnswer::steps(late));
    let stream = proxy.stream(&body()).await;
    assert_eq!(stream.terminal, "response.failed");
    assert_eq!(stream.text(), "begun ");
    player.wait_closed(1).await;
    let after = proxy.memory();
    assert!(after.peak < before.peak + 32 * MIB, "{before:?} {after:?}");
    // An event below the limit is read like any other.
    player.push(kit::player::ScriptedAnswer::steps(vec![line(7_000_000)]));
    let stream = proxy.stream(&body()).await;
    assert_eq!(stream.text().len(), 7_000_000);
}

#[kit::test(on_each_wire)]
async fn a_line_that_never_ends_ends_the_answer(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = proxy_without_capture(&player).await;
    let before = proxy.memory();
    let more = json!({"repeat": {"times": 100, "steps": [{"raw": "x".repeat(1 << 20)}]}});
    let endless = json!([{"text": "begun"}, {"raw": "data: "}, more, {"stall": true}]);
    player.push(kit::player::ScriptedAnswer::steps(parse_steps(endless)));
    let stream = proxy.stream(&body()).await;
    assert_eq!(stream.terminal, "response.failed");
    player.wait_closed(0).await;
    assert!(!player.requests()[0].finished);
    let after = proxy.memory();
    assert!(after.peak < before.peak + 32 * MIB, "{before:?} {after:?}");
}

/// The memory of the capture in MiB.
const CAPTURE_MEMORY: u64 = 4;

/// Memory in MiB for writing a captured turn. A turn uses at most a quarter of the capture's
/// memory; it is copied and split into its strings to be written.
const WRITE_MEMORY: u64 = 8 * CAPTURE_MEMORY / 4;

#[kit::test(on_each_wire)]
async fn large_failed_turns_stay_within_the_memory_of_the_capture(wire: PlayerWire) {
    let [off, on] = ["off", "failures"].map(|mode| memory_growth(wire, mode));
    let (off, on) = tokio::join!(off, on);
    assert!(
        on <= off + (CAPTURE_MEMORY + WRITE_MEMORY + SLACK) * MIB,
        "{off} KiB without capture, {on} KiB with it"
    );
}

/// By how many KiB the peak memory grows after 40 large failed turns.
async fn memory_growth(wire: PlayerWire, mode: &str) -> u64 {
    let player = player(wire).await;
    let setup = Setup::new().provider("max_retries = 0");
    let memory = CAPTURE_MEMORY << 20;
    let table = format!("[capture]\nmode = \"{mode}\"\nmemory = {memory}\nrecent = 1000");
    let proxy = Proxy::start_with(&player, setup.tables(&table)).await;
    let before = proxy.memory();
    let many = json!([
        {"repeat": {"times": 10, "steps": [{"text": "x".repeat(20_000)}]}},
        {"raw": "data: {\n\n"},
    ]);
    for _ in 0..40 {
        player.push(kit::player::ScriptedAnswer::steps(parse_steps(
            many.clone(),
        )));
        let stream = proxy.stream(&body()).await;
        assert_eq!(stream.terminal, "response.failed");
        assert_eq!(stream.text().len(), 200_000);
    }
    proxy.wait_until_idle().await;
    proxy.memory().peak - before.peak
}

/// What the process counts for this, in bytes.
async fn used(proxy: &Proxy, kind: &str) -> f64 {
    let labels = format!("kind=\"{kind}\"");
    proxy.metric("respondent_memory_bytes", &labels).await
}

#[kit::test(on_each_wire)]
async fn the_memory_of_a_turn_is_counted_until_it_is_not_needed_any_more(wire: PlayerWire) {
    const BODY: f64 = 4_000_000.0;
    const ANSWER: f64 = 1_000_000.0;
    let player = player(wire).await;
    let setup = Setup::new().tables("[capture]\nmode = \"off\"\n[artifacts]\nmode = \"off\"");
    let proxy = Proxy::start_with(&player, setup).await;
    let limit = proxy.metric("respondent_memory_limit_bytes", "").await;
    assert!(limit > 500_000_000.0, "{limit}");
    let mut body = streaming(&body());
    body["input"] = "word ".repeat(800_000).into();
    player.push(answer(json!([{"nothing": true}, {"stall": true}])));
    let mut waiting = proxy.open(body.to_string(), &[]).await;
    waiting.read_until("response.created").await;
    // The client's body, and the one that was made of it.
    let bodies = used(&proxy, "requests").await;
    assert!(bodies > 2.0 * BODY && bodies < 2.2 * BODY, "{bodies}");
    drop(waiting);
    let text = json!({"repeat": {"times": 1000, "steps": [{"text": "x".repeat(1000)}]}});
    player.push(answer(json!([text, {"stall": true}])));
    let mut answered = proxy.open(body.to_string(), &[]).await;
    while used(&proxy, "answers").await < 0.9 * ANSWER {
        assert!(answered.read_more().await);
    }
    // Neither body is needed after the first content.
    let bodies = used(&proxy, "requests").await;
    assert!(bodies < 0.1 * BODY, "{bodies}");
    drop(answered);
    for kind in ["requests", "answers"] {
        while used(&proxy, kind).await > 0.0 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}

/// The limit of a request body in MiB.
const LIMIT: u64 = 16;

/// By how many MiB the process may grow in addition to the limit.
const SLACK: u64 = 8;

async fn proxy_with_body_limit(wire: PlayerWire) -> (Player, Proxy) {
    let player = player(wire).await;
    let setup = Setup::new().server(&format!("body_limit = {}", LIMIT << 20));
    let proxy = Proxy::start_with(&player, setup).await;
    // The first request makes the allocations that happen only once.
    proxy.post_bytes("{}", &[]).await.error(400);
    (player, proxy)
}

#[kit::test(on_each_wire)]
async fn large_bodies_do_not_fill_the_memory(wire: PlayerWire) {
    let (player, proxy) = proxy_with_body_limit(wire).await;
    let before = proxy.memory();
    for framing in [
        "Content-Length: 67108864",
        "Content-Length: 17179869184",
        "Transfer-Encoding: chunked",
    ] {
        let mut stream = TcpStream::connect(proxy.address).await.unwrap();
        let head = format!(
            "POST /v1/responses HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n{framing}\r\n\r\n",
            proxy.address
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let megabyte = vec![b' '; 1 << 20];
        let chunk = [b"100000\r\n", megabyte.as_slice(), b"\r\n"].concat();
        for _ in 0..64 {
            let piece = if framing.contains("chunked") {
                &chunk
            } else {
                &megabyte
            };
            if stream.write_all(piece).await.is_err() {
                break;
            }
        }
        let mut reply = [0; 12];
        stream.read_exact(&mut reply).await.unwrap();
        assert_eq!(&reply, b"HTTP/1.1 413", "{framing}");
    }
    let after = proxy.memory();
    assert!(
        after.peak <= before.peak + (LIMIT + SLACK) * MIB,
        "{before:?} {after:?}"
    );
    assert!(player.requests().is_empty());
}

#[kit::test(on_each_wire)]
async fn decompression_bombs_do_not_fill_the_memory(wire: PlayerWire) {
    let (player, proxy) = proxy_with_body_limit(wire).await;
    let before = proxy.memory();
    // A gigabyte each, compressed while it is generated.
    let blanks = vec![b' '; 1 << 20];
    let mut zstd = zstd::Encoder::new(Vec::new(), 1).unwrap();
    for _ in 0..1024 {
        zstd.write_all(&blanks).unwrap();
    }
    let zstd = zstd.finish().unwrap();
    let one = {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        for _ in 0..64 {
            gzip.write_all(&blanks).unwrap();
        }
        gzip.finish().unwrap()
    };
    for (coding, bomb) in [("zstd", zstd), ("gzip", one.repeat(16))] {
        assert!(bomb.len() < 8 << 20);
        let reply = proxy
            .post_bytes(bomb, &[("content-encoding", coding)])
            .await;
        assert_eq!(reply.error(413)["code"], "request_too_large");
    }
    let after = proxy.memory();
    assert!(
        after.peak <= before.peak + (LIMIT + SLACK) * MIB,
        "{before:?} {after:?}"
    );
    assert!(player.requests().is_empty());
}
