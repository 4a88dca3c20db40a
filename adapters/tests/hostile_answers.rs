//! Answers of a provider that are made to cost more than their bytes, or that are broken: each is
//! read in proportion to its length, within limits, and the client gets a strict stream.
//!
//! The lengths are such that reading everything again for each piece would take hours.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "clippy does not see that helpers of an integration test are tests"
)]

mod common;

use common::judge;
use kit::drive::{self, DrivenAnswer, settings};
use kit::strict::{self, CheckedStream, StreamRule};
use registry::{ChatQuirks, RelayQuirks, WireQuirks};
use responses_translate::responses::request::TurnSource;
use serde_json::{Value, json};

/// How many pieces a long answer has.
const PIECES: usize = 60_000;

/// The answer to a request with some tools, from these events.
fn answered(quirks: WireQuirks, events: &[Value], codex: bool) -> DrivenAnswer {
    let tools = json!([
        {"type": "function", "name": "f"},
        {"type": "custom", "name": "c"},
        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "g"}]},
    ]);
    let body = json!({"model": "m", "input": "x", "stream": true, "tools": tools});
    let source = TurnSource::new(body.to_string());
    let turn = source.turn().unwrap();
    let chunks: Vec<String> = events
        .iter()
        .map(|data| format!("data: {data}\n\n"))
        .collect();
    let chunks = chunks.iter().map(String::as_bytes);
    drive::read(settings(&turn, codex, true), &quirks, chunks, true)
}

/// The strict stream of an answer.
fn checked(answer: &DrivenAnswer, codex: bool) -> CheckedStream {
    judge::stream(std::str::from_utf8(&answer.body).unwrap(), codex)
}

/// The strict stream of a Chat Completions answer that has these deltas.
fn chat(quirks: &str, deltas: Vec<Value>) -> CheckedStream {
    let quirks: ChatQuirks = toml::from_str(quirks).unwrap();
    let mut events: Vec<Value> = deltas
        .into_iter()
        .map(|delta| json!({"choices": [{"index": 0, "delta": delta}]}))
        .collect();
    events.push(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}));
    checked(&answered(quirks.into(), &events, false), false)
}

/// A piece of the arguments of the first call.
fn arguments(piece: &str) -> Value {
    json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
}

/// The beginning of a call.
fn call(index: usize, name: &str) -> Value {
    let id = format!("call_{index}");
    json!({"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": ""}}]})
}

/// `first`, and then a delta for each number of a long answer.
fn with_many(first: Value, piece: impl Fn(usize) -> Value) -> Vec<Value> {
    let mut deltas = vec![first];
    deltas.extend((0..PIECES).map(piece));
    deltas
}

#[test]
fn open_arguments_are_not_read_again_for_each_text() {
    let mut deltas = with_many(call(0, "f"), |_| arguments(r#""[\n\"}","#));
    deltas[1] = arguments(&format!("[{}", r#""[\n\"}","#.repeat(PIECES)));
    deltas.extend((0..PIECES).map(|_| json!({"content": "x"})));
    deltas.push(arguments("1]"));
    let stream = chat("", deltas);
    assert_eq!(stream.terminal, "response.completed");
    assert_eq!(stream.text().len(), PIECES);
    let arguments = &stream.calls()[0].arguments;
    assert!(serde_json::from_str::<Vec<Value>>(arguments).unwrap().len() > PIECES);
}

#[test]
fn blank_arguments_are_not_read_again_for_each_piece() {
    for name in ["f", "c"] {
        let mut deltas = with_many(call(0, name), |_| arguments(&" \n".repeat(8)));
        deltas.push(arguments(r#"{"input":"x"}"#));
        let stream = chat("", deltas);
        assert_eq!(stream.terminal, "response.completed");
        let called = &stream.calls()[0].arguments;
        assert!(called.trim_start().starts_with(['{', 'x']), "{name}");
    }
}

#[test]
fn repeated_names_do_not_parse_the_arguments_again() {
    let named = |piece: &str| json!({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": piece}}]});
    let mut deltas = with_many(call(0, "f"), |_| named("}"));
    deltas[1] = named(r#"{"a":""#);
    deltas.push(named(r#""}"#));
    let stream = chat("", deltas);
    assert_eq!(stream.calls().len(), 1);
}

#[test]
fn many_tags_in_a_text_do_not_read_it_again() {
    const PAIRS: usize = 50_000;
    let text = "<think>a</think>b\n".repeat(PAIRS);
    let stream = chat("think_tags = \"on\"", vec![json!({"content": text})]);
    assert_eq!(stream.text(), "b\n".repeat(PAIRS));
}

#[test]
fn many_interleaved_calls_find_their_arguments() {
    const CALLS: usize = 5_000;
    let mut deltas: Vec<Value> = (0..CALLS).map(|index| call(index, "f")).collect();
    for piece in [r#"{"a":"#, "1", "}"] {
        deltas.extend((0..CALLS).rev().map(
            |index| json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}),
        ));
    }
    let stream = chat("", deltas);
    let calls = stream.calls();
    assert_eq!(calls.len(), CALLS);
    assert!(calls.iter().all(|call| call.arguments == r#"{"a":1}"#));
}

#[test]
fn an_answer_has_limits_for_calls_and_items() {
    let many_calls = (0..10_001).map(|index| call(index, "f")).collect();
    assert_eq!(chat("", many_calls).terminal, "response.failed");
    let at_once: Vec<Value> = (0..10_001)
        .map(|index| json!({"index": index, "function": {"name": "f"}}))
        .collect();
    let fault = answered(
        ChatQuirks::default().into(),
        &[json!({"choices": [{"index": 0, "delta": {"tool_calls": at_once}}]})],
        false,
    )
    .fault;
    assert!(fault.is_some());
    let alternating = (0..12_000).flat_map(|_| [json!({"content": "x"}), json!({"refusal": "y"})]);
    let stream = chat("", alternating.collect());
    assert_eq!(stream.terminal, "response.failed");
}

/// Promise: An answer costs time in proportion to its bytes, however it is cut into pieces, and its
/// items and annotations are limited.
#[test]
fn a_text_has_a_thousand_annotations_at_most() {
    let annotation = |number: usize| {
        let url = format!("https://x/{number}");
        json!({"type": "url_citation", "url_citation": {"url": url, "title": "t"}})
    };
    let many: Vec<Value> = (0..PIECES).map(annotation).collect();
    let stream = chat(
        "",
        vec![json!({"content": "x"}), json!({"annotations": many})],
    );
    let written = stream.response["output"][0]["content"][0]["annotations"].clone();
    assert_eq!(written.as_array().unwrap().len(), 1_000);
}

#[test]
fn text_that_may_be_a_tag_is_not_read_again_for_each_piece() {
    let quirks = "think_tags = 'on'\ntool_call_tags = true";
    let blank = with_many(json!({"content": " "}), |_| json!({"content": "\n\t \r"}));
    let mut deltas = blank;
    deltas.push(json!({"content": "<think>a</think>b"}));
    assert_eq!(chat(quirks, deltas).text(), "b");
    // Many calls in one piece.
    let calls = r#"<tool_call>{"name":"f","arguments":{}}</tool_call>"#.repeat(9_000);
    assert_eq!(
        chat(quirks, vec![json!({ "content": calls })])
            .calls()
            .len(),
        9_000
    );
}

#[test]
fn reasoning_details_find_their_object() {
    let detail = |number: usize| json!({"type": "reasoning.text", "index": number, "text": "t"});
    let list: Vec<Value> = (0..PIECES).map(detail).collect();
    let quirks = "reasoning_replay = 'reasoning_details'";
    let stream = chat(
        quirks,
        vec![
            json!({ "reasoning_details": list }),
            json!({ "reasoning_details": list }),
            json!({"content": "x"}),
        ],
    );
    assert_eq!(stream.text(), "x");
}

/// The events of a relayed answer with one item: these deltas, each text at the end of it, and the
/// item as it is at last.
fn relayed(item: &Value, name: &str, deltas: &[&str], wholes: &[&str], field: &str) -> Vec<Value> {
    let mut done = item.clone();
    done["status"] = "completed".into();
    if let Some(last) = wholes.last().filter(|_| item["type"] == "function_call") {
        done[field] = (*last).into();
    }
    let mut events =
        vec![json!({"type": "response.output_item.added", "output_index": 0, "item": item})];
    events.extend(
        deltas.iter().map(
            |delta| json!({"type": format!("{name}.delta"), "output_index": 0, "delta": delta}),
        ),
    );
    events.extend(
        wholes
            .iter()
            .map(|whole| json!({"type": format!("{name}.done"), "output_index": 0, field: whole})),
    );
    events.push(json!({"type": "response.output_item.done", "output_index": 0, "item": done}));
    events.push(completed(&[]));
    events
}

fn function_call(name: &str) -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": "c", "name": name, "arguments": ""})
}

const ARGUMENTS: &str = "response.function_call_arguments";

#[test]
fn a_text_that_ends_again_and_again_is_not_compared_each_time() {
    let message = json!({"type": "message", "id": "msg_1", "role": "assistant", "content": []});
    let long = r"\n".repeat(1 << 20);
    let wholes = vec!["x"; PIECES];
    let text = "response.output_text";
    for (item, name, field) in [
        (message, text, "text"),
        (function_call("f"), ARGUMENTS, "arguments"),
        (function_call("g"), ARGUMENTS, "arguments"),
    ] {
        let events = relayed(&item, name, &[&long], &wholes, field);
        let answer = answered(RelayQuirks::default().into(), &events, false);
        checked(&answer, false);
    }
}

/// A fragment of the arguments was lost, and the end names all of them.
#[test]
fn lost_fragments_of_relayed_arguments_are_taken_from_their_end() {
    let whole = r#"{"name":"remember"}"#;
    let lost = [r#"{"name":"r"#, r#"ember"}"#];
    for (tool, codex, status, arguments) in [
        // Codex gets a call when it is whole.
        ("f", true, "completed", whole),
        ("g", true, "completed", whole),
        // Others have the pieces by then, and the answer fails.
        ("f", false, "incomplete", r#"{"name":"rember"}"#),
        ("g", false, "incomplete", r#"{"name":"rember"}"#),
    ] {
        let events = relayed(
            &function_call(tool),
            ARGUMENTS,
            &lost,
            &[whole],
            "arguments",
        );
        let answer = answered(RelayQuirks::default().into(), &events, codex);
        let stream = checked(&answer, codex);
        assert_eq!(stream.terminal == "response.failed", status == "incomplete");
        let call = &stream.calls()[0];
        assert_eq!(
            (call.status.as_str(), call.arguments.as_str()),
            (status, arguments),
            "{tool} {codex}"
        );
    }
    // The same arguments, written in another way, are no others.
    let events = relayed(
        &function_call("f"),
        ARGUMENTS,
        &[r#"{"a": 1}"#],
        &[r#"{"a":1}"#],
        "arguments",
    );
    let answer = answered(RelayQuirks::default().into(), &events, false);
    let call = &checked(&answer, false).calls()[0];
    assert_eq!(
        (call.status.as_str(), call.arguments.as_str()),
        ("completed", r#"{"a": 1}"#)
    );
    // Only the end of the arguments arrived.
    let events = relayed(
        &function_call("f"),
        ARGUMENTS,
        &[r#"ember"}"#],
        &[whole],
        "arguments",
    );
    let answer = answered(RelayQuirks::default().into(), &events, true);
    assert_eq!(checked(&answer, true).calls()[0].arguments, whole);
}

/// The items that a client gets of a Responses upstream that sends these events. The strict checker
/// may only complain of types and fields that the upstream alone knows.
fn relayed_items(events: &[Value]) -> Vec<Value> {
    let answer = answered(RelayQuirks::default().into(), events, false);
    let stream = std::str::from_utf8(&answer.body).unwrap();
    let foreign = [
        StreamRule::ForeignTypes,
        StreamRule::ItemShape,
        StreamRule::ItemStatus,
    ];
    for found in strict::check(stream).err().unwrap_or_default() {
        assert!(foreign.contains(&found.rule), "{found:?} in\n{stream}");
    }
    let items = stream.lines().filter_map(|line| {
        let event: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
        (event["type"] == "response.output_item.done").then(|| event["item"].clone())
    });
    items.collect()
}

/// The last event of a Responses upstream.
fn completed(output: &[Value]) -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "output": output}})
}

/// Every type of item that names a call, known to us or not, has a call id of its own, and an
/// output has the id of the call before it.
#[test]
fn relayed_items_have_call_ids_of_their_own() {
    let shell = json!({"commands": ["ls"]});
    let items = [
        json!({"type": "call_of_a_later_api", "call_id": "c"}),
        json!({"type": "custom_tool_call", "call_id": "c", "name": "c", "input": "x"}),
        json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}),
        json!({"type": "function_call", "call_id": "c", "name": "g", "arguments": "{}"}),
        json!({"type": "call_of_a_later_api", "call_id": "c"}),
        json!({"type": "web_search_call", "call_id": "c"}),
        json!({"type": "shell_call", "call_id": "c", "action": shell}),
        json!({"type": "shell_call_output", "call_id": "c", "output": []}),
        json!({"type": "shell_call", "call_id": null, "action": shell}),
        json!({"type": "shell_call", "call_id": 5, "action": shell}),
        json!({"type": "tool_search_call", "call_id": null, "execution": "client", "arguments": {}}),
    ];
    let output = relayed_items(&[completed(&items)]);
    let ids: Vec<&str> = output
        .iter()
        .map(|item| item["call_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), items.len());
    assert_eq!(ids[0], "c", "the first one keeps its own");
    assert_eq!(ids[7], ids[6], "the output is that of the call before it");
}

/// What is no call of the client may have no call id, and keeps that.
#[test]
fn relayed_items_without_a_call_id_get_none() {
    let items = [
        json!({"type": "search_of_a_later_api", "call_id": ""}),
        json!({"type": "search_of_a_later_api", "call_id": ""}),
        json!({"type": "search_of_a_later_api"}),
        json!({"type": "tool_search_call", "call_id": null, "execution": "server", "arguments": {}}),
    ];
    let output = relayed_items(&[completed(&items)]);
    let ids: Vec<Option<&Value>> = output.iter().map(|item| item.get("call_id")).collect();
    let empty = json!("");
    assert_eq!(ids, [Some(&empty), Some(&empty), None, Some(&Value::Null)]);
}

/// The client knows from the beginning of a search whether it has to run it.
#[test]
fn a_search_is_run_by_whom_its_beginning_says() {
    let search = |by: &str, id: Value| json!({"type": "tool_search_call", "call_id": id, "execution": by, "arguments": {}});
    for (added, done, expected) in [
        (
            search("server", Value::Null),
            search("client", json!("c")),
            search("server", Value::Null),
        ),
        (
            search("client", json!("c")),
            search("server", Value::Null),
            search("client", json!("c")),
        ),
    ] {
        let events = [
            json!({"type": "response.output_item.added", "output_index": 0, "item": added}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": done}),
            completed(&[]),
        ];
        let items = relayed_items(&events);
        for key in ["call_id", "execution"] {
            assert_eq!(items[0][key], expected[key], "{key}");
        }
    }
}

/// What ends an item that is no object, or is that of another item: the item is closed with what is
/// known of it, and the next one follows.
#[test]
fn an_item_is_closed_whatever_its_end_is() {
    let message = json!({"type": "message", "id": "msg_1", "role": "assistant", "content": []});
    let custom =
        json!({"type": "custom_tool_call", "id": "ct_1", "call_id": "c", "name": "c", "input": ""});
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let event = |kind: &str, at: usize, key: &str, value: &Value| {
        let mut event = json!({"type": format!("response.{kind}"), "output_index": at});
        if !value.is_null() || key != "absent" {
            event[key] = value.clone();
        }
        event
    };
    let items = [
        (function_call("f"), ARGUMENTS, r#"{"a":1}"#),
        (function_call("g"), ARGUMENTS, r#"{"a":1}"#),
        (custom, "response.custom_tool_call_input", "text"),
        (message, "response.output_text", "text"),
        (reasoning, "response.reasoning_summary_text", "text"),
    ];
    let ends = [
        json!("x"),
        json!(5),
        Value::Null,
        json!([{"type": "message"}]),
        json!({}),
        json!({"type": "web_search_call", "status": "completed"}),
        json!({"type": "message", "id": "other", "content": [{"type": "output_text", "text": "y"}]}),
        json!({"status": "completed"}),
    ];
    for (item, name, text) in &items {
        for (end, in_output) in ends.iter().flat_map(|end| [(end, false), (end, true)]) {
            let piece = json!({
                "type": format!("{name}.delta"), "output_index": 0, "delta": text,
            });
            let mut events = vec![event("output_item.added", 0, "item", item), piece];
            let mut second = function_call("f");
            second["call_id"] = "c2".into();
            second["id"] = "fc_2".into();
            let mut output = vec![];
            if in_output {
                output.push(end.clone());
            } else {
                let key = if end.is_null() { "absent" } else { "item" };
                events.push(event("output_item.done", 0, key, end));
            }
            events.push(event("output_item.added", 1, "item", &second));
            second["arguments"] = "{}".into();
            events.push(event("output_item.done", 1, "item", &second));
            output.extend(in_output.then_some(second));
            events.push(completed(&output));
            let answer = answered(RelayQuirks::default().into(), &events, false);
            let stream = checked(&answer, false);
            let shown = format!("{item} ended by {end}, in the output: {in_output}");
            assert_eq!(stream.terminal, "response.completed", "{shown}");
            let first = &stream.response["output"][0];
            assert_eq!(first["type"], item["type"], "{shown}: {first}");
            assert!(
                first.to_string().contains(&json!(text).to_string()),
                "{shown}: {first}"
            );
            assert_eq!(
                stream.response["output"].as_array().unwrap().len(),
                2,
                "{shown}"
            );
        }
    }
}
