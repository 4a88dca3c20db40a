//! The response object: its 31 keys (Open Responses), and what its status requires.

use super::rule::{StreamRule, ViolationReport};
use super::{array, string};
use serde_json::Value;

const INTEGER: &str = "integer";
const NUMBER: &str = "number";
const STRING: &str = "string";
const BOOLEAN: &str = "boolean";
const ARRAY: &str = "array";
const OBJECT: &str = "object";
const NULL: &str = "null";

/// Each key with its allowed types.
const KEYS: [(&str, &[&str]); 31] = [
    ("id", &[STRING]),
    ("object", &[STRING]),
    ("created_at", &[INTEGER]),
    ("completed_at", &[INTEGER, NULL]),
    ("status", &[STRING]),
    ("incomplete_details", &[OBJECT, NULL]),
    ("model", &[STRING]),
    ("previous_response_id", &[STRING, NULL]),
    ("instructions", &[STRING, ARRAY, NULL]),
    ("output", &[ARRAY]),
    ("error", &[OBJECT, NULL]),
    ("tools", &[ARRAY]),
    ("tool_choice", &[STRING, OBJECT]),
    ("truncation", &[STRING]),
    ("parallel_tool_calls", &[BOOLEAN]),
    ("text", &[OBJECT]),
    ("top_p", &[NUMBER]),
    ("presence_penalty", &[NUMBER]),
    ("frequency_penalty", &[NUMBER]),
    ("top_logprobs", &[INTEGER]),
    ("temperature", &[NUMBER]),
    ("reasoning", &[OBJECT, NULL]),
    ("usage", &[OBJECT, NULL]),
    ("max_output_tokens", &[INTEGER, NULL]),
    ("max_tool_calls", &[INTEGER, NULL]),
    ("store", &[BOOLEAN]),
    ("background", &[BOOLEAN]),
    ("service_tier", &[STRING]),
    ("metadata", &[OBJECT]),
    ("safety_identifier", &[STRING, NULL]),
    ("prompt_cache_key", &[STRING, NULL]),
];

/// Checks keys, types and constants of any response object.
pub(super) fn object(response: &Value, report: &mut ViolationReport) {
    for (key, types) in KEYS {
        match response.get(key) {
            None => report.add(StreamRule::ResponseKeys, format!("`{key}` is missing")),
            Some(value) => report.require(
                types.iter().any(|kind| is(value, kind)),
                StreamRule::ResponseTypes,
                || format!("`{key}` is {value}, not {}", types.join(" or ")),
            ),
        }
    }
    let id = string(response, "id").unwrap_or_default();
    report.require(
        id.len() > 5 && id.starts_with("resp_"),
        StreamRule::ResponseTypes,
        || format!("id {id:?}"),
    );
    report.require(
        string(response, "object") == Some("response"),
        StreamRule::ResponseTypes,
        || "object is not \"response\"".into(),
    );
    let truncation = string(response, "truncation");
    report.require(
        matches!(truncation, Some("auto" | "disabled")),
        StreamRule::ResponseTypes,
        || format!("truncation {truncation:?}"),
    );
    report.require(
        response
            .pointer("/text/format/type")
            .is_some_and(Value::is_string),
        StreamRule::ResponseTypes,
        || "`text.format.type` is missing".into(),
    );
    settings(response, report);
    usage(response, report);
}

/// Checks the objects in the settings that a response repeats. Open Responses requires these keys
/// of them, which a client may leave out.
fn settings(response: &Value, report: &mut ViolationReport) {
    let mut require = |object: &Value, key: &str, types: &[&str]| {
        report.require(
            object
                .get(key)
                .is_some_and(|value| types.iter().any(|kind| is(value, kind))),
            StreamRule::ResponseSettings,
            || format!("`{key}` is not {} in {object}", types.join(" or ")),
        );
    };
    let tools = array(response, "tools").iter();
    for tool in tools.filter(|tool| string(tool, "type") == Some("function")) {
        require(tool, "name", &[STRING]);
        require(tool, "description", &[STRING, NULL]);
        require(tool, "parameters", &[OBJECT, NULL]);
        require(tool, "strict", &[BOOLEAN, NULL]);
    }
    if let Some(reasoning) = response.get("reasoning").filter(|value| value.is_object()) {
        require(reasoning, "effort", &[STRING, NULL]);
        require(reasoning, "summary", &[STRING, NULL]);
    }
    if let Some(format) = response.pointer("/text/format")
        && string(format, "type") == Some("json_schema")
    {
        require(format, "name", &[STRING]);
        require(format, "description", &[STRING, NULL]);
        require(format, "schema", &[OBJECT, NULL]);
        require(format, "strict", &[BOOLEAN]);
    }
}

/// Checks what the status requires of a response that has ended.
pub(super) fn settled(response: &Value, report: &mut ViolationReport) {
    let status = string(response, "status").unwrap_or_default();
    report.require(
        matches!(status, "completed" | "incomplete" | "failed" | "cancelled"),
        StreamRule::ResponseStatus,
        || format!("{status:?} at the end"),
    );
    // The usage of a cancelled upstream is not known.
    report.require(
        status == "cancelled" || response.get("usage").is_some_and(Value::is_object),
        StreamRule::Usage,
        || "no usage at the end".into(),
    );
    endings(response, status, report);
    let items = array(response, "output");
    for (item, next) in items.iter().zip(items.iter().skip(1)) {
        let bare = |part: &Value| {
            string(part, "refusal").is_none()
                && string(part, "text").is_none_or(|text| text.trim().is_empty())
        };
        let blank =
            string(item, "type") == Some("message") && array(item, "content").iter().all(bare);
        report.require(!blank, StreamRule::BlankMessage, || {
            format!("before a {:?}", next.get("type"))
        });
    }
    let statuses: Vec<&str> = items
        .iter()
        .filter_map(|item| string(item, "status"))
        .collect();
    match status {
        "completed" => report.require(
            // A workflow that went on after a restart may have begun its answer before.
            !statuses.contains(&"incomplete") || response.get("workflow_state").is_some(),
            StreamRule::ItemStatus,
            || "an incomplete item in a completed response".into(),
        ),
        "incomplete" | "failed" => {
            report.require(!ends_whole(items), StreamRule::ItemStatus, || {
                "the item that was open when the answer was cut says completed".into()
            });
        }
        _ => {}
    }
}

/// Checks what the status requires of the fields that say how the response ended; this holds
/// before the end, too.
pub(super) fn endings(response: &Value, status: &str, report: &mut ViolationReport) {
    let set = |key: &str| response.get(key).is_some_and(|value| !value.is_null());
    report.require(
        set("completed_at") == (status == "completed"),
        StreamRule::CompletedAt,
        || {
            format!(
                "completed_at {:?} although {status}",
                response.get("completed_at")
            )
        },
    );
    report.require(
        set("error") == (status == "failed"),
        StreamRule::ResponseError,
        || format!("error {:?} although {status}", response.get("error")),
    );
    if let Some(error) = response.get("error").filter(|error| error.is_object()) {
        for key in ["code", "message"] {
            report.require(
                string(error, key).is_some_and(|text| !text.is_empty()),
                StreamRule::ResponseError,
                || format!("error.{key} is {:?}", error.get(key)),
            );
        }
    }
    report.require(
        set("incomplete_details") == (status == "incomplete"),
        StreamRule::IncompleteDetails,
        || {
            format!(
                "incomplete_details {:?} although {status}",
                response.get("incomplete_details")
            )
        },
    );
    if set("incomplete_details") {
        let reason = response
            .pointer("/incomplete_details/reason")
            .and_then(Value::as_str);
        report.require(
            matches!(reason, Some("max_output_tokens" | "content_filter")),
            StreamRule::IncompleteDetails,
            || format!("reason {reason:?}"),
        );
    }
}

/// Whether the last item claims to be complete although the answer was cut off in it: a message
/// that says it is the final answer, or a call whose arguments are not JSON. A proxy may hold back
/// a call that was cut off; the items before it are complete.
fn ends_whole(items: &[Value]) -> bool {
    let Some(item) = items
        .last()
        .filter(|item| string(item, "status") == Some("completed"))
    else {
        return false;
    };
    match string(item, "type") {
        Some("message") => string(item, "phase") != Some("commentary"),
        Some("function_call") => string(item, "arguments")
            .is_none_or(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_err()),
        _ => false,
    }
}

pub(super) fn usage(response: &Value, report: &mut ViolationReport) {
    let Some(usage) = response.get("usage").filter(|usage| !usage.is_null()) else {
        return;
    };
    let mut count = |path: &str| {
        let number = usage.pointer(path).and_then(Value::as_u64);
        report.require(number.is_some(), StreamRule::Usage, || {
            format!("usage{path} is missing")
        });
        number.unwrap_or_default()
    };
    let input = count("/input_tokens");
    let output = count("/output_tokens");
    let total = count("/total_tokens");
    let cached = count("/input_tokens_details/cached_tokens");
    count("/input_tokens_details/cache_write_tokens");
    let reasoning = count("/output_tokens_details/reasoning_tokens");
    report.require(total == input + output, StreamRule::Usage, || {
        format!("{input} + {output} is not {total}")
    });
    report.require(
        cached <= input && reasoning <= output,
        StreamRule::Usage,
        || format!("{cached} cached of {input}, {reasoning} reasoning of {output}"),
    );
}

fn is(value: &Value, kind: &str) -> bool {
    match value {
        Value::Null => kind == NULL,
        Value::Bool(_) => kind == BOOLEAN,
        Value::Number(number) => kind == NUMBER || (kind == INTEGER && number.is_u64()),
        Value::String(_) => kind == STRING,
        Value::Array(_) => kind == ARRAY,
        Value::Object(_) => kind == OBJECT,
    }
}
