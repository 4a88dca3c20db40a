//! What OpenAI refuses in a Responses request, for a strict upstream of that wire.
#![allow(
    clippy::indexing_slicing,
    reason = "indexing a JSON value by a name gives null if it is absent"
)]

use super::responses::ENCRYPTED;
use serde_json::Value;
use std::collections::{HashMap, HashSet};

/// The parameters of the API that a stateless request may have.
const PARAMETERS: [&str; 24] = [
    "model",
    "stream",
    "store",
    "include",
    "reasoning",
    "text",
    "temperature",
    "top_p",
    "top_logprobs",
    "service_tier",
    "prompt_cache_key",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "instructions",
    "input",
    "max_output_tokens",
    "metadata",
    "truncation",
    "max_tool_calls",
    "safety_identifier",
    "stream_options",
    "user",
    "background",
];

/// The fields of each type of item besides `type`; those after the bar are optional.
const ITEMS: [(&str, &str, &str); 14] = [
    ("message", "role content", "id status phase"),
    (
        "reasoning",
        "summary",
        "id content encrypted_content status",
    ),
    (
        "function_call",
        "call_id name arguments",
        "id status namespace caller",
    ),
    ("function_call_output", "call_id output", "id status"),
    (
        "custom_tool_call",
        "call_id name input",
        "id status namespace",
    ),
    ("custom_tool_call_output", "call_id output", "id status"),
    (
        "tool_search_call",
        "call_id arguments",
        "id status execution",
    ),
    ("tool_search_output", "call_id tools", "id status execution"),
    ("local_shell_call", "call_id action", "id status"),
    ("local_shell_call_output", "output", "id call_id status"),
    ("shell_call", "call_id action", "id status environment"),
    (
        "shell_call_output",
        "call_id output",
        "id status max_output_length",
    ),
    ("apply_patch_call", "call_id operation", "id status"),
    ("apply_patch_call_output", "call_id status", "id output"),
];

/// The first thing in the request that OpenAI would refuse, in its words as far as they are known.
pub(super) fn problem(request: &Value) -> Option<String> {
    for name in request.as_object()?.keys() {
        if !PARAMETERS.contains(&name.as_str()) {
            return Some(format!("Unknown parameter: '{name}'."));
        }
    }
    range(request, "temperature", 0.0, 2.0)
        .or_else(|| range(request, "top_p", 0.0, 1.0))
        .or_else(|| range(request, "top_logprobs", 0.0, 20.0))
        .or_else(|| {
            (request["max_output_tokens"]
                .as_u64()
                .is_some_and(|n| n < 16))
            .then(|| {
                "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16."
                    .to_owned()
            })
        })
        .or_else(|| tools(request))
        .or_else(|| input(request))
}

fn range(request: &Value, name: &str, from: f64, to: f64) -> Option<String> {
    let value = request.get(name)?.as_f64();
    let fits = value.is_some_and(|value| (from..=to).contains(&value));
    (!fits).then(|| format!("Invalid '{name}': expected a value between {from} and {to}."))
}

fn tools(request: &Value) -> Option<String> {
    let mut names = HashSet::new();
    let tools = request.get("tools").and_then(Value::as_array);
    for (index, tool) in tools.into_iter().flatten().enumerate() {
        if tool.get("function").is_some() {
            return Some(format!(
                "Missing required parameter: 'tools[{index}].name'."
            ));
        }
        let name = tool["name"].as_str().or(tool["type"].as_str());
        let Some(name) = name else {
            return Some(format!(
                "Missing required parameter: 'tools[{index}].type'."
            ));
        };
        if !names.insert(name) {
            return Some(format!("Duplicate tool name '{name}'."));
        }
        if tool["type"] == "function" && !tool["parameters"].is_object() {
            return Some(format!(
                "Missing required parameter: 'tools[{index}].parameters'."
            ));
        }
    }
    None
}

fn input(request: &Value) -> Option<String> {
    let Some(items) = request["input"].as_array() else {
        return (!request["input"].is_string())
            .then(|| "Missing required parameter: 'input'.".into());
    };
    let mut ids = HashSet::new();
    // The calls that have no output yet, and the type that it must have.
    let mut calls: HashMap<&str, String> = HashMap::new();
    for (index, item) in items.iter().enumerate() {
        if let Some(problem) = shape(item, index) {
            return Some(problem);
        }
        if let Some(id) = item["id"].as_str()
            && !ids.insert(id)
        {
            return Some(format!("Duplicate item found with id {id}."));
        }
        let kind = item["type"].as_str().unwrap_or("message");
        let call_id = item["call_id"].as_str();
        if let Some(call_id) = call_id.filter(|_| kind.ends_with("_call")) {
            if calls.insert(call_id, format!("{kind}_output")).is_some() {
                return Some(format!("Duplicate call id {call_id}."));
            }
        } else if let Some(call_id) = call_id {
            let expected = calls.remove(call_id);
            let fits = expected.is_some_and(|expected| {
                expected == kind || expected.replace("_call_output", "_output") == kind
            });
            if !fits {
                return Some(format!(
                    "No tool call found for function call output with call_id {call_id}."
                ));
            }
        }
    }
    let open = calls.into_keys().next();
    open.map(|call_id| format!("No tool output found for function call {call_id}."))
}

fn shape(item: &Value, index: usize) -> Option<String> {
    let kind = item["type"].as_str().unwrap_or("message");
    let Some((_, required, optional)) = ITEMS.iter().find(|(known, _, _)| *known == kind) else {
        // Items of tools that ran here.
        let is_own = item["id"].as_str().is_some_and(is_own_id);
        return (!is_own).then(|| format!("Invalid value: '{kind}' at 'input[{index}].type'."));
    };
    let fields = item.as_object()?;
    for name in required.split(' ') {
        if fields.get(name).is_none_or(Value::is_null) {
            return Some(format!(
                "Missing required parameter: 'input[{index}].{name}'."
            ));
        }
    }
    for (name, value) in fields {
        let known = name == "type"
            || required
                .split(' ')
                .chain(optional.split(' '))
                .any(|n| n == name);
        if !known || value.is_null() {
            return Some(format!("Unknown parameter: 'input[{index}].{name}'."));
        }
    }
    if let Some(id) = item["id"].as_str()
        && !is_own_id(id)
    {
        return Some(format!(
            "Item with id '{id}' not found. Items are not persisted when `store` is set to false."
        ));
    }
    if let Some(content) = item["encrypted_content"].as_str()
        && !content.starts_with(ENCRYPTED)
    {
        return Some(format!(
            "The encrypted content {content} could not be verified."
        ));
    }
    if kind == "reasoning" && item.get("encrypted_content").is_none() {
        return Some(format!(
            "Missing required parameter: 'input[{index}].encrypted_content'."
        ));
    }
    if item["call_id"]
        .as_str()
        .is_some_and(|id| id.is_empty() || id.len() > 64)
    {
        return Some(format!(
            "Invalid 'input[{index}].call_id': string too long. Expected a string with maximum length 64."
        ));
    }
    let is_empty_text = |part: &Value| part["text"].as_str().is_some_and(str::is_empty);
    for list in ["content", "output"] {
        let parts = item[list].as_array();
        if parts.is_some_and(|parts| parts.iter().any(is_empty_text)) {
            return Some(format!("Invalid 'input[{index}].{list}': empty text."));
        }
    }
    None
}

/// Whether the scripted upstream may have made this id: a word, then hexadecimal digits.
fn is_own_id(id: &str) -> bool {
    let digits = id.split_once('_').map(|(_, digits)| digits);
    digits.is_some_and(|digits| {
        digits.len() >= 17 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}
