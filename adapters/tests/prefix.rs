//! When a history grows, the bytes of its beginning stay the same for every provider. Providers
//! cache by the prefix of a request, and a session that loses its cache costs many times as much.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy does not see that helpers of an integration test are tests"
)]

mod common;

use common::dialects::DIALECTS;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use registry::{ChatQuirks, Dialect, Model};
use responses_translate::baggage::Baggage;
use responses_translate::event::ReasoningStateForm;
use responses_translate::plan::{Bounds, plan};
use responses_translate::responses::request::TurnSource;
use responses_translate::wire::{EncodeOptions, encode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn later_items_change_no_bytes_of_a_history(
        rounds in vec(round(), 1..6),
        images in any::<bool>(),
    ) {
        let mut items = vec![message("developer", &json!("The rules.")), message("user", &json!("Go."))];
        let mut requests = vec![items.clone()];
        for (number, round) in rounds.iter().enumerate() {
            items.extend(round.items(number));
            requests.push(items.clone());
        }
        for dialect in DIALECTS.iter() {
            let sent: Vec<Vec<u8>> = requests.iter().map(|items| body(items, dialect, images)).collect();
            for pair in sent.windows(2) {
                match dialect.quirks.as_chat() {
                    Some(quirks) => assert_grown(&pair[0], &pair[1], quirks),
                    // The input is the last field of a Responses request.
                    None => assert!(pair[1].starts_with(pair[0].strip_suffix(b"]}").unwrap())),
                }
            }
        }
    }
}

/// The items that an agent adds between two requests: an answer, the results of its calls,
/// and messages of the client and its user.
#[derive(Clone, Debug)]
struct Round {
    thought: Thought,
    text: bool,
    /// Each call with its result, and whether reasoning precedes it.
    calls: Vec<(Value, bool)>,
    /// Reasoning details come last.
    late: bool,
    /// Whether the calls have ids that recur in every answer.
    recurring: bool,
    said: Vec<(&'static str, Value)>,
    /// A message between the calls and their results.
    interruption: Option<Value>,
    /// What ran on a server before the answer.
    hosted: Option<Value>,
}

#[derive(Clone, Copy, Debug)]
enum Thought {
    None,
    Shown,
    Sealed,
}

fn round() -> impl Strategy<Value = Round> {
    let said = prop_oneof![
        Just(("developer", json!("Late rules."))),
        Just(("user", json!("And then?"))),
        content().prop_map(|content| ("user", content)),
    ];
    (
        select(vec![Thought::None, Thought::Shown, Thought::Sealed]),
        any::<bool>(),
        vec(
            (prop_oneof![Just(json!("out")), content()], any::<bool>()),
            0..4,
        ),
        any::<bool>(),
        any::<bool>(),
        (
            vec(said, 0..3),
            proptest::option::of(Just(message("user", &json!("Hurry.")))),
        ),
        proptest::option::of(select(vec![
            json!({"type": "mcp_call", "id": "mcp_1", "name": "f", "arguments": "{}", "output": "x"}),
            json!({"type": "web_search_call", "id": "ws_1", "action": {"query": "x"}}),
        ])),
    )
        .prop_map(|(thought, text, calls, late, recurring, (said, interruption), hosted)| Round {
            thought,
            text,
            calls,
            late,
            recurring,
            said,
            interruption,
            hosted,
        })
}

/// Texts, images and files.
fn content() -> impl Strategy<Value = Value> {
    let part = select(vec![
        json!({"type": "input_text", "text": "words"}),
        json!({"type": "input_text", "text": ""}),
        json!({"type": "input_image", "image_url": "data:image/png;base64,AA"}),
        json!({"type": "input_image", "image_url": "https://example.com/a.png"}),
        json!({"type": "input_image", "image_url": "data:image/svg+xml,<svg/>"}),
        json!({"type": "input_file", "filename": "a.pdf", "file_data": "AA"}),
        json!({"type": "input_file", "filename": "a.rs", "file_data": "Zm4="}),
        json!({"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}),
    ]);
    vec(part, 1..4).prop_map(Value::Array)
}

impl Round {
    fn items(&self, number: usize) -> Vec<Value> {
        let id = |call: usize| {
            if self.recurring {
                format!("functions.read:{call}")
            } else {
                format!("call_{number}_{call}")
            }
        };
        let mut items = Vec::new();
        match self.thought {
            Thought::None => {}
            Thought::Shown => items.push(
                json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}),
            ),
            Thought::Sealed => items.push(sealed("hm")),
        }
        items.extend(self.hosted.clone());
        if self.text {
            items.push(message("assistant", &json!("I look.")));
        }
        for (call, (_, sealed_before)) in self.calls.iter().enumerate() {
            if *sealed_before {
                items.push(sealed(""));
            }
            items.push(json!({"type": "function_call", "call_id": id(call), "name": "read", "arguments": "{}"}));
        }
        if self.late {
            items.push(sealed(""));
        }
        items.extend(self.interruption.clone());
        for (call, (output, _)) in self.calls.iter().enumerate() {
            items.push(
                json!({"type": "function_call_output", "call_id": id(call), "output": output}),
            );
        }
        items.extend(self.said.iter().map(|(role, said)| message(role, said)));
        if self.calls.is_empty() {
            items.push(message("user", &json!("Go on.")));
        }
        items
    }
}

fn sealed(reasoning: &str) -> Value {
    let baggage = Baggage {
        reasoning: reasoning.to_owned(),
        origin: "p/m".to_owned(),
        states: [
            ('d', r#"[{"type":"reasoning.encrypted","data":"d"}]"#),
            ('x', r#"{"google":{"thought_signature":"s"}}"#),
        ]
        .map(|(form, blob)| (ReasoningStateForm::new(form), blob.to_owned()))
        .to_vec(),
    };
    json!({"type": "reasoning", "summary": [], "encrypted_content": baggage.seal()})
}

fn message(role: &str, content: &Value) -> Value {
    json!({"type": "message", "role": role, "content": content})
}

fn body(items: &[Value], dialect: &Dialect, images: bool) -> Vec<u8> {
    let tools = json!([{"type": "function", "name": "read", "parameters": {"type": "object"}}]);
    let request = json!({"model": "m", "instructions": "Be good.", "tools": tools, "input": items});
    let source = TurnSource::new(request.to_string());
    let turn = source.turn().unwrap();
    let model = Model {
        images,
        ..Model::unlisted("m")
    };
    let options = EncodeOptions {
        origin: "p/m",
        ..EncodeOptions::new(dialect, &model, "m")
    };
    encode(&turn, &plan(&turn, &Bounds::none()), &options)
        .unwrap()
        .encoded
        .body
}

/// Asserts that the fields before the messages are unchanged, and every message except one to which
/// later user messages were joined. Cache marks may move.
fn assert_grown(before: &[u8], after: &[u8], quirks: &ChatQuirks) {
    let ((head, before), (new_head, after)) = (parts(before), parts(after));
    assert_eq!(head, new_head);
    assert!(before.len() <= after.len());
    let joins = quirks.merge_user
        && before
            .last()
            .is_some_and(|last| last.starts_with(r#"{"role":"user""#));
    let same = before.len() - usize::from(joins);
    for (old, new) in before.iter().zip(&after).take(same) {
        if quirks.cache_control {
            assert_eq!(unmarked(old), unmarked(new));
        } else {
            assert_eq!(old, new, "{quirks:?}");
        }
    }
}

/// The bytes before the messages, and each message.
fn parts(body: &[u8]) -> (&str, Vec<&str>) {
    #[derive(Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        messages: Vec<&'a RawValue>,
    }
    let text = std::str::from_utf8(body).unwrap();
    let (head, _) = text.split_once(r#""messages":["#).unwrap();
    let parsed: Body<'_> = serde_json::from_str(text).unwrap();
    (
        head,
        parsed.messages.into_iter().map(RawValue::get).collect(),
    )
}

/// A message without its cache mark, its content as a string if it is one text.
fn unmarked(message: &str) -> Value {
    let mut message: Value = serde_json::from_str(message).unwrap();
    let content = &mut message["content"];
    for part in content.as_array_mut().into_iter().flatten() {
        part.as_object_mut().unwrap().remove("cache_control");
    }
    if let Some([only]) = content.as_array().map(Vec::as_slice)
        && only["type"] == "text"
    {
        *content = only["text"].clone();
    }
    message
}
