//! What the model is asked in a measurement.

use serde_json::{Value, json};

/// A red square of 64 pixels.
const IMAGE: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAS0lEQVR42u3PQQkAAAgAsetfWiP4FgYrsKZeS0BAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEDgsqnc8OJg6Ln3AAAAAElFTkSuQmCC";

/// The id of a call of another model, with characters that some providers refuse.
const FOREIGN_CALL: &str = "call:of.another/model";

/// A request for two calls at once.
pub(super) fn opening() -> [Value; 2] {
    [
        message("developer", "Use the tools."),
        message(
            "user",
            "Call the tool `look` two times at once: for the door and for the window.",
        ),
    ]
}

/// A history that begins with the call of another model, whose reasoning is not there, and in which
/// instructions follow the first messages.
pub(super) fn foreign_history(history: Vec<Value>) -> Vec<Value> {
    let foreign = [
        message("user", "Look at the roof."),
        json!({"type": "function_call", "call_id": FOREIGN_CALL, "name": "look", "arguments": "{\"at\": \"the roof\"}"}),
        result(&json!(FOREIGN_CALL), "red"),
    ];
    let more = [
        message("developer", "The time is noon."),
        message(
            "user",
            "Answer with one word and without the tools: is it morning?",
        ),
    ];
    foreign.into_iter().chain(history).chain(more).collect()
}

/// A question about an image, which has no text beside it.
pub(super) fn image() -> [Value; 2] {
    let image = json!({"type": "input_image", "image_url": IMAGE});
    [
        message("user", "Answer with one word: which colour is this?"),
        json!({"role": "user", "content": [image]}),
    ]
}

/// A prompt that has at least this many tokens.
pub(super) fn overlong(tokens: u64) -> Value {
    let words = usize::try_from(tokens).unwrap_or(usize::MAX);
    let text = "white black ".repeat(words.div_ceil(2));
    message(
        "user",
        &format!("{text}Answer with one word: how many words were that?"),
    )
}

pub(super) fn message(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

pub(super) fn result(call: &Value, output: &str) -> Value {
    json!({"type": "function_call_output", "call_id": call, "output": output})
}

/// Two tools. The schema of the first has what the tools of agents have and some provider refuses.
pub(super) fn tools() -> Value {
    json!([
        {"type": "function", "name": "look", "strict": true, "description": "Looks at a place.", "parameters": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "at": {"$ref": "#/$defs/place", "description": "The place, such as the door"},
                "level": {"enum": ["low", "high"]},
                "size": {"type": ["integer", "null"]},
                "deep": {"type": "object", "anyOf": [{"type": "object"}, {"type": "object", "additionalProperties": false}]},
                "list": {"type": "array"},
                "only": {"const": "this"},
            },
            "required": ["at"],
            "additionalProperties": false,
            "$defs": {"place": {"type": "string"}},
        }},
        {"type": "function", "name": "wait", "description": "Waits.", "parameters": {"type": "object", "properties": {}}},
    ])
}
