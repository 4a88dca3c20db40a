//! A small example value that fits a JSON schema, for arguments and structured answers.

use serde_json::{Map, Value, json};

/// Bounds schemas that nest deeply or refer to themselves.
const MAX_DEPTH: usize = 8;
/// Bounds schemas that refer to themselves several times: each level multiplies their nodes.
const MAX_NODES: usize = 2_000;

/// A minimal value of the schema; null beyond the limits.
pub(super) fn example(schema: &Value) -> Value {
    let mut left = MAX_NODES;
    fit(schema, schema, MAX_DEPTH, &mut left)
}

fn fit(schema: &Value, root: &Value, depth: usize, left: &mut usize) -> Value {
    let (Some(depth), Some(rest)) = (depth.checked_sub(1), left.checked_sub(1)) else {
        return Value::Null;
    };
    *left = rest;
    if let Some(target) = schema
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|path| path.strip_prefix('#'))
    {
        return root
            .pointer(target)
            .map_or(Value::Null, |target| fit(target, root, depth, left));
    }
    if let Some(fixed) = schema.get("const") {
        return fixed.clone();
    }
    let first = |key: &str| schema.get(key)?.as_array()?.first();
    if let Some(choice) = first("enum") {
        return choice.clone();
    }
    if let Some(choice) = first("anyOf")
        .or_else(|| first("oneOf"))
        .or_else(|| first("allOf"))
    {
        return fit(choice, root, depth, left);
    }
    let kind = schema
        .get("type")
        .and_then(Value::as_str)
        .or_else(|| first("type")?.as_str());
    match kind {
        Some("string") => "offline".into(),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| 1.into()),
        Some("boolean") => true.into(),
        Some("array") => match schema.get("items") {
            Some(items) => json!([fit(items, root, depth, left)]),
            None => json!([]),
        },
        Some("null") => Value::Null,
        _ => object(schema, root, depth, left),
    }
}

/// An object with the required properties, or with all if the schema does not list any.
fn object(schema: &Value, root: &Value, depth: usize, left: &mut usize) -> Value {
    let required = schema.get("required").and_then(Value::as_array);
    let wanted =
        |name: &str| required.is_none_or(|names| names.iter().any(|required| required == name));
    let properties = schema.get("properties").and_then(Value::as_object);
    let fitted: Map<String, Value> = properties
        .into_iter()
        .flatten()
        .filter(|(name, _)| wanted(name))
        .take(100)
        .map(|(name, property)| (name.clone(), fit(property, root, depth, left)))
        .collect();
    Value::Object(fitted)
}
