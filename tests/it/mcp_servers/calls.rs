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

/// Promise: A call of a tool that an MCP server of the request does not have never reaches the
/// client: the model reads which tools the server has, and goes on. Any other unknown name, and a
/// function of the client whatever its name is, is a call of the client.
#[kit::test(on_each_wire)]
async fn a_tool_that_a_server_does_not_have_is_told(wire: PlayerWire) {
    for client in McpClient::ALL {
        let server = McpPlayer::start(vec![tool("look", true), tool("read", true)], |_, _| {
            McpAnswer::text("seen")
        });
        let server = server.await.unwrap();
        let player = player(wire).await;
        let proxy = proxy(&player, &server).await;
        let part = json!({"q": "up"});
        player.push(answer(json!([
            call("c1", "docs__nope", &part),
            call("c2", "docs__look", &part),
        ])));
        player.push(answer(json!([{"text": "Seen."}])));
        let own = json!({
            "type": "function", "name": "docs__mine", "parameters": {"type": "object"},
        });
        let asked = request("hi", &[defined("docs", &server), own]);
        let response = client.ask(&proxy, &asked).await;
        let expected = ["mcp_list_tools", "mcp_call", "message"];
        assert_eq!(kinds(&response), expected, "{client:?}");
        let told = result(&player.requests()[1], "c1");
        assert!(told.contains("There is no tool 'docs__nope'."), "{told}");
        assert!(told.contains("docs__look, docs__read."), "{told}");
        assert_eq!(server.calls().len(), 1, "{client:?}");
        for name in ["nope", "docs__mine"] {
            player.push(answer(json!([call("c3", name, &json!({}))])));
            let response = client.ask(&proxy, &asked).await;
            assert_eq!(kinds(&response).last(), Some(&"function_call"), "{name}");
        }
    }
    // A server that cannot be asked for its tools.
    let server = McpPlayer::answering(|_, _| Some(McpAnswer::Status(500)));
    let server = server.await.unwrap();
    let player = player(wire).await;
    let proxy = proxy(&player, &server).await;
    player.push(answer(json!([call(
        "c1",
        "docs__look",
        &json!({"q": "up"})
    )])));
    player.push(answer(json!([{"text": "It is gone."}])));
    let asked = request("hi", &[defined("docs", &server)]);
    let response = proxy.stream(&asked).await.response;
    assert_eq!(kinds(&response), ["mcp_list_tools", "message"]);
    let told = result(&player.requests()[1], "c1");
    assert!(told.contains("There is no tool 'docs__look'."), "{told}");
}

/// Promise: An answer may have calls of the client and of the proxy in any order, however it is
/// asked for: the proxy runs its own, the client gets its own, and the next request has all of them
/// with their results.
#[kit::test(on_each_wire)]
async fn calls_of_the_client_and_of_a_server_go_together(wire: PlayerWire) {
    let clock = json!({"type": "function", "name": "clock", "parameters": {"type": "object"}});
    for client in McpClient::ALL {
        for (calls, expected) in [
            (vec!["up", "clock"], vec!["mcp_call", "function_call"]),
            (vec!["clock", "up"], vec!["function_call", "mcp_call"]),
            (
                vec!["up", "down", "clock"],
                vec!["mcp_call", "mcp_call", "function_call"],
            ),
            (vec!["clock"], vec!["function_call"]),
        ] {
            let server = McpPlayer::start(vec![tool("look", true)], |_, arguments| {
                McpAnswer::text(&format!("seen {}", arguments["q"]))
            });
            let server = server.await.unwrap();
            let player = player(wire).await;
            let proxy = proxy(&player, &server).await;
            let steps = calls.iter().map(|what| match *what {
                "clock" => call("of_client", "clock", &json!({})),
                q => call(q, "docs__look", &json!({"q": q})),
            });
            player.push(answer(steps.collect()));
            let tools = [defined("docs", &server), clock.clone()];
            let question = json!({"role": "user", "content": "What is there?"});
            let asked = request(json!([question]), &tools);
            let response = client.ask(&proxy, &asked).await;
            assert_eq!(response["status"], "completed", "{client:?} {calls:?}");
            assert_eq!(kinds(&response)[0], "mcp_list_tools");
            assert_eq!(kinds(&response)[1..], expected, "{client:?} {calls:?}");
            let mut items = vec![question];
            items.extend(response["output"].as_array().unwrap().iter().cloned());
            items.push(json!({
                "type": "function_call_output", "call_id": "of_client", "output": "noon",
            }));
            player.push(answer(json!([{"text": "Noon."}])));
            client.ask(&proxy, &request(json!(items), &tools)).await;
            let sent = player.requests();
            assert_eq!(sent.len(), 2, "{client:?} {calls:?}");
            for what in &calls {
                match *what {
                    "clock" => assert_eq!(result(&sent[1], "of_client"), "noon"),
                    q => assert_eq!(result(&sent[1], q), format!("seen \"{q}\"")),
                }
            }
            assert_eq!(server.calls().len(), calls.len() - 1);
        }
    }
}
