//! `context_management`: a history that exceeds the client's threshold is compacted after its
//! answer, or before it if it does not fit the window.
use adapters::plan::output::artifact_id;
use kit::player::{PlayerWire, RecordedRequest, ScriptedAnswer};
use serde_json::{Value, json};

use super::session::{SUMMARY, Session, messages, request, user_message};
use crate::faults::{answer, player};
use crate::proxy::{Proxy, Setup, streaming};
use crate::web_search::web::call;

/// A session beyond the threshold that ends with a question.
fn session() -> Vec<Value> {
    let mut items = Session::with_tool_rounds(4, 4000).items;
    items.push(user_message("Now the tests."));
    items
}

fn limited(items: &[Value], threshold: u64) -> Value {
    let mut body = request(items);
    body["context_management"] = json!([{"type": "compaction", "compact_threshold": threshold}]);
    body
}

fn says(text: &str) -> ScriptedAnswer {
    answer(json!([{"text": text}]))
}

fn kinds(response: &Value) -> Vec<&str> {
    let output = response["output"].as_array().unwrap().iter();
    output.map(|item| item["type"].as_str().unwrap()).collect()
}

/// The items that a client keeps from its summary on, and another message.
fn from_summary(response: &Value, next: Value) -> Vec<Value> {
    let output = response["output"].as_array().unwrap();
    vec![output.last().unwrap().clone(), next]
}

#[kit::test(on_each_wire)]
async fn context_management_compacts_after_the_answer(wire: PlayerWire) {
    for stream in [true, false] {
        let player = player(wire).await;
        let proxy = Proxy::start(&player).await;
        player.push(says("the tests pass"));
        player.push(says(SUMMARY));
        let body = limited(&session(), 1000);
        let response = if stream {
            proxy.stream(&streaming(&body)).await.response
        } else {
            proxy.response(&body).await
        };
        assert_eq!(kinds(&response), ["message", "compaction"]);
        assert_eq!(
            response["output"][0]["content"][0]["text"],
            "the tests pass"
        );
        assert_eq!(response["output"][0]["phase"], "final_answer");
        let sent = player.requests();
        assert_eq!(sent.len(), 2);
        // The answer had the whole history, and the summary covers it with the answer.
        assert!(sent[0].body.contains("0:1 let byte") && !sent[0].body.contains("rsc1."));
        assert!(sent[1].body.contains("the tests pass"), "{}", sent[1].body);
        proxy
            .wait_for_metric("respondent_compactions_total", "door=\"threshold\"", 1.0)
            .await;
    }
}

/// Two turns: the first is compacted, and the second continues as `next` says.
async fn two_turns(next: impl Fn(&Value) -> Vec<Value>) -> Vec<RecordedRequest> {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start(&player).await;
    for text in ["the tests pass", SUMMARY, "it is done"] {
        player.push(says(text));
    }
    let first = proxy.response(&limited(&session(), 4000)).await;
    let second = proxy.response(&limited(&next(&first), 4000)).await;
    assert_eq!(kinds(&second), ["message"]);
    assert_eq!(player.requests().len(), 3);
    player.requests()
}

#[kit::test]
async fn a_client_that_sends_its_whole_history_again_is_not_compacted_again() {
    let sent = two_turns(|first| {
        let mut items = session();
        items.extend(first["output"].as_array().unwrap().iter().cloned());
        items.push(user_message("Then commit."));
        items
    })
    .await;
    let expected = [&["You are a coding agent."][..], &FROM_THE_SUMMARY_ON].concat();
    assert_messages(&sent[2], &expected);
}

#[kit::test]
async fn a_client_that_sends_nothing_from_before_the_summary_loses_nothing() {
    let sent = two_turns(|first| from_summary(first, user_message("Then commit."))).await;
    assert_messages(&sent[2], &FROM_THE_SUMMARY_ON);
}

/// Texts in the messages of the second turn, from the summary on.
const FROM_THE_SUMMARY_ON: [&str; 4] = [
    "line 40 loses the last byte",
    "Now the tests.",
    "the tests pass",
    "Then commit.",
];

/// Asserts that a request has as many messages as there are texts, each with its text.
fn assert_messages(sent: &RecordedRequest, expected: &[&str]) {
    let found = messages(sent);
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (message, text) in found.iter().zip(expected) {
        assert!(message.contains(text), "{text}: {message}");
    }
}

#[kit::test]
async fn a_stored_response_continues_from_its_summary() {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start(&player).await;
    for text in ["the tests pass", SUMMARY, "it is done"] {
        player.push(says(text));
    }
    let mut body = limited(&session(), 1000);
    body["store"] = true.into();
    let first = proxy.response(&body).await;
    let next = json!({"model": "m", "input": "Then commit.", "previous_response_id": first["id"]});
    proxy.response(&next).await;
    let last = messages(&player.requests()[2]);
    assert_eq!(last.len(), 5, "{last:?}");
    assert!(last[1].contains("line 40 loses the last byte"));
    assert!(last[3].contains("the tests pass") && last[4].contains("Then commit."));
}

/// Promise: The compaction item of `context_management` comes after the answer and covers both; a
/// call that waits for its result survives it, whatever part of its history the client sends; an
/// answer without a summary is complete.
#[kit::test(on_each_wire)]
async fn a_call_that_waits_for_its_result_survives_a_compaction(wire: PlayerWire) {
    let call = json!({"call": {"id": "c9", "name": "exec_command", "arguments": "{\"cmd\":\"cargo test\"}"}});
    let result = json!({"type": "function_call_output", "call_id": "c9", "output": "42 passed"});
    for keeps_all in [true, false] {
        let player = player(wire).await;
        let proxy = Proxy::start(&player).await;
        player.push(answer(json!([call])));
        player.push(says(SUMMARY));
        player.push(says("all pass"));
        let first = proxy.response(&limited(&session(), 1500)).await;
        assert_eq!(kinds(&first), ["function_call", "compaction"]);
        let items = if keeps_all {
            let output = first["output"].as_array().unwrap().iter().cloned();
            let items = session().into_iter().chain(output);
            items.chain([result.clone()]).collect()
        } else {
            from_summary(&first, result.clone())
        };
        let second = proxy.response(&limited(&items, 1500)).await;
        assert_eq!(kinds(&second), ["message"]);
        let last = player.requests()[2].json();
        let list = last.get("messages").or(last.get("input")).unwrap();
        let list = list.as_array().unwrap();
        let [.., made, got] = list.as_slice() else {
            panic!("{list:?}")
        };
        assert!(made.to_string().contains("cargo test"), "{made}");
        assert!(got.to_string().contains("42 passed"), "{got}");
        let ids = ["tool_call_id", "call_id"].map(|name| got[name].as_str());
        assert!(ids.contains(&Some("c9")), "{got}");
        let user = |item: &Value| item["role"] == "user" && item.to_string().contains("c9");
        assert!(!list.iter().any(user), "the result has its call: {list:?}");
    }
}

#[kit::test(on_each_wire)]
async fn an_answer_without_a_summary_is_complete(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start_with(&player, Setup::new().provider("max_retries = 0")).await;
    let body = limited(&session(), 1000);
    let no = || ScriptedAnswer::error(400, "no");
    let call = || answer(json!([{"call": {"id": "c", "name": "exec_command", "arguments": "{}"}}]));
    for attempts in [[no(), no()], [call(), no()], [no(), says(" ")]] {
        for stream in [true, false] {
            player.push(says("the tests pass"));
            for attempt in &attempts {
                player.push(attempt.clone());
            }
            let response = if stream {
                proxy.stream(&streaming(&body)).await.response
            } else {
                let reply = proxy.post(&body).await;
                let notes = reply.header("x-respondent-notes").unwrap_or_default();
                assert!(notes.contains("compaction_failed"), "{notes}");
                serde_json::from_str(&reply.body).unwrap()
            };
            assert_eq!(response["status"], "completed");
            assert_eq!(kinds(&response), ["message"]);
        }
    }
}

#[kit::test]
async fn a_turn_below_its_threshold_is_not_compacted() {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start(&player).await;
    player.push(says("the tests pass"));
    let body = limited(&Session::with_tool_rounds(4, 2000).items, 100_000);
    let response = proxy.stream(&streaming(&body)).await.response;
    assert_eq!(kinds(&response), ["message"]);
    assert_eq!(player.requests().len(), 1);
}

#[kit::test]
async fn what_the_provider_counted_exceeds_the_threshold_as_well() {
    for (output, expected) in [(90, &["message"][..]), (101, &["message", "compaction"])] {
        let player = player(PlayerWire::Chat).await;
        let proxy = Proxy::start(&player).await;
        let usage = json!({"prompt_tokens": 900, "completion_tokens": output});
        player.push(answer(json!([{"text": "a story"}, {"usage": usage}])));
        player.push(says(SUMMARY));
        let body = limited(&[user_message("Tell a story.")], 1000);
        assert_eq!(kinds(&proxy.response(&body).await), expected);
        assert_eq!(player.requests().len(), expected.len());
    }
}

#[kit::test]
async fn a_history_that_does_not_fit_the_window_is_compacted_before_its_answer() {
    let player = player(PlayerWire::Chat).await;
    let setup = Setup::new().provider("models = [{ id = \"m\", window = 8192 }]");
    let proxy = Proxy::start_with(&player, setup).await;
    player.push(says(SUMMARY));
    player.push(says("the tests pass"));
    let mut items = session();
    let report = "I have read one more file, and it is as it should be. ".repeat(800);
    let report = json!([{"type": "output_text", "text": report}]);
    items.insert(
        2,
        json!({"type": "message", "role": "assistant", "content": report}),
    );
    let response = proxy.response(&limited(&items, 100_000)).await;
    assert_eq!(kinds(&response), ["compaction", "message"]);
    let last = messages(&player.requests()[1]);
    assert_eq!(last.len(), 3, "instructions, summary, message: {last:?}");
    assert!(last[1].contains("line 40 loses the last byte"));
    assert!(last[2].contains("Now the tests."));
}

/// Promise: If a history is compacted before its answer, the model can read the outputs that the
/// summary lists in that answer.
#[kit::test]
async fn an_answer_to_a_summary_reads_what_it_lists() {
    let player = player(PlayerWire::Chat).await;
    let setup = Setup::new().provider("models = [{ id = \"m\", window = 8192 }]");
    let proxy = Proxy::start_with(&player, setup).await;
    // Nothing of it is too long by itself.
    let mut items = Session::with_tool_rounds(4, 2000).items;
    let output = items[3]["output"].as_str().unwrap().to_owned();
    let report = "I have read one more file, and it is as it should be. ".repeat(800);
    items.insert(
        2,
        json!({"type": "message", "role": "assistant", "content": report}),
    );
    items.push(user_message("Now the tests."));
    let part = json!({"id": artifact_id(&output), "lines": 1});
    player.push(says(SUMMARY));
    player.push(answer(json!([call("r1", "artifact_read", &part)])));
    player.push(says("the tests pass"));
    let response = proxy.response(&limited(&items, 100_000)).await;
    assert_eq!(kinds(&response), ["compaction", "mcp_call", "message"]);
    let read = response["output"][1]["output"].as_str().unwrap();
    assert!(read.contains(output.lines().next().unwrap()), "{read}");
}

#[kit::test]
async fn a_turn_that_fails_is_not_compacted() {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start_with(&player, Setup::new().provider("max_retries = 0")).await;
    let body = limited(&session(), 1000);
    player.push(ScriptedAnswer::error(400, "no"));
    proxy.post(&body).await.error(400);
    // An answer that its limit cut off is no end of a turn either.
    player.push(answer(json!([{"text": "the tests"}, {"finish": "length"}])));
    let response = proxy.stream(&streaming(&body)).await.response;
    assert_eq!(response["status"], "incomplete");
    assert_eq!(kinds(&response), ["message"]);
    assert_eq!(player.requests().len(), 2);
}

#[kit::test]
async fn heartbeats_are_sent_while_the_summary_behind_an_answer_is_awaited() {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start_with(&player, Setup::new().server("heartbeat = \"50ms\"")).await;
    player.push(says("the tests pass"));
    player.push(ScriptedAnswer {
        head_delay_ms: 2_000,
        ..says(SUMMARY)
    });
    let reply = proxy.post(&streaming(&limited(&session(), 1000))).await;
    assert_eq!(kinds(&reply.stream().response), ["message", "compaction"]);
    let (_, behind) = reply.body.split_once("response.output_text.done").unwrap();
    assert!(behind.matches("event: response.in_progress").count() > 2);
}

#[kit::test]
async fn a_background_answer_ends_with_its_summary() {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start(&player).await;
    player.push(says("the tests pass"));
    player.push(says(SUMMARY));
    let mut body = limited(&session(), 1000);
    body["store"] = true.into();
    body["background"] = true.into();
    let queued: Value = serde_json::from_str(&proxy.post(&body).await.body).unwrap();
    let path = format!(
        "/v1/responses/{}?stream=true",
        queued["id"].as_str().unwrap()
    );
    let stream = proxy.get(&path).await.stream();
    assert_eq!(kinds(&stream.response), ["message", "compaction"]);
}
