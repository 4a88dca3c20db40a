//! What the provider gets in each round, and in the turn after an answer with hidden rounds.
use kit::player::{Player, PlayerScript, RecordedRequest};
use libtest_mimic::Trial;
use serde_json::{Value, json};

use super::server::{RoundClient, RoundServer, call, question, request};
use super::table::tools;
use crate::faults::answer;
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    vec![
        case(
            "S1-1a rounds: each round begins with the bytes of the one before",
            same_prefix,
        ),
        case(
            "rounds: the next turn has the hidden rounds in their places",
            made_whole,
        ),
        case(
            "rounds: a turn whose hidden rounds are forgotten is valid",
            forgotten,
        ),
    ]
}

/// The messages of a request as bytes, without the brackets that close them.
fn messages(sent: &RecordedRequest) -> String {
    let body = String::from_utf8(sent.body.clone().into()).unwrap();
    let (_, messages) = body.split_once("\"messages\":[").unwrap();
    messages.strip_suffix("]}").unwrap_or(messages).to_owned()
}

fn assert_continues(later: &RecordedRequest, earlier: &RecordedRequest) {
    let (later, earlier) = (messages(later), messages(earlier));
    assert!(later.starts_with(&earlier), "{earlier}\n\n{later}");
    assert!(later.len() > earlier.len());
}

async fn same_prefix() {
    let player = Player::start(PlayerScript::default()).await.unwrap();
    let steps = [
        json!([{"reasoning": "hm"}, {"text": "I look."}, call("c1", "look")]),
        json!([{"reasoning": "more"}, call("c2", "fetch"), call("c3", "recall")]),
        json!([{"text": "Sunny."}]),
    ];
    for steps in steps {
        player.push(answer(steps));
    }
    let settings = "quirks = { reasoning_replay = \"reasoning_content\" }";
    let server = RoundServer::start(&[&player], &tools(), settings);
    server
        .answer(&request(&question()), RoundClient::Streaming)
        .await;
    let sent = player.requests();
    assert_eq!(sent.len(), 3);
    assert_continues(&sent[1], &sent[0]);
    assert_continues(&sent[2], &sent[1]);
    let messages = sent[2].json()["messages"].clone();
    assert_eq!(messages[1]["reasoning_content"], "hm", "{messages}");
    assert_eq!(messages[3]["reasoning_content"], "more", "{messages}");
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

/// The roles and call ids of the messages of a request.
fn shape(sent: &RecordedRequest) -> String {
    let body = sent.json();
    let messages = body["messages"].as_array().unwrap().iter();
    let shape = messages.map(|message| match message["role"].as_str().unwrap() {
        "tool" => format!("{}!", message["tool_call_id"].as_str().unwrap()),
        "assistant" => {
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            let ids: Vec<&str> = calls.map(|call| call["id"].as_str().unwrap()).collect();
            format!("({})", ids.join(" "))
        }
        role => role.to_owned(),
    });
    shape.collect::<Vec<_>>().join(" ")
}

async fn made_whole() {
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
            // A client sends back all items, or leaves out those that are nothing to it.
            for keeps_all in [true, false] {
                let player = Player::start(PlayerScript::default()).await.unwrap();
                for steps in &answers {
                    player.push(answer(steps.clone()));
                }
                let server = RoundServer::start(&[&player], &tools(), "");
                let response = server.answer(&request(&question()), client).await;
                let is_kept = |item: &Value| {
                    let kind = item["type"].as_str().unwrap();
                    keeps_all || matches!(kind, "message" | "function_call")
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

async fn forgotten() {
    let player = Player::start(PlayerScript::default()).await.unwrap();
    player.push(answer(json!([call("p1", "look"), call("c1", "shell")])));
    let server = RoundServer::start(&[&player], &tools(), "");
    let response = server
        .answer(&request(&question()), RoundClient::Streaming)
        .await;
    let next = next(&response, |_| true);
    let player = Player::start(PlayerScript::default()).await.unwrap();
    let another = RoundServer::start(&[&player], &tools(), "");
    player.push(answer(json!([{"text": "Done."}])));
    another.answer(&next, RoundClient::Streaming).await;
    assert_eq!(shape(&player.requests()[0]), "user (c1) c1!");
}
