//! What the provider gets in each round, and in the turn after an answer with hidden rounds.
use adapters::token_count::text_tokens;
use kit::player::{PlayerWire, RecordedRequest};
use kit::tools::ScriptedTool;
use respondent::store::ArtifactFilter;
use serde_json::{Value, json};

use super::server::{RoundClient, RoundServer, call, call_with, history, question, request};
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
pub fn next(response: &Value, keep: impl Fn(&Value) -> bool) -> Value {
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
pub fn shape(sent: &RecordedRequest) -> String {
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

/// Promise: What the model has read stands before its own answer, also if two answers have the same
/// text and the client sends no ids back.
#[kit::test(on_each_wire)]
async fn equal_answers_have_their_own_rounds(wire: PlayerWire) {
    for text in ["Done.", "It is sunny today, as three sources say."] {
        let player = player(wire).await;
        let server = RoundServer::start(&[&player], &tools(), "");
        let mut items = question().as_array().unwrap().clone();
        for id in ["p1", "p2"] {
            player.push(answer(json!([call_with(id, "recall", id)])));
            player.push(answer(json!([{"text": text}])));
            let asked = request(&json!(items));
            server.answer(&asked, RoundClient::Streaming).await;
            items.push(json!({"role": "assistant", "content": text}));
            items.push(json!({"role": "user", "content": "Go on."}));
        }
        player.push(answer(json!([{"text": "Bye."}])));
        let asked = request(&json!(items));
        server.answer(&asked, RoundClient::Streaming).await;
        server.check_replay();
        let sent = player.requests();
        assert_eq!(shape(&sent[4]), "user (p1) p1! () user (p2) p2! () user");
        for (earlier, later) in sent.iter().zip(sent.iter().skip(1)) {
            assert_continues(later, earlier);
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

/// Promise: A result that is too long, because all of a round share 50 KiB, is kept whole as an
/// artifact, and the model gets an excerpt, which names the artifact if there was room for it.
#[kit::test(on_each_wire)]
async fn a_result_that_is_too_long_is_kept_whole(wire: PlayerWire) {
    for (lines, is_kept) in [(4_000, true), (300_000, false)] {
        let long: &str = "A line of a long page.\n".repeat(lines).leak();
        let player = player(wire).await;
        let tools = [
            ScriptedTool::new("look", "It is sunny."),
            ScriptedTool::new("fetch", long),
        ];
        let server = RoundServer::start(&[&player], &tools, "");
        player.push(answer(json!([call("c1", "look"), call("c2", "fetch")])));
        player.push(answer(json!([{"text": "It is sunny."}])));
        server
            .answer(&request(&question()), RoundClient::Streaming)
            .await;
        server.check_replay();
        let sent = history_bytes(player.requests().last().unwrap());
        assert!(sent.contains("It is sunny."));
        assert!(sent.contains("[Tool output shortened]"));
        let kept = server
            .artifacts
            .list("local", &ArtifactFilter::default())
            .await;
        let kept = kept.unwrap();
        assert_eq!(kept.len(), usize::from(is_kept));
        for whole in kept {
            assert!(sent.contains(&format!("artifact: {}", whole.id)));
            assert_eq!(usize::try_from(whole.chars).unwrap(), long.len());
        }
        assert_eq!(sent.contains("artifact: art_"), is_kept);
    }
}

/// Promise: The results of an answer take at most 128,000 tokens together, in any script. What is
/// more is shortened, and once there is no room, no call is run.
#[kit::test(on_each_wire)]
async fn the_results_of_an_answer_are_limited(wire: PlayerWire) {
    // 25 KB, which no other limit touches.
    let long: &str = "7🦀1🦀".repeat(2_500).leak();
    let player = player(wire).await;
    let tools = [ScriptedTool::new("fetch", long)];
    let server = RoundServer::start(&[&player], &tools, "[context]\noutputs = \"whole\"\n");
    for round in 0..10 {
        let calls = (0..2).map(|call| {
            let id = format!("c{round}_{call}");
            call_with(&id, "fetch", &id)
        });
        player.push(answer(calls.collect::<Vec<_>>().into()));
    }
    player.push(answer(json!([{"text": "It is sunny."}])));
    let asked = request(&question());
    server.answer(&asked, RoundClient::Streaming).await;
    let sent = history(player.requests().last().unwrap());
    let results = sent.as_array().unwrap().iter();
    let results = results.filter_map(|item| {
        let is_result = item["role"] == "tool" || item["type"] == "function_call_output";
        let text = item.get("content").or_else(|| item.get("output"))?;
        is_result.then(|| text.as_str().unwrap().to_owned())
    });
    let results: Vec<String> = results.collect();
    assert_eq!(results.len(), 20);
    let begin_with = |begin: &str| results.iter().filter(|it| it.starts_with(begin)).count();
    assert!(begin_with("[Tool output shortened]") >= 2);
    let skipped = begin_with("Tool call skipped: the limit of 128000 tokens");
    assert!(skipped >= 2);
    assert_eq!(server.tools.calls().len(), 20 - skipped);
    let tokens: u64 = results.iter().map(|text| text_tokens(text)).sum();
    assert!((100_000..=128_000).contains(&tokens), "{tokens}");
}
