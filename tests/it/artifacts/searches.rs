//! Searches that would take minutes: they hold up neither other searches nor the end of the
//! server, and a client that leaves ends its own.
use std::time::Duration;

use adapters::plan::output::artifact_id;
use kit::player::PlayerWire;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{server, tool_call};
use crate::faults::{answer, player};
use crate::proxy::{Proxy, Setup};

/// A regular expression that is slow in [`slow_text`].
const SLOW: &str = "a[ab]{400}c";

/// A single line of several megabytes without a match of [`SLOW`].
fn slow_text() -> String {
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        if state >> 63 == 0 { 'a' } else { 'b' }
    };
    (0..8 << 20).map(|_| next()).collect()
}

/// How long a search runs before its client leaves. If it has not begun by then, nothing is left
/// to be stopped, and the test shows nothing.
const BEGUN: Duration = Duration::from_millis(300);

/// In this time a search has ended that was stopped. One that goes on takes longer.
const STOPPED: Duration = Duration::from_secs(15);

#[kit::test]
async fn the_search_of_a_client_that_left_is_stopped() {
    let server = server(&[&slow_text(), "little"]).await;
    let slow = format!("/v1/artifacts/{}/search?q={SLOW}&regex=true", server.ids[0]);
    let tool = tool_call(
        1,
        "artifact_search",
        json!({"id": server.ids[0], "query": SLOW, "regex": true}),
    );
    for _ in 0..2 {
        let search = tokio::time::timeout(BEGUN, server.get(&slow)).await;
        assert!(search.is_err(), "{search:?}");
        let search = tokio::time::timeout(BEGUN, server.mcp(&tool)).await;
        assert!(search.is_err(), "{search:?}");
    }
    // All four have used the places of slow searches.
    let little = format!("/v1/artifacts/{}/search?q=l.t&regex=true", server.ids[1]);
    let found = tokio::time::timeout(STOPPED, server.get(&little)).await;
    let found = found.expect("the searches of clients that left go on");
    assert_eq!((found.status, &found.json()["matches"]), (200, &json!(1)));
}

#[kit::test]
async fn slow_searches_do_not_hold_up_a_search_for_a_text() {
    let server = server(&[&slow_text(), "little"]).await;
    let slow = format!("/v1/artifacts/{}/search?q={SLOW}&regex=true", server.ids[0]);
    let quick = format!("/v1/artifacts/{}/search?q=itt", server.ids[1]);
    let slow = async { tokio::join!(server.get(&slow), server.get(&slow), server.get(&slow)) };
    let quick = async {
        tokio::time::sleep(BEGUN).await;
        server.get(&quick).await
    };
    tokio::select! {
        found = quick => {
            assert_eq!((found.status, &found.json()["matches"]), (200, &json!(1)));
        }
        slow = slow => panic!("the slow searches ended first: {}", slow.0.status),
    }
}

#[kit::test]
async fn a_search_does_not_keep_the_server_from_ending() {
    let text = slow_text();
    let player = player(PlayerWire::Chat).await;
    player.push(answer(json!([{"text": "I have seen it."}])));
    let setup = Setup::new().server("data_dir = \"data\"\ngrace = \"1s\"");
    let mut proxy = Proxy::start_with(&player, setup).await;
    let input = json!([
        {"role": "user", "content": "go"},
        {"type": "function_call", "call_id": "call_1", "name": "run", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": text},
    ]);
    proxy.response(&json!({"model": "m", "input": input})).await;
    let path = format!(
        "/v1/artifacts/{}/search?q={SLOW}&regex=true",
        artifact_id(&text)
    );
    let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", proxy.address);
    let mut search = TcpStream::connect(proxy.address).await.unwrap();
    search.write_all(request.as_bytes()).await.unwrap();
    let reply = tokio::time::timeout(BEGUN, search.read_u8()).await;
    assert!(reply.is_err(), "{reply:?}");
    proxy.terminate();
    let exit = tokio::time::timeout(STOPPED, proxy.wait_for_exit()).await;
    let exit = exit.expect("the search keeps the server from ending");
    assert_eq!(exit.code(), Some(0));
}
