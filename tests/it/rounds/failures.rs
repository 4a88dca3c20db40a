//! A failure in each place of an answer with rounds: before and within each upstream answer, in the
//! tool, and a client that leaves.
use std::sync::Arc;

use http_body_util::BodyExt;
use kit::player::{PlayerWire, ScriptedAnswer};
use kit::tools::ScriptedTool;
use respondent::clock::{Clock, System};
use respondent::responses::ResponseStore;
use respondent::store::{DataDir, Store};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::history::next;
use super::server::{RoundClient, RoundServer, call, history, question, request};
use super::table::tools;
use crate::faults::{answer, player};

struct FailureCase {
    name: &'static str,
    answers: Vec<ScriptedAnswer>,
    /// The last event of a stream; `None` for a fault that comes before the first event.
    terminal: Option<&'static str>,
    /// The types of the output items of a stream, for Codex and for others.
    output: [&'static str; 2],
    ran: usize,
}

fn refusal() -> ScriptedAnswer {
    ScriptedAnswer::error(500, "broken")
}

fn table() -> Vec<FailureCase> {
    let look = || answer(json!([{"text": "I look."}, call("c1", "look")]));
    let sunny = || answer(json!([{"text": "Sunny."}]));
    let cut = |steps: Value| {
        let mut steps = steps.as_array().unwrap().clone();
        steps.push(json!({"cut": "rst"}));
        answer(json!(steps))
    };
    let whole = "message web_search_call message";
    vec![
        FailureCase {
            name: "the first round fails once, before it begins",
            answers: vec![refusal(), look(), sunny()],
            terminal: Some("response.completed"),
            output: [whole; 2],
            ran: 1,
        },
        FailureCase {
            name: "the first round fails, before it begins",
            answers: vec![refusal(), refusal()],
            terminal: None,
            output: [""; 2],
            ran: 0,
        },
        FailureCase {
            name: "the first round breaks off in its text",
            answers: vec![cut(json!([{"text": "I"}]))],
            terminal: Some("response.failed"),
            output: ["", "message"],
            ran: 0,
        },
        FailureCase {
            name: "the first round breaks off behind a call",
            answers: vec![cut(json!([{"text": "I look."}, call("c1", "look")]))],
            terminal: Some("response.failed"),
            output: ["message"; 2],
            ran: 0,
        },
        FailureCase {
            name: "the second round fails once, before it begins",
            answers: vec![look(), refusal(), sunny()],
            terminal: Some("response.completed"),
            output: [whole; 2],
            ran: 1,
        },
        FailureCase {
            name: "the second round breaks off once, before its content",
            answers: vec![look(), cut(json!([])), sunny()],
            terminal: Some("response.completed"),
            output: [whole; 2],
            ran: 1,
        },
        FailureCase {
            name: "the second round fails, before it begins",
            answers: vec![look(), refusal(), refusal()],
            terminal: Some("response.failed"),
            output: ["message web_search_call"; 2],
            ran: 1,
        },
        FailureCase {
            name: "the second round breaks off in its text",
            answers: vec![look(), cut(json!([{"text": "Sun"}]))],
            terminal: Some("response.failed"),
            output: ["message web_search_call", whole],
            ran: 1,
        },
    ]
}

fn types(response: &Value) -> String {
    let items = response["output"].as_array().unwrap().iter();
    let types = items.map(|item| item["type"].as_str().unwrap());
    types.collect::<Vec<_>>().join(" ")
}

#[kit::test(on_each_wire)]
async fn a_failure_in_each_place(wire: PlayerWire) {
    for case in table() {
        for client in [
            RoundClient::Streaming,
            RoundClient::Codex,
            RoundClient::Whole,
        ] {
            let name = format!("{}, {client:?}", case.name);
            let player = player(wire).await;
            for answer in &case.answers {
                player.push(answer.clone());
            }
            let server = RoundServer::start(&[&player], &tools(), "max_retries = 1");
            let is_complete = case.terminal == Some("response.completed");
            let begins = case.terminal.is_some() || client == RoundClient::Codex;
            if client == RoundClient::Whole {
                let (status, body) = server.send(&request(&question()), client).await;
                if is_complete {
                    let response = kit::strict::check_response_or_panic(&body);
                    assert_eq!(types(&response), case.output[1], "{name}");
                } else {
                    assert!([500, 502].contains(&status), "{name}: {body}");
                    kit::strict::check_error(&body).unwrap();
                }
            } else if begins {
                let stream = server.stream(&request(&question()), client).await;
                let terminal = case.terminal.unwrap_or("response.failed");
                assert_eq!(stream.terminal, terminal, "{name}");
                let output = case.output[usize::from(client != RoundClient::Codex)];
                assert_eq!(types(&stream.response), output, "{name}");
            } else {
                let (status, body) = server.send(&request(&question()), client).await;
                assert_eq!(status, 500, "{name}: {body}");
            }
            assert_eq!(player.requests().len(), case.answers.len(), "{name}");
            assert_eq!(server.tools.calls().len(), case.ran, "{name}");
            server.check_replay();
        }
    }
}

#[kit::test(on_each_wire)]
async fn a_round_fails_over_on_its_own(wire: PlayerWire) {
    let acme = player(wire).await;
    let brand = player(wire).await;
    acme.push(answer(json!([call("c1", "look")])));
    acme.push(refusal());
    acme.push(refusal());
    brand.push(answer(json!([call("c1", "fetch")])));
    brand.push(answer(json!([{"text": "Sunny."}])));
    let server = RoundServer::start(&[&acme, &brand], &tools(), "max_retries = 1");
    let response = server
        .answer(&request(&question()), RoundClient::Streaming)
        .await;
    assert_eq!(types(&response), "web_search_call mcp_call message");
    // The rounds that follow stay with the provider that answered.
    assert_eq!(brand.requests().len(), 2);
    let sent = history(&brand.requests()[0]).to_string();
    assert!(sent.contains("It is sunny."), "{sent}");
    server.check_replay();
}

fn stalling() -> Vec<ScriptedTool> {
    vec![ScriptedTool::new("look", "").shown_as_search().stalling()]
}

#[kit::test(on_each_wire)]
async fn a_shutdown_while_a_tool_runs(wire: PlayerWire) {
    for client in [RoundClient::Streaming, RoundClient::Codex] {
        let player = player(wire).await;
        // The client must not run its call before the tool of the proxy has ended.
        player.push(answer(
            json!([{"text": "I look."}, call("c1", "look"), call("c2", "shell")]),
        ));
        let server = RoundServer::start(&[&player], &stalling(), "");
        let end = async {
            server.tools.wait_running(1).await;
            server.shutdown.cancel();
        };
        let asked = request(&question());
        let (stream, ()) = tokio::join!(server.stream(&asked, client), end);
        assert_eq!(stream.terminal, "response.failed");
        let message = stream.response["error"]["message"].as_str().unwrap();
        assert!(
            message.ends_with("The tool 'look' was running."),
            "{message}"
        );
        assert_eq!(stream.calls(), [], "{client:?}");
        server.tools.wait_running(0).await;
        server.check_replay();
    }
}

/// Promise: An answer whose client has got a whole call already completes, also if the proxy is
/// shut down or the time of the turn is over while a tool of the proxy runs: that call fails, and
/// the model is told in the next request.
#[kit::test(on_each_wire)]
async fn an_answer_with_a_released_call_completes(wire: PlayerWire) {
    let limit = "[server]\nturn_timeout = \"2s\"\n";
    for (settings, ends_by_itself) in [("", false), (limit, true)] {
        for client in [RoundClient::Streaming, RoundClient::Codex] {
            let player = player(wire).await;
            player.push(answer(json!([
                call("c1", "shell"),
                call("c2", "fetch"),
                call("c3", "look")
            ])));
            player.push(answer(json!([{"text": "Sunny."}])));
            let tools = [
                ScriptedTool::new("fetch", "A page.").shown_as_mcp(),
                ScriptedTool::new("look", "").shown_as_mcp().stalling(),
            ];
            let server = RoundServer::start(&[&player], &tools, settings);
            let end = async {
                if !ends_by_itself {
                    server.tools.wait_running(1).await;
                    server.shutdown.cancel();
                }
            };
            let asked = request(&question());
            let (stream, ()) = tokio::join!(server.stream(&asked, client), end);
            assert_eq!(stream.terminal, "response.completed", "{client:?}");
            let output = &stream.response["output"];
            assert_eq!(types(&stream.response), "function_call mcp_call mcp_call");
            assert_eq!(output[2]["status"], "failed");
            let error = output[2]["error"].to_string();
            assert!(error.contains("the answer had to end"), "{error}");
            server.tools.wait_running(0).await;
            server.check_replay();
            if ends_by_itself {
                assert_eq!(output[1]["output"], "A page.");
                server
                    .answer(&next(&stream.response, |_| true), client)
                    .await;
                let told = history(&player.requests()[1]).to_string();
                assert!(told.contains("A page."), "{told}");
                assert!(told.contains("The call was stopped"), "{told}");
            }
        }
    }
}

/// Promise: A response that failed tells in its error which tool was running, or could not be used,
/// and is stored with what became of its calls.
#[kit::test(on_each_wire)]
async fn a_failed_response_tells_of_its_tools(wire: PlayerWire) {
    let mistaken = |id: &str| json!([{"call": {"id": id, "name": "fetch", "arguments": "[1]"}}]);
    let look = || json!([call("c1", "look")]);
    let limit = "[server]\nturn_timeout = \"1s\"\n";
    for (answers, settings, told, runs) in [
        (
            vec![look(), mistaken("c2"), mistaken("c3"), mistaken("c4")],
            "",
            "no tool that the model called could be used. The last was 'fetch':",
            vec![
                "1 look completed 0",
                "2 fetch skipped 1",
                "3 fetch skipped 1",
                "4 fetch skipped 1",
            ],
        ),
        (
            vec![look(), json!([call("c2", "stalls")])],
            limit,
            "The tool 'stalls' was running.",
            vec!["1 look completed 0", "2 stalls failed 1"],
        ),
    ] {
        let player = player(wire).await;
        for steps in answers {
            player.push(answer(steps));
        }
        let folder = tempfile::tempdir().unwrap();
        let data_dir = DataDir::new(folder.path().to_owned());
        let store = Arc::new(Store::open(&data_dir, System.unix()).unwrap());
        let mut tools = tools();
        tools.push(ScriptedTool::new("stalls", "").stalling());
        let responses = ResponseStore::new(Some(store));
        let server = RoundServer::start_with_store(&[&player], &tools, settings, responses);
        let asked = request(&question());
        let stream = server.stream(&asked, RoundClient::Streaming).await;
        assert_eq!(stream.terminal, "response.failed");
        let message = stream.response["error"]["message"].as_str().unwrap();
        assert!(message.contains(told), "{message}");
        let connection = Connection::open(data_dir.database_path()).unwrap();
        let rows = "SELECT round || ' ' || name || ' ' || tool_runs.status || ' '
                || (error IS NOT NULL)
             FROM tool_runs JOIN responses ON response = responses.number
             WHERE responses.status = 'failed' ORDER BY place";
        let mut select = connection.prepare(rows).unwrap();
        let rows = select.query_map([], |row| row.get(0)).unwrap();
        let rows: Vec<String> = rows.map(Result::unwrap).collect();
        assert_eq!(rows, runs);
    }
}

/// Promise: A call that takes too long does not end an answer that also has a call of the client,
/// in whatever order they are: the client gets its call, and the model is told of the other.
#[kit::test(on_each_wire)]
async fn a_call_that_takes_too_long_beside_one_of_the_client(wire: PlayerWire) {
    let (slow, own) = (call("c1", "impatient"), call("c2", "shell"));
    for (steps, expected) in [
        (json!([slow, own]), "web_search_call function_call"),
        (json!([own, slow]), "function_call web_search_call"),
    ] {
        for client in [
            RoundClient::Streaming,
            RoundClient::Codex,
            RoundClient::Whole,
        ] {
            let player = player(wire).await;
            player.push(answer(steps.clone()));
            player.push(answer(json!([{"text": "Sunny."}])));
            let tool = ScriptedTool::new("impatient", "");
            let tool = tool.shown_as_search().stalling();
            let server = RoundServer::start(&[&player], &[tool], "");
            let response = server.answer(&request(&question()), client).await;
            assert_eq!(response["status"], "completed", "{client:?}");
            assert_eq!(types(&response), expected, "{client:?}");
            let mut items = response["output"].as_array().unwrap().iter();
            let search = items.find(|item| item["type"] == "web_search_call");
            assert_eq!(search.unwrap()["status"], "failed");
            server.check_replay();
            server.answer(&next(&response, |_| true), client).await;
            let told = history(&player.requests()[1]).to_string();
            assert!(told.contains("it took longer than 50ms."), "{told}");
        }
    }
}

/// Promise: A call of a tool that takes longer than it may, or than the operator allows, is
/// stopped; the model is told, the client sees a failed item, and the other calls of the round have
/// their results.
#[kit::test(on_each_wire)]
async fn a_call_that_takes_too_long(wire: PlayerWire) {
    let limits = "\n[tools]\ncall_timeout = \"1s\"\n";
    for (name, limits, limit) in [("impatient", "", "50ms"), ("fetch", limits, "1s")] {
        let player = crate::faults::player(wire).await;
        player.push(answer(json!([call("c1", name), call("c2", "look")])));
        player.push(answer(json!([{"text": "Sunny."}])));
        let slow = ScriptedTool::new(name, "").shown_as_search().stalling();
        let look = ScriptedTool::new("look", "It is sunny.").shown_as_search();
        let server = RoundServer::start(&[&player], &[slow, look], limits);
        let response = server
            .answer(&request(&question()), RoundClient::Streaming)
            .await;
        assert_eq!(types(&response), "web_search_call web_search_call message");
        let statuses = [0, 1].map(|at| &response["output"][at]["status"]);
        assert_eq!(statuses, ["failed", "completed"]);
        server.tools.wait_running(0).await;
        let told = history(&player.requests()[1]).to_string();
        let stopped = format!("The call was stopped: it took longer than {limit}.");
        assert!(told.contains(&stopped), "{told}");
        assert!(told.contains("It is sunny."), "{told}");
        server.check_replay();
    }
}

/// Promise: The calls of a round run at the same time, and all of them end with the turn.
#[kit::test(on_each_wire)]
async fn calls_of_a_round_run_at_once(wire: PlayerWire) {
    let player = player(wire).await;
    player.push(answer(json!([call("c1", "look"), call("c2", "fetch")])));
    let stalling = ["look", "fetch"].map(|name| ScriptedTool::new(name, "").stalling());
    let server = RoundServer::start(&[&player], &stalling, "");
    let end = async {
        server.tools.wait_running(2).await;
        server.shutdown.cancel();
    };
    let asked = request(&question());
    let (stream, ()) = tokio::join!(server.stream(&asked, RoundClient::Streaming), end);
    assert_eq!(stream.terminal, "response.failed");
    server.tools.wait_running(0).await;
}

/// Promise: A defect in a tool of the proxy costs the call that ran into it: the client sees a
/// failed item, the model is told, and the turn goes on with the other calls. Nobody reads what the
/// defect says.
#[kit::test(on_each_wire)]
async fn a_defect_in_a_tool(wire: PlayerWire) {
    for defective in ["look", "abrupt"] {
        for client in [
            RoundClient::Streaming,
            RoundClient::Codex,
            RoundClient::Whole,
        ] {
            let player = player(wire).await;
            player.push(answer(json!([call("c1", defective), call("c2", "fetch")])));
            player.push(answer(json!([{"text": "Fine."}])));
            let tools = [
                ScriptedTool::new(defective, "").shown_as_mcp().panicking(),
                ScriptedTool::new("fetch", "A page.").shown_as_mcp(),
            ];
            let server = RoundServer::start(&[&player], &tools, "");
            let response = server.answer(&request(&question()), client).await;
            assert_eq!(types(&response), "mcp_call mcp_call message");
            let output = &response["output"];
            assert_eq!(output[0]["status"], "failed", "{client:?}");
            let error = output[0]["error"].to_string();
            assert!(error.contains("a defect in the proxy"), "{error}");
            assert_eq!(output[1]["output"], "A page.");
            let told = history(&player.requests()[1]).to_string();
            assert!(told.contains("a defect in the proxy"), "{told}");
            assert!(told.contains("A page."), "{told}");
            let said = "a defect in a tool";
            assert!(!told.contains(said) && !response.to_string().contains(said));
            server.check_replay();
        }
    }
}

/// Promise: A defect in a tool does not end an answer whose client has got a whole call already.
#[kit::test(on_each_wire)]
async fn a_defect_behind_a_released_call(wire: PlayerWire) {
    let player = player(wire).await;
    player.push(answer(json!([call("c1", "shell"), call("c2", "look")])));
    let tool = ScriptedTool::new("look", "").shown_as_search().panicking();
    let server = RoundServer::start(&[&player], &[tool], "");
    let response = server
        .answer(&request(&question()), RoundClient::Codex)
        .await;
    assert_eq!(types(&response), "function_call web_search_call");
    assert_eq!(response["output"][1]["status"], "failed");
    server.check_replay();
}

/// Reads from a stream until a text appears, and then closes it.
async fn leave_at(server: &RoundServer, text: &str) {
    let mut body = server
        .open(&request(&question()), RoundClient::Streaming)
        .await
        .into_body();
    let mut read = String::new();
    while !read.contains(text) {
        let frame = body.frame().await.unwrap().unwrap();
        read.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
    }
}

#[kit::test(on_each_wire)]
async fn a_client_that_leaves_in_each_place(wire: PlayerWire) {
    let look = json!([{"text": "I look."}, call("c1", "look")]);
    let stall = |text: &str| answer(json!([{"text": text}, {"stall": true}]));
    for (name, answers, leaves_at, requests) in [
        ("the first round", vec![stall("Hello")], "Hello", 1),
        (
            "the tool",
            vec![answer(look.clone())],
            "web_search_call.searching",
            1,
        ),
        (
            "the second round",
            vec![answer(look), stall("Sunny")],
            "Sunny",
            2,
        ),
    ] {
        let player = player(wire).await;
        let tools = if name == "the tool" {
            stalling()
        } else {
            tools()
        };
        let server = RoundServer::start(&[&player], &tools, "");
        for answer in answers {
            player.push(answer);
        }
        leave_at(&server, leaves_at).await;
        server.tools.wait_running(0).await;
        assert_eq!(player.requests().len(), requests, "{name}");
        let recorded = server.recording();
        assert_eq!(
            recorded.outcome,
            Some(respondent::turn::Outcome::Disconnected),
            "{name}"
        );
    }
}

#[kit::test(on_each_wire)]
async fn heartbeats_while_a_tool_runs(wire: PlayerWire) {
    let player = player(wire).await;
    player.push(answer(json!([{"text": "I look."}, call("c1", "look")])));
    let server = RoundServer::start(&[&player], &stalling(), "[server]\nheartbeat = \"20ms\"");
    let asked = request(&question());
    let answer = server.open(&asked, RoundClient::Streaming).await;
    let mut body = answer.into_body();
    let mut stream = String::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.unwrap();
        stream.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        if stream.matches("event: response.in_progress").count() > 3 {
            server.shutdown.cancel();
        }
    }
    kit::strict::check_or_panic(&stream);
    server.check_replay();
}
