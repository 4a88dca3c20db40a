//! SIGTERM while turns are running.
use kit::player::PlayerWire;
use libtest_mimic::Trial;
use serde_json::json;
use tokio::net::TcpStream;

use super::{answer, body, player};
use crate::proxy::{Proxy, Setup, streaming};
use crate::trial::wire_case;

pub fn trials(wire: PlayerWire) -> Vec<Trial> {
    vec![
        wire_case(
            wire,
            "R15 SIGTERM ends twenty streams in order",
            twenty_streams,
        ),
        wire_case(
            wire,
            "R15 SIGTERM without turns ends the server at once",
            idle,
        ),
        wire_case(
            wire,
            "R15 a second SIGTERM does not wait for running turns",
            second_signal,
        ),
    ]
}

async fn twenty_streams(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start_with(&player, Setup::new().server("grace = \"2s\"")).await;
    let mut replies = Vec::new();
    for n in 0..20 {
        // Half of the turns end by themselves within the grace period.
        player.push(if n % 2 == 0 {
            answer(json!([{"text": "begun"}, {"stall": true}]))
        } else {
            answer(json!([{"text": "begun"}, {"delay_ms": 700}, {"text": " and ended"}]))
        });
        let mut reply = proxy.open(streaming(&body()).to_string(), &[]).await;
        reply.read_until("begun").await;
        replies.push(reply);
    }
    proxy.terminate().await;
    proxy.wait_for_log("stopping").await;
    // The listener is closed first, but nothing reports when.
    while TcpStream::connect(proxy.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let (mut completed, mut failed) = (0, 0);
    for reply in replies {
        let stream = reply.read_to_end().await.stream();
        match stream.terminal.as_str() {
            "response.completed" => {
                assert_eq!(stream.text(), "begun and ended");
                completed += 1;
            }
            "response.failed" => {
                assert_eq!(stream.error_code(), Some("server_error"));
                assert_eq!(stream.text(), "begun");
                failed += 1;
            }
            other => panic!("{other}"),
        }
    }
    assert!(
        failed >= 10 && completed + failed == 20,
        "{completed}, {failed}"
    );
    let mut proxy = proxy;
    assert_eq!(proxy.wait_for_exit().await.code(), Some(0));
    let log = proxy.log();
    assert_eq!(log.matches(" failed after ").count(), failed, "{log}");
}

async fn idle(wire: PlayerWire) {
    let player = player(wire).await;
    let setup = Setup::new().server("grace = \"10m\"");
    let mut proxy = Proxy::start_with(&player, setup).await;
    assert_eq!(proxy.get("/healthz").await.status, 200);
    proxy.terminate().await;
    assert_eq!(proxy.wait_for_exit().await.code(), Some(0));
}

async fn second_signal(wire: PlayerWire) {
    let player = player(wire).await;
    let setup = Setup::new().server("grace = \"10m\"");
    let mut proxy = Proxy::start_with(&player, setup).await;
    player.push(answer(json!([{"text": "begun"}, {"stall": true}])));
    let mut reply = proxy.open(streaming(&body()).to_string(), &[]).await;
    reply.read_until("begun").await;
    proxy.terminate().await;
    let waiting = "stopping: 1 turn is still running, waiting up to 600 s";
    proxy.wait_for_log(waiting).await;
    proxy.terminate().await;
    proxy.wait_for_log("stopping now").await;
    let stream = reply.read_to_end().await.stream();
    assert_eq!(stream.terminal, "response.failed");
    assert_eq!(proxy.wait_for_exit().await.code(), Some(0));
}
