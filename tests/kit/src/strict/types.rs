//! The same text, parsed by a typed client, async-openai.

use super::flow::WORKFLOW_EVENTS;
use super::rule::{StreamRule, ViolationReport};
use super::string;
use async_openai::types::responses::{Response, ResponseStreamEvent};
use serde_json::{Value, json};

/// Correct items that async-openai 0.43 cannot parse, as (type, status, reason).
const UNSUPPORTED: [(&str, &str, &str); 7] = [
    (
        "apply_patch_call",
        "incomplete",
        "its status enum has in_progress and completed only",
    ),
    ("x_search_call", "in_progress", "it is a tool of xAI"),
    ("x_search_call", "completed", "it is a tool of xAI"),
    (
        "shell_call",
        "in_progress",
        "its environment has more forms",
    ),
    ("shell_call", "completed", "its environment has more forms"),
    (
        "shell_call_output",
        "in_progress",
        "its outcomes have more forms",
    ),
    (
        "shell_call_output",
        "completed",
        "its outcomes have more forms",
    ),
];

pub(super) fn event(data: &Value, report: &mut ViolationReport) {
    let kind = string(data, "type").unwrap_or_default();
    if kind.starts_with(WORKFLOW_EVENTS) {
        return;
    }
    let mut data = data.clone();
    if data.get("item").is_some_and(is_unsupported) {
        return;
    }
    if let Some(response) = data.get_mut("response") {
        remove_unsupported(response);
    }
    if let Err(error) = serde_json::from_value::<ResponseStreamEvent>(data) {
        report.add(StreamRule::ForeignTypes, error.to_string());
    }
}

pub(super) fn response(response: &Value, report: &mut ViolationReport) {
    let mut response = response.clone();
    remove_unsupported(&mut response);
    if let Err(error) = serde_json::from_value::<Response>(response) {
        report.add(StreamRule::ForeignTypes, error.to_string());
    }
}

/// Removes what async-openai cannot parse. Tools and tool_choice are repeated from the request: a
/// tool newer than async-openai (or a custom tool without the `format` that it requires) is not an
/// error of the answer.
fn remove_unsupported(response: &mut Value) {
    let Some(response) = response.as_object_mut() else {
        return;
    };
    if response.contains_key("tools") {
        response.insert("tools".into(), json!([]));
    }
    if response.contains_key("tool_choice") {
        response.insert("tool_choice".into(), json!("auto"));
    }
    if let Some(items) = response.get_mut("output").and_then(Value::as_array_mut) {
        items.retain(|item| !is_unsupported(item));
    }
}

fn is_unsupported(item: &Value) -> bool {
    UNSUPPORTED.iter().any(|(kind, status, _)| {
        string(item, "type") == Some(kind) && string(item, "status") == Some(status)
    })
}
