//! Several conversations on one connection.

use kit::player::PlayerWire;
use serde_json::{Value, json};

use super::client::{Socket, is_terminal};
use crate::faults::{answer, player, repeating_player};
use crate::proxy::Proxy;
use crate::stored::{asks, messages, provider, says};

/// A request on a lane that is not stored.
fn on(lane: &str, input: &str, more: Value) -> Value {
    let mut request = asks(input, more);
    request["store"] = false.into();
    request["stream_id"] = lane.into();
    request
}

/// Reads messages until the answers of so many lanes have ended. Returns them by their lanes, in
/// the order in which they ended.
async fn ended(socket: &mut Socket, lanes: usize) -> Vec<(String, Vec<Value>)> {
    let mut open: Vec<(String, Vec<Value>)> = Vec::new();
    let mut ended = Vec::new();
    while ended.len() < lanes {
        let event = socket.event().await;
        let lane = event["stream_id"].as_str().unwrap().to_owned();
        let at = open.iter().position(|(name, _)| *name == lane);
        let at = at.unwrap_or_else(|| {
            open.push((lane, Vec::new()));
            open.len() - 1
        });
        let is_last = is_terminal(&event);
        open[at].1.push(event);
        if is_last {
            ended.push(open.remove(at));
        }
    }
    ended
}

/// Promise: Over a WebSocket the turns of a lane run in order, those of different lanes at the same
/// time, sixteen at once; every message names its lane, and a lane may continue a response of
/// another. Names and waiting requests are limited.
#[kit::test]
async fn turns_of_a_lane_run_in_order_and_name_it() {
    let player = provider(&["one", "two", "three"]).await;
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open(&proxy).await;
    for input in ["1", "2", "3"] {
        socket.create(&on("main", input, json!({}))).await;
    }
    for text in ["one", "two", "three"] {
        assert_eq!(socket.stream_on(Some("main")).await.text(), text);
    }
    for (number, input) in ["1", "2", "3"].iter().enumerate() {
        assert_eq!(messages(&player, number), [format!("user: {input}")]);
    }
    // An error names the lane, and the lane goes on.
    let unknown = json!({"previous_response_id": "resp_unknown"});
    socket.create(&on("main", "4", unknown)).await;
    let error = socket.event().await;
    assert_eq!(error["stream_id"], "main");
    assert_eq!(error["error"]["code"], "previous_response_not_found");
    player.push(says("four"));
    socket.create(&on("main", "4", json!({}))).await;
    assert_eq!(socket.stream_on(Some("main")).await.text(), "four");
}

#[kit::test]
async fn turns_of_different_lanes_run_at_the_same_time() {
    let player = player(PlayerWire::Chat).await;
    player.push(answer(
        json!([{"text": "slow"}, {"gate": true}, {"text": " end"}]),
    ));
    player.push(says("quick"));
    player.push(says("next"));
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open(&proxy).await;
    socket.create(&on("slow", "1", json!({}))).await;
    let mut begun = Vec::new();
    while begun
        .last()
        .is_none_or(|event: &Value| event["type"] != "response.output_text.delta")
    {
        begun.push(socket.event().await);
    }
    socket.create(&on("quick", "2", json!({}))).await;
    assert_eq!(socket.stream_on(Some("quick")).await.text(), "quick");
    // The lane without a name is one of them.
    assert_eq!(socket.turn(&asks("3", json!({}))).await.text(), "next");
    player.open_gate();
    begun.extend(ended(&mut socket, 1).await.remove(0).1);
    assert_eq!(socket.check(&begun).text(), "slow end");
}

#[kit::test]
async fn a_lane_goes_on_from_a_response_of_another_lane() {
    let player = provider(&["plan", "critique"]).await;
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open(&proxy).await;
    socket.create(&on("planner", "Plan.", json!({}))).await;
    let plan = socket.stream_on(Some("planner")).await.response;
    let more = json!({"previous_response_id": plan["id"]});
    socket.create(&on("critic", "Find gaps.", more)).await;
    socket.stream_on(Some("critic")).await;
    assert_eq!(
        messages(&player, 1),
        ["user: Plan.", "assistant: plan", "user: Find gaps."]
    );
}

#[kit::test]
async fn sixteen_lanes_run_at_once_and_others_wait() {
    let player = player(PlayerWire::Chat).await;
    player.push(answer(
        json!([{"text": "a"}, {"gate": true}, {"text": "b"}]),
    ));
    for _ in 0..15 {
        player.push(answer(json!([{"text": "a"}, {"stall": true}])));
    }
    player.push(says("last"));
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open(&proxy).await;
    for number in 0..16 {
        socket
            .create(&on(&format!("lane{number}"), "go", json!({})))
            .await;
        player.wait_requests(number + 1).await;
    }
    socket.create(&on("lane16", "go", json!({}))).await;
    player.open_gate();
    let ended = ended(&mut socket, 2).await;
    let order: Vec<&str> = ended.iter().map(|(lane, _)| lane.as_str()).collect();
    assert_eq!(order, ["lane0", "lane16"]);
    for (_, events) in &ended {
        socket.check(events);
    }
    assert_eq!(player.requests().len(), 17);
    drop(socket);
    for number in 1..16 {
        player.wait_closed(number).await;
    }
}

#[kit::test]
async fn a_connection_has_32_lanes_with_names() {
    let player = provider(&["a", "b"]).await;
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open(&proxy).await;
    for number in 0..32 {
        let lane = format!("lane{number}");
        socket
            .create(&on(&lane, "go", json!({"generate": false})))
            .await;
        socket.stream_on(Some(&lane)).await;
    }
    proxy
        .wait_for_metric("respondent_websocket_lanes", "", 32.0)
        .await;
    socket.create(&on("one-more", "go", json!({}))).await;
    let error = socket.event().await;
    assert_eq!(error["error"]["code"], "websocket_stream_limit_reached");
    assert_eq!(
        (&error["status"], &error["stream_id"]),
        (&json!(400), &json!("one-more"))
    );
    socket.create(&on("lane7", "go", json!({}))).await;
    assert_eq!(socket.stream_on(Some("lane7")).await.text(), "a");
    assert_eq!(socket.turn(&asks("go", json!({}))).await.text(), "b");
}

#[kit::test]
async fn a_connection_has_64_waiting_requests() {
    let stalling = answer(json!([{"text": "a"}, {"stall": true}]));
    let player = repeating_player(PlayerWire::Chat, stalling).await;
    let proxy = Proxy::start(&player).await;
    let mut socket = Socket::open(&proxy).await;
    socket.create(&asks("go", json!({}))).await;
    socket.until("response.output_text.delta").await;
    for _ in 0..65 {
        socket.create(&asks("go", json!({}))).await;
    }
    assert_eq!(socket.error(429).await, "rate_limit_exceeded");
}
