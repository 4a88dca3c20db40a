//! When an MCP server is asked for its tools again.
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use kit::mcp::{McpAnswer, McpPlayer, tool};
use kit::player::PlayerWire;
use serde_json::{Value, json};

use super::{allowing, defined, proxy, request, start};
use crate::artifacts::in_turns::offered;
use crate::faults::{answer, player};
use crate::stored::says;
use crate::web_search::web::call;

/// Promise: An MCP server that hangs, or that cannot be reached, holds up one turn and not each of
/// them: those of the next 30 seconds show the same error at once. With other secrets it is asked.
#[kit::test]
async fn a_server_that_hangs_holds_up_one_turn() {
    let server =
        McpPlayer::answering(|method, _| (method == "tools/list").then_some(McpAnswer::Silence));
    let server = server.await.unwrap();
    let player = player(PlayerWire::Chat).await;
    let setup = allowing(&[&server]).tables("[tools]\ncall_timeout = \"1s\"");
    let proxy = start(&player, setup).await;
    let mut named = defined("docs", &server);
    for (token, connections) in [(None, 1), (None, 1), (None, 1), (Some("other"), 2)] {
        if let Some(token) = token {
            named["authorization"] = json!(token);
        }
        player.push(says("Done."));
        let asked = request("hi", std::slice::from_ref(&named));
        let response = proxy.response(&asked).await;
        let error = &response["output"][0]["error"];
        assert_eq!(error, "the server did not answer within 1s", "{response}");
        assert_eq!(server.count("initialize"), connections, "{token:?}");
    }
}

/// Promise: If an MCP server says that the list of its tools has changed, the next turn asks for
/// it, and the model is offered what it has then.
#[kit::test(on_each_wire)]
async fn a_changed_list_is_asked_for_again(wire: PlayerWire) {
    let has_changed = AtomicBool::new(false);
    let server = McpPlayer::answering(move |method, _| {
        let mut tools = vec![tool("look", true)];
        match method {
            "tools/list" => {
                tools.extend(has_changed.load(Relaxed).then(|| tool("read", true)));
                Some(McpAnswer::Result(json!({"tools": tools})))
            }
            "tools/call" => {
                has_changed.store(true, Relaxed);
                let result = json!({"content": [{"type": "text", "text": "seen"}]});
                Some(McpAnswer::ListChanged(result))
            }
            _ => None,
        }
    });
    let server = server.await.unwrap();
    let player = player(wire).await;
    let proxy = proxy(&player, &server).await;
    let asked = request("hi", &[defined("docs", &server)]);
    player.push(answer(json!([call(
        "c1",
        "docs__look",
        &json!({"q": "x"})
    )])));
    player.push(says("Seen."));
    let response: Value = proxy.response(&asked).await;
    assert_eq!(response["output"][1]["output"], "seen", "{response}");
    assert_eq!(server.count("tools/list"), 1);
    // The proxy handles the message in a task of its own, perhaps after it has answered the client.
    for _ in 0..20 {
        player.push(says("Done."));
        proxy.response(&asked).await;
        if server.count("tools/list") > 1 {
            break;
        }
    }
    let last = player.requests().pop().unwrap();
    assert_eq!(offered(&last), ["docs__look", "docs__read"]);
    assert_eq!(server.count("tools/list"), 2);
}
