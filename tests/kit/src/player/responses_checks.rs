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
const ITEMS: [(&str, &str, &str); 16] = [
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
    (TOLD, "namespace output", "id name"),
    ("agent_message", "author recipient content", "id"),
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

/// A `function_call_output` that belongs to no call: Codex tells the model something.
const TOLD: &str = "told";

/// The items that a strict upstream has answered, by id. They must come back as they were made; a
/// client may leave fields out.
#[derive(Debug, Default)]
pub(super) struct MadeItems(HashMap<String, Value>);

impl MadeItems {
    /// Adds the items of an answer, which is a stream of events.
    pub(super) fn add(&mut self, body: &str) {
        let documents = body.lines().filter_map(|line| line.strip_prefix("data: "));
        // Most documents are deltas, which need not be read.
        for document in documents.filter(|json| json.contains("response.output_item.done")) {
            let event: Value = serde_json::from_str(document).unwrap_or_default();
            if event["type"] == "response.output_item.done"
                && let Some(id) = event["item"]["id"].as_str()
            {
                self.0.insert(id.to_owned(), event["item"].clone());
            }
        }
    }

    /// The first item of the request that is not as it was made, or was not made here.
    pub(super) fn problem(&self, request: &Value) -> Option<String> {
        let items = request["input"].as_array()?;
        items.iter().enumerate().find_map(|(index, item)| {
            let id = item["id"].as_str()?;
            let Some(made) = self.0.get(id) else {
                return Some(format!("Item with id '{id}' not found."));
            };
            let changed = changed_field(item, made)?;
            Some(format!(
                "Item with id '{id}' was made differently: 'input[{index}]{changed}'."
            ))
        })
    }
}

/// The path of the first value that is not in what was made.
fn changed_field(sent: &Value, made: &Value) -> Option<String> {
    match (sent, made) {
        (Value::Object(fields), Value::Object(_)) => fields.iter().find_map(|(name, value)| {
            changed_field(value, &made[name]).map(|inner| format!(".{name}{inner}"))
        }),
        (Value::Array(sent), Value::Array(made)) if sent.len() == made.len() => {
            let mut pairs = sent.iter().zip(made).enumerate();
            pairs.find_map(|(index, (sent, made))| {
                changed_field(sent, made).map(|inner| format!("[{index}]{inner}"))
            })
        }
        _ => (sent != made).then(String::new),
    }
}

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

/// The first thing in the request that a server of functions alone does not have.
pub(super) fn beyond_functions(request: &Value) -> Option<String> {
    let list = |name: &str| request[name].as_array().map_or(&[][..], Vec::as_slice);
    let mut tools = list("tools").iter().enumerate();
    if let Some((index, _)) = tools.find(|(_, tool)| tool["type"] != "function") {
        return Some(format!("'tools[{index}].type' must be 'function'."));
    }
    if request.get("include").is_some() {
        return Some("Unknown parameter: 'include'.".to_owned());
    }
    let known = [
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
    ];
    let mut items = list("input").iter().enumerate();
    items.find_map(|(index, item)| {
        let kind = item["type"].as_str().unwrap_or("message");
        if !known.contains(&kind) {
            return Some(format!("Invalid value: '{kind}' at 'input[{index}].type'."));
        }
        let other = ["encrypted_content", "namespace"];
        let field = other.into_iter().find(|field| item.get(field).is_some())?;
        Some(format!("Unknown parameter: 'input[{index}].{field}'."))
    })
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
        if tool.to_string().contains(r#""encrypted":true"#) {
            return Some(format!("Invalid schema of 'tools[{index}]': 'encrypted'."));
        }
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
    let mut kind = item["type"].as_str().unwrap_or("message");
    if kind == "function_call_output" && item["call_id"].is_null() && item["namespace"].is_string()
    {
        kind = TOLD;
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_item_must_come_back_as_it_was_made() {
        let item = json!({"type": "function_call", "id": "fc_1", "status": "completed",
            "call_id": "c", "name": "f", "arguments": "{\"a\": [1]}"});
        let done = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
        let mut made = MadeItems::default();
        made.add(&format!("event: x\ndata: {done}\n\n"));
        let problem = |change: &dyn Fn(&mut Value)| {
            let mut sent = item.clone();
            change(&mut sent);
            made.problem(&json!({"input": [{"role": "user", "content": "go"}, sent]}))
        };
        assert_eq!(problem(&|_| {}), None);
        // Clients leave out what they do not know.
        let shorter = |sent: &mut Value| drop(sent.as_object_mut().unwrap().remove("status"));
        assert_eq!(problem(&shorter), None);
        for (field, value) in [
            ("arguments", json!("{\"a\":[1]}")),
            ("id", json!("fc_2")),
            ("namespace", json!("n")),
        ] {
            let found = problem(&|sent| sent[field] = value.clone()).unwrap();
            assert!(found.starts_with("Item with id 'fc_"), "{found}");
        }
    }

    #[test]
    fn a_server_of_functions_knows_nothing_else() {
        let message = json!({"role": "user", "content": "go"});
        let fine = json!({"input": [message], "tools": [{"type": "function", "name": "f"}]});
        assert_eq!(beyond_functions(&fine), None);
        for broken in [
            json!({"tools": [{"type": "custom", "name": "f"}]}),
            json!({"include": []}),
            json!({"input": [message, {"type": "custom_tool_call", "call_id": "c"}]}),
            json!({"input": [{"type": "reasoning", "summary": [], "encrypted_content": "x"}]}),
            json!({"input": [{"type": "function_call", "name": "f", "namespace": "n"}]}),
        ] {
            assert!(beyond_functions(&broken).is_some(), "{broken}");
        }
    }
}
