//! All nodes of a schema. Names of properties are no keywords.

use serde_json::{Map, Value};

/// Keywords that hold schemas by name.
const NAMED_SUBSCHEMAS: [&str; 6] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
];

/// Keywords that hold a schema or a list of schemas.
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

/// Calls `visit` for every node, a node before those in it, and says whether it
/// is the root. What `visit` puts into a node is visited too.
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

/// Calls `visit` for the schemas directly in this one.
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
