//! What becomes of calls that fail, and of calls with effects.
use std::sync::atomic::{AtomicUsize, Ordering};

use kit::mcp::{McpAnswer, McpPlayer, tool};
use kit::player::PlayerWire;
use serde_json::{Value, json};

use super::{McpClient, allowing, defined, kinds, proxy, request, start};
use crate::artifacts::in_turns::result;
use crate::faults::{answer, player};
use crate::stored::says;
use crate::web_search::web::call;

async fn answering(call_answer: McpAnswer) -> McpPlayer {
    let server = McpPlayer::start(vec![tool("change", false)], move |_, _| call_answer.clone());
    server.await.unwrap()
}

/// Promise: A call of a tool of an MCP server that fails, in whatever way, is made once, is shown
/// with its error in the form that OpenAI has for it, and is told to the model, which goes on.
#[kit::test(on_each_wire)]
async fn a_call_that_fails_is_made_once_and_told(wire: PlayerWire) {
    for client in McpClient::ALL {
        for (call_answer, kind, code, expected) in [
            (
                McpAnswer::failure("the disk is full"),
                "mcp_tool_execution_error",
                None,
                "the disk is full",
            ),
            (
                McpAnswer::Error(json!({"code": -32_042, "message": "no such row"})),
                "mcp_protocol_error",
                Some(-32_042),
                "no such row",
            ),
            (
                McpAnswer::Status(500),
                "http_error",
                Some(500),
                "the server answered with HTTP 500",
            ),
            // The connection breaks when the server may have done it already.
            (
                McpAnswer::Raw(String::new()),
                "mcp_protocol_error",
                Some(-32_000),
                "connection to the server has ended",
            ),
            (
                McpAnswer::Silence,
                "mcp_protocol_error",
                Some(-32_001),
                "took longer than 2s",
            ),
        ] {
            let server = answering(call_answer.clone()).await;
            let player = player(wire).await;
            let mut setup = allowing(&[&server]);
            // Only this case waits for the limit. On a busy machine so short a limit could end the
            // others.
            if matches!(call_answer, McpAnswer::Silence) {
                setup = setup.tables("[tools]\ncall_timeout = \"2s\"");
            }
            let proxy = start(&player, setup).await;
            player.push(answer(json!([call(
                "c1",
                "db__change",
                &json!({"q": "x"})
            )])));
            player.push(says("It failed."));
            let asked = request("hi", &[defined("db", &server)]);
            let response = client.ask(&proxy, &asked).await;
            assert_eq!(
                response["status"], "completed",
                "{client:?} {call_answer:?}"
            );
            assert_eq!(kinds(&response), ["mcp_list_tools", "mcp_call", "message"]);
            let called = &response["output"][1];
            assert_eq!(called["status"], "failed", "{called}");
            let told = result(&player.requests()[1], "c1");
            assert!(told.contains(expected), "{call_answer:?}: {told}");
            let error = match code {
                Some(code) => json!({"type": kind, "code": code, "message": told}),
                None => json!({"type": kind, "content": [{"type": "text", "text": told}]}),
            };
            assert_eq!(called["error"], error, "{client:?} {call_answer:?}");
            assert_eq!(server.calls().len(), 1, "{client:?} {call_answer:?}");
        }
    }
}

/// Promise: Equal calls of a tool that only reads are made once in an answer; those of a tool that
/// may change something are each made.
#[kit::test(on_each_wire)]
async fn only_reads_are_answered_from_memory(wire: PlayerWire) {
    for (is_read_only, expected) in [(true, 1), (false, 2)] {
        let server = McpPlayer::start(vec![tool("add", is_read_only)], |_, _| {
            McpAnswer::text("ok")
        });
        let server = server.await.unwrap();
        let player = player(wire).await;
        let proxy = proxy(&player, &server).await;
        let part = json!({"q": "x"});
        player.push(answer(json!([call("c1", "db__add", &part)])));
        player.push(answer(json!([call("c2", "db__add", &part)])));
        player.push(says("Done."));
        proxy
            .stream(&request("hi", &[defined("db", &server)]))
            .await;
        assert_eq!(server.calls().len(), expected, "{is_read_only}");
    }
}

/// Promise: A call of a tool with effects is made only when the model's answer is complete: one
/// that breaks off leaves none.
#[kit::test(on_each_wire)]
async fn an_answer_that_breaks_off_has_no_effects(wire: PlayerWire) {
    let server = answering(McpAnswer::text("done")).await;
    let player = player(wire).await;
    let proxy = proxy(&player, &server).await;
    let made = call("c1", "db__change", &json!({"q": "x"}));
    player.push(answer(json!([{"text": "I"}, made, {"cut": "rst"}])));
    let mut asked = request("hi", &[defined("db", &server)]);
    asked["stream"] = json!(true);
    let reply = proxy.post(&asked).await;
    assert!(reply.body.contains("response.failed"), "{}", reply.body);
    assert!(server.calls().is_empty());
}

/// A result as an event is read like any other.
#[kit::test]
async fn a_result_may_be_an_event() {
    let content = json!({"content": [{"type": "text", "text": "done"}]});
    let server = answering(McpAnswer::Event(content)).await;
    let player = player(PlayerWire::Chat).await;
    let proxy = proxy(&player, &server).await;
    player.push(answer(json!([call(
        "c1",
        "db__change",
        &json!({"q": "x"})
    )])));
    player.push(says("Done."));
    let response: Value = proxy
        .response(&request("hi", &[defined("db", &server)]))
        .await;
    assert_eq!(response["output"][1]["output"], "done", "{response}");
}

/// Promise: A call of a tool that only reads, or that changes nothing more when it is repeated, is
/// made once more if the connection breaks or the server answers with 500 or above, and once only
/// after any other failure. A call with effects is never repeated.
#[kit::test(on_each_wire)]
async fn only_calls_without_effects_are_tried_once_more(wire: PlayerWire) {
    let passing = [McpAnswer::Raw(String::new()), McpAnswer::Status(503)];
    let lasting = [
        McpAnswer::failure("the disk is full"),
        McpAnswer::Error(json!({"code": -32_042, "message": "no such row"})),
        McpAnswer::Status(403),
    ];
    let first_answers = passing
        .iter()
        .map(|it| (it, true))
        .chain(lasting.iter().map(|it| (it, false)));
    for (first, passes) in first_answers {
        for (hints, repeats) in [
            (json!({"readOnlyHint": true}), true),
            (json!({"readOnlyHint": false, "idempotentHint": true}), true),
            (json!({"readOnlyHint": false}), false),
            (json!({}), false),
        ] {
            let name = format!("{first:?} {hints}");
            let mut listed = tool("run", false);
            listed["annotations"] = hints;
            let (first, count) = (first.clone(), AtomicUsize::new(0));
            let server = McpPlayer::start(vec![listed], move |_, _| {
                match count.fetch_add(1, Ordering::Relaxed) {
                    0 => first.clone(),
                    _ => McpAnswer::text("done"),
                }
            });
            let server = server.await.unwrap();
            let player = player(wire).await;
            let proxy = proxy(&player, &server).await;
            let part = json!({"q": "x"});
            player.push(answer(json!([call("c1", "db__run", &part)])));
            player.push(says("Done."));
            let asked = request("hi", &[defined("db", &server)]);
            let response = proxy.response(&asked).await;
            let is_repeated = passes && repeats;
            let called = &response["output"][1];
            let status = if is_repeated { "completed" } else { "failed" };
            assert_eq!(called["status"], status, "{name}: {called}");
            assert_eq!(server.calls().len(), 1 + usize::from(is_repeated), "{name}");
        }
    }
    // A server that does not recover is asked twice.
    let server = McpPlayer::start(vec![tool("look", true)], |_, _| McpAnswer::Status(500));
    let server = server.await.unwrap();
    let player = player(wire).await;
    let proxy = proxy(&player, &server).await;
    player.push(answer(json!([call("c1", "db__look", &json!({"q": "x"}))])));
    player.push(says("It failed."));
    proxy
        .response(&request("hi", &[defined("db", &server)]))
        .await;
    assert_eq!(server.calls().len(), 2);
}
