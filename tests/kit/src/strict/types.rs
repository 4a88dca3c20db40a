//! The same text read by a typed client, async-openai.

use super::rule::{StreamRule, ViolationReport};
use super::string;
use async_openai::types::responses::{Response, ResponseStreamEvent};
use serde_json::{Value, json};

/// Items that async-openai 0.43 cannot read although they are right, with the reason.
const BEYOND: [(&str, &str, &str); 1] = [(
    "apply_patch_call",
    "incomplete",
    "its status enum knows in_progress and completed only",
)];

pub(super) fn event(data: &Value, report: &mut ViolationReport) {
    let mut data = data.clone();
    if data.get("item").is_some_and(is_beyond) {
        return;
    }
    if let Some(response) = data.get_mut("response") {
        without_echo(response);
    }
    if let Err(error) = serde_json::from_value::<ResponseStreamEvent>(data) {
        report.add(StreamRule::ForeignTypes, error.to_string());
    }
}

pub(super) fn response(response: &Value, report: &mut ViolationReport) {
    let mut response = response.clone();
    without_echo(&mut response);
    if let Err(error) = serde_json::from_value::<Response>(response) {
        report.add(StreamRule::ForeignTypes, error.to_string());
    }
}

/// Tools and tool_choice are the client's own words given back: a tool newer than async-openai
/// (or a custom tool without the `format` it demands) is no fault of the answer.
fn without_echo(response: &mut Value) {
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
        items.retain(|item| !is_beyond(item));
    }
}

fn is_beyond(item: &Value) -> bool {
    BEYOND.iter().any(|(kind, status, _)| {
        string(item, "type") == Some(kind) && string(item, "status") == Some(status)
    })
}
