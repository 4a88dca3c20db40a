//! Streams and answers of Responses upstreams as events.

use serde_json::{Value, json};

use super::*;

/// The events of these data, in short: kinds, slots and texts.
fn decoded(data: &[Value]) -> Vec<String> {
    let mut decoder = RelayDecoder::default();
    let mut events = Vec::new();
    for data in data {
        let data = data.to_string();
        decoder.decode(&data, None, DataKind::Complete, &mut |event: Event<'_>| {
            events.push(shown(&event));
        });
    }
    decoder.finish(&mut |event: Event<'_>| events.push(shown(&event)));
    events
}

/// The same for data that have no type: each with the name of its event.
fn decoded_by_name(data: &[(&str, Value)]) -> Vec<String> {
    let mut decoder = RelayDecoder::default();
    let mut events = Vec::new();
    for (name, data) in data {
        let data = data.to_string();
        let kind = if *name == "error" {
            DataKind::ErrorEvent
        } else {
            DataKind::Complete
        };
        decoder.decode(&data, Some(name), kind, &mut |event: Event<'_>| {
            events.push(shown(&event));
        });
    }
    decoder.finish(&mut |event: Event<'_>| events.push(shown(&event)));
    events
}

fn shown(event: &Event<'_>) -> String {
    match event {
        Event::Native(NativeEvent::ItemAdded { slot, .. }) => format!("added {slot}"),
        Event::Native(NativeEvent::ItemDone { slot, .. } | NativeEvent::ItemEnded { slot }) => {
            format!("done {slot}")
        }
        Event::Native(NativeEvent::Delta { slot, fragment, .. }) => {
            format!("delta {slot} {}", fragment.escaped())
        }
        Event::Failed(fault) => format!("failed {:?}", fault.kind),
        Event::Finish(finish) => format!("{finish:?}"),
        Event::Started => "started".to_owned(),
        Event::Usage(usage) => format!("usage {} {}", usage.input, usage.output),
        Event::Note(code, _) => (*code).to_owned(),
        other => format!("{other:?}"),
    }
}

fn item(id: &str, kind: &str) -> Value {
    json!({"id": id, "type": kind, "status": "in_progress"})
}

fn delta(index: u32, id: &str, text: &str) -> Value {
    json!({"type": "response.output_text.delta", "output_index": index, "item_id": id,
        "content_index": 0, "delta": text})
}

#[test]
fn an_item_is_passed_on_with_its_first_piece() {
    let added = json!({"type": "response.output_item.added", "output_index": 0,
        "item": item("msg_1", "message")});
    assert_eq!(
        decoded(&[json!({"type": "response.created"}), added.clone()]),
        ["started", "failed Cut"]
    );
    assert_eq!(
        decoded(&[added, delta(0, "msg_1", "a")]),
        ["started", "added 0", "delta 0 a", "failed Cut"]
    );
}

#[test]
fn ids_that_change_and_indices_that_repeat_still_name_their_item() {
    let added = |index: u32, id: &str| {
        json!({"type": "response.output_item.added", "output_index": index,
            "item": item(id, "message")})
    };
    let events = decoded(&[
        added(0, "a"),
        delta(0, "changed", "x"),
        added(0, "b"),
        delta(0, "b", "y"),
        delta(0, "a", "z"),
    ]);
    assert_eq!(
        events,
        [
            "started",
            "added 0",
            "delta 0 x",
            "added 1",
            "delta 1 y",
            "delta 0 z",
            "failed Cut"
        ]
    );
}

#[test]
fn the_last_event_has_the_items_that_did_not_come_before() {
    let end = json!({"type": "response.completed", "response": {
        "status": "completed", "usage": {"input_tokens": 3, "output_tokens": 2},
        "output": [item("x", "message"), item("y", "function_call")],
    }});
    assert_eq!(
        decoded(std::slice::from_ref(&end)),
        ["started", "usage 3 2", "done 0", "done 1", "Stop"]
    );
    let added = json!({"type": "response.output_item.added", "output_index": 0,
        "item": item("other", "message")});
    assert_eq!(
        decoded(&[added, delta(0, "other", "a"), end]),
        [
            "started",
            "added 0",
            "delta 0 a",
            "usage 3 2",
            "done 0",
            "done 1",
            "Stop"
        ]
    );
}

#[test]
fn an_answer_ends_once_and_as_its_status_says() {
    for (event, end) in [
        (
            json!({"type": "response.failed", "response": {"status": "failed",
            "error": {"code": "rate_limit_exceeded", "message": "slow down"}}}),
            "failed RateLimit",
        ),
        (
            json!({"type": "error", "code": "server_error", "message": "broken", "param": null}),
            "failed Unavailable",
        ),
        (
            json!({"type": "error", "error": {"code": "context_length_exceeded",
            "message": "Your input exceeds the context window of this model."}}),
            "failed ContextLength",
        ),
        (
            json!({"type": "response.incomplete", "response": {"status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"}, "output": []}}),
            "Length",
        ),
        (
            json!({"type": "response.completed", "response": {"status": "incomplete",
            "incomplete_details": {"reason": "content_filter"}}}),
            "ContentFilter",
        ),
        (json!({"choices": []}), "failed BadReply"),
        (
            json!({"object": "response", "status": "queued", "output": []}),
            "failed BadReply",
        ),
    ] {
        let events = decoded(&[event.clone(), event.clone()]);
        assert_eq!(events.last().map(String::as_str), Some(end), "{event}");
        let ends = events.iter().filter(|event| *event == end);
        assert_eq!(ends.count(), 1, "{event}");
    }
}

/// Promise: The type of an event of a Responses provider may be in its `event` line alone.
#[test]
fn the_type_of_an_event_may_be_in_its_name_alone() {
    let added = json!({"output_index": 0, "item": item("msg_1", "message")});
    let piece = json!({"output_index": 0, "item_id": "msg_1", "content_index": 0, "delta": "a"});
    let usage = json!({"input_tokens": 2, "output_tokens": 1});
    let response = json!({"object": "response", "status": "completed", "output": [],
        "usage": usage});
    let begun = ["started", "added 0", "delta 0 a"];
    for (name, end, ended) in [
        (
            "response.completed",
            json!({"response": response}),
            vec!["usage 2 1", "Stop"],
        ),
        // The response itself, without a wrapper.
        (
            "response.completed",
            response.clone(),
            vec!["usage 2 1", "Stop"],
        ),
        (
            "response.incomplete",
            json!({"response": {"incomplete_details": {"reason": "content_filter"}}}),
            vec!["ContentFilter"],
        ),
        (
            "response.failed",
            json!({"response": {"error": {"code": "rate_limit_exceeded", "message": "m"}}}),
            vec!["failed RateLimit"],
        ),
        (
            "error",
            json!({"code": "server_error", "message": "m"}),
            vec!["failed Unavailable"],
        ),
        // The type in the data counts.
        (
            "response.failed",
            json!({"type": "response.completed", "response": {}}),
            vec!["Stop"],
        ),
        ("message", json!({"x": 1}), vec!["failed BadReply"]),
    ] {
        let events = decoded_by_name(&[
            ("response.created", json!({"response": {}})),
            ("response.output_item.added", added.clone()),
            ("response.output_text.delta", piece.clone()),
            (name, end),
        ]);
        assert_eq!(events, [&begun[..], &ended].concat(), "{name}");
    }
}
