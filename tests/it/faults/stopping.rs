//! SIGTERM while turns run.
use libtest_mimic::Trial;
use serde_json::json;
use tokio::net::TcpStream;

use super::{answer, body, player};
use crate::proxy::{Proxy, Setup, streaming};
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    vec![
        case("R15 SIGTERM ends twenty streams in order", twenty_streams),
        case("R15 SIGTERM without turns ends at once", idle),
    ]
}

async fn twenty_streams() {
    let player = player().await;
    let proxy = Proxy::with(&player, Setup::new().server("grace = \"2s\"")).await;
    let mut open = Vec::new();
    for n in 0..20 {
        // Half of them end by themselves within the grace.
        player.push(if n % 2 == 0 {
            answer(json!([{"text": "begun"}, {"stall": true}]))
        } else {
            answer(json!([{"text": "begun"}, {"delay_ms": 700}, {"text": " and ended"}]))
        });
        let mut stream = proxy.open(streaming(&body()).to_string(), &[]).await;
        stream.until("begun").await;
        open.push(stream);
    }
    proxy.terminate().await;
    proxy.logged("stopping").await;
    // The listener goes first; nobody tells when it is gone.
    while TcpStream::connect(proxy.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let (mut completed, mut failed) = (0, 0);
    for stream in open {
        let stream = stream.rest().await.stream();
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
    assert_eq!(proxy.ended().await.code(), Some(0));
    let log = proxy.log();
    assert_eq!(log.matches(" failed after ").count(), failed, "{log}");
}

async fn idle() {
    let player = player().await;
    let setup = Setup::new().server("grace = \"10m\"");
    let mut proxy = Proxy::with(&player, setup).await;
    assert_eq!(proxy.get("/healthz").await.status, 200);
    proxy.terminate().await;
    assert_eq!(proxy.ended().await.code(), Some(0));
}
