//! Tools of MCP servers in background responses.
use std::sync::Barrier;

use kit::mcp::{McpAnswer, McpPlayer, tool};
use kit::player::{PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};

use super::{McpClient, allowing, defined, kinds, proxy, request, start};
use crate::artifacts::in_turns::{result, shell};
use crate::faults::{answer, player};
use crate::proxy::{Proxy, Setup};
use crate::stored::background::{begin_body, ended, events, frames, path_of};
use crate::stored::{killed, says};
use crate::web_search::web::{call, without_hosted_tools};

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

/// Promise: The events of tools that run are read again from any number on, as those of text are,
/// from memory and after a restart. If a later round fails, the items of the rounds before it stay.
#[kit::test(on_each_wire)]
async fn the_events_of_tools_are_read_again_from_any_number_on(wire: PlayerWire) {
    let all = [
        "mcp_list_tools",
        "mcp_call",
        "message",
        "mcp_call",
        "message",
    ];
    for (third, status, items) in [
        (says("Done."), "completed", 5),
        (ScriptedAnswer::error(500, "broken"), "failed", 4),
    ] {
        let server = McpPlayer::start(
            vec![tool("look", true)],
            |_, arguments| match arguments["q"].as_str() {
                Some("up") => McpAnswer::text("seen"),
                _ => McpAnswer::failure("too dark"),
            },
        );
        let server = server.await.unwrap();
        let player = player(wire).await;
        let setup = allowing(&[&server])
            .provider(without_hosted_tools(wire))
            .provider("max_retries = 0")
            .wire_of(&player);
        let mut proxy = Proxy::start_with(&player, setup.clone()).await;
        let look = |id: &str, q: &str| call(id, "docs__look", &json!({"q": q}));
        player.push(answer(json!([look("c1", "up")])));
        player.push(answer(json!([{"text": "Again."}, look("c2", "down")])));
        player.push(third);
        let asked = request("What is there?", &[defined("docs", &server)]);
        let job = begin_body(&proxy, asked).await;
        let response = ended(&proxy, &job).await;
        assert_eq!(response["status"], status);
        assert_eq!(kinds(&response), all[..items], "{status}");
        // Once from memory, once from the disk.
        let mut before: Option<Vec<String>> = None;
        for _ in 0..2 {
            let whole = frames(&events(&proxy, &job, None).await);
            for event in ["mcp_call.completed", "mcp_call.failed"] {
                let event = format!("response.{event}");
                assert!(whole.iter().any(|frame| frame.contains(&event)), "{event}");
            }
            if let Some(before) = before.replace(whole.clone()) {
                assert_eq!(whole, before, "the disk has other events than memory had");
            }
            for after in 0..whole.len() - 1 {
                let rest = events(&proxy, &job, Some(after as u64)).await;
                assert_eq!(frames(&rest), whole[after + 1..], "after {after}");
            }
            proxy = killed(proxy, &setup).await;
            assert_eq!(ended(&proxy, &job).await, response);
        }
    }
}

/// Promise: With `client_tools = "error"` a background response goes on after a call of a function
/// of the client: the model reads that the tool is not available, and the client gets no call. The
/// rounds are limited as always. A client that waits gets its calls.
#[kit::test(on_each_wire)]
async fn functions_of_the_client_may_be_refused_in_the_background(wire: PlayerWire) {
    let refusing = "[jobs]\nclient_tools = \"error\"\n[tools]\nmax_rounds = 2\n";
    let shell_call = |id: &str| call(id, "shell", &json!({}));
    for client in McpClient::ALL {
        let player = player(wire).await;
        let proxy = start(&player, Setup::new().tables(refusing)).await;
        player.push(answer(json!([{"text": "I try."}, shell_call("c1")])));
        player.push(says("It cannot be done."));
        let response = client.ask(&proxy, &request("hi", &[shell()])).await;
        assert_eq!(response["status"], "completed", "{client:?}");
        if client == McpClient::Background {
            assert_eq!(kinds(&response), ["message", "message"]);
            let told = result(&player.requests()[1], "c1");
            assert_eq!(told, "Tool not available in background mode");
            let events = events(&proxy, &response, None).await;
            assert!(!events.body.contains("function_call"), "{}", events.body);
        } else {
            assert_eq!(kinds(&response), ["message", "function_call"], "{client:?}");
            assert_eq!(player.requests().len(), 1);
        }
    }
    // Beside a tool of the proxy, which runs.
    let server = McpPlayer::start(vec![tool("look", true)], |_, _| McpAnswer::text("seen"));
    let server = server.await.unwrap();
    let player = player(wire).await;
    let setup = allowing(&[&server]).tables(refusing);
    let proxy = start(&player, setup).await;
    player.push(answer(json!([
        shell_call("c1"),
        call("c2", "docs__look", &json!({"q": "up"})),
    ])));
    player.push(says("Seen."));
    let asked = request("hi", &[shell(), defined("docs", &server)]);
    let response = McpClient::Background.ask(&proxy, &asked).await;
    assert_eq!(kinds(&response), ["mcp_list_tools", "mcp_call", "message"]);
    assert_eq!(result(&player.requests()[1], "c2"), "seen");
    // A model that goes on calling.
    for round in 0..4 {
        player.push(answer(json!([shell_call(&format!("d{round}"))])));
    }
    let response = McpClient::Background
        .ask(&proxy, &request("go on", &[shell()]))
        .await;
    assert_eq!(response["status"], "failed");
    let message = response["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("Tool execution limit exceeded"),
        "{message}"
    );
    assert_eq!(player.requests().len(), 2 + 4);
}

/// Promise: The calls of background responses that run at the same time are kept apart, also if
/// they belong to one session and the provider uses the same ids in both.
#[kit::test(on_each_wire)]
async fn calls_with_equal_ids_are_kept_apart(wire: PlayerWire) {
    // Each call is answered when both are there.
    let both = Barrier::new(2);
    let server = McpPlayer::start(vec![tool("look", true)], move |_, arguments| {
        tokio::task::block_in_place(|| both.wait());
        McpAnswer::text(&format!("seen {}", arguments["q"]))
    });
    let server = server.await.unwrap();
    let player = player(wire).await;
    let proxy = proxy(&player, &server).await;
    let mut jobs = Vec::new();
    for q in ["up", "down"] {
        player.push(answer(json!([call(
            "call_0",
            "docs__look",
            &json!({"q": q})
        )])));
        let asked = request(q, &[defined("docs", &server)]);
        jobs.push((q, begin_body(&proxy, asked).await));
        player.wait_requests(jobs.len()).await;
    }
    player.push(says("Done."));
    player.push(says("Done."));
    for (q, job) in jobs {
        let response = ended(&proxy, &job).await;
        let items = response["output"].as_array().unwrap().iter();
        let outputs = items.filter_map(|item| item["output"].as_str());
        let expected = format!("seen \"{q}\"");
        assert_eq!(outputs.collect::<Vec<_>>(), [&expected]);
        player.push(says("Yes."));
        let mut next = request("And?", &[defined("docs", &server)]);
        next["previous_response_id"] = response["id"].clone();
        proxy.response(&next).await;
        let sent = player.requests();
        assert_eq!(result(sent.last().unwrap(), "call_0"), expected);
    }
}
