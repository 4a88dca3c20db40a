//! What the configuration of an MCP server says of its calls.
use kit::mcp::{McpAnswer, McpPlayer, tool};
use kit::player::PlayerWire;
use serde_json::{Value, json};

use super::{request, start};
use crate::artifacts::in_turns::{offered, result};
use crate::faults::{answer, player};
use crate::proxy::Setup;
use crate::stored::says;
use crate::web_search::web::call;

/// Promise: `timeout` of an MCP server in the configuration limits the time of each of its calls,
/// also of those that a person has approved.
#[kit::test(on_each_wire)]
async fn the_time_limit_of_a_server_holds_for_all_calls(wire: PlayerWire) {
    for approval in ["never", "always"] {
        let server = McpPlayer::start(vec![tool("remove", false)], |_, _| McpAnswer::Silence);
        let server = server.await.unwrap();
        let player = player(wire).await;
        let setup = Setup::new().tables(&format!(
            "[tools.mcp.servers.db]\nurl = \"{}\"\ntimeout = \"1s\"",
            server.url()
        ));
        let proxy = start(&player, setup).await;
        let named = json!({"type": "mcp", "server_label": "db", "require_approval": approval});
        let question = json!({"role": "user", "content": "Remove x."});
        let asked = request(json!([question]), std::slice::from_ref(&named));
        let made = call("c1", "db__remove", &json!({"q": "x"}));
        player.push(answer(json!([made])));
        player.push(says("It hangs."));
        let mut response = proxy.response(&asked).await;
        if approval == "always" {
            let mut items = vec![question];
            items.extend(response["output"].as_array().unwrap().iter().cloned());
            items.push(json!({
                "type": "mcp_approval_response", "approve": true,
                "approval_request_id": items.last().unwrap()["id"],
            }));
            response = proxy.response(&request(json!(items), &[named])).await;
        }
        let output = response["output"].as_array().unwrap();
        let called = output.iter().find(|item| item["type"] == "mcp_call");
        let called: &Value = called.unwrap();
        let told = "The call was stopped: it took longer than 1s.";
        let expected = json!({"type": "mcp_protocol_error", "code": -32_001, "message": told});
        assert_eq!(called["error"], expected, "{approval}: {called}");
        let id = called["approval_request_id"].as_str().unwrap_or("c1");
        assert_eq!(result(&player.requests()[1], id), told);
    }
}

/// A person approves a call of a function that has another name than its server and tool make,
/// because that was taken.
#[kit::test(on_each_wire)]
async fn the_time_limit_of_a_server_holds_for_a_function_that_was_renamed(wire: PlayerWire) {
    let silent = async |name: &str| {
        let server = McpPlayer::start(vec![tool(name, false)], |_, _| McpAnswer::Silence);
        server.await.unwrap()
    };
    let (first, second) = (silent("x__remove").await, silent("remove").await);
    let player = player(wire).await;
    let setup = Setup::new().tables(&format!(
        "[tools.mcp.servers.db]\nurl = \"{}\"\n\
         [tools.mcp.servers.db__x]\nurl = \"{}\"\ntimeout = \"1s\"\n[tools]\ncall_timeout = \"60s\"",
        first.url(),
        second.url()
    ));
    let proxy = start(&player, setup).await;
    let servers = ["db", "db__x"]
        .map(|label| json!({"type": "mcp", "server_label": label, "require_approval": "always"}));
    let mut items = vec![json!({"role": "user", "content": "Remove x."})];
    player.push(says("What?"));
    proxy.response(&request("hi", &servers)).await;
    let names = offered(&player.requests()[0]);
    assert_eq!(names[0], "db__x__remove", "{names:?}");
    let made = call("c1", &names[1], &json!({"q": "x"}));
    player.push(answer(json!([made])));
    player.push(says("It hangs."));
    let asked = proxy.response(&request(json!(items), &servers)).await;
    items.extend(asked["output"].as_array().unwrap().iter().cloned());
    let last = items.last().unwrap();
    assert_eq!(last["server_label"], "db__x", "{asked}");
    items.push(json!({
        "type": "mcp_approval_response", "approve": true, "approval_request_id": last["id"],
    }));
    let answered = proxy.response(&request(json!(items), &servers)).await;
    let output = answered["output"].as_array().unwrap();
    let called = output.iter().find(|item| item["type"] == "mcp_call");
    let told = "The call was stopped: it took longer than 1s.";
    assert_eq!(called.unwrap()["error"]["message"], told, "{answered}");
}
