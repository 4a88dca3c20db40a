//! The answer of `POST /v1/responses/compact`: user messages and one compaction item.

use super::item::{self, ItemStage};
use super::response::usage;
use super::rule::{StreamRule, ViolationReport};
use super::{array, string};
use serde_json::Value;

/// Checks the whole object.
pub(super) fn object(answer: &Value, report: &mut ViolationReport) {
    report.require(
        string(answer, "id").is_some_and(|id| id.starts_with("resp_"))
            && string(answer, "object") == Some("response.compaction")
            && answer.get("created_at").is_some_and(Value::is_u64),
        StreamRule::ResponseTypes,
        || format!("the head of {answer}"),
    );
    usage(answer, report);
    let Some((compaction, messages)) = array(answer, "output").split_last() else {
        report.add(StreamRule::ItemShape, "no output");
        return;
    };
    report.require(
        string(compaction, "type") == Some("compaction"),
        StreamRule::Order,
        || "the compaction item is not the last".into(),
    );
    item::shape(compaction, ItemStage::Done, report);
    for message in messages {
        user_message(message, report);
    }
}

/// A message of the client as Open Responses wants it in an output.
fn user_message(message: &Value, report: &mut ViolationReport) {
    report.require(
        string(message, "type") == Some("message") && string(message, "role") == Some("user"),
        StreamRule::ItemShape,
        || format!("no user message: {message}"),
    );
    report.require(
        string(message, "id").is_some_and(|id| !id.is_empty()),
        StreamRule::ItemId,
        || format!("a message without id: {message}"),
    );
    report.require(
        matches!(
            string(message, "status"),
            Some("in_progress" | "completed" | "incomplete")
        ),
        StreamRule::ItemStatus,
        || format!("a message without status: {message}"),
    );
    report.require(
        message.get("content").is_some_and(|content| {
            content
                .as_array()
                .is_some_and(|parts| parts.iter().all(|part| string(part, "type").is_some()))
        }),
        StreamRule::ItemShape,
        || format!("no list of content parts: {message}"),
    );
}
