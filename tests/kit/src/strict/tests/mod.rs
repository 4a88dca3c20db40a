//! The proof of the checker: good streams pass, and for each rule a stream that breaks it is
//! refused with that rule named.

mod streams;
mod table;

use super::{
    StreamRule, check, check_compaction, check_error, check_or_panic, check_response,
    check_running, same_output, same_settings,
};
use serde_json::{Value, json};
use streams::{
    Events, compaction, function_call, good, message, number, plain_calls, raw_thinking, refusal,
    response, sse, stream, thinking,
};
use table::{COMPLETED, CREATED, DELTA, PROGRESS, TEXT_DONE};

fn kinds(events: &str) -> Vec<StreamRule> {
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

/// Sets the value at a path of the n-th event of a type; a missing key is added.
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
fn a_heartbeat_may_show_the_open_item_and_no_other() {
    for (id, fits) in [("msg_1", true), ("msg_9", false)] {
        let mut events = good();
        let open = json!({"id": id, "type": "message", "role": "assistant", "status": "in_progress", "content": []});
        let beat =
            json!({"type": PROGRESS, "response": response("in_progress", &[thinking().1, open])});
        insert_before(&mut events, DELTA, 1, beat);
        assert_eq!(kinds(&sse(&events)).is_empty(), fits, "{id}");
    }
}

#[test]
fn a_background_response_may_be_queued_first() {
    let mut events = good();
    events[0]["response"]["status"] = json!("queued");
    let queued = json!({"type": "response.queued", "response": response("queued", &[])});
    insert_before(&mut events, PROGRESS, 0, queued.clone());
    check_or_panic(&sse(&events));
    insert_before(&mut events, DELTA, 0, queued);
    assert!(kinds(&sse(&events)).contains(&StreamRule::Order));
}

#[test]
fn a_running_response_has_no_end_fields() {
    let mut running = response("in_progress", &[thinking().1]);
    check_running(&running.to_string()).unwrap();
    assert!(check_response(&running.to_string()).is_err());
    running["completed_at"] = json!(1);
    assert_eq!(
        check_running(&running.to_string()).unwrap_err()[0].rule,
        StreamRule::CompletedAt
    );
    let done = response("completed", &[]).to_string();
    assert!(check_response(&done).is_ok() && check_running(&done).is_err());
    let mut cancelled = response("cancelled", &[]);
    cancelled["usage"] = Value::Null;
    check_response(&cancelled.to_string()).unwrap();
}

#[test]
fn error_bodies_have_four_keys() {
    let body = json!({"error": {"message": "m", "type": "invalid_request_error", "param": null, "code": "c"}});
    assert_eq!(check_error(&body.to_string()).unwrap()["code"], "c");
    for key in ["message", "type", "param", "code"] {
        let mut broken = body.clone();
        broken["error"].as_object_mut().unwrap().remove(key);
        assert!(check_error(&broken.to_string()).is_err(), "without {key}");
    }
    assert!(check_error("oops").is_err());
}

#[test]
fn settings_of_the_request_are_repeated() {
    let response = response("completed", &[]);
    let request = json!({"instructions": "Be brief.", "tools": response["tools"], "store": false, "metadata": null});
    same_settings(&request, &response).unwrap();
    let other = json!({"tools": [{"type": "function", "name": "apply_patch"}]});
    assert!(
        same_settings(&other, &response)
            .unwrap_err()
            .starts_with("tools")
    );
}

#[test]
fn a_compaction_is_complete_messages_and_one_item() {
    let usage = &response("completed", &[])["usage"];
    let good = json!({
        "id": "resp_1", "object": "response.compaction", "created_at": 1, "usage": usage,
        "output": [
            {"type": "message", "role": "user", "id": "msg_1", "status": "completed", "content": [{"type": "input_text", "text": "a"}]},
            {"type": "compaction", "id": "cmp_1", "encrypted_content": "b"},
        ],
    });
    check_compaction(&good.to_string()).unwrap();
    for (rule, path) in [
        (StreamRule::ResponseTypes, "/object"),
        (StreamRule::ItemId, "/output/0/id"),
        (StreamRule::ItemStatus, "/output/0/status"),
        (StreamRule::ItemShape, "/output/0/content"),
        (StreamRule::ItemShape, "/output/1/encrypted_content"),
    ] {
        let mut broken = good.clone();
        *broken.pointer_mut(path).unwrap() = Value::Null;
        let found = check_compaction(&broken.to_string()).unwrap_err();
        assert_eq!(found[0].rule, rule, "{found:?}");
    }
}

#[test]
fn an_error_event_may_precede_the_failure() {
    let mut events = stream("failed", vec![message("incomplete")]);
    let error = json!({"type": "error", "code": "server_error", "message": "cut", "param": null,
        "error": {"type": "server_error", "code": "server_error", "message": "cut", "param": null}});
    insert_before(&mut events, "response.failed", 0, error.clone());
    check_or_panic(&sse(&events));
    insert_before(&mut events, TEXT_DONE, 0, error);
    assert!(kinds(&sse(&events)).contains(&StreamRule::ErrorEvent));
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
                kinds(&sse(&events)).contains(&StreamRule::ResponseKeys),
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
                kinds(&sse(&events)).contains(&StreamRule::ResponseTypes),
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
            kinds(&sse(&events)).contains(&StreamRule::ResponseTypes),
            "null {key}"
        );
    }
}

#[test]
fn ended_responses_need_their_details() {
    type Case = (StreamRule, Events, &'static str, &'static str, Value);
    let failed = || stream("failed", vec![message("incomplete")]);
    let short = || stream("incomplete", vec![message("incomplete")]);
    let table: Vec<Case> = vec![
        (
            StreamRule::ResponseError,
            failed(),
            "response.failed",
            "/response/error",
            Value::Null,
        ),
        (
            StreamRule::ResponseError,
            failed(),
            "response.failed",
            "/response/error",
            json!({"code": "server_error"}),
        ),
        (
            StreamRule::ResponseError,
            failed(),
            "response.failed",
            "/response/error",
            json!({"message": "m"}),
        ),
        (
            StreamRule::IncompleteDetails,
            short(),
            "response.incomplete",
            "/response/incomplete_details",
            Value::Null,
        ),
        (
            StreamRule::IncompleteDetails,
            short(),
            "response.incomplete",
            "/response/incomplete_details",
            json!({"reason": "length"}),
        ),
        (
            StreamRule::CompletedAt,
            failed(),
            "response.failed",
            "/response/completed_at",
            json!(1),
        ),
        (
            StreamRule::Usage,
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
    for status in ["failed", "incomplete"] {
        let events = stream(status, vec![refusal()]);
        assert!(kinds(&sse(&events)).contains(&StreamRule::ItemStatus));
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
            found.contains(&StreamRule::ItemShape),
            "item {at} with {path} {value}: {found:?}"
        );
    }
    let mut events = compaction();
    set_item(&mut events, 0, "/encrypted_content", &Value::Null);
    assert!(kinds(&sse(&events)).contains(&StreamRule::ItemShape));
}

#[test]
fn the_framing_is_exact() {
    let text = sse(&good());
    let cases = [
        (StreamRule::DoneMarker, text.replace("data: [DONE]\n\n", "")),
        (StreamRule::DoneMarker, format!("{text}data: [DONE]\n\n")),
        (StreamRule::DoneMarker, format!("data: [DONE]\n\n{text}")),
        (
            StreamRule::Framing,
            text.replacen("event: response.created", "event: response.queued", 1),
        ),
        (
            StreamRule::Framing,
            text.replacen("event: response.created\n", "", 1),
        ),
        (
            StreamRule::Framing,
            text.replacen(
                "event: response.created\n",
                "id: 1\nevent: response.created\n",
                1,
            ),
        ),
        (
            StreamRule::Framing,
            text.replacen(
                "\n\nevent: response.in_progress",
                "\nevent: response.in_progress",
                1,
            ),
        ),
        (StreamRule::Framing, text.replace('\n', "\r\n")),
        (StreamRule::Framing, text.replacen("data: {", "data:{", 1)),
        (StreamRule::Framing, format!(": ping\n\n{text}")),
        (StreamRule::Framing, text.replacen("data: {", "data: ", 1)),
        (StreamRule::Framing, text.trim_end().to_owned()),
        (StreamRule::Framing, String::new()),
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
fn a_response_without_a_stream_obeys_the_same_rules() {
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
        (StreamRule::Usage, "/usage", Value::Null),
        (StreamRule::ResponseStatus, "/status", json!("in_progress")),
        (StreamRule::ItemShape, "/output/2/name", Value::Null),
        (StreamRule::ItemId, "/output/1/id", json!("rs_1")),
        (StreamRule::ResponseTypes, "/store", Value::Null),
        (
            StreamRule::ForeignTypes,
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
    assert_eq!(
        check_response("{").unwrap_err()[0].rule,
        StreamRule::Framing
    );
}
