//! Tools of MCP servers in background responses.
use kit::mcp::{McpAnswer, McpPlayer, tool};
use kit::player::PlayerWire;
use serde_json::{Value, json};

use super::{defined, proxy, request};
use crate::faults::{answer, player};
use crate::stored::background::path_of;
use crate::web_search::web::call;

/// Promise: A background response shows which tools run: who asks for it meanwhile gets the items
/// so far, and who reads its events gets them at once. It can be cancelled while a tool runs.
#[kit::test(on_each_wire)]
async fn a_background_response_shows_the_tools_that_run(wire: PlayerWire) {
    let server = McpPlayer::start(vec![tool("look", true)], |_, _| McpAnswer::Silence);
    let server = server.await.unwrap();
    let player = player(wire).await;
    let proxy = proxy(&player, &server).await;
    let part = json!({"q": "up"});
    player.push(answer(
        json!([{"text": "I look."}, call("c1", "docs__look", &part)]),
    ));
    let mut asked = request("What is there?", &[defined("docs", &server)]);
    asked["background"] = json!(true);
    asked["stream"] = json!(true);
    let mut open = proxy.open(asked.to_string(), &[]).await;
    open.read_until("response.mcp_call_arguments.done").await;
    let created = open
        .text
        .lines()
        .find_map(|line| line.strip_prefix("data: "))
        .unwrap();
    let created: Value = serde_json::from_str(created).unwrap();
    let path = path_of(&created["response"]);
    let running = proxy.get(&path).await;
    kit::strict::check_running(&running.body).unwrap();
    let running: Value = serde_json::from_str(&running.body).unwrap();
    assert_eq!(running["status"], "in_progress");
    let items = running["output"].as_array().unwrap();
    let shown: Vec<String> = items
        .iter()
        .map(|item| format!("{} {}", item["type"], item["status"]).replace('"', ""))
        .collect();
    let expected = [
        "mcp_list_tools null",
        "message completed",
        "mcp_call in_progress",
    ];
    assert_eq!(shown, expected);
    assert_eq!(items[2]["name"], "look");
    let mut other = proxy.open_events(&format!("{path}?stream=true")).await;
    other.read_until("response.mcp_call_arguments.done").await;
    let cancelled = proxy
        .post_to(&format!("{path}/cancel"), &json!({}), &[])
        .await;
    let cancelled: Value = serde_json::from_str(&cancelled.body).unwrap();
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
    let stored: Value = serde_json::from_str(&proxy.get(&path).await.body).unwrap();
    assert_eq!(stored, cancelled);
    assert_eq!(server.calls().len(), 1);
}
