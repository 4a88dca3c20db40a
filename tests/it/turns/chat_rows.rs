//! Turns in forms that only Chat Completions has: what its chunks may look like.
use serde_json::{Value, json};

use super::rows::tool;
use super::{TurnCase, turn_case};

pub fn text_chunks() -> Vec<TurnCase> {
    let none = json!({});
    vec![
        turn_case(
            "a character split over two chunks",
            none.clone(),
            json!([
                {"raw": "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\\ud83d\"}}]}\n\n"},
                {"raw": "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\ude00b\"}}]}\n\n"},
                {"finish": "stop"}, {"done": true}
            ]),
            json!([["message", "final_answer", "a\u{1F600}b"]]),
        ),
        turn_case(
            "other choices are left out",
            none.clone(),
            json!([
                {"chunk": {"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": null}]}},
                {"text": "mine"}
            ]),
            json!([["message", "final_answer", "mine"]]),
        ),
        turn_case(
            "null and unknown keys",
            none,
            json!([
                {"chunk": {"choices": [{"index": 0, "delta": {"role": "assistant", "content": null, "tool_calls": null, "reasoning_content": null, "x": [1]}, "finish_reason": null, "logprobs": null}], "usage": null, "y": {}}},
                {"chunk": {"choices": null}},
                {"chunk": {"choices": []}},
                {"chunk": {"choices": [{"index": 0, "delta": {"content": "ok"}}]}}
            ]),
            json!([["message", "final_answer", "ok"]]),
        ),
    ]
}

/// Calls whose fragments lack an index, repeat their id or are interleaved.
pub fn call_chunks() -> Vec<TurnCase> {
    let tools = json!({"tools": [tool("look"), tool("take")]});
    let chunk = |call: Value| json!({"chunk": {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null}]}});
    vec![
        turn_case(
            "arguments as an object",
            tools.clone(),
            json!([chunk(
                json!({"index": 0, "id": "c1", "function": {"name": "look", "arguments": {"a": [1, "x"]}}})
            )]),
            json!([["function_call", "c1", "look", "{\"a\":[1,\"x\"]}"]]),
        ),
        turn_case(
            "a whole call in one chunk, without type",
            tools.clone(),
            json!([chunk(
                json!({"index": 0, "id": "c1", "function": {"name": "look", "arguments": "{\"a\":1}"}})
            )]),
            json!([["function_call", "c1", "look", "{\"a\":1}"]]),
        ),
        turn_case(
            "calls without an index",
            tools.clone(),
            json!([
                chunk(json!({"id": "c1", "function": {"name": "look", "arguments": "{\"a\""}})),
                chunk(json!({"function": {"arguments": ":1}"}})),
                chunk(json!({"id": "c2", "function": {"name": "look", "arguments": "{}"}}))
            ]),
            json!([
                ["function_call", "c1", "look", "{\"a\":1}"],
                ["function_call", "c2", "look", "{}"]
            ]),
        ),
        turn_case(
            "the id and the index in every chunk",
            tools.clone(),
            json!([
                chunk(
                    json!({"index": 0, "id": "c1", "function": {"name": "look", "arguments": "{\"a\""}})
                ),
                chunk(
                    json!({"index": 0, "id": "c1", "function": {"name": null, "arguments": ":1}"}})
                )
            ]),
            json!([["function_call", "c1", "look", "{\"a\":1}"]]),
        ),
        turn_case(
            "every call at index 0",
            tools.clone(),
            json!([
                chunk(
                    json!({"index": 0, "id": "c1", "function": {"name": "look", "arguments": "{}"}})
                ),
                chunk(
                    json!({"index": 0, "id": "c2", "function": {"name": "look", "arguments": "{\"b\":2}"}})
                )
            ]),
            json!([
                ["function_call", "c1", "look", "{}"],
                ["function_call", "c2", "look", "{\"b\":2}"]
            ]),
        ),
        turn_case(
            "interleaved calls",
            tools.clone(),
            json!([
                {"call": {"index": 0, "id": "c1", "name": "look"}},
                {"call": {"index": 1, "id": "c2", "name": "take"}},
                {"args": {"index": 1, "text": "{\"b\""}},
                {"args": {"index": 0, "text": "{\"a\""}},
                {"args": {"index": 1, "text": ":2}"}},
                {"args": {"index": 0, "text": ":1}"}}
            ]),
            json!([
                ["function_call", "c1", "look", "{\"a\":1}"],
                ["function_call", "c2", "take", "{\"b\":2}"]
            ]),
        ),
        turn_case(
            "a name in pieces",
            tools.clone(),
            json!([
                chunk(json!({"index": 0, "id": "c1", "function": {"name": "lo", "arguments": ""}})),
                chunk(json!({"index": 0, "function": {"name": "o"}})),
                chunk(json!({"index": 0, "function": {"name": "k"}})),
                chunk(json!({"index": 0, "function": {"arguments": "{}"}}))
            ]),
            json!([["function_call", "c1", "look", "{}"]]),
        ),
        turn_case(
            "a name in every chunk",
            tools.clone(),
            json!([
                chunk(
                    json!({"index": 0, "id": "c1", "function": {"name": "look", "arguments": ""}})
                ),
                chunk(json!({"index": 0, "function": {"name": "look", "arguments": "{\"a\""}})),
                chunk(json!({"index": 0, "function": {"name": "look", "arguments": ":1}"}}))
            ]),
            json!([["function_call", "c1", "look", "{\"a\":1}"]]),
        ),
        turn_case(
            "text while calls are interleaved",
            tools,
            json!([
                {"call": {"index": 0, "id": "c1", "name": "look"}},
                {"text": "meanwhile"},
                {"call": {"index": 1, "id": "c2", "name": "take", "arguments": "{}"}},
                {"args": {"index": 0, "text": "{}"}}
            ]),
            json!([
                ["function_call", "c1", "look", "{}"],
                ["function_call", "c2", "take", "{}"],
                ["message", "final_answer", "meanwhile"]
            ]),
        ),
    ]
}
