use serde_json::{Value, json};

use super::*;
use crate::plan::plan;
use crate::responses::request::Source;

/// The messages and the codes of the notes for a model that nobody knows.
fn messages(images: bool, input: &Value) -> (Value, String) {
    let source = Source::new(json!({"model": "m", "input": input}).to_string());
    let turn = source.turn().unwrap();
    let model = Model {
        images,
        ..Model::unlisted("m")
    };
    let dialect = Dialect::default();
    let options = Options::new(&dialect, &model, "m");
    let encoded = encode(&turn, &plan(&turn), &options).unwrap();
    let mut body: Value = serde_json::from_slice(&encoded.body).unwrap();
    (body["messages"].take(), encoded.notes.codes())
}

#[test]
fn a_model_without_eyes_gets_no_image() {
    let input = json!([
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA"}]},
        {"type": "function_call", "call_id": "c", "name": "view", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": "data:image/png;base64,AA"}]},
    ]);
    let (blind, notes) = messages(false, &input);
    assert!(!blind.to_string().contains("image_url"), "{blind}");
    assert_eq!(blind.to_string().matches("left out").count(), 2);
    assert_eq!(notes, "image_dropped");
    let (seeing, notes) = messages(true, &input);
    assert_eq!(seeing.to_string().matches("\"image_url\":{").count(), 2);
    assert_eq!(notes, "");
}

#[test]
fn arguments_that_are_no_object_are_wrapped() {
    for (arguments, sent, note) in [
        (r#"{"a":1}"#, r#"{"a":1}"#, ""),
        (" {} ", " {} ", ""),
        ("", "{}", ""),
        (
            r#"{"a":"#,
            r#"{"arguments":"{\"a\":"}"#,
            "arguments_wrapped",
        ),
        ("[1]", r#"{"arguments":"[1]"}"#, "arguments_wrapped"),
        (
            "line\n\"x\"",
            r#"{"arguments":"line\n\"x\""}"#,
            "arguments_wrapped",
        ),
    ] {
        let input =
            json!([{"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}]);
        let (messages, notes) = messages(true, &input);
        let call = &messages[0]["tool_calls"][0]["function"];
        assert_eq!(call["arguments"], sent, "{arguments}");
        assert_eq!(notes, note, "{arguments}");
    }
}
