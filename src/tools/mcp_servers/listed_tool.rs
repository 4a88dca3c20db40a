//! The tools of a server as they were listed, within limits. What a server says of them is text of
//! others.

use std::collections::HashSet;

use rmcp::model::Tool;
use serde_json::{Map, Value, json};

use crate::secrets::Redactor;

/// The longest name of a tool, in bytes.
const MAX_NAME: usize = 128;
/// The longest description of a tool, in characters.
const MAX_DESCRIPTION: usize = 4_000;
/// The largest schema of a tool, in bytes.
const MAX_SCHEMA: usize = 32 << 10;
/// The most bytes of all descriptions and schemas of a server.
const MAX_LIST: usize = 512 << 10;
/// How deep a schema may nest.
const MAX_DEPTH: usize = 32;
/// The schema in place of one that cannot be used.
const ANY_OBJECT: &str = r#"{"type":"object"}"#;

/// The tools of one server. Made when it has listed them, and kept for a while.
pub(super) struct ListedTools {
    pub(super) tools: Vec<ListedTool>,
    /// What was left out or changed, for the notes of the turn.
    pub(super) notes: Vec<String>,
}

/// One of them.
pub(super) struct ListedTool {
    pub(super) name: String,
    pub(super) description: String,
    /// The schema of the arguments, as JSON.
    pub(super) parameters: String,
    /// What the server says of its effects, as the client sees it.
    annotations: Value,
    pub(super) is_read_only: bool,
    /// Whether a second call changes nothing more, so that one that failed may be made again.
    pub(super) is_repeatable: bool,
}

impl ListedTools {
    /// Reads a list. `is_cut` says that it goes on.
    pub(super) fn new(listed: &[Tool], is_cut: bool, redactor: &Redactor) -> Self {
        let mut notes = Vec::new();
        let mut tools: Vec<ListedTool> = Vec::new();
        let mut names = HashSet::new();
        let mut bytes = 0_usize;
        for tool in listed {
            let name = redactor.redact_known(&tool.name);
            let is_usable = (1..=MAX_NAME).contains(&name.len())
                && !name.contains(|c: char| c.is_control() || c.is_whitespace());
            if !is_usable || !names.insert(name.clone()) {
                notes.push("a tool whose name cannot be used".to_owned());
                continue;
            }
            let description = tool.description.as_deref().unwrap_or_default();
            let description = redactor.redact_known(description);
            let end = description.char_indices().nth(MAX_DESCRIPTION);
            let end = end.map_or(description.len(), |(end, _)| end);
            let (parameters, is_weakened) = parameters(&tool.input_schema, redactor);
            let size = end.saturating_add(parameters.len());
            if bytes.saturating_add(size) > MAX_LIST {
                notes.push(format!("{name}: the list is too large"));
                continue;
            }
            bytes = bytes.saturating_add(size);
            if is_weakened {
                notes.push(format!("{name}: its schema cannot be used"));
            }
            let hints = tool.annotations.as_ref();
            let is_read_only = hints.and_then(|it| it.read_only_hint) == Some(true);
            let is_idempotent = hints.and_then(|it| it.idempotent_hint) == Some(true);
            tools.push(ListedTool {
                name: name.into_owned(),
                description: description.get(..end).unwrap_or_default().to_owned(),
                parameters,
                annotations: annotations(tool),
                is_read_only,
                is_repeatable: is_read_only || is_idempotent,
            });
        }
        if is_cut {
            notes.push("more tools than may be used".to_owned());
        }
        Self { tools, notes }
    }
}

impl ListedTool {
    /// The tool as the client sees it.
    pub(super) fn shown(&self) -> Value {
        let schema: Value = serde_json::from_str(&self.parameters).unwrap_or_default();
        json!({
            "name": self.name,
            "description": self.description,
            "input_schema": schema,
            "annotations": self.annotations,
        })
    }
}

/// The hints alone: a title can be as long as the server likes.
fn annotations(tool: &Tool) -> Value {
    let Some(hints) = &tool.annotations else {
        return Value::Null;
    };
    let hints = [
        ("read_only", hints.read_only_hint),
        ("destructive", hints.destructive_hint),
        ("idempotent", hints.idempotent_hint),
        ("open_world", hints.open_world_hint),
    ];
    let known = hints
        .into_iter()
        .filter_map(|(name, hint)| Some((name, hint?)));
    known
        .map(|(name, hint)| (name.to_owned(), Value::from(hint)))
        .collect()
}

/// The schema of the arguments as JSON, and whether it had to become one that allows everything:
/// a provider refuses a whole request because of one schema.
fn parameters(schema: &Map<String, Value>, redactor: &Redactor) -> (String, bool) {
    let mut schema = schema.clone();
    schema.remove("$schema");
    schema.entry("type").or_insert_with(|| "object".into());
    let schema = Value::Object(schema);
    let is_object = schema.get("type").is_some_and(|kind| kind == "object");
    let fits = is_object
        && is_self_contained(&schema, MAX_DEPTH)
        && jsonschema::validator_for(&schema).is_ok();
    let json = schema.to_string();
    if !fits || json.len() > MAX_SCHEMA {
        return (ANY_OBJECT.to_owned(), true);
    }
    let clean = redactor.redact_known(&json);
    (clean.into_owned(), false)
}

/// Whether a schema nests no deeper than this and refers to no other document.
fn is_self_contained(schema: &Value, depth: usize) -> bool {
    let Some(below) = depth.checked_sub(1) else {
        return false;
    };
    match schema {
        Value::Object(members) => members.iter().all(|(name, value)| {
            let is_reference = name == "$ref" || name == "$dynamicRef";
            let is_outside =
                is_reference && value.as_str().is_some_and(|text| !text.starts_with('#'));
            !is_outside && is_self_contained(value, below)
        }),
        Value::Array(values) => values.iter().all(|value| is_self_contained(value, below)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(value: &Value) -> Tool {
        serde_json::from_value(value.clone()).unwrap()
    }

    /// Promise: What an MCP server says of its tools is bounded: a schema that cannot be used
    /// allows everything, a long description is cut, and what is beyond the limits is left out.
    #[test]
    fn a_list_is_bounded() {
        let nested = |depth: usize| {
            let open = r#"{"type":"object","properties":{"a":"#.repeat(depth);
            let text = open + "{}" + &"}}".repeat(depth);
            serde_json::from_str::<Value>(&text).unwrap()
        };
        for (schema, is_weakened) in [
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}}),
                false,
            ),
            (json!({"properties": {"a": {}}}), false),
            (json!({}), false),
            (json!({"type": "string"}), true),
            (json!({"type": "objekt"}), true),
            (
                json!({"type": "object", "properties": {"a": {"type": 1}}}),
                true,
            ),
            (json!({"$ref": "http://127.0.0.1:1/schema"}), true),
            (
                json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}),
                true,
            ),
            (
                json!({"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {}}}),
                false,
            ),
            (json!({"description": "x".repeat(MAX_SCHEMA)}), true),
            (nested(10), false),
            (nested(40), true),
        ] {
            let listed = tool(&json!({"name": "a", "inputSchema": schema}));
            let listed = ListedTools::new(&[listed], false, &Redactor::default());
            assert_eq!(listed.notes.len(), usize::from(is_weakened), "{schema:.80}");
            let is_any = listed.tools[0].parameters == ANY_OBJECT;
            assert_eq!(is_any, is_weakened || schema == json!({}), "{schema:.80}");
        }
        let long = "é".repeat(10_000);
        let many: Vec<Tool> = (0..200)
            .map(|number| {
                let name = format!("t{number}");
                tool(&json!({"name": name, "description": long, "inputSchema": {}}))
            })
            .chain(
                ["", "a b", "t0", &"n".repeat(200)]
                    .map(|name| tool(&json!({"name": name, "inputSchema": {}}))),
            )
            .collect();
        let listed = ListedTools::new(&many, true, &Redactor::default());
        let first = &listed.tools[0];
        assert_eq!(first.description.chars().count(), MAX_DESCRIPTION);
        let bytes = listed.tools.iter().map(|tool| tool.description.len());
        assert!(bytes.sum::<usize>() <= MAX_LIST);
        assert_eq!(listed.tools.len() + listed.notes.len(), many.len() + 1);
    }
}
