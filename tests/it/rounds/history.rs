//! What the provider gets in each round, and in the turn after an answer with hidden rounds.
use kit::player::{PlayerWire, RecordedRequest};
use serde_json::{Value, json};

use super::server::{RoundClient, RoundServer, call, history, question, request};
use super::table::tools;
use crate::faults::{answer, player};

/// The history of a request as bytes, without the brackets that close it.
fn history_bytes(sent: &RecordedRequest) -> String {
    let list = ["\"messages\":[", "\"input\":["];
    let found = list.iter().find_map(|list| sent.body.split_once(list));
    let (_, history) = found.unwrap();
    history.strip_suffix("]}").unwrap_or(history).to_owned()
}

fn assert_continues(later: &RecordedRequest, earlier: &RecordedRequest) {
    let (later, earlier) = (history_bytes(later), history_bytes(earlier));
    assert!(later.starts_with(&earlier), "{earlier}\n\n{later}");
    assert!(later.len() > earlier.len());
}

/// Promise: Each further request of a turn with tools of the proxy begins with the bytes of the one
/// before and adds the model's output and the results of its calls.
#[kit::test(on_each_wire)]
async fn each_round_begins_with_the_bytes_of_the_one_before(wire: PlayerWire) {
    let player = player(wire).await;
    let steps = [
        json!([{"reasoning": "hm"}, {"text": "I look."}, call("c1", "look")]),
        json!([{"reasoning": "more"}, call("c2", "fetch"), call("c3", "recall")]),
        json!([{"text": "Sunny."}]),
    ];
    for steps in steps {
        player.push(answer(steps));
    }
    let settings = match wire {
        PlayerWire::Chat => "quirks = { reasoning_replay = \"reasoning_content\" }",
        PlayerWire::Responses => "",
    };
    let server = RoundServer::start(&[&player], &tools(), settings);
    server
        .answer(&request(&question()), RoundClient::Streaming)
        .await;
    let sent = player.requests();
    assert_eq!(sent.len(), 3);
    assert_continues(&sent[1], &sent[0]);
    assert_continues(&sent[2], &sent[1]);
    let history = history(&sent[2]);
    match wire {
        PlayerWire::Chat => {
            assert_eq!(history[1]["reasoning_content"], "hm", "{history}");
            assert_eq!(history[3]["reasoning_content"], "more", "{history}");
        }
        PlayerWire::Responses => {
            let items = history.as_array().unwrap().iter();
            let reasoning = items.filter(|item| item["type"] == "reasoning");
            let texts: Vec<&Value> = reasoning
                .filter(|item| item["encrypted_content"].is_string())
                .map(|item| &item["summary"][0]["text"])
                .collect();
            assert_eq!(texts, ["hm", "more"], "{history}");
        }
    }
}

/// The client's next request: its history, the items of the answer that `keep` leaves in, and the
/// outputs of its calls.
fn next(response: &Value, keep: impl Fn(&Value) -> bool) -> Value {
    let mut items = question().as_array().unwrap().clone();
    let output = response["output"].as_array().unwrap();
    items.extend(output.iter().filter(|item| keep(item)).cloned());
    for item in output.iter().filter(|item| item["type"] == "function_call") {
        items.push(
            json!({"type": "function_call_output", "call_id": item["call_id"], "output": "done"}),
        );
    }
    request(&json!(items))
}

/// What a request has: `user`, `(a b)` for the calls of one answer, and `a!` for the result of a
/// call.
fn shape(sent: &RecordedRequest) -> String {
    let history = history(sent);
    let mut shape: Vec<String> = Vec::new();
    // The calls of an answer that is not over. On Chat Completions an answer is one message.
    let mut open: Option<Vec<String>> = None;
    let close = |open: &mut Option<Vec<String>>, shape: &mut Vec<String>| {
        shape.extend(open.take().map(|ids| format!("({})", ids.join(" "))));
    };
    for entry in history.as_array().unwrap() {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        match (entry["type"].as_str(), entry["role"].as_str()) {
            (_, Some("assistant")) => {
                let calls = entry["tool_calls"].as_array().into_iter().flatten();
                let ids = calls.map(|call| call["id"].as_str().unwrap().to_owned());
                open.get_or_insert_default().extend(ids);
            }
            (Some("reasoning"), _) => {
                open.get_or_insert_default();
            }
            (Some("function_call"), _) => open.get_or_insert_default().push(text("call_id")),
            (Some("function_call_output"), _) => {
                close(&mut open, &mut shape);
                shape.push(text("call_id") + "!");
            }
            (_, Some("tool")) => {
                close(&mut open, &mut shape);
                shape.push(text("tool_call_id") + "!");
            }
            (_, role) => {
                close(&mut open, &mut shape);
                shape.push(role.unwrap_or("?").to_owned());
            }
        }
    }
    close(&mut open, &mut shape);
    shape.join(" ")
}

#[kit::test(on_each_wire)]
async fn the_next_turn_has_the_hidden_rounds_in_their_places(wire: PlayerWire) {
    for (answers, shape_of_next) in [
        (
            vec![json!([{"text": "Both."}, call("p1", "look"), call("c1", "shell")])],
            "user (p1 c1) p1! c1!",
        ),
        (
            vec![json!([
                call("c1", "shell"),
                call("p1", "look"),
                call("c2", "shell")
            ])],
            "user (c1 p1 c2) c1! p1! c2!",
        ),
        (
            vec![
                json!([{"reasoning": "hm"}, {"text": "I look."}, call("p1", "look")]),
                json!([{"reasoning": "so"}, call("p2", "recall"), call("c1", "shell")]),
            ],
            "user (p1) p1! (p2 c1) p2! c1!",
        ),
        (
            vec![
                json!([call("p1", "look")]),
                json!([{"text": "You."}, call("c1", "shell")]),
            ],
            "user (p1) p1! (c1) c1!",
        ),
    ] {
        for client in [
            RoundClient::Streaming,
            RoundClient::Codex,
            RoundClient::Whole,
        ] {
            // A client sends back all items, or leaves out those that are nothing to it. Reasoning
            // goes back to an upstream of the same API, so that leaving it out is a change there.
            for keeps_all in [true, false] {
                let player = player(wire).await;
                for steps in &answers {
                    player.push(answer(steps.clone()));
                }
                let server = RoundServer::start(&[&player], &tools(), "");
                let response = server.answer(&request(&question()), client).await;
                let is_kept = |item: &Value| {
                    let kind = item["type"].as_str().unwrap();
                    keeps_all
                        || matches!(kind, "message" | "function_call")
                        || (kind == "reasoning" && wire == PlayerWire::Responses)
                };
                let next = next(&response, is_kept);
                for _ in 0..2 {
                    // The same request again, as after a broken connection.
                    player.push(answer(json!([{"text": "Done."}])));
                    server.answer(&next, client).await;
                    let sent = player.requests();
                    assert_eq!(shape(sent.last().unwrap()), shape_of_next, "{client:?}");
                    assert_continues(sent.last().unwrap(), &sent[answers.len() - 1]);
                    server.check_replay();
                }
            }
        }
    }
}

#[kit::test(on_each_wire)]
async fn a_turn_whose_hidden_rounds_are_forgotten_is_valid(wire: PlayerWire) {
    let player = player(wire).await;
    player.push(answer(json!([call("p1", "look"), call("c1", "shell")])));
    let server = RoundServer::start(&[&player], &tools(), "");
    let response = server
        .answer(&request(&question()), RoundClient::Streaming)
        .await;
    let next = next(&response, |_| true);
    let another = RoundServer::start(&[&player], &tools(), "");
    player.push(answer(json!([{"text": "Done."}])));
    another.answer(&next, RoundClient::Streaming).await;
    // The item that shows the hidden call is told.
    assert_eq!(shape(&player.requests()[1]), "user user (c1) c1!");
}
