//! The end of connections: shutdown, and their lifetime.

use serde_json::json;

use super::client::{ServerFrame, Socket, is_terminal};
use crate::faults::answer;
use crate::proxy::{Proxy, Setup};
use crate::stored::{asks, provider};

#[kit::test]
async fn a_shutdown_ends_idle_connections_with_a_code() {
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

/// Promise: On SIGTERM a WebSocket lets its running turns end, refuses those that have not begun,
/// and ends with code 1012. At the end of its lifetime it does the same with the error
/// `websocket_connection_limit_reached` and code 1000.
#[kit::test]
async fn a_shutdown_lets_running_turns_end_and_no_others_begin() {
    let player = provider(&[]).await;
    player.push(answer(
        json!([{"text": "begun"}, {"gate": true}, {"text": " and ended"}]),
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
    while !is_terminal(events.last().unwrap()) {
        let event = socket.event().await;
        if event["type"] == "error" {
            assert_eq!(event["status"], 503, "{event}");
            refused += 1;
            player.open_gate();
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

#[kit::test]
async fn a_turn_that_does_not_end_in_time_fails() {
    let player = provider(&[]).await;
    player.push(answer(json!([{"text": "begun"}, {"stall": true}])));
    let setup = Setup::new().server("grace = \"300ms\"");
    let mut proxy = Proxy::start_with(&player, setup).await;
    let mut socket = Socket::open(&proxy).await;
    socket.create(&asks("go", json!({}))).await;
    let first = socket.event().await;
    proxy.terminate();
    let mut events = vec![first];
    while !is_terminal(events.last().unwrap()) {
        events.push(socket.event().await);
    }
    assert_eq!(socket.check(&events).terminal, "response.failed");
    assert_eq!(socket.closed().await.0, 1012);
    drop(socket);
    assert_eq!(proxy.wait_for_exit().await.code(), Some(0));
}

#[kit::test]
async fn a_connection_ends_when_it_has_lasted_as_long_as_it_may() {
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

#[kit::test]
async fn a_running_turn_ends_before_its_connection() {
    let player = provider(&[]).await;
    let slow = json!([{"text": "begun"}, {"delay_ms": 2_500}, {"text": " and ended"}]);
    player.push(answer(slow));
    let setup = Setup::new().server("websocket_lifetime = \"2s\"");
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
