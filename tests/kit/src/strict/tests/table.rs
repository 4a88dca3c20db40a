//! One mutation of the good stream a line, with the rule it breaks.

use super::streams::{Events, good, message, number, sse};
use super::{at, insert_before, kinds, remove, set, set_item, unset};
use crate::strict::StreamRule;
use serde_json::{Value, json};

pub(super) const DELTA: &str = "response.output_text.delta";
pub(super) const TEXT_DONE: &str = "response.output_text.done";
const PART: &str = "response.content_part.added";
const PART_DONE: &str = "response.content_part.done";
const ADDED: &str = "response.output_item.added";
const DONE: &str = "response.output_item.done";
pub(super) const CREATED: &str = "response.created";
pub(super) const PROGRESS: &str = "response.in_progress";
pub(super) const COMPLETED: &str = "response.completed";
const ARGS: &str = "response.function_call_arguments.delta";
const ARGS_DONE: &str = "response.function_call_arguments.done";
const SUMMARY: &str = "response.reasoning_summary_text.delta";
const SUMMARY_PART: &str = "response.reasoning_summary_part.added";

#[expect(
    clippy::semicolon_if_nothing_returned,
    reason = "each line of the table is one expression"
)]
#[test]
fn every_broken_event_is_named() {
    type Change = fn(&mut Events);
    let table: &[(StreamRule, &str, Change)] = &[
        (StreamRule::Sequence, "a gap", |e| {
            set(e, DELTA, 1, "/sequence_number", json!(99))
        }),
        (StreamRule::Sequence, "missing", |e| {
            unset(e, COMPLETED, 0, "/sequence_number")
        }),
        (StreamRule::EventType, "unknown", |e| {
            insert_before(
                e,
                DELTA,
                0,
                json!({"type": "response.reasoning.delta", "item_id": "msg_1", "output_index": 1}),
            )
        }),
        (StreamRule::EventType, "call arguments in a message", |e| {
            insert_before(
                e,
                DELTA,
                0,
                json!({"type": ARGS, "item_id": "msg_1", "output_index": 1, "delta": "x"}),
            )
        }),
        (StreamRule::Order, "no created", |e| remove(e, CREATED, 0)),
        (StreamRule::Order, "no in_progress", |e| {
            remove(e, PROGRESS, 0)
        }),
        (StreamRule::Order, "created twice", |e| {
            let c = e[0].clone();
            insert_before(e, DELTA, 0, c);
        }),
        (StreamRule::Order, "created with output", |e| {
            set(
                e,
                CREATED,
                0,
                "/response/output",
                json!([message("completed").1]),
            )
        }),
        (StreamRule::Terminal, "none", |e| remove(e, COMPLETED, 0)),
        (StreamRule::Terminal, "two", |e| {
            let c = e.last().unwrap().clone();
            e.push(c);
            number(e);
        }),
        (StreamRule::Terminal, "an event after it", |e| {
            let c = e[1].clone();
            e.push(c);
            number(e);
        }),
        (StreamRule::Heartbeat, "forgets the done items", |e| {
            let c = e[1].clone();
            insert_before(e, DELTA, 0, c);
        }),
        (StreamRule::ResponseIdentity, "another id", |e| {
            set(e, COMPLETED, 0, "/response/id", json!("resp_2"))
        }),
        (StreamRule::ResponseIdentity, "another created_at", |e| {
            set(e, PROGRESS, 0, "/response/created_at", json!(1))
        }),
        (StreamRule::ResponseStatus, "completed says failed", |e| {
            set(e, COMPLETED, 0, "/response/status", json!("in_progress"))
        }),
        (StreamRule::ResponseStatus, "created says completed", |e| {
            set(e, CREATED, 0, "/response/status", json!("completed"))
        }),
        (StreamRule::ResponseTypes, "no prefix", |e| {
            set(e, CREATED, 0, "/response/id", json!("1"))
        }),
        (StreamRule::ResponseTypes, "text without format", |e| {
            set(e, CREATED, 0, "/response/text", json!({}))
        }),
        (StreamRule::ResponseTypes, "truncation", |e| {
            set(e, CREATED, 0, "/response/truncation", json!("none"))
        }),
        (StreamRule::ResponseTypes, "object", |e| {
            set(e, CREATED, 0, "/response/object", json!("answer"))
        }),
        (StreamRule::ResponseSettings, "a tool without strict", |e| {
            let tool =
                json!({"type": "function", "name": "f", "description": null, "parameters": {}});
            set(e, CREATED, 0, "/response/tools", json!([tool]))
        }),
        (
            StreamRule::ResponseSettings,
            "reasoning without summary",
            |e| {
                set(
                    e,
                    CREATED,
                    0,
                    "/response/reasoning",
                    json!({"effort": "low"}),
                )
            },
        ),
        (
            StreamRule::ResponseSettings,
            "a schema without strict",
            |e| {
                let format =
                    json!({"type": "json_schema", "name": "n", "description": null, "schema": {}});
                set(e, CREATED, 0, "/response/text", json!({"format": format}))
            },
        ),
        (StreamRule::Usage, "null at the end", |e| {
            set(e, COMPLETED, 0, "/response/usage", Value::Null)
        }),
        (StreamRule::Usage, "no cached_tokens", |e| {
            unset(
                e,
                COMPLETED,
                0,
                "/response/usage/input_tokens_details/cached_tokens",
            )
        }),
        (StreamRule::Usage, "no cache_write_tokens", |e| {
            unset(
                e,
                COMPLETED,
                0,
                "/response/usage/input_tokens_details/cache_write_tokens",
            )
        }),
        (StreamRule::Usage, "no reasoning_tokens", |e| {
            unset(
                e,
                COMPLETED,
                0,
                "/response/usage/output_tokens_details/reasoning_tokens",
            )
        }),
        (StreamRule::Usage, "no details", |e| {
            unset(e, COMPLETED, 0, "/response/usage/output_tokens_details")
        }),
        (StreamRule::Usage, "a wrong total", |e| {
            set(e, COMPLETED, 0, "/response/usage/total_tokens", json!(3))
        }),
        (StreamRule::Usage, "more cached than sent", |e| {
            set(
                e,
                COMPLETED,
                0,
                "/response/usage/input_tokens_details/cached_tokens",
                json!(11),
            )
        }),
        (StreamRule::CompletedAt, "missing", |e| {
            set(e, COMPLETED, 0, "/response/completed_at", Value::Null)
        }),
        (StreamRule::CompletedAt, "too early", |e| {
            set(e, CREATED, 0, "/response/completed_at", json!(5))
        }),
        (StreamRule::ResponseError, "although completed", |e| {
            set(
                e,
                COMPLETED,
                0,
                "/response/error",
                json!({"code": "server_error", "message": "m"}),
            )
        }),
        (StreamRule::IncompleteDetails, "although completed", |e| {
            set(
                e,
                COMPLETED,
                0,
                "/response/incomplete_details",
                json!({"reason": "content_filter"}),
            )
        }),
        (StreamRule::OutputIndex, "reused", |e| {
            set(e, ADDED, 1, "/output_index", json!(0))
        }),
        (StreamRule::OutputIndex, "skipped when done", |e| {
            set(e, DONE, 1, "/output_index", json!(2))
        }),
        (StreamRule::OutputIndex, "on a delta", |e| {
            set(e, DELTA, 0, "/output_index", json!(7))
        }),
        (StreamRule::OutputIndex, "missing", |e| {
            unset(e, DELTA, 0, "/output_index")
        }),
        (StreamRule::OneItemAtATime, "never done", |e| {
            remove(e, DONE, 1)
        }),
        (StreamRule::OneItemAtATime, "never done, last", |e| {
            remove(e, DONE, 3)
        }),
        (StreamRule::OneItemAtATime, "never added", |e| {
            remove(e, ADDED, 1)
        }),
        (StreamRule::OneItemAtATime, "interleaved", |e| {
            let (a, b) = (at(e, ADDED, 3), at(e, ARGS, 1));
            e.swap(a, b);
            number(e);
        }),
        (StreamRule::ItemId, "prefix", |e| {
            set(e, ADDED, 1, "/item/id", json!("m1"));
        }),
        (StreamRule::ItemId, "a bare prefix", |e| {
            set(e, ADDED, 1, "/item/id", json!("msg_"));
        }),
        (StreamRule::ItemId, "changes when done", |e| {
            set_item(e, 1, "/id", &json!("msg_9"))
        }),
        (StreamRule::ItemId, "of another item on a delta", |e| {
            set(e, DELTA, 1, "/item_id", json!("rs_1"))
        }),
        (StreamRule::ItemId, "missing on a delta", |e| {
            unset(e, DELTA, 1, "/item_id")
        }),
        (StreamRule::ItemId, "the name changes", |e| {
            set_item(e, 2, "/name", &json!("rm"))
        }),
        (StreamRule::CallId, "is the item id", |e| {
            set(e, ADDED, 2, "/item/call_id", json!("fc_1"));
            set_item(e, 2, "/call_id", &json!("fc_1"));
        }),
        (StreamRule::CallId, "twice", |e| {
            set(e, ADDED, 3, "/item/call_id", json!("call_1"));
            set_item(e, 3, "/call_id", &json!("call_1"));
        }),
        (StreamRule::CallId, "changes", |e| {
            set_item(e, 2, "/call_id", &json!("call_7"))
        }),
        (StreamRule::CallId, "empty", |e| {
            set(e, ADDED, 2, "/item/call_id", json!(""));
            set_item(e, 2, "/call_id", &json!(""));
        }),
        (StreamRule::ItemShape, "unknown type", |e| {
            set(e, ADDED, 1, "/item/type", json!("chat"))
        }),
        (StreamRule::ItemShape, "role", |e| {
            set(e, ADDED, 1, "/item/role", json!("user"))
        }),
        (StreamRule::ItemShape, "message added with text", |e| {
            set(
                e,
                ADDED,
                1,
                "/item/content",
                message("completed").1["content"].clone(),
            )
        }),
        (StreamRule::ItemShape, "message without content", |e| {
            unset(e, ADDED, 1, "/item/content")
        }),
        (StreamRule::ItemShape, "reasoning without summary", |e| {
            unset(e, ADDED, 0, "/item/summary")
        }),
        (StreamRule::ItemShape, "call without name", |e| {
            unset(e, ADDED, 2, "/item/name")
        }),
        (StreamRule::ItemShape, "call without arguments", |e| {
            unset(e, ADDED, 2, "/item/arguments")
        }),
        (StreamRule::ItemShape, "call added with arguments", |e| {
            set(e, ADDED, 2, "/item/arguments", json!("{}"))
        }),
        (StreamRule::ItemShape, "null namespace", |e| {
            set(e, ADDED, 2, "/item/namespace", Value::Null)
        }),
        (StreamRule::ItemShape, "custom call without input", |e| {
            unset(e, ADDED, 3, "/item/input")
        }),
        (StreamRule::ItemStatus, "call without status", |e| {
            unset(e, ADDED, 2, "/item/status")
        }),
        (StreamRule::ItemStatus, "added completed", |e| {
            set(e, ADDED, 1, "/item/status", json!("completed"))
        }),
        (StreamRule::ItemStatus, "done in_progress", |e| {
            set_item(e, 1, "/status", &json!("in_progress"))
        }),
        (StreamRule::ItemStatus, "incomplete in completed", |e| {
            set_item(e, 1, "/status", &json!("incomplete"))
        }),
        (StreamRule::BlankMessage, "before a call", |e| {
            set_item(e, 1, "/content/0/text", &json!("\n\n"))
        }),
        (StreamRule::Phase, "missing", |e| {
            unset(e, DONE, 1, "/item/phase")
        }),
        (StreamRule::Phase, "unknown", |e| {
            set_item(e, 1, "/phase", &json!("analysis"))
        }),
        (StreamRule::PartBracket, "no content_part.added", |e| {
            remove(e, PART, 0)
        }),
        (StreamRule::PartBracket, "no content_part.done", |e| {
            remove(e, PART_DONE, 0)
        }),
        (StreamRule::PartBracket, "no text done", |e| {
            remove(e, TEXT_DONE, 0)
        }),
        (StreamRule::PartBracket, "part added with text", |e| {
            set(e, PART, 0, "/part/text", json!("H"))
        }),
        (StreamRule::PartBracket, "content_index moves", |e| {
            set(e, DELTA, 1, "/content_index", json!(1))
        }),
        (StreamRule::PartBracket, "content_index missing", |e| {
            unset(e, DELTA, 1, "/content_index")
        }),
        (StreamRule::PartBracket, "delta after done", |e| {
            let (a, b) = (at(e, DELTA, 1), at(e, TEXT_DONE, 0));
            e.swap(a, b);
            number(e);
        }),
        (StreamRule::PartBracket, "no summary part", |e| {
            remove(e, SUMMARY_PART, 0)
        }),
        (StreamRule::PartBracket, "no summary_index", |e| {
            unset(e, SUMMARY, 0, "/summary_index")
        }),
        (StreamRule::PartBracket, "no arguments.done", |e| {
            remove(e, ARGS_DONE, 0)
        }),
        (StreamRule::EmptyDelta, "text", |e| {
            insert_before(
                e,
                DELTA,
                0,
                json!({"type": DELTA, "item_id": "msg_1", "output_index": 1, "content_index": 0, "delta": "", "logprobs": []}),
            )
        }),
        (StreamRule::EmptyDelta, "arguments", |e| {
            insert_before(
                e,
                ARGS,
                0,
                json!({"type": ARGS, "item_id": "fc_1", "output_index": 2, "delta": ""}),
            )
        }),
        (StreamRule::EmptyDelta, "missing", |e| {
            unset(e, SUMMARY, 0, "/delta")
        }),
        (StreamRule::TextSum, "a lost delta", |e| remove(e, DELTA, 0)),
        (StreamRule::TextSum, "text done", |e| {
            set(e, TEXT_DONE, 0, "/text", json!("Bye"))
        }),
        (StreamRule::TextSum, "part done", |e| {
            set(e, PART_DONE, 0, "/part/text", json!("Bye"))
        }),
        (StreamRule::TextSum, "item", |e| {
            set_item(e, 1, "/content/0/text", &json!("Bye"))
        }),
        (StreamRule::TextSum, "arguments done", |e| {
            set(e, ARGS_DONE, 0, "/arguments", json!("{}"))
        }),
        (StreamRule::TextSum, "arguments of the item", |e| {
            set_item(e, 2, "/arguments", &json!("{}"))
        }),
        (StreamRule::TextSum, "no arguments delta", |e| {
            remove(e, ARGS, 0);
            remove(e, ARGS, 0);
        }),
        (StreamRule::TextSum, "custom input", |e| {
            set_item(e, 3, "/input", &json!("*"))
        }),
        (StreamRule::TextSum, "summary of the item", |e| {
            set_item(e, 0, "/summary/0/text", &json!("No."))
        }),
        (StreamRule::Logprobs, "delta", |e| {
            unset(e, DELTA, 0, "/logprobs")
        }),
        (StreamRule::Logprobs, "done", |e| {
            unset(e, TEXT_DONE, 0, "/logprobs")
        }),
        (StreamRule::Logprobs, "part", |e| {
            unset(e, PART, 0, "/part/logprobs")
        }),
        (StreamRule::Annotations, "part added", |e| {
            unset(e, PART, 0, "/part/annotations")
        }),
        (StreamRule::Annotations, "not announced", |e| {
            remove(e, "response.output_text.annotation.added", 0)
        }),
        (StreamRule::Annotations, "index", |e| {
            set(
                e,
                "response.output_text.annotation.added",
                0,
                "/annotation_index",
                json!(1),
            )
        }),
        (StreamRule::AbsentNotNull, "encrypted_content", |e| {
            set(e, ADDED, 0, "/item/encrypted_content", Value::Null)
        }),
        (StreamRule::AbsentNotNull, "content", |e| {
            set_item(e, 0, "/content", &Value::Null)
        }),
        (StreamRule::AbsentNotNull, "obfuscation", |e| {
            set(e, DELTA, 0, "/obfuscation", Value::Null)
        }),
        (StreamRule::OneReasoningStream, "both in the item", |e| {
            set_item(
                e,
                0,
                "/content",
                &json!([{"type": "reasoning_text", "text": "Hmm."}]),
            )
        }),
        (StreamRule::OneReasoningStream, "both streamed", |e| {
            insert_before(
                e,
                DONE,
                0,
                json!({"type": "response.reasoning_text.delta", "item_id": "rs_1", "output_index": 0, "content_index": 1, "delta": "Hmm."}),
            )
        }),
        (StreamRule::FinalOutput, "an item missing", |e| {
            set(e, COMPLETED, 0, "/response/output", json!([]))
        }),
        (StreamRule::FinalOutput, "another order", |e| {
            let at = at(e, COMPLETED, 0);
            e[at]["response"]["output"]
                .as_array_mut()
                .unwrap()
                .swap(0, 1);
        }),
        (StreamRule::FinalOutput, "keys in another order", |e| {
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
        (StreamRule::ErrorEvent, "then completed", |e| {
            insert_before(
                e,
                COMPLETED,
                0,
                json!({"type": "error", "code": null, "message": "m", "param": null, "error": {"message": "m"}}),
            )
        }),
        (StreamRule::ErrorEvent, "flat only", |e| {
            insert_before(
                e,
                COMPLETED,
                0,
                json!({"type": "error", "code": null, "message": "m", "param": null}),
            )
        }),
        (StreamRule::ForeignTypes, "a citation without title", |e| {
            unset(e, PART_DONE, 0, "/part/annotations/0/title")
        }),
        (
            StreamRule::ForeignTypes,
            "an effort of the wrong type",
            |e| set(e, CREATED, 0, "/response/reasoning/effort", json!(3)),
        ),
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
