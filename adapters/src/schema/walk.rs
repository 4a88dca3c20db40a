//! All nodes of a schema. Names of properties are no keywords.

use serde_json::{Map, Value};

/// Keywords that hold schemas by name.
const MAPS: [&str; 6] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
];

/// Keywords that hold a schema or a list of schemas.
const PLACES: [&str; 16] = [
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
pub(super) fn each(root: &mut Value, visit: &mut impl FnMut(&mut Map<String, Value>, bool)) {
    if let Value::Object(schema) = root {
        visit(schema, true);
    }
    children(root, &mut |child| below(child, visit));
}

fn below(value: &mut Value, visit: &mut impl FnMut(&mut Map<String, Value>, bool)) {
    if let Value::Object(schema) = value {
        visit(schema, false);
    }
    children(value, &mut |child| below(child, visit));
}

/// Calls `visit` for the schemas directly in this one.
pub(super) fn children(value: &mut Value, visit: &mut dyn FnMut(&mut Value)) {
    let Value::Object(schema) = value else {
        return;
    };
    for (key, value) in schema {
        if MAPS.contains(&key.as_str()) {
            if let Value::Object(named) = value {
                named.values_mut().for_each(&mut *visit);
            }
        } else if PLACES.contains(&key.as_str()) {
            match value {
                Value::Array(list) => list.iter_mut().for_each(&mut *visit),
                value => visit(value),
            }
        }
    }
}
