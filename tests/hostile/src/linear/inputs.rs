//! Parts of which inputs are made: bodies of requests and of answers.

use serde_json::{Value, json};

pub(super) fn numbered(count: usize, one: impl Fn(usize) -> Value) -> Value {
    (0..count).map(one).collect()
}

pub(super) fn numbered_many(count: usize, some: impl Fn(usize) -> Vec<Value>) -> Value {
    (0..count).flat_map(some).collect()
}

pub(super) fn request_of(input: &Value, tools: &Value) -> String {
    json!({"model": "m", "input": input, "tools": tools}).to_string()
}

pub(super) fn with_output(text: &str) -> Vec<u8> {
    let items = json!([
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": text},
    ]);
    request_of(&items, &json!([])).into()
}

pub(super) fn with_asked_output(text: &str) -> Vec<u8> {
    let items = json!([
        {"role": "user", "content": text},
        {"type": "function_call", "call_id": "c", "name": "exec_command", "arguments": json!({"cmd": text}).to_string()},
        {"type": "function_call_output", "call_id": "c", "output": text},
    ]);
    request_of(&items, &json!([])).into()
}

pub(super) fn with_messages(text: &str) -> Vec<u8> {
    let items = json!([
        {"role": "user", "content": text},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}], "encrypted_content": text},
        {"role": "assistant", "content": [{"type": "output_text", "text": text}]},
        {"type": "function_call", "call_id": "c", "name": "exec_command", "arguments": json!({"cmd": text}).to_string()},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": text}]},
        {"type": "function_call", "call_id": "d", "name": "f", "arguments": text},
        {"role": "user", "content": text},
    ]);
    request_of(&items, &json!([])).into()
}

pub(super) fn with_tools(text: &str) -> Vec<u8> {
    let schema = json!({"type": "object", "description": text, "properties": {"a": {"enum": [text], "pattern": text}}});
    let tools = json!([
        {"type": "function", "name": text, "description": text, "parameters": schema},
        {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark", "definition": text}},
    ]);
    let body = json!({"model": "m", "input": "x", "tools": tools, "instructions": text,
        "prompt_cache_key": text, "tool_choice": {"type": "function", "name": text}});
    body.to_string().into()
}

/// The text in pieces of some 32 bytes.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, after) = rest.split_at_checked(rest.floor_char_boundary(32))?;
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

pub(super) fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

pub(super) fn chat_chunk(delta: &Value) -> String {
    event(&json!({"choices": [{"index": 0, "delta": delta}]}))
}

pub(super) fn chat_chunks(count: usize, delta: impl Fn(usize) -> Value) -> String {
    (0..count).map(|n| chat_chunk(&delta(n))).collect()
}

pub(super) fn chat_deltas(text: &str, delta: fn(&str) -> Value) -> Vec<u8> {
    let chunks: String = pieces(text)
        .map(|piece| chat_chunk(&delta(piece)))
        .collect();
    chunks.into()
}

pub(super) fn chat_call(arguments: &str, tool: &str) -> Vec<u8> {
    let head = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": tool, "arguments": ""}}]});
    let chunks: String = pieces(arguments)
        .map(|piece| {
            chat_chunk(&json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}))
        })
        .collect();
    (chat_chunk(&head) + &chunks).into()
}

pub(super) fn relay_text(text: &str) -> Vec<u8> {
    let item = |content: Value| json!({"id": "m", "type": "message", "role": "assistant", "content": content});
    let place = |kind: &str, key: &str, value: Value| {
        event(
            &json!({"type": kind, "output_index": 0, "item_id": "m", "content_index": 0, key: value}),
        )
    };
    let deltas: String = pieces(text)
        .map(|piece| place("response.output_text.delta", "delta", json!(piece)))
        .collect();
    let part = json!({"type": "output_text", "text": text, "annotations": []});
    let begin = event(
        &json!({"type": "response.output_item.added", "output_index": 0, "item": item(json!([]))}),
    );
    let end = event(
        &json!({"type": "response.output_item.done", "output_index": 0, "item": item(json!([part]))}),
    );
    (begin + &deltas + &place("response.output_text.done", "text", json!(text)) + &end).into()
}

pub(super) fn relay_call(arguments: &str) -> Vec<u8> {
    let item = |arguments: &str| json!({"id": "f", "type": "function_call", "call_id": "c", "name": "read", "arguments": arguments});
    let place = |kind: &str, key: &str, value: &str| {
        event(&json!({"type": kind, "output_index": 0, "item_id": "f", key: value}))
    };
    let deltas: String = pieces(arguments)
        .map(|piece| place("response.function_call_arguments.delta", "delta", piece))
        .collect();
    let begin =
        event(&json!({"type": "response.output_item.added", "output_index": 0, "item": item("")}));
    let end = event(
        &json!({"type": "response.output_item.done", "output_index": 0, "item": item(arguments)}),
    );
    let done = place(
        "response.function_call_arguments.done",
        "arguments",
        arguments,
    );
    (begin + &deltas + &done + &end).into()
}

pub(super) fn relay_items(count: usize) -> String {
    (0..count)
        .map(|n| {
            let item = json!({"id": format!("f{n}"), "type": "function_call", "call_id": format!("c{n}"), "name": "read", "arguments": "{}"});
            event(&json!({"type": "response.output_item.added", "output_index": n, "item": item}))
                + &event(&json!({"type": "response.output_item.done", "output_index": n, "item": item}))
        })
        .collect()
}
