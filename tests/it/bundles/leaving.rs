//! Bundles for clients that leave.
use std::time::Duration;

use kit::player::PlayerWire;
use serde_json::json;

use crate::faults::{answer, repeating_player};
use crate::proxy::{Proxy, Setup};

/// How many turns there are in a bundle.
const TURNS: usize = 40;
/// How long a bundle is in the making before its client leaves.
const BEGUN: Duration = Duration::from_millis(300);
/// In this time work has ended that was stopped. All of it would take three times as long.
const STOPPED: Duration = Duration::from_secs(12);

/// Promise: Work on recorded turns for a client, such as a bundle or the list, runs one at a time,
/// counts its copies in the memory of the process, and ends soon when its client has left.
#[kit::test]
async fn a_bundle_for_a_client_that_left_is_not_made() {
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "I see."}]))).await;
    let setup = Setup::new().tables("[capture]\nrecent = 50\nmemory = 50_000_000\n");
    let proxy = Proxy::start_with(&player, setup).await;
    let text = "A sentence with an address: https://example.com/a?b=c and a word. ".repeat(10_000);
    for _ in 0..TURNS {
        proxy.response(&json!({"model": "m", "input": text})).await;
    }
    for _ in 0..3 {
        let bundle = proxy.get("/diagnostics/bundle?select=since:86400");
        let bundle = tokio::time::timeout(BEGUN, bundle).await;
        assert!(bundle.is_err(), "it was made at once");
    }
    // It waits for the work before.
    let listed = proxy.get("/diagnostics/turns");
    let listed = tokio::time::timeout(STOPPED, listed).await;
    let listed = listed.expect("the work for clients that left goes on");
    let listed: serde_json::Value = serde_json::from_str(&listed.body).unwrap();
    assert_eq!(listed["turns"].as_array().map(Vec::len), Some(TURNS));
}
