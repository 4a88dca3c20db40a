//! SIGTERM while turns are running.
use std::time::Duration;

use kit::player::PlayerWire;
use rustix::process::Signal;
use serde_json::json;
use tokio::fs::OpenOptions;
use tokio::net::TcpStream;
use tokio::process::Command;

use super::{answer, body, player};
use crate::proxy::{Proxy, Setup, streaming};

const STREAMS: usize = 50;

/// When the last stream has ended, the server ends in three seconds, or a little later on a busy
/// machine.
const ENDED: Duration = Duration::from_secs(20);

async fn exit_code(proxy: &mut Proxy) -> Option<i32> {
    let exit = tokio::time::timeout(ENDED, proxy.wait_for_exit()).await;
    exit.expect("the server does not end").code()
}

#[kit::test(on_each_wire)]
async fn sigterm_ends_fifty_streams_in_order(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start_with(&player, Setup::new().server("grace = \"2s\"")).await;
    let mut replies = Vec::new();
    for n in 0..STREAMS {
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
    proxy.terminate();
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
        failed >= STREAMS / 2 && completed + failed == STREAMS,
        "{completed}, {failed}"
    );
    let mut proxy = proxy;
    assert_eq!(exit_code(&mut proxy).await, Some(0));
    let log = proxy.log();
    assert_eq!(log.matches(" \u{2717} ").count(), failed, "{log}");
}

#[kit::test(on_each_wire)]
async fn sigterm_without_turns_ends_the_server_at_once(wire: PlayerWire) {
    let player = player(wire).await;
    let setup = Setup::new().server("grace = \"10m\"");
    let mut proxy = Proxy::start_with(&player, setup).await;
    assert_eq!(proxy.get("/healthz").await.status, 200);
    proxy.terminate();
    assert_eq!(proxy.wait_for_exit().await.code(), Some(0));
}

/// The server reads its configuration anew; nothing can stop that.
#[kit::test(on_each_wire)]
async fn a_file_that_blocks_its_reader_does_not_keep_the_server_from_ending(wire: PlayerWire) {
    let player = player(wire).await;
    let mut proxy = Proxy::start(&player).await;
    let file = proxy.folder.path().join("proxy-config.toml");
    let pipe = proxy.folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().await.unwrap();
    assert!(made.success());
    std::fs::rename(&pipe, &file).unwrap();
    // This waits for the reader, who then waits for what is never written.
    let opened = OpenOptions::new().write(true).open(&file).await;
    proxy.terminate();
    assert_eq!(exit_code(&mut proxy).await, Some(0));
    drop(opened.unwrap());
}

/// Promise: A second SIGTERM or SIGINT ends the grace period.
#[kit::test(on_each_wire)]
async fn a_second_sigterm_or_ctrl_c_does_not_wait_for_running_turns(wire: PlayerWire) {
    let player = player(wire).await;
    let setup = Setup::new().server("grace = \"10m\"");
    // Ctrl-C sends SIGINT.
    for (first, second) in [
        (Signal::TERM, Signal::TERM),
        (Signal::INT, Signal::INT),
        (Signal::TERM, Signal::INT),
        (Signal::INT, Signal::TERM),
    ] {
        let mut proxy = Proxy::start_with(&player, setup.clone()).await;
        player.push(answer(json!([{"text": "begun"}, {"stall": true}])));
        let mut reply = proxy.open(streaming(&body()).to_string(), &[]).await;
        reply.read_until("begun").await;
        proxy.send_signal(first);
        let waiting = "stopping: 1 turn is still running, waiting up to 600 s";
        proxy.wait_for_log(waiting).await;
        proxy.send_signal(second);
        proxy.wait_for_log("stopping now").await;
        let stream = reply.read_to_end().await.stream();
        assert_eq!(stream.terminal, "response.failed");
        assert_eq!(proxy.wait_for_exit().await.code(), Some(0));
    }
}
