//! A model calls tools of MCP servers.
use kit::mcp::{McpAnswer, McpPlayer, tool};
use kit::player::PlayerWire;
use serde_json::json;

use super::{McpClient, defined, kinds, proxy, request};
use crate::artifacts::in_turns::{offered, result};
use crate::faults::{answer, player};
use crate::web_search::web::call;

/// Promise: A request may name an MCP server. The server lists its tools, the model of any provider
/// calls them, and the client sees both and the answer, in the foreground, in the background and
/// over WebSocket.
#[kit::test(on_each_wire)]
async fn a_model_calls_a_tool_of_an_mcp_server(wire: PlayerWire) {
    for client in McpClient::ALL {
        let server = McpPlayer::start(vec![tool("look", true)], |name, arguments| {
            McpAnswer::text(&format!("{name} {arguments}"))
        });
        let server = server.await.unwrap();
        let player = player(wire).await;
        let proxy = proxy(&player, &server).await;
        let part = json!({"q": "up"});
        player.push(answer(json!([
            {"text": "I look."}, call("c1", "docs__look", &part)
        ])));
        player.push(answer(json!([{"text": "Seen."}])));
        let asked = request("What is there?", &[defined("docs", &server)]);
        let response = client.ask(&proxy, &asked).await;
        assert_eq!(response["status"], "completed", "{client:?} {response}");
        let expected = ["mcp_list_tools", "message", "mcp_call", "message"];
        assert_eq!(kinds(&response), expected, "{client:?}");
        let list = &response["output"][0];
        assert_eq!(list["server_label"], "docs");
        assert_eq!(list["tools"][0]["name"], "look");
        assert_eq!(list["tools"][0]["annotations"], json!({"read_only": true}));
        assert_eq!(list["error"], json!(null));
        let called = &response["output"][2];
        assert_eq!([&called["server_label"], &called["name"]], ["docs", "look"]);
        assert_eq!(called["output"], r#"look {"q":"up"}"#);
        assert_eq!(called["status"], "completed");
        assert_eq!(response["output"][3]["content"][0]["text"], "Seen.");
        assert_eq!(response["tools"], asked["tools"], "{client:?}");
        let sent = player.requests();
        assert_eq!(sent.len(), 2);
        for sent in &sent {
            assert_eq!(offered(sent), ["docs__look"], "{client:?}");
            assert!(!sent.body.contains("not available"), "{}", sent.body);
            assert!(!sent.body.contains("server_url"), "{}", sent.body);
        }
        assert_eq!(result(&sent[1], "c1"), r#"look {"q":"up"}"#);
        assert_eq!(server.calls(), [json!({"name": "look", "arguments": part})]);
    }
}
