//! What the model is asked in a measurement.

use serde_json::{Value, json};

/// A red square of 64 pixels.
const IMAGE: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAS0lEQVR42u3PQQkAAAgAsetfWiP4FgYrsKZeS0BAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEDgsqnc8OJg6Ln3AAAAAElFTkSuQmCC";

/// An image that no provider can fetch: no name ends like this.
const IMAGE_URL: &str = "https://image.invalid/red.png";

/// A PDF file of one page, which tells the word.
const FILE: &str = "data:application/pdf;base64,JVBERi0xLjQKMSAwIG9iajw8L1R5cGUvQ2F0YWxvZy9QYWdlcyAyIDAgUj4+IGVuZG9iagoyIDAgb2JqPDwvVHlwZS9QYWdlcy9LaWRzWzMgMCBSXS9Db3VudCAxPj4gZW5kb2JqCjMgMCBvYmo8PC9UeXBlL1BhZ2UvUGFyZW50IDIgMCBSL01lZGlhQm94WzAgMCAyMDAgNTBdL0NvbnRlbnRzIDQgMCBSL1Jlc291cmNlczw8L0ZvbnQ8PC9GIDUgMCBSPj4+Pj4+IGVuZG9iago0IDAgb2JqPDwvTGVuZ3RoIDU5Pj5zdHJlYW0KQlQgL0YgMTIgVGYgOSAyMCBUZCAoVGhlIHdvcmQgb2YgdGhpcyBmaWxlIGlzIG90dGVyLikgVGogRVQKZW5kc3RyZWFtIGVuZG9iago1IDAgb2JqPDwvVHlwZS9Gb250L1N1YnR5cGUvVHlwZTEvQmFzZUZvbnQvSGVsdmV0aWNhPj4gZW5kb2JqCnhyZWYKMCA2CjAwMDAwMDAwMDAgNjU1MzUgZiAKMDAwMDAwMDAwOSAwMDAwMCBuIAowMDAwMDAwMDUzIDAwMDAwIG4gCjAwMDAwMDAxMDMgMDAwMDAgbiAKMDAwMDAwMDIxMiAwMDAwMCBuIAowMDAwMDAwMzE3IDAwMDAwIG4gCnRyYWlsZXI8PC9TaXplIDYvUm9vdCAxIDAgUj4+CnN0YXJ0eHJlZgozNzkKJSVFT0YK";

/// The word that the file tells.
pub(super) const WORD_OF_FILE: &str = "otter";

/// The word that only a late instruction tells.
pub(super) const WORD_OF_INSTRUCTION: &str = "heron";

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
/// instructions follow the first messages. Only the last instruction tells the answer.
pub(super) fn foreign_history(history: Vec<Value>) -> Vec<Value> {
    let foreign = [
        message("user", "Look at the roof."),
        json!({"type": "function_call", "call_id": FOREIGN_CALL, "name": "look", "arguments": "{\"at\": \"the roof\"}"}),
        result(&json!(FOREIGN_CALL), "red"),
        message("user", "Thank you."),
    ];
    let more = [
        message(
            "developer",
            &format!("The word of the day is {WORD_OF_INSTRUCTION}."),
        ),
        message(
            "user",
            "Answer with one word and without the tools: what is the word of the day?",
        ),
    ];
    foreign.into_iter().chain(history).chain(more).collect()
}

/// A question about an image, which has no text beside it. `with_url` adds an image by URL.
pub(super) fn image(with_url: bool) -> [Value; 2] {
    let urls = [IMAGE_URL].into_iter().filter(|_| with_url).chain([IMAGE]);
    let images: Vec<Value> = urls
        .map(|url| json!({"type": "input_image", "image_url": url}))
        .collect();
    [
        message("user", "Answer with one word: which colour is this?"),
        json!({"role": "user", "content": images}),
    ]
}

/// A question about a file.
pub(super) fn file() -> [Value; 1] {
    let file = json!({"type": "input_file", "filename": "word.pdf", "file_data": FILE});
    let question = "Answer with one word: what is the word of the file?";
    let text = json!({"type": "input_text", "text": question});
    [json!({"role": "user", "content": [text, file]})]
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

/// A tool whose schema is strict.
pub(super) fn strict_tool() -> Value {
    json!([{"type": "function", "name": "wait", "strict": true, "description": "Waits.",
        "parameters": {"type": "object", "properties": {}, "required": [], "additionalProperties": false}}])
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
