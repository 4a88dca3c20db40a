//! The JSON schemas of tools that providers refuse.

use serde_json::{Map, Value};

/// Whether the root is of type `object` and has no combinator.
pub(super) fn has_plain_root(schema: &Value) -> bool {
    let other = ["anyOf", "oneOf", "allOf", "enum", "not"];
    kind(schema) == Some("object") && other.into_iter().all(|key| schema.get(key).is_none())
}

/// The first thing in the schema that Moonshot's subset does not have: an untyped property, a type
/// beside `anyOf`, keys beside `$ref`, a list of item schemas, a root that is not an object.
pub(super) fn outside_moonshot(schema: &Value) -> Option<String> {
    if kind(schema) != Some("object") {
        return Some("At path '': type must be object".to_owned());
    }
    nodes(schema, "").into_iter().find_map(|(path, node)| {
        let wrong = if node.contains_key("$ref") {
            (node.len() > 1).then_some("other keys beside $ref")?
        } else if node.contains_key("anyOf") {
            node.contains_key("type")
                .then_some("type should be defined in anyOf items instead of the parent schema")?
        } else if node.get("items").is_some_and(Value::is_array) {
            "items must be one schema"
        } else if !node.contains_key("type") && !node.contains_key("oneOf") {
            "type is not defined"
        } else {
            return None;
        };
        Some(format!("At path '{path}': {wrong}"))
    })
}

/// The first thing in the schema that Gemini's subset does not have: references, keys of newer
/// versions of JSON schema, several types, enums that are not strings, arrays without items,
/// required properties that do not exist.
pub(super) fn outside_gemini(schema: &Value) -> Option<String> {
    const UNKNOWN: [&str; 9] = [
        "$ref",
        "$defs",
        "definitions",
        "$schema",
        "additionalProperties",
        "const",
        "oneOf",
        "patternProperties",
        "not",
    ];
    nodes(schema, "").into_iter().find_map(|(path, node)| {
        if let Some(key) = UNKNOWN.iter().find(|key| node.contains_key(**key)) {
            return Some(format!("Unknown name \"{key}\" in '{path}'"));
        }
        let no_string = |value: &Value| !value.is_string();
        let values = node.get("enum").and_then(Value::as_array);
        if values.is_some_and(|values| values.iter().any(no_string)) {
            return Some(format!("Invalid value in '{path}.enum'"));
        }
        if node.get("type").is_some_and(no_string) {
            return Some(format!("Proto field is not repeating, '{path}.type'"));
        }
        if node.get("type").and_then(Value::as_str) == Some("array") && !node.contains_key("items")
        {
            return Some(format!("'{path}.items': missing field"));
        }
        let properties = node.get("properties").and_then(Value::as_object);
        let mut required = node
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let unknown = required.find(|name| {
            let known = properties.zip(name.as_str());
            !known.is_some_and(|(known, name)| known.contains_key(name))
        })?;
        Some(format!(
            "'{path}.required': property {unknown} is not defined"
        ))
    })
}

fn kind(schema: &Value) -> Option<&str> {
    schema.get("type")?.as_str()
}

/// The schema and all schemas inside it, with their paths.
fn nodes<'a>(schema: &'a Value, path: &str) -> Vec<(String, &'a Map<String, Value>)> {
    let Some(node) = schema.as_object() else {
        return Vec::new();
    };
    let mut found = vec![(path.to_owned(), node)];
    for group in ["properties", "$defs", "definitions"] {
        let members = node.get(group).and_then(Value::as_object);
        for (name, member) in members.into_iter().flatten() {
            found.extend(nodes(member, &format!("{path}.{group}.{name}")));
        }
    }
    for list in ["anyOf", "oneOf", "allOf", "prefixItems", "items"] {
        let members = node.get(list).and_then(Value::as_array);
        for (place, member) in members.into_iter().flatten().enumerate() {
            found.extend(nodes(member, &format!("{path}.{list}[{place}]")));
        }
    }
    for key in ["items", "additionalProperties", "not"] {
        if let Some(member) = node.get(key).filter(|member| member.is_object()) {
            found.extend(nodes(member, &format!("{path}.{key}")));
        }
    }
    found
}
