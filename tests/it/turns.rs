//! Turns as data: what the upstream sends and what the client must receive, with and without
//! streaming, for Codex and for other clients.
mod chat_rows;
mod deferred;
mod rows;

use kit::player::{ChatDialect, Player, PlayerWire, ReplyForm, ScriptStep, ScriptedAnswer};
use kit::strict;
use serde_json::{Map, Value, json};

use self::chat_rows::{call_chunks, text_chunks};
use self::deferred::deferred_tools;
use self::rows::{
    early_ends, function_calls, odd_calls, other_tool_types, patch_calls, text_turns, tool,
};
use crate::faults::{answer, player, repeating_player};
use crate::proxy::{CODEX, Proxy, Setup, streaming};

/// A turn and its expected output.
struct TurnCase {
    name: &'static str,
    /// The fields of the request besides model and input.
    request: Value,
    /// The steps of the upstream's answer.
    steps: Value,
    /// The expected output, in the form of [`summarize_output`].
    output: Value,
    /// The expected output for Codex, if it differs.
    codex: Option<Value>,
    /// The expected output of an upstream that speaks the Responses API, whose items stay as it
    /// made them, if it differs.
    native: Option<Value>,
}

fn turn_case(name: &'static str, request: Value, steps: Value, output: Value) -> TurnCase {
    TurnCase {
        name,
        request,
        steps,
        output,
        codex: None,
        native: None,
    }
}

impl TurnCase {
    fn codex(mut self, output: Value) -> Self {
        self.codex = Some(output);
        self
    }

    fn native(mut self, output: Value) -> Self {
        self.native = Some(output);
        self
    }
}

/// The steps of a player's answer, from their JSON form.
pub fn parse_steps(json: Value) -> Vec<ScriptStep> {
    serde_json::from_value(json).unwrap()
}

/// A request with model, input and these additional fields.
fn request(more: &Value) -> Value {
    let mut body = json!({"model": "m", "input": "go"});
    let more = more.as_object().cloned().unwrap_or_default();
    body.as_object_mut().unwrap().extend(more);
    body
}

/// The output as a list of lists: the type of an item, its relevant fields, and its status unless
/// that is `completed`.
pub fn summarize_output(response: &Value) -> Value {
    let items = response["output"].as_array().unwrap();
    items.iter().map(summarize_item).collect()
}

fn summarize_item(item: &Value) -> Value {
    let text = |list: &str, key: &str| -> String {
        let parts = item[list].as_array().into_iter().flatten();
        parts.filter_map(|part| part[key].as_str()).collect()
    };
    let mut brief = match item["type"].as_str().unwrap() {
        "message" => {
            let refusal = text("content", "refusal");
            let mut content = vec![json!(text("content", "text"))];
            if !refusal.is_empty() {
                content = vec![json!({ "refusal": refusal })];
            }
            [vec![json!("message"), item["phase"].clone()], content].concat()
        }
        "reasoning" => vec![json!("reasoning"), json!(text("summary", "text"))],
        _ => {
            let mut call = vec![item["type"].clone(), item["call_id"].clone()];
            let parts = [
                "namespace",
                "name",
                "arguments",
                "input",
                "operation",
                "tools",
            ];
            call.extend(parts.iter().filter_map(|key| item.get(*key)).cloned());
            if let Some(action) = item["action"].as_object() {
                let known: Map<String, Value> = action
                    .iter()
                    .filter(|(_, value)| !value.is_null() && *value != &json!({}))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                call.push(Value::Object(known));
            }
            call
        }
    };
    match item["status"].as_str() {
        None | Some("completed") => {}
        Some(other) => brief.push(other.into()),
    }
    Value::Array(brief)
}

#[kit::test(on_each_wire)]
async fn turns_of_text_reasoning_and_refusals(wire: PlayerWire) {
    play(wire, Setup::new(), text_turns()).await;
}

#[kit::test(on_each_wire)]
async fn turns_with_function_calls(wire: PlayerWire) {
    play(wire, Setup::new(), function_calls()).await;
}

/// Promise: Fragmented, interleaved and unusually formed tool calls are reassembled completely,
/// with their arguments byte for byte, each call has an id of its own, and each tool a name of its
/// own for the provider.
#[kit::test(on_each_wire)]
async fn calls_in_unusual_forms(wire: PlayerWire) {
    play(wire, Setup::new(), odd_calls()).await;
}

#[kit::test(on_each_wire)]
async fn turns_with_tools_of_other_types(wire: PlayerWire) {
    play(wire, Setup::new(), other_tool_types()).await;
}

#[kit::test(on_each_wire)]
async fn turns_with_deferred_tools(wire: PlayerWire) {
    play(wire, Setup::new(), deferred_tools()).await;
}

#[kit::test(on_each_wire)]
async fn turns_that_end_early(wire: PlayerWire) {
    play(wire, Setup::new(), early_ends()).await;
}

#[kit::test]
async fn turns_of_unusual_chunks() {
    play(PlayerWire::Chat, Setup::new(), text_chunks()).await;
}

#[kit::test]
async fn calls_in_unusual_chunks() {
    play(PlayerWire::Chat, Setup::new(), call_chunks()).await;
}

/// Runs every turn in four ways: with and without streaming, for Codex and for other clients.
async fn play(wire: PlayerWire, setup: Setup, cases: Vec<TurnCase>) {
    let player = player(wire).await;
    let proxy = Proxy::start_with(&player, setup).await;
    for case in cases {
        let body = request(&case.request);
        for headers in [&[], CODEX] {
            let expected = match &case.codex {
                Some(output) if !headers.is_empty() => output,
                _ => match &case.native {
                    Some(output) if wire == PlayerWire::Responses => output,
                    _ => &case.output,
                },
            };
            for _ in 0..2 {
                player.push(ScriptedAnswer::steps(parse_steps(case.steps.clone())));
            }
            let reply = proxy.post_with(&streaming(&body), headers).await;
            let stream = match headers {
                [] => reply.stream(),
                _ => reply.stream_for_codex(),
            };
            let output = summarize_output(&stream.response);
            assert_eq!(&output, expected, "{}", case.name);
            let reply = proxy.post_with(&body, headers).await;
            if stream.response["status"] == "failed" {
                let error = reply.error(400);
                assert_eq!(error["message"], stream.response["error"]["message"]);
                continue;
            }
            assert_eq!(reply.status, 200, "{}: {reply:?}", case.name);
            let whole = strict::check_response_or_panic(&reply.body);
            strict::same_output(&stream.response, &whole).unwrap();
            strict::same_settings(&body, &whole).unwrap();
            assert_eq!(stream.response["status"], whole["status"], "{}", case.name);
        }
    }
    assert!(!proxy.whole_log().await.contains("panicked"));
}

/// The provider gets the tool as a function. One that takes it as it is writes the patch itself,
/// and its call is passed on as it is.
#[kit::test(on_each_wire)]
async fn apply_patch_is_repaired_where_the_repair_is_certain(wire: PlayerWire) {
    let setup = match wire {
        PlayerWire::Chat => Setup::new(),
        PlayerWire::Responses => Setup::new().provider("quirks = { tools = [] }"),
    };
    play(wire, setup, patch_calls()).await;
}

/// Starts a player that always gives this answer, and the program in front of it.
async fn start_with_answer(wire: PlayerWire, answer: ScriptedAnswer) -> (Player, Proxy) {
    let player = repeating_player(wire, answer).await;
    let proxy = Proxy::start(&player).await;
    (player, proxy)
}

#[kit::test(on_each_wire)]
async fn usage_is_the_providers_or_an_estimate(wire: PlayerWire) {
    let with_usage = json!([{"text": "hi"}, {"usage": {
        "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 5}
    }}]);
    let (_player, proxy) = start_with_answer(wire, answer(with_usage)).await;
    let stream = proxy.stream(&request(&json!({}))).await;
    let whole = proxy.response(&request(&json!({}))).await;
    assert_eq!(stream.response["usage"], whole["usage"]);
    let expected = json!({
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 120
    });
    assert_eq!(whole["usage"], expected);
    for (kind, count) in [
        ("input", 200.0),
        ("cached", 120.0),
        ("output", 40.0),
        ("reasoning", 10.0),
    ] {
        let labels = format!("kind=\"{kind}\"");
        proxy
            .wait_for_metric("respondent_tokens_total", &labels, count)
            .await;
    }

    let without_usage = json!([{"text": "a long enough text"}, {"finish": "stop"}, {"done": true}]);
    let (_player, proxy) = start_with_answer(wire, answer(without_usage)).await;
    let reply = proxy.post(&request(&json!({}))).await;
    assert_eq!(reply.header("x-respondent-notes"), Some("usage_estimated"));
    let usage = &strict::check_response_or_panic(&reply.body)["usage"];
    assert!(usage["input_tokens"].as_u64().unwrap() > 0);
    assert!(usage["output_tokens"].as_u64().unwrap() > 0);
    proxy.wait_for_log("usage_estimated").await;
}

#[kit::test]
async fn log_probabilities_are_passed_on() {
    let probability = |token: &str| json!({"token": token, "logprob": -0.5, "bytes": [104], "top_logprobs": [{"token": "x", "logprob": -2.0, "bytes": null}]});
    let chunk = |token: &str| {
        json!({"chunk": {"choices": [{"index": 0, "delta": {"content": token},
        "logprobs": {"content": [probability(token)]}, "finish_reason": null}]}})
    };
    let answer = ScriptedAnswer::steps(parse_steps(json!([chunk("h"), chunk("i")])));
    let (player, proxy) = start_with_answer(PlayerWire::Chat, answer).await;
    let body = request(&json!({"include": ["message.output_text.logprobs"], "top_logprobs": 1}));
    let stream = proxy.stream(&body).await;
    let whole = proxy.response(&body).await;
    strict::same_output(&stream.response, &whole).unwrap();
    let tokens = &whole["output"][0]["content"][0]["logprobs"];
    assert_eq!(tokens[0]["token"], "h");
    assert_eq!(tokens[1]["logprob"], -0.5);
    assert_eq!(tokens[1]["top_logprobs"][0]["token"], "x");
    let sent = player.requests()[0].json();
    assert_eq!(
        (&sent["logprobs"], &sent["top_logprobs"]),
        (&json!(true), &json!(1))
    );
}

/// The data of an answer with the text `a\u{e4}b`.
fn documents(wire: PlayerWire) -> Vec<String> {
    match wire {
        PlayerWire::Chat => {
            let text =
                |text: &str| format!("{{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}");
            let end = "{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}";
            vec![text("a\u{e4}"), text("b"), end.to_owned()]
        }
        PlayerWire::Responses => {
            let item =
                json!({"id": "msg_1", "type": "message", "role": "assistant", "content": []});
            let delta = |delta: &str| {
                json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0,
                    "content_index": 0, "delta": delta})
            };
            let events = [
                json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
                delta("a\u{e4}"),
                delta("b"),
                json!({"type": "response.completed", "response": {"status": "completed"}}),
            ];
            events.iter().map(Value::to_string).collect()
        }
    }
}

/// Promise: Every variant of server-sent-events framing is read, and an answer with a finish reason
/// does not need `[DONE]`.
#[kit::test(on_each_wire)]
async fn the_framing_of_the_upstream_does_not_matter(wire: PlayerWire) {
    let data = documents(wire);
    // Every document with this around it.
    let framed = |before: &str, after: &str| -> String {
        let framed = data.iter().map(|data| format!("{before}{data}{after}"));
        framed.collect()
    };
    let lines = framed("data: ", "\n\n");
    let mut mixed = String::new();
    for (data, end) in data.iter().zip(["\n\r\n", "\r\n\r", "\r\r"].iter().cycle()) {
        mixed.extend(["data: ", data.as_str(), end]);
    }
    let framings = [
        ("LF", lines.clone()),
        ("CRLF", framed("data: ", "\r\n\r\n")),
        ("CR", framed("data: ", "\r\r") + "data: [DONE]\r\r"),
        ("mixed", mixed),
        ("a byte order mark", format!("\u{feff}{lines}")),
        ("no space after the colon", framed("data:", "\n\n")),
        (
            "several lines",
            lines.replacen("\"delta\":", "\"delta\":\ndata: ", 1),
        ),
        (
            "comments and other fields",
            format!(
                ": hello\n\n{}",
                framed("event: x\nid: 7\nretry: 1\nno colon\ndata: ", "\n\n:\n\n")
            ),
        ),
        (
            "no blank line at the end",
            lines.trim_end_matches('\n').to_owned(),
        ),
        (
            "data after the end",
            format!("{lines}data: [DONE]\n\n{lines}"),
        ),
    ];
    let player = player(wire).await;
    let proxy = Proxy::start(&player).await;
    for (name, raw) in framings {
        for split in [0, 1, 7] {
            player.push(ScriptedAnswer {
                split,
                ..ScriptedAnswer::steps(vec![ScriptStep::Raw(raw.clone())])
            });
            let stream = proxy.stream(&request(&json!({}))).await;
            assert_eq!(stream.terminal, "response.completed", "{name}, {split}");
            assert_eq!(stream.text(), "a\u{e4}b", "{name}, {split}");
        }
    }
}

/// Promise: An upstream stream that ends before its finish reason counts as failed, unless token
/// counts after the complete answer show that it is complete; the client's stream always ends with
/// a terminal event.
#[kit::test(on_each_wire)]
async fn an_answer_is_complete_once_its_finish_reason_has_arrived(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start(&player).await;
    for (answer_steps, terminal) in [
        (
            json!([{"text": "a"}, {"finish": "stop"}, {"done": true}]),
            "response.completed",
        ),
        (
            json!([{"text": "a"}, {"finish": "stop"}, {"cut": "fin"}]),
            "response.completed",
        ),
        (
            json!([{"text": "a"}, {"finish": "stop"}, {"cut": "rst"}]),
            "response.completed",
        ),
        (
            json!([{"text": "a"}, {"finish": "stop"}, {"raw": "data: {\"choices\":[],\"us"}, {"cut": "fin"}]),
            "response.completed",
        ),
        (
            json!([{"text": "a"}, {"finish": "something_new"}, {"done": true}]),
            "response.completed",
        ),
        (json!([{"text": "a"}, {"done": true}]), "response.failed"),
        (json!([{"text": "a"}, {"raw": ""}]), "response.failed"),
        (json!([{"text": "a"}, {"cut": "fin"}]), "response.failed"),
    ] {
        player.push(ScriptedAnswer::steps(parse_steps(answer_steps.clone())));
        let stream = proxy.stream(&request(&json!({}))).await;
        assert_eq!(stream.terminal, terminal, "{answer_steps}");
        assert_eq!(stream.text(), "a");
    }
}

#[kit::test(on_each_wire)]
async fn a_json_answer_to_a_streaming_request_is_read(wire: PlayerWire) {
    let whole = json!([
        {"reasoning": "why"}, {"text": "whole"},
        {"call": {"id": "c1", "name": "look", "arguments": "{}"}},
        {"usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}},
    ]);
    let dialect = ChatDialect {
        form: ReplyForm::Document,
        ..ChatDialect::default()
    };
    let answer = ScriptedAnswer {
        dialect: Some(dialect),
        ..answer(whole)
    };
    let (_player, proxy) = start_with_answer(wire, answer).await;
    let body = request(&json!({"tools": [tool("look")]}));
    let stream = proxy.stream(&body).await;
    let expected = json!([
        ["reasoning", "why"],
        ["message", "commentary", "whole"],
        ["function_call", "c1", "look", "{}"]
    ]);
    assert_eq!(summarize_output(&stream.response), expected);
    let whole = proxy.response(&body).await;
    strict::same_output(&stream.response, &whole).unwrap();
    assert_eq!(whole["usage"]["total_tokens"], 7);
}

#[kit::test(on_each_wire)]
async fn call_ids_are_unique_in_the_conversation(wire: PlayerWire) {
    let long = "x".repeat(65);
    let calls = json!([
        {"call": {"id": "old", "name": "look", "arguments": "{}"}},
        {"call": {"id": "", "name": "look", "arguments": "{}"}},
        {"call": {"name": "look", "arguments": "{}"}},
        {"call": {"id": long, "name": "look", "arguments": "{}"}},
        {"call": {"id": "new", "name": "look", "arguments": "{}"}},
    ]);
    let (_player, proxy) = start_with_answer(wire, answer(calls)).await;
    let body = json!({"model": "m", "tools": [tool("look")], "input": [
        {"role": "user", "content": "go"},
        {"type": "function_call", "call_id": "old", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "old", "output": "nothing"}
    ]});
    let stream = proxy.stream(&body).await;
    let ids: Vec<String> = stream
        .calls()
        .into_iter()
        .map(|call| call.call_id)
        .collect();
    assert_eq!(ids.len(), 5);
    assert_eq!(ids[4], "new");
    for id in &ids[..4] {
        assert!((1..=64).contains(&id.len()) && id != "old", "{id}");
    }
    let repeated = proxy.stream(&body).await;
    let same: Vec<String> = repeated
        .calls()
        .into_iter()
        .map(|call| call.call_id)
        .collect();
    assert_eq!(ids, same, "the same answer gets the same ids");
    let whole = proxy.response(&body).await;
    strict::same_output(&stream.response, &whole).unwrap();
}

#[kit::test]
async fn an_error_that_is_null_is_none() {
    let player = player(PlayerWire::Chat).await;
    let proxy = Proxy::start(&player).await;
    player.push(answer(
        json!([{"text": "a"}, {"error": null}, {"finish": "stop"}]),
    ));
    let stream = proxy.stream(&request(&json!({}))).await;
    assert_eq!(stream.terminal, "response.completed");
}

#[kit::test(on_each_wire)]
async fn the_headers_contain_the_notes_and_the_route(wire: PlayerWire) {
    let setup = Setup::new().tables("[routing.aliases]\nfast = \"up/large\"");
    let player = repeating_player(wire, answer(json!([{"text": "a"}]))).await;
    let proxy = Proxy::start_with(&player, setup).await;
    let body =
        json!({"model": "fast", "input": "x", "tools": [{"type": "web_search"}], "moderation": {}});
    let reply = proxy.post(&body).await;
    assert_eq!(reply.header("x-respondent-route"), Some("up/large"));
    let notes = reply.header("x-respondent-notes").unwrap();
    // Only an upstream of the same API can search.
    let searches = wire == PlayerWire::Responses;
    assert_eq!(notes.contains("tool_dropped"), !searches, "{notes}");
    assert!(notes.contains("parameter_ignored"), "{notes}");
    assert!(reply.header("x-request-id").unwrap().starts_with("req_"));
    assert_eq!(player.requests()[0].json()["model"], "large");
    proxy.wait_for_log(", up/large, ").await;
    proxy
        .wait_for_metric("respondent_turns_total", "model=\"large\"", 1.0)
        .await;
}
