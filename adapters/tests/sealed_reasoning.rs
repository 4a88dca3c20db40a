//! Reasoning state that clients hold, as literal texts. Clients send it back in later requests,
//! also after an update of the program, so it is written and read as it was.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "clippy does not see that helpers of an integration test are tests"
)]

use std::collections::HashMap;

use kit::drive;
use registry::{ChatQuirks, Dialect, Model, RelayQuirks, WireQuirks};
use responses_translate::baggage::Baggage;
use responses_translate::event::{Event, Finish, Fragment, ReasoningState, ReasoningStateForm};
use responses_translate::plan::{Bounds, plan};
use responses_translate::responses::assembler::Assembler;
use responses_translate::responses::event_buffer::EventBuffer;
use responses_translate::responses::request::TurnSource;
use responses_translate::wire::{EncodeOptions, encode};
use serde_json::{Value, json};

/// The text of reasoning alone.
const TEXT: &str = "rsp1.c31d97ee.eyJyIjoiZGVlcCBcInRob3VnaHRcIiIsIm8iOiJhY21lL20ifQ";

/// Reasoning text with the `reasoning_details` of its answer.
const DETAILS: &str = concat!(
    "rsp1.d173a8b8.eyJyIjoiZGVlcCBcInRob3VnaHRcIiIsIm8iOiJhY21lL20iLCJkIjoiW3tcInR5cGVcIjpcIn",
    "JlYXNvbmluZy50ZXh0XCIsXCJ0ZXh0XCI6XCJkZWVwIFxcXCJ0aG91Z2h0XFxcIlwiLFwic2lnbmF0dXJlXCI6XC",
    "JzaWdcIixcImluZGV4XCI6MH1dIn0",
);

/// The `reasoning_details` of two places of an answer.
const JOINED: &str = concat!(
    "rsp1.0a8855ca.eyJvIjoiYWNtZS9tIiwiZCI6Ilt7XCJ0eXBlXCI6XCJyZWFzb25pbmcuZW5jcnlwdGVkXCIsXC",
    "JkYXRhXCI6XCJvbmVcIixcImluZGV4XCI6MH0se1widHlwZVwiOlwicmVhc29uaW5nLmVuY3J5cHRlZFwiLFwiZG",
    "F0YVwiOlwidHdvXCIsXCJpbmRleFwiOjF9XSJ9",
);

/// The `extra_content` of a call.
const EXTRA: &str = concat!(
    "rsp1.ac17733c.eyJvIjoiYWNtZS9tIiwieCI6IntcImdvb2dsZVwiOntcInRob3VnaHRfc2lnbmF0dXJlXCI6XC",
    "JTXCJ9fSJ9",
);

/// Text with both forms of state. Blobs like this one were never written, but are read.
const ALL: &str = concat!(
    "rsp1.7960e0e5.eyJyIjoiZGVlcCBcInRob3VnaHRcIiIsIm8iOiJhY21lL20iLCJkIjoiW3tcInR5cGVcIjpcIn",
    "JlYXNvbmluZy50ZXh0XCIsXCJ0ZXh0XCI6XCJkZWVwIFxcXCJ0aG91Z2h0XFxcIlwiLFwic2lnbmF0dXJlXCI6XC",
    "JzaWdcIixcImluZGV4XCI6MH1dIiwieCI6IntcImdvb2dsZVwiOntcInRob3VnaHRfc2lnbmF0dXJlXCI6XCJTXC",
    "J9fSJ9",
);

/// The same from another provider.
const FOREIGN: &str = concat!(
    "rsp1.495d57cf.eyJyIjoiZGVlcCBcInRob3VnaHRcIiIsIm8iOiJvdGhlci9tIiwiZCI6Ilt7XCJ0eXBlXCI6XC",
    "JyZWFzb25pbmcudGV4dFwiLFwidGV4dFwiOlwiZGVlcCBcXFwidGhvdWdodFxcXCJcIixcInNpZ25hdHVyZVwiOl",
    "wic2lnXCIsXCJpbmRleFwiOjB9XSIsIngiOiJ7XCJnb29nbGVcIjp7XCJ0aG91Z2h0X3NpZ25hdHVyZVwiOlwiU1",
    "wifX0ifQ",
);

/// A blob with a key that this version does not know, of a later one.
const MORE: &str = concat!(
    "rsp1.8013a2c8.eyJyIjoiZGVlcCIsImxhdGVyIjpbInVua25vd24iXSwibyI6ImFjbWUvbSIsIngiOiJ7XCJnb2",
    "9nbGVcIjp7XCJ0aG91Z2h0X3NpZ25hdHVyZVwiOlwiU1wifX0ifQ",
);

/// What a Responses upstream has encrypted, in our envelope.
const RELAYED: &str = "rse1.44fc7cd3.YWNtZS9t.gAAAAABabc";

const THOUGHT: &str = "deep \"thought\"";
const DETAIL: &str =
    r#"{"type":"reasoning.text","text":"deep \"thought\"","signature":"sig","index":0}"#;
const ONE: &str = r#"{"type":"reasoning.encrypted","data":"one","index":0}"#;
const TWO: &str = r#"{"type":"reasoning.encrypted","data":"two","index":1}"#;
const SIGNATURE: &str = r#"{"google":{"thought_signature":"S"}}"#;

fn chat(toml: &str) -> WireQuirks {
    toml::from_str::<ChatQuirks>(toml).unwrap().into()
}

/// The blobs that the client gets for an answer of `acme/m`.
fn written(quirks: WireQuirks, seals: bool, answer: &str) -> Vec<String> {
    let request = r#"{"model":"m","input":"go","tools":[
        {"type":"function","name":"f","parameters":{"type":"object"}},
        {"type":"function","name":"g","parameters":{"type":"object"}}]}"#;
    let source = TurnSource::new(request.to_owned());
    let turn = source.turn().unwrap();
    let settings = drive::settings_for(&turn, false, seals, (&quirks, &Model::unlisted("m")));
    let response = drive::whole(settings, &quirks, [answer.as_bytes()]).unwrap();
    let response: Value = serde_json::from_str(&response).unwrap();
    let items = response["output"].as_array().unwrap().iter();
    items
        .filter_map(|item| Some(item["encrypted_content"].as_str()?.to_owned()))
        .collect()
}

/// The stream of a Chat answer with these deltas.
fn chunks(deltas: &[String]) -> String {
    let chunk = |delta: &String| format!("data: {{\"choices\":[{{\"delta\":{delta}}}]}}\n\n");
    let chunks: String = deltas.iter().map(chunk).collect();
    chunks + "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
}

fn details(list: &str) -> String {
    format!(r#"{{"reasoning_details":[{list}]}}"#)
}

fn call(id: &str, extra: &str) -> String {
    format!(
        r#"{{"tool_calls":[{{"id":"{id}","function":{{"name":"f","arguments":"{{}}"}}{extra}}}]}}"#
    )
}

#[test]
fn sealed_reasoning_is_written_as_before() {
    let thought = json!({ "reasoning_content": THOUGHT }).to_string();
    let said = r#"{"content":"said"}"#.to_owned();
    let with_details = "reasoning_replay = 'reasoning_details'";
    let with_extra = "call_extra = 'kept'";
    let signed = call("a", &format!(r#","extra_content":{SIGNATURE}"#));
    for (quirks, seals, deltas, expected) in [
        ("", true, vec![thought, said.clone()], vec![TEXT]),
        (
            with_details,
            false,
            vec![details(DETAIL), said],
            vec![DETAILS],
        ),
        (
            with_details,
            false,
            vec![call("a", ""), details(ONE), call("b", ""), details(TWO)],
            vec![JOINED],
        ),
        (with_extra, false, vec![signed], vec![EXTRA]),
    ] {
        let answer = chunks(&deltas);
        assert_eq!(written(chat(quirks), seals, &answer), expected, "{answer}");
    }
    let answer = json!({"id": "resp_1", "object": "response", "status": "completed", "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAABabc"},
        {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": "said", "annotations": []}]},
    ]});
    let quirks = RelayQuirks::default().into();
    assert_eq!(written(quirks, false, &answer.to_string()), [RELAYED]);
}

/// A wire may have any form: nothing between its decoder and its encoder knows it.
#[test]
fn state_of_any_form_is_sealed_as_it_is() {
    let (form, blob) = (ReasoningStateForm::new('z'), r#"{"signed":"state"}"#);
    let source = TurnSource::new(r#"{"model":"m","input":"go"}"#.to_owned());
    let turn = source.turn().unwrap();
    let setup = drive::settings(&turn, false, false);
    let mut assembler = Assembler::new(setup.response, setup.assembler);
    let mut events = EventBuffer::default();
    assembler.begin(&mut events);
    let state = ReasoningState {
        slot: None,
        form,
        blob: blob.into(),
    };
    for event in [
        Event::ReasoningState(state),
        Event::Text(Fragment::from_escaped("said"), None),
        Event::Finish(Finish::Stop),
    ] {
        assembler.event(event, drive::NOW, &mut events).unwrap();
    }
    let (_, item) = assembler.items().next().unwrap();
    let item: Value = serde_json::from_slice(item).unwrap();
    let sealed = item["encrypted_content"].as_str().unwrap();
    let states = Baggage::open(sealed).unwrap().states;
    assert_eq!(states, [(form, blob.to_owned())]);
}

/// The body for a history with a call, and before it reasoning that carries this blob.
fn sent(quirks: WireQuirks, blob: &str, known: &HashMap<String, String>) -> Value {
    let request = json!({"model": "m", "input": [
        {"role": "user", "content": "go"},
        {"type": "reasoning", "summary": [], "encrypted_content": blob},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "out"},
    ]});
    let source = TurnSource::new(request.to_string());
    let turn = source.turn().unwrap();
    let dialect = Dialect {
        quirks,
        ..Dialect::default()
    };
    let model = Model::unlisted("m");
    let options = EncodeOptions {
        origin: "acme/m",
        known_baggage: Some(known),
        ..EncodeOptions::new(&dialect, &model, "m")
    };
    let request = encode(&turn, &plan(&turn, &Bounds::none()), &options).unwrap();
    serde_json::from_slice(&request.encoded.body).unwrap()
}

/// The values in JSON, `null` for an empty text.
fn values(texts: [&str; 3]) -> [Value; 3] {
    let [text, list, object] = texts;
    let text = if text.is_empty() {
        Value::Null
    } else {
        json!(text)
    };
    let parsed = |json: &str| serde_json::from_str(json).unwrap_or_default();
    [text, parsed(list), parsed(object)]
}

#[test]
fn sealed_reasoning_of_earlier_versions_is_read_as_before() {
    let (one, two) = (format!("[{DETAIL}]"), format!("[{ONE},{TWO}]"));
    let damaged = TEXT.replace("rsp1.c", "rsp1.d");
    let both = "reasoning_replay = 'reasoning_details'\ncall_extra = 'kept'";
    // The blob, the text in it, and what its provider gets: reasoning, details, extra content.
    for (blob, thought, own) in [
        (TEXT, THOUGHT, [THOUGHT, "", ""]),
        (DETAILS, THOUGHT, ["", &one, ""]),
        (JOINED, "", ["", &two, ""]),
        (EXTRA, "", ["", "", SIGNATURE]),
        (ALL, THOUGHT, ["", &one, SIGNATURE]),
        (FOREIGN, THOUGHT, [THOUGHT, "", ""]),
        (MORE, "deep", ["deep", "", SIGNATURE]),
        (RELAYED, "", ["", "", ""]),
        (&damaged, "", ["", "", ""]),
    ] {
        let body = sent(chat(both), blob, &HashMap::new());
        let message = &body["messages"][1];
        let found = [
            &message["reasoning"],
            &message["reasoning_details"],
            &message["tool_calls"][0]["extra_content"],
        ];
        assert_eq!(found.map(Clone::clone), values(own), "{blob}");
        let [thought, ..] = values([thought, "", ""]);
        let quirks = chat("reasoning_replay = 'reasoning_content'");
        let body = sent(quirks, blob, &HashMap::new());
        assert_eq!(body["messages"][1]["reasoning_content"], thought, "{blob}");
        assert!(!body.to_string().contains("extra_content"), "{blob}");
        let quirks = RelayQuirks {
            reasoning_text: true,
            ..RelayQuirks::default()
        };
        let body = sent(quirks.into(), blob, &HashMap::new());
        assert_eq!(body["input"][1]["content"][0]["text"], thought, "{blob}");
        assert!(!body.to_string().contains("rsp1."), "{blob}");
    }
    let quirks = RelayQuirks {
        encrypted_reasoning: true,
        ..RelayQuirks::default()
    };
    let body = sent(quirks.into(), RELAYED, &HashMap::new());
    assert_eq!(body["input"][1]["encrypted_content"], "gAAAAABabc");
    // Several blobs that were remembered of a call.
    let known = HashMap::from([("c".to_owned(), format!("{DETAILS} {EXTRA} {JOINED}"))]);
    let body = sent(chat(both), "", &known);
    let message = &body["messages"][1];
    let all: Value = serde_json::from_str(&format!("[{DETAIL},{ONE},{TWO}]")).unwrap();
    assert_eq!(message["reasoning_details"], all);
    let signature: Value = serde_json::from_str(SIGNATURE).unwrap();
    assert_eq!(message["tool_calls"][0]["extra_content"], signature);
}
