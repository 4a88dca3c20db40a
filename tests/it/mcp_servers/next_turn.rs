//! What later turns and replays see of the tools of MCP servers.
use std::sync::Arc;

use arc_swap::ArcSwap;
use kit::mcp::{McpAnswer, McpPlayer, tool};
use kit::player::{Player, PlayerWire};
use respondent::config::Config;
use respondent::config::mcp_servers::AllowedHost;
use respondent::tools::combined::CombinedTools;
use respondent::tools::mcp_servers::McpServers;
use serde_json::{Value, json};

use super::{McpClient, defined, kinds, proxy, request};
use crate::faults::{answer, player};
use crate::rounds::server::{RoundClient, RoundServer, check_replay_of, history};
use crate::stored::says;
use crate::web_search::web::{call, without_hosted_tools};

/// A secret of the request, which no recording has.
const TOKEN: &str = "canary-token-30c1f8";

async fn server() -> McpPlayer {
    let server = McpPlayer::start(vec![tool("look", true)], |_, _| McpAnswer::text("seen"));
    server.await.unwrap()
}

/// Promise: The next turn of a conversation that used an MCP server begins with the bytes of the
/// one before, lists the tools from memory, and does not show them again, whether the client sends
/// the items back or names the response.
#[kit::test(on_each_wire)]
async fn the_next_turn_keeps_its_prefix(wire: PlayerWire) {
    for client in McpClient::ALL {
        for is_continued in [false, true] {
            let server = server().await;
            let player = player(wire).await;
            let proxy = proxy(&player, &server).await;
            player.push(answer(json!([
                {"text": "I look."}, call("c1", "docs__look", &json!({"q": "x"}))
            ])));
            player.push(says("Seen."));
            player.push(says("Again."));
            let question = json!({"role": "user", "content": "What is there?"});
            let more = json!({"role": "user", "content": "And now?"});
            let servers = [defined("docs", &server)];
            let first = client
                .ask(&proxy, &request(json!([question]), &servers))
                .await;
            let asked = if is_continued {
                let mut asked = request(json!([more]), &servers);
                asked["previous_response_id"] = first["id"].clone();
                asked
            } else {
                let mut items = vec![question];
                items.extend(first["output"].as_array().unwrap().iter().cloned());
                items.push(more);
                request(json!(items), &servers)
            };
            let second = client.ask(&proxy, &asked).await;
            assert_eq!(kinds(&second), ["message"], "{client:?} {second}");
            let sent = player.requests();
            let [before, after] = [1, 2].map(|at| history(&sent[at]));
            let (before, after) = (before.as_array().unwrap(), after.as_array().unwrap());
            let kept = &after[..before.len()];
            assert_eq!(kept, before, "{client:?} {is_continued}");
            assert_eq!(sent[2].json()["tools"], sent[1].json()["tools"]);
            assert_eq!(server.count("tools/list"), 1);
            assert_eq!(server.calls().len(), 1);
        }
    }
}

/// A server that records its turns, and lets requests name this MCP server.
fn recording(player: &Player, server: &McpPlayer, wire: PlayerWire) -> RoundServer {
    let host = AllowedHost::parse(&server.address().to_string()).unwrap();
    let mut config = Config::default();
    config.mcp.allowed_hosts = vec![host];
    let servers = McpServers::new(Arc::new(ArcSwap::from_pointee(config)));
    let tools = CombinedTools::new(vec![Arc::new(servers)]);
    RoundServer::with_tools(&[player], Arc::new(tools), without_hosted_tools(wire))
}

/// Promise: A recorded turn that used an MCP server is replayed without it.
#[kit::test(on_each_wire)]
async fn a_turn_with_a_server_is_replayed_without_it(wire: PlayerWire) {
    let server = server().await;
    let player = player(wire).await;
    let rounds = recording(&player, &server, wire);
    player.push(answer(json!([call(
        "c1",
        "docs__look",
        &json!({"q": "x"})
    )])));
    player.push(says("Seen."));
    let mut named = defined("docs", &server);
    named["authorization"] = json!(TOKEN);
    let mut asked: Value = request("hi", &[named]);
    asked["model"] = json!("acme/m");
    let response = rounds.answer(&asked, RoundClient::Streaming).await;
    assert_eq!(kinds(&response), ["mcp_list_tools", "mcp_call", "message"]);
    let before = server.requests();
    assert!(before[0].head.contains(TOKEN), "{}", before[0].head);
    let recorded = rounds.recording();
    let body = String::from_utf8(recorded.request.body.clone()).unwrap();
    let recorded_text = serde_json::to_string(&recorded).unwrap();
    assert!(!body.contains(TOKEN) && !recorded_text.contains(TOKEN));
    check_replay_of(&recorded);
    assert_eq!(server.requests().len(), before.len());
}

/// Promise: Turns that ask for an approval, and turns that run an approved call, are replayed
/// without the MCP server.
#[kit::test(on_each_wire)]
async fn turns_with_approvals_are_replayed(wire: PlayerWire) {
    let server = server().await;
    let player = player(wire).await;
    let rounds = recording(&player, &server, wire);
    let mut named = defined("docs", &server);
    named["require_approval"] = json!("always");
    let ask = |items: Value| {
        let mut asked: Value = request(items, std::slice::from_ref(&named));
        asked["model"] = json!("acme/m");
        asked
    };
    let mut items = vec![json!({"role": "user", "content": "Look."})];
    let made = call("c1", "docs__look", &json!({"q": "x"}));
    player.push(answer(json!([made])));
    let response = rounds
        .answer(&ask(json!(items)), RoundClient::Streaming)
        .await;
    check_replay_of(&rounds.recording());
    let asked = response["output"].as_array().unwrap();
    items.extend(asked.iter().cloned());
    items.push(json!({
        "type": "mcp_approval_response", "approve": true,
        "approval_request_id": asked.last().unwrap()["id"],
    }));
    player.push(says("Seen."));
    let response = rounds
        .answer(&ask(json!(items)), RoundClient::Streaming)
        .await;
    assert_eq!(response["output"][0]["output"], "seen", "{response}");
    check_replay_of(&rounds.recording());
    assert_eq!(server.calls().len(), 1);
}
