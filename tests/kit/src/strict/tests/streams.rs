//! Good streams to start from.

use serde_json::{Value, json};

pub(super) type Events = Vec<Value>;

pub(super) fn response(status: &str, output: &[Value]) -> Value {
    let end = !matches!(status, "queued" | "in_progress");
    let usage = json!({
        "input_tokens": 10, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 15,
    });
    json!({
        "id": "resp_1", "object": "response", "created_at": 1_700_000_000_u64,
        "completed_at": if status == "completed" { json!(1_700_000_001_u64) } else { Value::Null },
        "status": status,
        "incomplete_details": if status == "incomplete" { json!({"reason": "max_output_tokens"}) } else { Value::Null },
        "model": "m", "previous_response_id": null, "instructions": "Be brief.", "output": output,
        "error": if status == "failed" { json!({"code": "server_error", "message": "cut"}) } else { Value::Null },
        "tools": [{"type": "custom", "name": "apply_patch"}, {"type": "brand_new"}],
        "tool_choice": {"type": "web_search"}, "truncation": "disabled", "parallel_tool_calls": true,
        "text": {"format": {"type": "text"}}, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0,
        "top_logprobs": 0, "temperature": 1.0, "reasoning": {"effort": "medium", "summary": "auto"},
        "usage": if end { usage } else { Value::Null }, "max_output_tokens": null,
        "max_tool_calls": null, "store": false, "background": false, "service_tier": "default",
        "metadata": {}, "safety_identifier": null, "prompt_cache_key": "k",
    })
}

/// A whole stream of these items, each with its events (without sequence numbers) and its done
/// item.
pub(super) fn stream(status: &str, items: Vec<(Events, Value)>) -> Events {
    let mut events = vec![
        json!({"type": "response.created", "response": response("in_progress", &[])}),
        json!({"type": "response.in_progress", "response": response("in_progress", &[])}),
    ];
    let mut output = Vec::new();
    for (at, (inner, item)) in items.into_iter().enumerate() {
        for mut event in inner {
            event["output_index"] = json!(at);
            if event.get("item").is_none() {
                event["item_id"] = item["id"].clone();
            }
            events.push(event);
        }
        events.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
        output.push(item);
    }
    let end = response(status, &output);
    events.push(json!({"type": format!("response.{status}"), "response": end}));
    number(&mut events);
    events
}

pub(super) fn number(events: &mut Events) {
    for (at, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(at);
    }
}

pub(super) fn sse(events: &[Value]) -> String {
    let frames: Vec<String> = events
        .iter()
        .map(|event| {
            format!(
                "event: {}
data: {event}

",
                event["type"].as_str().unwrap()
            )
        })
        .collect();
    frames.concat()
        + "data: [DONE]

"
}

pub(super) fn added(item: &Value) -> Value {
    json!({"type": "response.output_item.added", "item": item})
}

pub(super) fn thinking() -> (Events, Value) {
    let part = |text: &str| json!({"type": "summary_text", "text": text});
    let event = |kind: &str, rest: Value| {
        let mut event =
            json!({"type": format!("response.reasoning_summary_{kind}"), "summary_index": 0});
        event
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        event
    };
    (
        vec![
            added(&json!({"id": "rs_1", "type": "reasoning", "summary": []})),
            event("part.added", json!({"part": part("")})),
            event("text.delta", json!({"delta": "Hm"})),
            event("text.delta", json!({"delta": "m."})),
            event("text.done", json!({"text": "Hmm."})),
            event("part.done", json!({"part": part("Hmm.")})),
        ],
        json!({"id": "rs_1", "type": "reasoning", "summary": [part("Hmm.")], "encrypted_content": "blob"}),
    )
}

pub(super) fn raw_thinking() -> (Events, Value) {
    (
        vec![
            added(&json!({"id": "rs_2", "type": "reasoning", "summary": []})),
            json!({"type": "response.reasoning_text.delta", "content_index": 0, "delta": "Raw"}),
            json!({"type": "response.reasoning_text.done", "content_index": 0, "text": "Raw"}),
        ],
        json!({"id": "rs_2", "type": "reasoning", "summary": [],
            "content": [{"type": "reasoning_text", "text": "Raw"}]}),
    )
}

pub(super) fn message(status: &str) -> (Events, Value) {
    let cite = json!({"type": "url_citation", "url": "http://a", "title": "A", "start_index": 0, "end_index": 2});
    let part = |text: &str, notes: Value| json!({"type": "output_text", "text": text, "annotations": notes, "logprobs": []});
    let whole = part("Hello", json!([cite]));
    (
        vec![
            added(
                &json!({"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}),
            ),
            json!({"type": "response.content_part.added", "content_index": 0, "part": part("", json!([]))}),
            json!({"type": "response.output_text.delta", "content_index": 0, "delta": "Hel", "logprobs": []}),
            json!({"type": "response.output_text.delta", "content_index": 0, "delta": "lo", "logprobs": []}),
            json!({"type": "response.output_text.annotation.added", "content_index": 0, "annotation_index": 0, "annotation": cite}),
            json!({"type": "response.output_text.done", "content_index": 0, "text": "Hello", "logprobs": []}),
            json!({"type": "response.content_part.done", "content_index": 0, "part": whole}),
        ],
        json!({"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": [whole], "phase": "commentary"}),
    )
}

pub(super) fn refusal() -> (Events, Value) {
    (
        vec![
            added(
                &json!({"id": "msg_2", "type": "message", "role": "assistant", "status": "in_progress", "content": []}),
            ),
            json!({"type": "response.content_part.added", "content_index": 0, "part": {"type": "refusal", "refusal": ""}}),
            json!({"type": "response.refusal.delta", "content_index": 0, "delta": "No"}),
            json!({"type": "response.refusal.done", "content_index": 0, "refusal": "No"}),
            json!({"type": "response.content_part.done", "content_index": 0, "part": {"type": "refusal", "refusal": "No"}}),
        ],
        json!({"id": "msg_2", "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "refusal", "refusal": "No"}], "phase": "final_answer"}),
    )
}

pub(super) fn function_call(status: &str) -> (Events, Value) {
    let item = |arguments: &str, status: &str| {
        json!({"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "ls",
            "namespace": "mcp__demo", "arguments": arguments, "status": status})
    };
    (
        vec![
            added(&item("", "in_progress")),
            json!({"type": "response.function_call_arguments.delta", "delta": "{\"a\""}),
            json!({"type": "response.function_call_arguments.delta", "delta": ":1}"}),
            json!({"type": "response.function_call_arguments.done", "arguments": "{\"a\":1}"}),
        ],
        item("{\"a\":1}", status),
    )
}

pub(super) fn custom_call() -> (Events, Value) {
    let item = |input: &str, status: &str| json!({"id": "ctc_1", "type": "custom_tool_call", "call_id": "call_2", "name": "apply_patch", "input": input, "status": status});
    (
        vec![
            added(&item("", "in_progress")),
            json!({"type": "response.custom_tool_call_input.delta", "delta": "*** Begin"}),
            json!({"type": "response.custom_tool_call_input.done", "input": "*** Begin"}),
        ],
        item("*** Begin", "completed"),
    )
}

/// An item that has no deltas: added and done.
pub(super) fn plain(mut item: Value) -> (Events, Value) {
    let done = item.clone();
    item["status"] = json!("in_progress");
    (vec![added(&item)], done)
}

pub(super) fn plain_calls() -> Vec<(Events, Value)> {
    vec![
        plain(
            json!({"id": "tsc_1", "type": "tool_search_call", "call_id": "call_3", "execution": "client",
            "arguments": {"query": "q"}, "status": "completed"}),
        ),
        plain(
            json!({"id": "lsh_1", "type": "local_shell_call", "call_id": "call_4", "status": "completed",
            "action": {"type": "exec", "command": ["ls"], "env": {}}}),
        ),
        plain(
            json!({"id": "sh_1", "type": "shell_call", "call_id": "call_5", "status": "completed",
            "action": {"commands": ["ls"], "timeout_ms": null, "max_output_length": null}, "environment": null}),
        ),
        plain(
            json!({"id": "apc_1", "type": "apply_patch_call", "call_id": "call_6", "status": "completed",
            "operation": {"type": "delete_file", "path": "a"}}),
        ),
        plain(
            json!({"id": "ws_1", "type": "web_search_call", "status": "completed",
            "action": {"type": "search", "query": "q", "queries": ["q"]}}),
        ),
    ]
}

pub(super) fn good() -> Events {
    stream(
        "completed",
        vec![
            thinking(),
            message("completed"),
            function_call("completed"),
            custom_call(),
        ],
    )
}

pub(super) fn compaction() -> Events {
    let item = json!({"id": "cmp_1", "type": "compaction", "encrypted_content": "blob"});
    stream("completed", vec![(vec![added(&item)], item)])
}
