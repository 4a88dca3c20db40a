//! What one answer costs: at most four times its size, whatever it goes through.

use kit::harness::rows;
use kit::player::PlayerWire;
use serde_json::{Value, json};

use super::{asks, get, id, ok};
use crate::faults::{answer, player};
use crate::proxy::{Proxy, Setup};

/// The ways in which an answer comes.
const WAYS: [&str; 6] = [
    "streamed",
    "whole",
    "not stored",
    "in the background",
    "as reasoning",
    "as a call",
];

/// The bytes of the answer.
const SIZE: usize = 7 << 20;
/// The bytes of the pieces in which it comes.
const PIECE: usize = 64 << 10;
/// The most that it costs besides, whatever its size.
const BESIDES: usize = 4 << 20;

#[test]
fn an_answer_costs_at_most_four_times_its_size() {
    let ways = PlayerWire::ALL
        .into_iter()
        .flat_map(|wire| WAYS.map(|way| (format!("{way}, {}", wire.name()), (wire, way))));
    rows(ways, |(wire, way)| costs(wire, way));
}

async fn costs(wire: PlayerWire, way: &str) {
    let player = player(wire).await;
    let proxy = Proxy::start_with(&player, Setup::new().counted()).await;
    let piece = "a word ".repeat(PIECE / 7);
    let pieces = SIZE / PIECE;
    let text = || json!(vec![json!({"text": piece}); pieces]);
    let (steps, more) = match way {
        "whole" => (text(), json!({})),
        "not stored" => (text(), json!({"stream": true, "store": false})),
        "in the background" => (text(), json!({"background": true})),
        // Its item has it twice: to be shown, and to be sent back.
        "as reasoning" => (
            json!(vec![json!({"reasoning": piece}); pieces / 2]),
            json!({"stream": true}),
        ),
        "as a call" => {
            let arguments = json!({"text": piece.repeat(pieces)}).to_string();
            let call = json!({"id": "c", "name": "f", "arguments": arguments, "pieces": pieces});
            let tools =
                json!([{"type": "function", "name": "f", "parameters": {"type": "object"}}]);
            (
                json!([{"call": call}]),
                json!({"stream": true, "tools": tools}),
            )
        }
        _ => (text(), json!({"stream": true})),
    };
    player.push(answer(steps));
    let before = proxy.live_bytes().now;
    let most = run(&proxy, &asks("hi", more)).await - before;
    assert!(most < 4 * SIZE + BESIDES, "{} MiB", most >> 20);
}

/// Runs a turn to its end. Returns the most bytes that lived meanwhile.
async fn run(proxy: &Proxy, body: &Value) -> usize {
    let reply = proxy.post(body).await;
    if body["background"] == true {
        let path = format!("/v1/responses/{}", id(&ok(&reply)));
        // The response would be large.
        while proxy.metric("respondent_jobs", "").await > 0.0 {
            tokio::task::yield_now().await;
        }
        let live = proxy.live_bytes();
        assert_eq!(get(proxy, &path).await["status"], "completed");
        live.peak
    } else {
        assert_eq!(reply.status, 200, "{:.300}", reply.body);
        proxy.live_bytes().peak
    }
}
