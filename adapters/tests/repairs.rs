//! Any history of a client is repaired so that no strict provider refuses it and no text is lost.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy does not see that helpers of an integration test are tests"
)]

use std::collections::HashSet;
use std::iter;

use proptest::collection::vec;
use proptest::prelude::*;
use registry::{ChatQuirks, Dialect, Model, ReasoningReplay};
use responses_translate::encoded::Encoded;
use responses_translate::plan::{Bounds, plan};
use responses_translate::responses::request::TurnSource;
use responses_translate::wire::{EncodeOptions, encode};
use serde_json::{Value, json};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_history_is_repaired_for_a_strict_provider(pieces in vec(piece(), 1..24)) {
        let items = items(&pieces);
        let sent = encoded(&items);
        let messages = messages(&sent);
        assert_strict(&messages);
        let said = Value::Array(messages).to_string();
        for item in &items {
            let text = match item["type"].as_str().unwrap() {
                "function_call_output" => item["output"].as_str(),
                "custom_tool_call" => item["input"].as_str(),
                "message" => item["content"].as_str(),
                _ => None,
            };
            prop_assert!(said.contains(text.unwrap_or_default()), "{text:?} is lost: {said}");
        }
    }

    #[test]
    fn every_span_holds_the_bytes_of_its_item(pieces in vec(piece(), 1..24)) {
        let items = items(&pieces);
        let sent = encoded(&items);
        for span in &sent.spans {
            let bytes = std::str::from_utf8(&sent.body[span.bytes.clone()]).unwrap();
            let mark = items[span.item]["mark"].as_str().unwrap();
            prop_assert!(bytes.contains(mark), "{mark} is not in {bytes}");
            prop_assert_eq!(bytes.matches("mark-").count(), 1, "{}", bytes);
        }
    }
}

/// An item of an arbitrary history.
#[derive(Clone, Debug)]
enum Piece {
    Said(&'static str, bool),
    Thought,
    Call(Option<&'static str>, &'static str, bool),
    Result(Option<&'static str>),
    Skipped,
}

fn piece() -> impl Strategy<Value = Piece> {
    const LONG: &str =
        "an-id-of-a-call-that-is-longer-than-the-sixty-four-characters-that-all-take";
    let id = || {
        prop::sample::select(vec![
            Some("a"),
            Some("a"),
            Some("b"),
            Some("functions.x:0"),
            Some(""),
            Some(LONG),
            None,
        ])
    };
    prop_oneof![
        1 => (prop::sample::select(vec!["user", "assistant", "developer"]), prop::bool::weighted(0.2))
            .prop_map(|(role, empty)| Piece::Said(role, empty)),
        1 => Just(Piece::Thought),
        1 => Just(Piece::Skipped),
        4 => (id(), prop::sample::select(vec!["read", "write", ""]), any::<bool>())
            .prop_map(|(id, name, custom)| Piece::Call(id, name, custom)),
        4 => id().prop_map(Piece::Result),
    ]
}

/// The items, behind a message of the user: a history of which nothing can be sent is refused. Each
/// has a mark that occurs in its part of the encoded body, and nowhere else.
fn items(pieces: &[Piece]) -> Vec<Value> {
    let first = Piece::Said("user", false);
    let pieces = iter::once(&first).chain(pieces);
    pieces
        .enumerate()
        .map(|(at, piece)| {
            let mark = format!("mark-{at}");
            let mut item = match piece {
                Piece::Said("assistant", true) => message("assistant", ""),
                Piece::Said(role, _) => message(role, &mark),
                Piece::Thought => json!({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": mark}]}),
                Piece::Call(_, name, true) => json!({"type": "custom_tool_call", "name": name, "input": mark}),
                Piece::Call(_, name, false) => json!({"type": "function_call", "name": name, "arguments": json!({"n": mark}).to_string()}),
                Piece::Result(_) => json!({"type": "function_call_output", "output": mark}),
                Piece::Skipped => json!({"type": "telepathy"}),
            };
            if let Piece::Call(Some(id), ..) | Piece::Result(Some(id)) = piece {
                item["call_id"] = json!(id);
            }
            item["mark"] = json!(mark);
            item
        })
        .collect()
}

fn message(role: &str, text: &str) -> Value {
    json!({"type": "message", "role": role, "content": text, "mark": text})
}

fn encoded(items: &[Value]) -> Encoded {
    let source = TurnSource::new(json!({"model": "m", "input": items}).to_string());
    let turn = source.turn().unwrap();
    let quirks = ChatQuirks {
        reasoning_replay: ReasoningReplay::ReasoningContent,
        ..ChatQuirks::default()
    };
    let dialect = Dialect {
        quirks: quirks.into(),
        ..Dialect::default()
    };
    let model = Model::unlisted("m");
    let options = EncodeOptions::new(&dialect, &model, "m");
    encode(&turn, &plan(&turn, &Bounds::none()), &options)
        .unwrap()
        .encoded
}

fn messages(sent: &Encoded) -> Vec<Value> {
    let body: Value = serde_json::from_slice(&sent.body).unwrap();
    body["messages"].as_array().unwrap().clone()
}

/// Asserts the rules of the strictest providers for a history.
fn assert_strict(messages: &[Value]) {
    let all = Value::from(messages);
    let mut ids = HashSet::new();
    let mut rest = messages.iter();
    while let Some(message) = rest.next() {
        let role = message["role"].as_str().unwrap();
        assert_ne!(role, "tool", "a result that no call asked for: {all}");
        let calls = message["tool_calls"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        if role == "assistant" {
            let says = message["content"]
                .as_str()
                .is_some_and(|text| !text.is_empty());
            assert!(
                says || !calls.is_empty(),
                "an answer without content: {all}"
            );
        }
        for call in calls {
            let id = call["id"].as_str().unwrap();
            assert!((1..=64).contains(&id.len()), "{id} is no id: {all}");
            assert!(ids.insert(id.to_owned()), "{id} twice: {all}");
            assert_ne!(call["function"]["name"], "", "{all}");
            let result = rest.next().unwrap_or(&Value::Null);
            assert_eq!(result["role"], "tool", "{id} has no result: {all}");
            assert_eq!(result["tool_call_id"], id, "{all}");
        }
    }
}

#[test]
fn arguments_that_a_json_parser_may_refuse_are_wrapped() {
    let deep = format!("{}1{}", r#"{"a":"#.repeat(200), "}".repeat(200));
    for (arguments, whole) in [
        (json!(r#"{"a":1,"a":2}"#), true),
        (json!(r#"{"a":123456789012345678901234567890.5e300}"#), true),
        (json!(r#"{"a":"\ud83d\ude00"}"#), true),
        (json!({"a": 1}), true),
        (json!(deep), false),
        (json!(r#"{"a":1}{"b":2}"#), false),
        (json!("{'a':1}"), false),
        (json!("\u{0}"), false),
        (json!([1, "x"]), false),
        (json!(7), false),
    ] {
        let items = [
            json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}),
            json!({"type": "function_call_output", "call_id": "c", "output": "r"}),
        ];
        let sent = encoded(&items);
        let call = messages(&sent)[0]["tool_calls"][0]["function"].take();
        let plain = match arguments {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let wrapped = json!({"arguments": plain}).to_string();
        assert_eq!(call["arguments"], if whole { plain } else { wrapped });
        assert_eq!(
            sent.notes.codes(),
            if whole { "" } else { "arguments_wrapped" }
        );
    }
}

#[test]
fn an_input_that_is_not_text_is_not_lost() {
    let items = [
        json!({"type": "custom_tool_call", "call_id": "c", "name": "f", "input": {"say": "\"hi\""}}),
        json!({"type": "custom_tool_call_output", "call_id": "c", "output": "r"}),
    ];
    let call = messages(&encoded(&items))[0]["tool_calls"][0]["function"].take();
    let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({"input": r#"{"say":"\"hi\""}"#}));
}
