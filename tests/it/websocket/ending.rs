//! The end of connections: shutdown, and their lifetime.

use libtest_mimic::Trial;
use serde_json::json;

use super::client::{ServerFrame, Socket};
use crate::faults::answer;
use crate::proxy::{Proxy, Setup};
use crate::stored::{asks, provider};
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    vec![
        case(
            "R66 websocket: a shutdown ends idle connections with a code",
            idle,
        ),
        case(
            "R66 websocket: a shutdown lets running turns end, and no others begin",
            running,
        ),
        case(
            "R66 websocket: a turn that does not end in time fails",
            failing,
        ),
        case(
            "R66 websocket: a connection ends when it has lasted as long as it may",
            expired,
        ),
        case(
            "R66 websocket: a running turn ends before its connection",
            expired_while_running,
        ),
    ]
}

async fn idle() {
    let player = provider(&[]).await;
    let setup = Setup::new().server("grace = \"10m\"");
    let mut proxy = Proxy::start_with(&player, setup).await;
    let mut socket = Socket::open(&proxy).await;
    proxy.terminate();
    assert_eq!(
        socket.closed().await,
        (1012, "the server is restarting".to_owned())
    );
    drop(socket);
    assert_eq!(proxy.wait_for_exit().await.code(), Some(0));
}

async fn running() {
    let player = provider(&[]).await;
    player.push(answer(
        json!([{"text": "begun"}, {"delay_ms": 700}, {"text": " and ended"}]),
    ));
    let setup = Setup::new().server("grace = \"10m\"");
    let mut proxy = Proxy::start_with(&player, setup).await;
    let mut socket = Socket::open(&proxy).await;
    socket.create(&asks("go", json!({}))).await;
    let mut events = vec![socket.event().await];
    socket.create(&asks("waits", json!({}))).await;
    proxy.terminate();
    proxy.wait_for_log("stopping").await;
    let mut refused = 0;
    while !super::client::is_terminal(events.last().unwrap()) {
        let event = socket.event().await;
        if event["type"] == "error" {
            assert_eq!(event["status"], 503, "{event}");
            refused += 1;
        } else {
            events.push(event);
        }
    }
    assert_eq!(socket.check(&events).text(), "begun and ended");
    assert_eq!(refused, 1);
    assert_eq!(socket.closed().await.0, 1012);
    drop(socket);
    assert_eq!(proxy.wait_for_exit().await.code(), Some(0));
    assert_eq!(player.requests().len(), 1);
}

async fn failing() {
    let player = provider(&[]).await;
    player.push(answer(json!([{"text": "begun"}, {"stall": true}])));
    let setup = Setup::new().server("grace = \"300ms\"");
    let mut proxy = Proxy::start_with(&player, setup).await;
    let mut socket = Socket::open(&proxy).await;
    socket.create(&asks("go", json!({}))).await;
    let first = socket.event().await;
    proxy.terminate();
    let mut events = vec![first];
    while !super::client::is_terminal(events.last().unwrap()) {
        events.push(socket.event().await);
    }
    assert_eq!(socket.check(&events).terminal, "response.failed");
    assert_eq!(socket.closed().await.0, 1012);
    drop(socket);
    assert_eq!(proxy.wait_for_exit().await.code(), Some(0));
}

async fn expired() {
    let player = provider(&[]).await;
    let setup = Setup::new().server("websocket_lifetime = \"200ms\"");
    let proxy = Proxy::start_with(&player, setup).await;
    let mut socket = Socket::open(&proxy).await;
    assert_eq!(
        socket.error(400).await,
        "websocket_connection_limit_reached"
    );
    assert_eq!(socket.closed().await.0, 1000);
    assert_eq!(socket.next().await, ServerFrame::End);
}

async fn expired_while_running() {
    let player = provider(&[]).await;
    let slow = json!([{"text": "begun"}, {"delay_ms": 900}, {"text": " and ended"}]);
    player.push(answer(slow));
    let setup = Setup::new().server("websocket_lifetime = \"500ms\"");
    let proxy = Proxy::start_with(&player, setup).await;
    let mut socket = Socket::open(&proxy).await;
    socket.create(&asks("go", json!({}))).await;
    assert_eq!(socket.stream_on(None).await.text(), "begun and ended");
    assert_eq!(
        socket.error(400).await,
        "websocket_connection_limit_reached"
    );
    assert_eq!(socket.closed().await.0, 1000);
}
