//! The proof of the checker: good streams pass, and for each rule a stream that breaks it is
//! refused with that rule named.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use super::{Rule, check, check_or_panic, check_response, same_output};
use serde_json::{Value, json};

type Events = Vec<Value>;

fn response(status: &str, output: &[Value]) -> Value {
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

/// A whole stream around the given items; each item is its events without numbers and its end.
fn stream(status: &str, items: Vec<(Events, Value)>) -> Events {
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

fn number(events: &mut Events) {
    for (at, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(at);
    }
}

fn sse(events: &[Value]) -> String {
    let frames: String = events
        .iter()
        .map(|event| {
            format!(
                "event: {}\ndata: {event}\n\n",
                event["type"].as_str().unwrap()
            )
        })
        .collect();
    frames + "data: [DONE]\n\n"
}

fn added(item: Value) -> Value {
    json!({"type": "response.output_item.added", "item": item})
}

fn thinking() -> (Events, Value) {
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
            added(json!({"id": "rs_1", "type": "reasoning", "summary": []})),
            event("part.added", json!({"part": part("")})),
            event("text.delta", json!({"delta": "Hm"})),
            event("text.delta", json!({"delta": "m."})),
            event("text.done", json!({"text": "Hmm."})),
            event("part.done", json!({"part": part("Hmm.")})),
        ],
        json!({"id": "rs_1", "type": "reasoning", "summary": [part("Hmm.")], "encrypted_content": "blob"}),
    )
}

fn raw_thinking() -> (Events, Value) {
    (
        vec![
            added(json!({"id": "rs_2", "type": "reasoning", "summary": []})),
            json!({"type": "response.reasoning_text.delta", "content_index": 0, "delta": "Raw"}),
            json!({"type": "response.reasoning_text.done", "content_index": 0, "text": "Raw"}),
        ],
        json!({"id": "rs_2", "type": "reasoning", "summary": [],
            "content": [{"type": "reasoning_text", "text": "Raw"}]}),
    )
}

fn message(status: &str) -> (Events, Value) {
    let cite = json!({"type": "url_citation", "url": "http://a", "title": "A", "start_index": 0, "end_index": 2});
    let part = |text: &str, notes: Value| json!({"type": "output_text", "text": text, "annotations": notes, "logprobs": []});
    let whole = part("Hello", json!([cite]));
    (
        vec![
            added(
                json!({"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}),
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

fn refusal() -> (Events, Value) {
    (
        vec![
            added(
                json!({"id": "msg_2", "type": "message", "role": "assistant", "status": "in_progress", "content": []}),
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

fn function_call(status: &str) -> (Events, Value) {
    let item = |arguments: &str, status: &str| {
        json!({"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "ls",
            "namespace": "mcp__demo", "arguments": arguments, "status": status})
    };
    (
        vec![
            added(item("", "in_progress")),
            json!({"type": "response.function_call_arguments.delta", "delta": "{\"a\""}),
            json!({"type": "response.function_call_arguments.delta", "delta": ":1}"}),
            json!({"type": "response.function_call_arguments.done", "arguments": "{\"a\":1}"}),
        ],
        item("{\"a\":1}", status),
    )
}

fn custom_call() -> (Events, Value) {
    let item = |input: &str, status: &str| json!({"id": "ctc_1", "type": "custom_tool_call", "call_id": "call_2", "name": "apply_patch", "input": input, "status": status});
    (
        vec![
            added(item("", "in_progress")),
            json!({"type": "response.custom_tool_call_input.delta", "delta": "*** Begin"}),
            json!({"type": "response.custom_tool_call_input.done", "input": "*** Begin"}),
        ],
        item("*** Begin", "completed"),
    )
}

/// An item that has no deltas: added and done.
fn plain(mut item: Value) -> (Events, Value) {
    let done = item.clone();
    item["status"] = json!("in_progress");
    (vec![added(item)], done)
}

fn plain_calls() -> Vec<(Events, Value)> {
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

fn good() -> Events {
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

fn compaction() -> Events {
    let item = json!({"id": "cmp_1", "type": "compaction", "encrypted_content": "blob"});
    stream("completed", vec![(vec![added(item.clone())], item)])
}

fn kinds(events: &str) -> Vec<Rule> {
    check(events).map_or_else(
        |found| found.iter().map(|violation| violation.rule).collect(),
        |_| Vec::new(),
    )
}

/// Index of the n-th event of a type.
fn at(events: &Events, kind: &str, n: usize) -> usize {
    let mut found = events
        .iter()
        .enumerate()
        .filter(|(_, event)| event["type"] == kind);
    found.nth(n).unwrap_or_else(|| panic!("no {kind}")).0
}

/// Changes one place of the n-th event of a type; a null replacement at a missing key adds it.
fn set(events: &mut Events, kind: &str, n: usize, path: &str, value: Value) {
    let at = at(events, kind, n);
    let (parent, key) = path.rsplit_once('/').unwrap();
    events[at].pointer_mut(parent).unwrap()[key] = value;
}

fn unset(events: &mut Events, kind: &str, n: usize, path: &str) {
    let at = at(events, kind, n);
    let (parent, key) = path.rsplit_once('/').unwrap();
    events[at]
        .pointer_mut(parent)
        .unwrap()
        .as_object_mut()
        .unwrap()
        .shift_remove(key);
}

/// Sets a key of the `n`-th done item and of the same item in the final output.
fn set_item(events: &mut Events, n: usize, path: &str, value: &Value) {
    set(
        events,
        "response.output_item.done",
        n,
        &format!("/item{path}"),
        value.clone(),
    );
    set(
        events,
        "response.completed",
        0,
        &format!("/response/output/{n}{path}"),
        value.clone(),
    );
}

fn remove(events: &mut Events, kind: &str, n: usize) {
    let at = at(events, kind, n);
    events.remove(at);
    number(events);
}

fn insert_before(events: &mut Events, kind: &str, n: usize, event: Value) {
    let at = at(events, kind, n);
    events.insert(at, event);
    number(events);
}

const DELTA: &str = "response.output_text.delta";
const TEXT_DONE: &str = "response.output_text.done";
const PART: &str = "response.content_part.added";
const PART_DONE: &str = "response.content_part.done";
const ADDED: &str = "response.output_item.added";
const DONE: &str = "response.output_item.done";
const CREATED: &str = "response.created";
const PROGRESS: &str = "response.in_progress";
const COMPLETED: &str = "response.completed";
const ARGS: &str = "response.function_call_arguments.delta";
const ARGS_DONE: &str = "response.function_call_arguments.done";
const SUMMARY: &str = "response.reasoning_summary_text.delta";
const SUMMARY_PART: &str = "response.reasoning_summary_part.added";

#[test]
fn good_streams_pass() {
    let all = check_or_panic(&sse(&good()));
    assert_eq!(all.text(), "Hello");
    assert_eq!(all.reasoning(), "Hmm.");
    assert_eq!(all.terminal, COMPLETED);
    assert_eq!(all.count(DELTA), 2);
    let calls = all.calls();
    assert_eq!(
        (calls[0].name.as_str(), calls[0].namespace.as_deref()),
        ("ls", Some("mcp__demo"))
    );
    assert_eq!(
        (calls[0].call_id.as_str(), calls[0].arguments.as_str()),
        ("call_1", "{\"a\":1}")
    );
    assert_eq!(
        (calls[1].kind.as_str(), calls[1].arguments.as_str()),
        ("custom_tool_call", "*** Begin")
    );

    let failed = check_or_panic(&sse(&stream("failed", vec![message("incomplete")])));
    assert_eq!(failed.error_code(), Some("server_error"));
    for events in [
        stream("completed", vec![]),
        stream("failed", vec![]),
        stream("completed", vec![raw_thinking(), refusal()]),
        stream("completed", plain_calls()),
        stream(
            "incomplete",
            vec![message("completed"), function_call("incomplete")],
        ),
        compaction(),
    ] {
        check_or_panic(&sse(&events));
    }
}

#[test]
fn a_heartbeat_repeats_the_output_so_far() {
    let mut events = good();
    let done: Vec<Value> = vec![thinking().1];
    let beat = json!({"type": PROGRESS, "response": response("in_progress", &done)});
    insert_before(&mut events, DELTA, 1, beat);
    check_or_panic(&sse(&events));
}

#[test]
fn an_error_event_may_precede_the_failure() {
    let mut events = stream("failed", vec![message("incomplete")]);
    let error = json!({"type": "error", "code": "server_error", "message": "cut", "param": null,
        "error": {"type": "server_error", "code": "server_error", "message": "cut", "param": null}});
    insert_before(&mut events, "response.failed", 0, error.clone());
    check_or_panic(&sse(&events));
    insert_before(&mut events, TEXT_DONE, 0, error);
    assert!(kinds(&sse(&events)).contains(&Rule::ErrorEvent));
}

#[test]
fn every_broken_event_is_named() {
    type Change = fn(&mut Events);
    let table: &[(Rule, &str, Change)] = &[
        (Rule::Sequence, "a gap", |e| {
            set(e, DELTA, 1, "/sequence_number", json!(99))
        }),
        (Rule::Sequence, "missing", |e| {
            unset(e, COMPLETED, 0, "/sequence_number")
        }),
        (Rule::EventType, "unknown", |e| {
            insert_before(
                e,
                DELTA,
                0,
                json!({"type": "response.reasoning.delta", "item_id": "msg_1", "output_index": 1}),
            )
        }),
        (Rule::EventType, "call arguments in a message", |e| {
            insert_before(
                e,
                DELTA,
                0,
                json!({"type": ARGS, "item_id": "msg_1", "output_index": 1, "delta": "x"}),
            )
        }),
        (Rule::Order, "no created", |e| remove(e, CREATED, 0)),
        (Rule::Order, "no in_progress", |e| remove(e, PROGRESS, 0)),
        (Rule::Order, "created twice", |e| {
            let c = e[0].clone();
            insert_before(e, DELTA, 0, c);
        }),
        (Rule::Order, "created with output", |e| {
            set(
                e,
                CREATED,
                0,
                "/response/output",
                json!([message("completed").1]),
            )
        }),
        (Rule::Terminal, "none", |e| remove(e, COMPLETED, 0)),
        (Rule::Terminal, "two", |e| {
            let c = e.last().unwrap().clone();
            e.push(c);
            number(e);
        }),
        (Rule::Terminal, "an event after it", |e| {
            let c = e[1].clone();
            e.push(c);
            number(e);
        }),
        (Rule::Heartbeat, "forgets the done items", |e| {
            let c = e[1].clone();
            insert_before(e, DELTA, 0, c);
        }),
        (Rule::ResponseIdentity, "another id", |e| {
            set(e, COMPLETED, 0, "/response/id", json!("resp_2"))
        }),
        (Rule::ResponseIdentity, "another created_at", |e| {
            set(e, PROGRESS, 0, "/response/created_at", json!(1))
        }),
        (Rule::ResponseStatus, "completed says failed", |e| {
            set(e, COMPLETED, 0, "/response/status", json!("in_progress"))
        }),
        (Rule::ResponseStatus, "created says completed", |e| {
            set(e, CREATED, 0, "/response/status", json!("completed"))
        }),
        (Rule::ResponseTypes, "no prefix", |e| {
            set(e, CREATED, 0, "/response/id", json!("1"))
        }),
        (Rule::ResponseTypes, "text without format", |e| {
            set(e, CREATED, 0, "/response/text", json!({}))
        }),
        (Rule::ResponseTypes, "truncation", |e| {
            set(e, CREATED, 0, "/response/truncation", json!("none"))
        }),
        (Rule::ResponseTypes, "object", |e| {
            set(e, CREATED, 0, "/response/object", json!("answer"))
        }),
        (Rule::Usage, "null at the end", |e| {
            set(e, COMPLETED, 0, "/response/usage", Value::Null)
        }),
        (Rule::Usage, "no cached_tokens", |e| {
            unset(
                e,
                COMPLETED,
                0,
                "/response/usage/input_tokens_details/cached_tokens",
            )
        }),
        (Rule::Usage, "no cache_write_tokens", |e| {
            unset(
                e,
                COMPLETED,
                0,
                "/response/usage/input_tokens_details/cache_write_tokens",
            )
        }),
        (Rule::Usage, "no reasoning_tokens", |e| {
            unset(
                e,
                COMPLETED,
                0,
                "/response/usage/output_tokens_details/reasoning_tokens",
            )
        }),
        (Rule::Usage, "no details", |e| {
            unset(e, COMPLETED, 0, "/response/usage/output_tokens_details")
        }),
        (Rule::Usage, "a wrong total", |e| {
            set(e, COMPLETED, 0, "/response/usage/total_tokens", json!(3))
        }),
        (Rule::Usage, "more cached than sent", |e| {
            set(
                e,
                COMPLETED,
                0,
                "/response/usage/input_tokens_details/cached_tokens",
                json!(11),
            )
        }),
        (Rule::CompletedAt, "missing", |e| {
            set(e, COMPLETED, 0, "/response/completed_at", Value::Null)
        }),
        (Rule::CompletedAt, "too early", |e| {
            set(e, CREATED, 0, "/response/completed_at", json!(5))
        }),
        (Rule::ResponseError, "although completed", |e| {
            set(
                e,
                COMPLETED,
                0,
                "/response/error",
                json!({"code": "server_error", "message": "m"}),
            )
        }),
        (Rule::IncompleteDetails, "although completed", |e| {
            set(
                e,
                COMPLETED,
                0,
                "/response/incomplete_details",
                json!({"reason": "content_filter"}),
            )
        }),
        (Rule::OutputIndex, "reused", |e| {
            set(e, ADDED, 1, "/output_index", json!(0))
        }),
        (Rule::OutputIndex, "skipped when done", |e| {
            set(e, DONE, 1, "/output_index", json!(2))
        }),
        (Rule::OutputIndex, "on a delta", |e| {
            set(e, DELTA, 0, "/output_index", json!(7))
        }),
        (Rule::OutputIndex, "missing", |e| {
            unset(e, DELTA, 0, "/output_index")
        }),
        (Rule::OneItemAtATime, "never done", |e| remove(e, DONE, 1)),
        (Rule::OneItemAtATime, "never done, last", |e| {
            remove(e, DONE, 3)
        }),
        (Rule::OneItemAtATime, "never added", |e| remove(e, ADDED, 1)),
        (Rule::OneItemAtATime, "interleaved", |e| {
            let (a, b) = (at(e, ADDED, 3), at(e, ARGS, 1));
            e.swap(a, b);
            number(e);
        }),
        (Rule::ItemId, "prefix", |e| {
            set(e, ADDED, 1, "/item/id", json!("m1"));
        }),
        (Rule::ItemId, "a bare prefix", |e| {
            set(e, ADDED, 1, "/item/id", json!("msg_"));
        }),
        (Rule::ItemId, "changes when done", |e| {
            set_item(e, 1, "/id", &json!("msg_9"))
        }),
        (Rule::ItemId, "of another item on a delta", |e| {
            set(e, DELTA, 1, "/item_id", json!("rs_1"))
        }),
        (Rule::ItemId, "missing on a delta", |e| {
            unset(e, DELTA, 1, "/item_id")
        }),
        (Rule::ItemId, "the name changes", |e| {
            set_item(e, 2, "/name", &json!("rm"))
        }),
        (Rule::CallId, "is the item id", |e| {
            set(e, ADDED, 2, "/item/call_id", json!("fc_1"));
            set_item(e, 2, "/call_id", &json!("fc_1"));
        }),
        (Rule::CallId, "twice", |e| {
            set(e, ADDED, 3, "/item/call_id", json!("call_1"));
            set_item(e, 3, "/call_id", &json!("call_1"));
        }),
        (Rule::CallId, "changes", |e| {
            set_item(e, 2, "/call_id", &json!("call_7"))
        }),
        (Rule::CallId, "empty", |e| {
            set(e, ADDED, 2, "/item/call_id", json!(""));
            set_item(e, 2, "/call_id", &json!(""));
        }),
        (Rule::ItemShape, "unknown type", |e| {
            set(e, ADDED, 1, "/item/type", json!("chat"))
        }),
        (Rule::ItemShape, "role", |e| {
            set(e, ADDED, 1, "/item/role", json!("user"))
        }),
        (Rule::ItemShape, "message added with text", |e| {
            set(
                e,
                ADDED,
                1,
                "/item/content",
                message("completed").1["content"].clone(),
            )
        }),
        (Rule::ItemShape, "message without content", |e| {
            unset(e, ADDED, 1, "/item/content")
        }),
        (Rule::ItemShape, "reasoning without summary", |e| {
            unset(e, ADDED, 0, "/item/summary")
        }),
        (Rule::ItemShape, "call without name", |e| {
            unset(e, ADDED, 2, "/item/name")
        }),
        (Rule::ItemShape, "call without arguments", |e| {
            unset(e, ADDED, 2, "/item/arguments")
        }),
        (Rule::ItemShape, "call added with arguments", |e| {
            set(e, ADDED, 2, "/item/arguments", json!("{}"))
        }),
        (Rule::ItemShape, "null namespace", |e| {
            set(e, ADDED, 2, "/item/namespace", Value::Null)
        }),
        (Rule::ItemShape, "custom call without input", |e| {
            unset(e, ADDED, 3, "/item/input")
        }),
        (Rule::ItemStatus, "call without status", |e| {
            unset(e, ADDED, 2, "/item/status")
        }),
        (Rule::ItemStatus, "added completed", |e| {
            set(e, ADDED, 1, "/item/status", json!("completed"))
        }),
        (Rule::ItemStatus, "done in_progress", |e| {
            set_item(e, 1, "/status", &json!("in_progress"))
        }),
        (Rule::ItemStatus, "incomplete in completed", |e| {
            set_item(e, 1, "/status", &json!("incomplete"))
        }),
        (Rule::Phase, "missing", |e| unset(e, DONE, 1, "/item/phase")),
        (Rule::Phase, "unknown", |e| {
            set_item(e, 1, "/phase", &json!("analysis"))
        }),
        (Rule::PartBracket, "no content_part.added", |e| {
            remove(e, PART, 0)
        }),
        (Rule::PartBracket, "no content_part.done", |e| {
            remove(e, PART_DONE, 0)
        }),
        (Rule::PartBracket, "no text done", |e| {
            remove(e, TEXT_DONE, 0)
        }),
        (Rule::PartBracket, "part added with text", |e| {
            set(e, PART, 0, "/part/text", json!("H"))
        }),
        (Rule::PartBracket, "content_index moves", |e| {
            set(e, DELTA, 1, "/content_index", json!(1))
        }),
        (Rule::PartBracket, "content_index missing", |e| {
            unset(e, DELTA, 1, "/content_index")
        }),
        (Rule::PartBracket, "delta after done", |e| {
            let (a, b) = (at(e, DELTA, 1), at(e, TEXT_DONE, 0));
            e.swap(a, b);
            number(e);
        }),
        (Rule::PartBracket, "no summary part", |e| {
            remove(e, SUMMARY_PART, 0)
        }),
        (Rule::PartBracket, "no summary_index", |e| {
            unset(e, SUMMARY, 0, "/summary_index")
        }),
        (Rule::PartBracket, "no arguments.done", |e| {
            remove(e, ARGS_DONE, 0)
        }),
        (Rule::EmptyDelta, "text", |e| {
            insert_before(
                e,
                DELTA,
                0,
                json!({"type": DELTA, "item_id": "msg_1", "output_index": 1, "content_index": 0, "delta": "", "logprobs": []}),
            )
        }),
        (Rule::EmptyDelta, "arguments", |e| {
            insert_before(
                e,
                ARGS,
                0,
                json!({"type": ARGS, "item_id": "fc_1", "output_index": 2, "delta": ""}),
            )
        }),
        (Rule::EmptyDelta, "missing", |e| {
            unset(e, SUMMARY, 0, "/delta")
        }),
        (Rule::TextSum, "a lost delta", |e| remove(e, DELTA, 0)),
        (Rule::TextSum, "text done", |e| {
            set(e, TEXT_DONE, 0, "/text", json!("Bye"))
        }),
        (Rule::TextSum, "part done", |e| {
            set(e, PART_DONE, 0, "/part/text", json!("Bye"))
        }),
        (Rule::TextSum, "item", |e| {
            set_item(e, 1, "/content/0/text", &json!("Bye"))
        }),
        (Rule::TextSum, "arguments done", |e| {
            set(e, ARGS_DONE, 0, "/arguments", json!("{}"))
        }),
        (Rule::TextSum, "arguments of the item", |e| {
            set_item(e, 2, "/arguments", &json!("{}"))
        }),
        (Rule::TextSum, "no arguments delta", |e| {
            remove(e, ARGS, 0);
            remove(e, ARGS, 0);
        }),
        (Rule::TextSum, "custom input", |e| {
            set_item(e, 3, "/input", &json!("*"))
        }),
        (Rule::TextSum, "summary of the item", |e| {
            set_item(e, 0, "/summary/0/text", &json!("No."))
        }),
        (Rule::Logprobs, "delta", |e| unset(e, DELTA, 0, "/logprobs")),
        (Rule::Logprobs, "done", |e| {
            unset(e, TEXT_DONE, 0, "/logprobs")
        }),
        (Rule::Logprobs, "part", |e| {
            unset(e, PART, 0, "/part/logprobs")
        }),
        (Rule::Annotations, "part added", |e| {
            unset(e, PART, 0, "/part/annotations")
        }),
        (Rule::Annotations, "not announced", |e| {
            remove(e, "response.output_text.annotation.added", 0)
        }),
        (Rule::Annotations, "index", |e| {
            set(
                e,
                "response.output_text.annotation.added",
                0,
                "/annotation_index",
                json!(1),
            )
        }),
        (Rule::AbsentNotNull, "encrypted_content", |e| {
            set(e, ADDED, 0, "/item/encrypted_content", Value::Null)
        }),
        (Rule::AbsentNotNull, "content", |e| {
            set_item(e, 0, "/content", &Value::Null)
        }),
        (Rule::AbsentNotNull, "obfuscation", |e| {
            set(e, DELTA, 0, "/obfuscation", Value::Null)
        }),
        (Rule::OneReasoningStream, "both in the item", |e| {
            set_item(
                e,
                0,
                "/content",
                &json!([{"type": "reasoning_text", "text": "Hmm."}]),
            )
        }),
        (Rule::OneReasoningStream, "both streamed", |e| {
            insert_before(
                e,
                DONE,
                0,
                json!({"type": "response.reasoning_text.delta", "item_id": "rs_1", "output_index": 0, "content_index": 1, "delta": "Hmm."}),
            )
        }),
        (Rule::FinalOutput, "an item missing", |e| {
            set(e, COMPLETED, 0, "/response/output", json!([]))
        }),
        (Rule::FinalOutput, "another order", |e| {
            let at = at(e, COMPLETED, 0);
            e[at]["response"]["output"]
                .as_array_mut()
                .unwrap()
                .swap(0, 1);
        }),
        (Rule::FinalOutput, "keys in another order", |e| {
            let phase = json!("commentary");
            unset(e, COMPLETED, 0, "/response/output/1/role");
            set(
                e,
                COMPLETED,
                0,
                "/response/output/1/role",
                json!("assistant"),
            );
            set(e, COMPLETED, 0, "/response/output/1/phase", phase);
        }),
        (Rule::ErrorEvent, "then completed", |e| {
            insert_before(
                e,
                COMPLETED,
                0,
                json!({"type": "error", "code": null, "message": "m", "param": null, "error": {"message": "m"}}),
            )
        }),
        (Rule::ErrorEvent, "flat only", |e| {
            insert_before(
                e,
                COMPLETED,
                0,
                json!({"type": "error", "code": null, "message": "m", "param": null}),
            )
        }),
        (Rule::ForeignTypes, "a citation without title", |e| {
            unset(e, PART_DONE, 0, "/part/annotations/0/title")
        }),
        (Rule::ForeignTypes, "an effort of the wrong type", |e| {
            set(e, CREATED, 0, "/response/reasoning/effort", json!(3))
        }),
    ];
    for (rule, name, change) in table {
        let mut events = good();
        change(&mut events);
        let found = kinds(&sse(&events));
        assert!(
            found.contains(rule),
            "{rule:?} ({name}) was not named: {found:?}"
        );
    }
}

#[test]
fn every_key_of_the_response_is_needed_with_its_type() {
    for kind in [CREATED, PROGRESS, COMPLETED] {
        let keys: Vec<String> = response("completed", &[])
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        assert_eq!(keys.len(), 31);
        for key in keys {
            let path = format!("/response/{key}");
            let mut events = good();
            unset(&mut events, kind, 0, &path);
            assert!(
                kinds(&sse(&events)).contains(&Rule::ResponseKeys),
                "{kind} without {key}"
            );
            let wrong = if key == "tool_choice" {
                json!(5)
            } else {
                json!([[5]])
            };
            let wrong = if matches!(key.as_str(), "output" | "tools" | "instructions") {
                json!(5)
            } else {
                wrong
            };
            set(&mut events, kind, 0, &path, wrong);
            assert!(
                kinds(&sse(&events)).contains(&Rule::ResponseTypes),
                "{kind} with odd {key}"
            );
        }
    }
    for key in [
        "temperature",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "top_logprobs",
        "service_tier",
        "store",
        "background",
        "parallel_tool_calls",
        "metadata",
        "text",
        "truncation",
    ] {
        let mut events = good();
        set(
            &mut events,
            CREATED,
            0,
            &format!("/response/{key}"),
            Value::Null,
        );
        assert!(
            kinds(&sse(&events)).contains(&Rule::ResponseTypes),
            "null {key}"
        );
    }
}

#[test]
fn endings_need_their_details() {
    type Case = (Rule, Events, &'static str, &'static str, Value);
    let failed = || stream("failed", vec![message("incomplete")]);
    let short = || stream("incomplete", vec![message("incomplete")]);
    let table: Vec<Case> = vec![
        (
            Rule::ResponseError,
            failed(),
            "response.failed",
            "/response/error",
            Value::Null,
        ),
        (
            Rule::ResponseError,
            failed(),
            "response.failed",
            "/response/error",
            json!({"code": "server_error"}),
        ),
        (
            Rule::ResponseError,
            failed(),
            "response.failed",
            "/response/error",
            json!({"message": "m"}),
        ),
        (
            Rule::IncompleteDetails,
            short(),
            "response.incomplete",
            "/response/incomplete_details",
            Value::Null,
        ),
        (
            Rule::IncompleteDetails,
            short(),
            "response.incomplete",
            "/response/incomplete_details",
            json!({"reason": "length"}),
        ),
        (
            Rule::CompletedAt,
            failed(),
            "response.failed",
            "/response/completed_at",
            json!(1),
        ),
        (
            Rule::Usage,
            failed(),
            "response.failed",
            "/response/usage",
            Value::Null,
        ),
    ];
    for (rule, mut events, kind, path, value) in table {
        set(&mut events, kind, 0, path, value);
        let found = kinds(&sse(&events));
        assert!(
            found.contains(&rule),
            "{rule:?} in {kind} {path}: {found:?}"
        );
    }
    for events in [
        stream("failed", vec![message("completed")]),
        stream("incomplete", vec![function_call("completed")]),
    ] {
        assert!(kinds(&sse(&events)).contains(&Rule::ItemStatus));
    }
}

#[test]
fn typed_calls_keep_their_shape() {
    for (at, path, value) in [
        (0, "/arguments", json!("{}")),
        (0, "/execution", json!("proxy")),
        (1, "/action/command", json!("ls")),
        (1, "/action/type", json!("run")),
        (1, "/action/env", Value::Null),
        (2, "/action/commands", json!([])),
        (3, "/operation/type", json!("create_file")),
        (3, "/operation/path", Value::Null),
        (4, "/action/type", json!("look")),
    ] {
        let mut events = stream("completed", plain_calls());
        set_item(&mut events, at, path, &value);
        let found = kinds(&sse(&events));
        assert!(
            found.contains(&Rule::ItemShape),
            "item {at} with {path} {value}: {found:?}"
        );
    }
    let mut events = compaction();
    set_item(&mut events, 0, "/encrypted_content", &Value::Null);
    assert!(kinds(&sse(&events)).contains(&Rule::ItemShape));
}

#[test]
fn the_framing_is_exact() {
    let text = sse(&good());
    let cases = [
        (Rule::DoneMarker, text.replace("data: [DONE]\n\n", "")),
        (Rule::DoneMarker, format!("{text}data: [DONE]\n\n")),
        (Rule::DoneMarker, format!("data: [DONE]\n\n{text}")),
        (
            Rule::Framing,
            text.replacen("event: response.created", "event: response.queued", 1),
        ),
        (
            Rule::Framing,
            text.replacen("event: response.created\n", "", 1),
        ),
        (
            Rule::Framing,
            text.replacen(
                "event: response.created\n",
                "id: 1\nevent: response.created\n",
                1,
            ),
        ),
        (
            Rule::Framing,
            text.replacen(
                "\n\nevent: response.in_progress",
                "\nevent: response.in_progress",
                1,
            ),
        ),
        (Rule::Framing, text.replace('\n', "\r\n")),
        (Rule::Framing, text.replacen("data: {", "data:{", 1)),
        (Rule::Framing, format!(": ping\n\n{text}")),
        (Rule::Framing, text.replacen("data: {", "data: ", 1)),
        (Rule::Framing, text.trim_end().to_owned()),
        (Rule::Framing, String::new()),
    ];
    for (rule, broken) in cases {
        assert_ne!(broken, text);
        assert!(
            kinds(&broken).contains(&rule),
            "{rule:?}: {:?} in {}",
            kinds(&broken),
            &broken
        );
    }
}

#[test]
fn a_plain_response_obeys_the_same_rules() {
    let streamed = check_or_panic(&sse(&good())).response;
    let mut other = streamed.clone();
    other["id"] = json!("resp_2");
    other["output"][1]["id"] = json!("msg_7");
    let plain = check_response(&other.to_string()).unwrap();
    same_output(&streamed, &plain).unwrap();

    other["output"][1]["content"][0]["text"] = json!("Bye");
    assert!(same_output(&streamed, &other).unwrap_err().contains("Bye"));
    other["output"].as_array_mut().unwrap().truncate(1);
    assert!(same_output(&streamed, &other).is_err());

    for (rule, path, value) in [
        (Rule::Usage, "/usage", Value::Null),
        (Rule::ResponseStatus, "/status", json!("in_progress")),
        (Rule::ItemShape, "/output/2/name", Value::Null),
        (Rule::ItemId, "/output/1/id", json!("rs_1")),
        (Rule::ResponseTypes, "/store", Value::Null),
        (
            Rule::ForeignTypes,
            "/output/1/content/0/annotations/0",
            json!({"type": "new"}),
        ),
    ] {
        let mut broken = streamed.clone();
        *broken.pointer_mut(path).unwrap() = value;
        let found = check_response(&broken.to_string()).unwrap_err();
        assert!(
            found.iter().any(|violation| violation.rule == rule),
            "{rule:?}: {found:?}"
        );
    }
    assert_eq!(check_response("{").unwrap_err()[0].rule, Rule::Framing);
}
