//! Sizes that nobody should send, and the memory of the process.
use std::io::Write as _;

use kit::player::{Player, ScriptStep};
use libtest_mimic::Trial;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{body, player};
use crate::proxy::{Proxy, Setup};
use crate::trial::case;
use crate::turns::steps;

pub fn trials() -> Vec<Trial> {
    vec![
        case("R10 an event of 10 MB ends the answer", large_line),
        case("R10 a line that never ends ends the answer", endless_line),
        case(
            "R10 large turns that fail keep to the memory of capture",
            captured_turns,
        ),
        case("R25 large bodies do not fill the memory", large_bodies),
        case("R26 bombs do not fill the memory", bombs),
    ]
}

const MIB: u64 = 1024;

/// A proxy that takes nothing down: what grows is the answer's.
async fn uncaptured(player: &Player) -> Proxy {
    let setup = Setup::new().provider("max_retries = 0");
    Proxy::with(player, setup.tables("[capture]\nmode = \"off\"")).await
}

async fn large_line() {
    let player = player().await;
    let proxy = uncaptured(&player).await;
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
    // Below the limit it is an event like any other.
    player.push(kit::player::ScriptedAnswer::steps(vec![line(7_000_000)]));
    let stream = proxy.stream(&body()).await;
    assert_eq!(stream.text().len(), 7_000_000);
}

async fn endless_line() {
    let player = player().await;
    let proxy = uncaptured(&player).await;
    let before = proxy.memory();
    let more = json!({"repeat": {"times": 100, "steps": [{"raw": "x".repeat(1 << 20)}]}});
    let endless = json!([{"text": "begun"}, {"raw": "data: "}, more, {"stall": true}]);
    player.push(kit::player::ScriptedAnswer::steps(steps(endless)));
    let stream = proxy.stream(&body()).await;
    assert_eq!(stream.terminal, "response.failed");
    player.wait_closed(0).await;
    assert!(!player.requests()[0].finished);
    let after = proxy.memory();
    assert!(after.peak < before.peak + 32 * MIB, "{before:?} {after:?}");
}

/// MiB that capture may take, and what writing a turn takes: a turn has a quarter
/// of them at most, and is copied, and told apart into its strings.
const CAPTURED: u64 = 4;
const WRITTEN: u64 = 8 * CAPTURED / 4;

async fn captured_turns() {
    let [off, on] = ["off", "failures"].map(grown_by_failures);
    let (off, on) = tokio::join!(off, on);
    assert!(
        on <= off + (CAPTURED + WRITTEN + SLACK) * MIB,
        "{off} KiB without capture, {on} KiB with it"
    );
}

/// What turns of megabytes that fail add to the memory, in KiB.
async fn grown_by_failures(mode: &str) -> u64 {
    let player = player().await;
    let setup = Setup::new().provider("max_retries = 0");
    let memory = CAPTURED << 20;
    let table = format!("[capture]\nmode = \"{mode}\"\nmemory = {memory}\nrecent = 1000");
    let proxy = Proxy::with(&player, setup.tables(&table)).await;
    let before = proxy.memory();
    let many = json!([
        {"repeat": {"times": 10, "steps": [{"text": "x".repeat(20_000)}]}},
        {"raw": "data: {\n\n"},
    ]);
    for _ in 0..40 {
        player.push(kit::player::ScriptedAnswer::steps(steps(many.clone())));
        let stream = proxy.stream(&body()).await;
        assert_eq!(stream.terminal, "response.failed");
        assert_eq!(stream.text().len(), 200_000);
    }
    proxy.at_rest().await;
    proxy.memory().peak - before.peak
}

/// Limit of a request in MiB, and what the process may grow by above it.
const LIMIT: u64 = 16;
const SLACK: u64 = 8;

async fn limited() -> (Player, Proxy) {
    let player = player().await;
    let setup = Setup::new().server(&format!("body_limit = {}", LIMIT << 20));
    let proxy = Proxy::with(&player, setup).await;
    // A first request, so that what is allocated once is there.
    proxy.raw("{}", &[]).await.error(400);
    (player, proxy)
}

async fn large_bodies() {
    let (player, proxy) = limited().await;
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

async fn bombs() {
    let (player, proxy) = limited().await;
    let before = proxy.memory();
    // A gigabyte each, packed while it is made.
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
        let reply = proxy.raw(bomb, &[("content-encoding", coding)]).await;
        assert_eq!(reply.error(413)["code"], "request_too_large");
    }
    let after = proxy.memory();
    assert!(
        after.peak <= before.peak + (LIMIT + SLACK) * MIB,
        "{before:?} {after:?}"
    );
    assert!(player.requests().is_empty());
}
