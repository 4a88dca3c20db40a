//! Visits all nodes of a schema. Property names are not taken for keywords.

use serde_json::{Map, Value};

/// Keywords that contain schemas by name.
const NAMED_SUBSCHEMAS: [&str; 6] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
];

/// Keywords that contain a schema or a list of schemas.
const SUBSCHEMAS: [&str; 16] = [
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
];

/// Calls `visit` for every node and whether it is the root, parents first. What
/// `visit` adds to a node is visited, too.
pub(super) fn for_each_node(
    root: &mut Value,
    visit: &mut impl FnMut(&mut Map<String, Value>, bool),
) {
    if let Value::Object(schema) = root {
        visit(schema, true);
    }
    for_each_child(root, &mut |child| visit_below_root(child, visit));
}

fn visit_below_root(value: &mut Value, visit: &mut impl FnMut(&mut Map<String, Value>, bool)) {
    if let Value::Object(schema) = value {
        visit(schema, false);
    }
    for_each_child(value, &mut |child| visit_below_root(child, visit));
}

/// Calls `visit` for the direct children of this schema.
pub(super) fn for_each_child(value: &mut Value, visit: &mut dyn FnMut(&mut Value)) {
    let Value::Object(schema) = value else {
        return;
    };
    for (key, value) in schema {
        if NAMED_SUBSCHEMAS.contains(&key.as_str()) {
            if let Value::Object(named) = value {
                named.values_mut().for_each(&mut *visit);
            }
        } else if SUBSCHEMAS.contains(&key.as_str()) {
            match value {
                Value::Array(list) => list.iter_mut().for_each(&mut *visit),
                value => visit(value),
            }
        }
    }
}
