//! The effect of each quirk on the messages.

use std::collections::HashMap;

use registry::{ChatQuirks, Dialect, Model};
use serde_json::{Value, json};

use crate::baggage::{Baggage, KeptStates};
use crate::chat::reasoning_state::{EXTRA_CONTENT, REASONING_DETAILS};
use crate::plan::{Bounds, plan};
use crate::responses::request::TurnSource;
use crate::wire::{EncodeOptions, encode};

/// The quirks in a TOML table.
fn quirks(toml: &str) -> ChatQuirks {
    toml::from_str(toml).unwrap()
}

struct Sent {
    messages: Vec<Value>,
    notes: String,
}

/// The messages for `request`, or for an input list, with these quirks.
fn sent(toml: &str, request: Value) -> Sent {
    sent_with(toml, request, &HashMap::new())
}

fn sent_with(toml: &str, mut request: Value, known: &HashMap<String, String>) -> Sent {
    if request.is_array() {
        request = json!({ "input": request });
    }
    request["model"] = json!("m");
    let source = TurnSource::new(request.to_string());
    let turn = source.turn().unwrap();
    let dialect = Dialect {
        quirks: quirks(toml).into(),
        ..Dialect::default()
    };
    let model = Model::unlisted("m");
    let options = EncodeOptions {
        dialect: &dialect,
        model: &model,
        upstream_model: "m",
        origin: "p/m",
        known_baggage: Some(known),
        left_out: None,
    };
    let encoded = encode(&turn, &plan(&turn, &Bounds::none()), &options)
        .unwrap()
        .encoded;
    for span in &encoded.spans {
        assert!(!encoded.body[span.bytes.clone()].is_empty());
    }
    let body: Value = serde_json::from_slice(&encoded.body).unwrap();
    Sent {
        messages: body["messages"].as_array().unwrap().clone(),
        notes: encoded.notes.codes(),
    }
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn call(id: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"})
}

fn result(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": "out"})
}

fn reasoning(baggage: &Baggage) -> Value {
    json!({"type": "reasoning", "summary": [], "encrypted_content": baggage.seal()})
}

fn baggage(reasoning: &str) -> Baggage {
    Baggage {
        reasoning: reasoning.to_owned(),
        origin: "p/m".to_owned(),
        states: states(DETAILS, SIGNATURE),
    }
}

const DETAILS: &str = r#"[{"type":"reasoning.text","text":"t"}]"#;
const SIGNATURE: &str = r#"{"google":{"thought_signature":"S"}}"#;

fn states(details: &str, extra: &str) -> KeptStates {
    vec![
        (REASONING_DETAILS, details.to_owned()),
        (EXTRA_CONTENT, extra.to_owned()),
    ]
}

const IMAGE: &str = "data:image/png;base64,AA";

#[test]
fn system_text_has_the_place_and_role_that_the_provider_wants() {
    let request = json!({"instructions": "A", "input": [
        {"role": "developer", "content": "B"}, user("hi"), {"role": "system", "content": "C"},
    ]});
    let late = "[System instruction]\nC";
    for (toml, expected, notes) in [
        (
            "",
            json!([["system", "A\n\nB"], ["user", "hi"], ["user", late]]),
            "system_as_user",
        ),
        (
            "system_role = 'developer'",
            json!([["developer", "A\n\nB"], ["user", "hi"], ["user", late]]),
            "system_as_user",
        ),
        (
            "system_place = 'anywhere'",
            json!([
                ["system", "A"],
                ["system", "B"],
                ["user", "hi"],
                ["system", "C"]
            ]),
            "",
        ),
        (
            "system_role = 'user'",
            json!([
                ["user", "[System instruction]\nA\n\nB"],
                ["user", "hi"],
                ["user", late]
            ]),
            "system_as_user",
        ),
        (
            "system_role = 'user'\nmerge_user = true",
            json!([[
                "user",
                "[System instruction]\nA\n\nB\n\nhi\n\n[System instruction]\nC"
            ]]),
            "system_as_user,user_messages_joined",
        ),
        (
            "message_limit = 24\nsystem_role = 'user'",
            json!([
                ["user", "[System instruction]\nA"],
                ["user", "[System instruction]\nB"],
                ["user", "hi"],
                ["user", late]
            ]),
            "system_as_user,message_cut",
        ),
        (
            "message_limit = 3\nsystem_place = 'anywhere'",
            json!([
                ["system", "A"],
                ["system", "B"],
                ["user", "hi"],
                ["system", "C"]
            ]),
            "",
        ),
    ] {
        let sent = sent(toml, request.clone());
        let short: Vec<Value> = sent
            .messages
            .iter()
            .map(|message| json!([message["role"], message["content"]]))
            .collect();
        assert_eq!(json!(short), expected, "{toml}");
        assert_eq!(sent.notes, notes, "{toml}");
    }
}

#[test]
fn long_messages_are_cut_between_characters() {
    let text = "ä漢😀".repeat(9);
    let input = json!([
        {"role": "system", "content": text}, user("short"),
        {"role": "user", "content": [{"type": "input_text", "text": text}, {"type": "input_image", "image_url": IMAGE}]},
    ]);
    let sent = sent("message_limit = 25\ncache_control = true", input);
    let contents: Vec<String> = sent
        .messages
        .iter()
        .map(|message| {
            let content = &message["content"];
            content
                .as_str()
                .or(content[0]["text"].as_str())
                .unwrap_or("image")
                .to_owned()
        })
        .collect();
    assert_eq!(contents.len(), 6);
    assert!(contents.iter().all(|text| text.chars().count() <= 25));
    assert_eq!(format!("{}{}", contents[0], contents[1]), text);
    assert_eq!(format!("{}{}", contents[3], contents[4]), text);
    assert_eq!(contents[5], "image");
    assert_eq!(sent.notes, "message_cut");
    assert!(sent.messages[1]["content"][0]["cache_control"].is_object());
    assert!(sent.messages[5]["content"][0]["cache_control"].is_object());
    assert_eq!(
        json!(sent.messages)
            .to_string()
            .matches("cache_control")
            .count(),
        2
    );
}

#[test]
fn neighbouring_user_messages_become_one() {
    let texts = json!([user("a"), user("b")]);
    assert_eq!(sent("", texts.clone()).messages.len(), 2);
    let merged = sent("merge_user = true", texts).messages;
    assert_eq!(merged, [json!({"role": "user", "content": "a\n\nb"})]);
    let mixed = json!([user("a"), {"role": "user", "content": [
        {"type": "input_text", "text": "b"}, {"type": "input_image", "image_url": IMAGE}]}]);
    let merged = sent("merge_user = true", mixed).messages;
    assert_eq!(merged.len(), 1);
    assert_eq!(merged[0]["content"].as_array().unwrap().len(), 3);
}

#[test]
fn an_answer_is_inserted_between_a_result_and_a_user_message() {
    let input = json!([user("go"), call("c"), result("c"), user("on")]);
    assert_eq!(sent("", input.clone()).messages.len(), 4);
    let messages = sent("answer_after_tool = true", input).messages;
    assert_eq!(messages.len(), 5);
    assert_eq!(
        messages[3],
        json!({"role": "assistant", "content": "Done."})
    );
    // Where all messages of the model need reasoning, it needs some too.
    let input = json!([user("go"), call("c"), result("c"), user("on")]);
    let toml = "answer_after_tool = true\nreasoning_replay = 'reasoning_content'\nreasoning_required = 'always'";
    assert_eq!(
        sent(toml, input).messages[3],
        json!({"role": "assistant", "content": "Done.", "reasoning_content": " "})
    );
}

#[test]
fn a_message_with_calls_alone_has_the_wanted_content() {
    let input = json!([
        {"role": "assistant", "content": ""}, call("c"), result("c")]);
    for (toml, content) in [
        ("", Some(Value::Null)),
        ("call_content = 'empty'", Some(json!(""))),
        ("call_content = 'omitted'", None),
    ] {
        let sent = sent(toml, input.clone());
        assert_eq!(sent.messages[0].get("content"), content.as_ref(), "{toml}");
        assert_eq!(sent.notes, "empty_message_dropped");
    }
}

#[test]
fn empty_messages_and_texts_are_left_out() {
    let input = json!([
        user(""), {"role": "user", "content": []}, {"role": "system", "content": ""},
        {"role": "user", "content": [{"type": "input_text", "text": ""}, {"type": "input_text", "text": "a"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": ""}]},
    ]);
    let sent = sent("", input);
    assert_eq!(sent.messages, [user("a")]);
    let mut notes: Vec<&str> = sent.notes.split(',').collect();
    notes.sort_unstable();
    assert_eq!(notes, ["empty_message_dropped", "empty_text_dropped"]);
}

#[test]
fn results_name_their_tool_and_share_the_id_of_their_call() {
    let input = json!([
        call("call_1"),
        call("call_2"),
        result("call_1"),
        result("call_2")
    ]);
    let plain = sent("", input.clone()).messages;
    assert_eq!(plain[1].get("name"), None);
    let messages = sent("tool_names = true\ncall_ids = 'nine_alphanumeric'", input).messages;
    for number in 0..2 {
        let id = messages[0]["tool_calls"][number]["id"].as_str().unwrap();
        assert_eq!(id.len(), 9);
        assert_eq!(messages[number + 1]["tool_call_id"], id);
        assert_eq!(messages[number + 1]["name"], "f");
    }
}

#[test]
fn images_are_sent_as_the_provider_accepts_them() {
    let image = |url: &str| json!([{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]);
    let web = "https://example.org/a.png";
    assert_eq!(
        sent("", image(web)).messages[0]["content"][0]["image_url"]["url"],
        web
    );
    let left_out = sent("image_urls = false", image(web));
    assert!(
        left_out.messages[0]["content"]
            .as_str()
            .unwrap()
            .contains(web)
    );
    assert_eq!(left_out.notes, "image_dropped");
    assert_eq!(sent("image_urls = false", image(IMAGE)).notes, "");
    let content = &sent("image_needs_text = true", image(IMAGE)).messages[0]["content"];
    assert_eq!(content[1], json!({"type": "text", "text": " "}));
    assert_eq!(
        sent("", image(IMAGE)).messages[0]["content"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn system_text_and_history_end_with_a_cache_breakpoint() {
    let mark = json!({"type": "ephemeral"});
    let request = |input: Value| json!({"instructions": "S", "input": input});
    let text = |text: &str| json!([{"type": "text", "text": text, "cache_control": mark}]);
    let messages = sent(
        "cache_control = true",
        request(json!([user("a"), user("b")])),
    )
    .messages;
    assert_eq!(messages[0]["content"], text("S"));
    assert_eq!(messages[1]["content"], "a");
    assert_eq!(messages[2]["content"], text("b"));
    let input = json!([call("c"), result("c")]);
    let messages = sent("cache_control = true", request(input)).messages;
    assert_eq!(messages[2]["content"], text("out"));
    let parts = json!([{"role": "user", "content": [
        {"type": "input_text", "text": "b"}, {"type": "input_image", "image_url": IMAGE}]}]);
    let messages = sent("cache_control = true", request(parts)).messages;
    assert_eq!(messages[1]["content"][0].get("cache_control"), None);
    assert_eq!(messages[1]["content"][1]["cache_control"], mark);
}

#[test]
fn the_answer_format_is_described_where_system_text_is_allowed() {
    let request = |form: Value| json!({"input": [user("a")], "text": {"format": form}});
    let schema = request(json!({"type": "json_schema", "name": "n", "schema": {"type": "object"}}));
    let object = request(json!({"type": "json_object"}));
    for (toml, request, place) in [
        ("", &schema, None),
        ("", &object, None),
        ("response_format = 'json_object'", &object, None),
        ("response_format = 'json_object'", &schema, Some(0)),
        ("response_format = 'none'", &object, Some(0)),
        (
            "response_format = 'none'\nsystem_place = 'anywhere'",
            &schema,
            Some(1),
        ),
    ] {
        let messages = sent(toml, request.clone()).messages;
        let found = messages.iter().position(|m| m["role"] == "system");
        assert_eq!(found, place, "{toml}");
        if let Some(place) = place {
            assert!(
                messages[place]["content"]
                    .as_str()
                    .unwrap()
                    .contains("JSON")
            );
        }
    }
}

#[test]
fn reasoning_is_sent_back_in_every_form() {
    let input = |text: &str| {
        json!([
            user("go"), reasoning(&baggage("deep\n\"thought\"")),
            {"role": "assistant", "content": text}, call("c"), result("c"),
        ])
    };
    let details = json!([{"type": "reasoning.text", "text": "t"}]);
    for (form, field, value, content) in [
        ("none", "reasoning_content", Value::Null, json!("said")),
        (
            "reasoning_content",
            "reasoning_content",
            json!("deep\n\"thought\""),
            json!("said"),
        ),
        (
            "reasoning",
            "reasoning",
            json!("deep\n\"thought\""),
            json!("said"),
        ),
        (
            "reasoning_details",
            "reasoning_details",
            details,
            json!("said"),
        ),
        (
            "think_tags",
            "reasoning",
            Value::Null,
            json!("<think>\ndeep\n\"thought\"\n</think>\n\nsaid"),
        ),
        (
            "thinking_parts",
            "reasoning",
            Value::Null,
            json!([
                {"type": "thinking", "thinking": [{"type": "text", "text": "deep\n\"thought\""}]},
                {"type": "text", "text": "said"},
            ]),
        ),
    ] {
        let message = &sent(&format!("reasoning_replay = '{form}'"), input("said")).messages[1];
        assert_eq!(message[field], value, "{form}");
        assert_eq!(message["content"], content, "{form}");
    }
    let silent = &sent("reasoning_replay = 'thinking_parts'", input("")).messages[1];
    assert_eq!(silent["content"].as_array().unwrap().len(), 1);
}

#[test]
fn details_and_signatures_are_sent_back_only_to_their_origin() {
    let foreign = Baggage {
        origin: "q/m".into(),
        ..baggage("deep")
    };
    let toml = "reasoning_replay = 'reasoning_details'\ncall_extra = 'kept'";
    let message = |baggage: &Baggage| {
        sent(toml, json!([reasoning(baggage), call("c"), result("c")])).messages[0].clone()
    };
    let own = message(&baggage("deep"));
    assert_eq!(own["reasoning_details"][0]["text"], "t");
    assert_eq!(own.get("reasoning"), None);
    assert_eq!(
        own["tool_calls"][0]["extra_content"]["google"]["thought_signature"],
        "S"
    );
    let other = message(&foreign);
    assert_eq!(other["reasoning"], "deep");
    assert_eq!(other.get("reasoning_details"), None);
    assert_eq!(other["tool_calls"][0].get("extra_content"), None);
    let broken = message(&Baggage {
        states: states("[1", "{"),
        ..baggage("deep")
    });
    assert_eq!(broken["reasoning"], "deep");
}

#[test]
fn a_signature_belongs_to_the_call_after_its_reasoning_item() {
    let of = |signature: &str| Baggage {
        states: states(
            DETAILS,
            &json!({"google": {"thought_signature": signature}}).to_string(),
        ),
        ..baggage("")
    };
    let input = json!([
        reasoning(&of("1")),
        call("a"),
        call("b"),
        reasoning(&of("3")),
        call("c"),
        result("a"),
        result("b"),
        result("c"),
        call("d"),
        call("e"),
        result("d"),
        result("e"),
    ]);
    let signatures = |toml: &str| -> Vec<String> {
        let messages = sent(toml, input.clone()).messages;
        let calls = messages
            .iter()
            .filter_map(|message| message["tool_calls"].as_array());
        calls
            .flatten()
            .map(|call| {
                let signature = &call["extra_content"]["google"]["thought_signature"];
                signature.as_str().unwrap_or("-").chars().take(4).collect()
            })
            .collect()
    };
    assert_eq!(signatures(""), ["-", "-", "-", "-", "-"]);
    assert_eq!(signatures("call_extra = 'kept'"), ["1", "-", "3", "-", "-"]);
    assert_eq!(
        signatures("call_extra = 'required'"),
        ["1", "-", "3", "skip", "-"]
    );
    assert_eq!(
        signatures("call_extra = 'placeholder'"),
        ["skip", "-", "-", "skip", "-"]
    );
}

#[test]
fn lost_reasoning_has_a_placeholder_where_it_is_required() {
    let input = json!([
        {"role": "assistant", "content": "a"}, user("b"), call("c"), result("c")]);
    for (required, placed, notes) in [
        ("never", [false, false], ""),
        ("calls", [false, true], "reasoning_placeholder"),
        ("always", [true, true], "reasoning_placeholder"),
    ] {
        let toml =
            format!("reasoning_replay = 'reasoning_content'\nreasoning_required = '{required}'");
        let sent = sent(&toml, input.clone());
        let found = [&sent.messages[0], &sent.messages[2]].map(|m| m["reasoning_content"] == " ");
        assert_eq!(found, placed, "{required}");
        assert_eq!(sent.notes, notes);
    }
}

#[test]
fn reasoning_that_the_client_lost_is_found_by_its_call() {
    let known = HashMap::from([
        ("c".to_owned(), baggage("first").seal()),
        ("d".to_owned(), baggage("second").seal()),
        ("e".to_owned(), baggage("unused").seal()),
    ]);
    let input = json!([
        call("c"),
        call("d"),
        result("c"),
        result("d"),
        reasoning(&baggage("own")),
        call("e"),
        result("e"),
    ]);
    let toml = "reasoning_replay = 'reasoning_content'\ncall_extra = 'kept'\nreasoning_required = 'always'";
    let found = sent_with(toml, input.clone(), &known);
    assert_eq!(found.messages[0]["reasoning_content"], "first\n\nsecond");
    assert!(found.messages[0]["tool_calls"][1]["extra_content"].is_object());
    assert_eq!(found.messages[3]["reasoning_content"], "own");
    assert_eq!(found.notes, "");
    assert_eq!(sent(toml, input).messages[0]["reasoning_content"], " ");
}

#[test]
fn a_lost_signature_has_a_placeholder_among_the_details() {
    let toml = "reasoning_replay = 'reasoning_details'\ncall_extra = 'required'";
    let foreign = json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}]});
    let lost = sent(
        toml,
        json!([foreign, call("c"), call("d"), result("c"), result("d")]),
    );
    let stand_in = json!([{"type": "reasoning.encrypted", "data": "skip_thought_signature_validator",
        "id": "c", "format": "google-gemini-v1", "index": 0}]);
    assert_eq!(lost.messages[0]["reasoning_details"], stand_in);
    assert!(
        lost.messages[0]["tool_calls"][0]
            .get("extra_content")
            .is_none()
    );
    assert_eq!(lost.notes, "call_extra_placeholder");
    let signed = Baggage {
        states: states(r#"[{"type":"reasoning.encrypted","data":"S"}]"#, SIGNATURE),
        ..baggage("a")
    };
    let own = sent(toml, json!([reasoning(&signed), call("c"), result("c")]));
    assert_eq!(own.messages[0]["reasoning_details"][0]["data"], "S");
    assert_eq!(
        own.messages[0]["reasoning_details"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );
    let words = json!([foreign, {"role": "assistant", "content": "b"}]);
    assert_eq!(sent(toml, words).messages[0]["reasoning"], "a");
}

#[test]
fn stored_baggage_is_sent_back_like_carried_baggage() {
    let piece = |reasoning: &str, detail: &str, extra: &str| Baggage {
        states: states(&format!("[{detail}]"), extra),
        ..baggage(reasoning)
    };
    let one = piece("a", r#"{"data":"1"}"#, "");
    let two = piece("", r#"{"data":"2"}"#, r#"{"of":"d"}"#);
    let late = piece("", r#"{"data":"3"}"#, "");
    let toml = "reasoning_replay = 'reasoning_details'\ncall_extra = 'kept'";
    let carried = sent(
        toml,
        json!([
            reasoning(&one),
            call("c"),
            reasoning(&two),
            call("d"),
            reasoning(&late),
            result("c"),
            result("d")
        ]),
    );
    let answer = &carried.messages[0];
    assert_eq!(
        answer["reasoning_details"],
        json!([{"data": "1"}, {"data": "2"}, {"data": "3"}])
    );
    assert_eq!(answer["tool_calls"][1]["extra_content"]["of"], "d");
    let known = HashMap::from([
        ("c".to_owned(), one.seal()),
        ("d".to_owned(), format!("{} {}", two.seal(), late.seal())),
    ]);
    let shown = json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}]});
    let calls = [call("c"), call("d"), result("c"), result("d")];
    for before in [vec![], vec![shown]] {
        let input = [before, calls.to_vec()].concat();
        let found = sent_with(toml, json!(input), &known);
        assert_eq!(found.messages, carried.messages);
    }
}

/// Promise: Codex's sub-agents get their tasks, follow-ups and answers over HTTP and over
/// WebSockets, on each wire, each on the model of its role: what one agent tells another one is
/// text for the model, or the item as it is for a provider that knows such items, and no schema
/// asks for encryption. The goal that Codex tells the model is no lost result.
#[test]
fn what_codex_tells_the_model_is_text() {
    let said = |parts: Value| json!({"type": "agent_message", "author": "/root", "recipient": "/root/a", "content": parts});
    let aim = |output: Value| {
        json!({"type": "function_call_output", "id": "fco_1", "namespace": "agent",
            "name": "goal_objective", "output": output})
    };
    let call = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"});
    let result = json!({"type": "function_call_output", "call_id": "c", "output": "done"});
    let sent = sent(
        "",
        json!([
            said(json!([{"type": "input_text", "text": "Payload:\n"},
                {"type": "encrypted_content", "encrypted_content": "say \u{e9}"}])),
            call,
            result,
            aim(json!("count to three")),
            said(json!([{"type": "input_text", "text": "FINAL_ANSWER"}])),
            aim(json!([{"type": "input_text", "text": "four"}])),
            aim(json!("")),
        ]),
    );
    let texts: Vec<&Value> = sent.messages.iter().map(|it| &it["content"]).collect();
    let expected = json!([
        "Payload:\nsay \u{e9}",
        null,
        "done",
        "goal_objective:\ncount to three",
        "FINAL_ANSWER",
        "goal_objective:\nfour"
    ]);
    assert_eq!(json!(texts), expected);
    assert_eq!(sent.messages[2]["role"], "tool");
    assert_eq!(sent.messages[3]["role"], "user");
    // Neither is a lost result.
    assert_eq!(sent.notes, "empty_message_dropped");
}
