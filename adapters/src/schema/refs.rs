//! References inside a schema.

use serde_json::{Map, Value};

use super::walk;

/// The most nodes that are written for all references of a schema together:
/// references to references multiply.
const MAX_NODES: usize = 5_000;

/// How deep schemas may lie in one another before references are cut short.
const MAX_DEPTH: usize = 48;

/// What a reference into the same document refers to.
pub(super) fn resolve<'v>(root: &'v Value, reference: &str) -> Option<&'v Value> {
    root.pointer(reference.strip_prefix('#')?)
}

/// Puts the referred schemas in the place of the references. One that leads back
/// to itself, or too far, becomes a schema of the same type that says no more.
pub(super) fn inline_refs(schema: &mut Value) {
    let root = schema.clone();
    let mut state = RefInliner {
        root: &root,
        open: Vec::new(),
        left: MAX_NODES,
    };
    state.inline(schema, 0);
    walk::for_each_node(schema, &mut |schema, _| {
        for name in ["$defs", "definitions"] {
            schema.shift_remove(name);
        }
    });
}

struct RefInliner<'v> {
    root: &'v Value,
    /// The references that are being replaced.
    open: Vec<String>,
    left: usize,
}

impl RefInliner<'_> {
    fn inline(&mut self, value: &mut Value, depth: usize) {
        let reference = value.get("$ref").and_then(Value::as_str).map(str::to_owned);
        let (Some(reference), Value::Object(schema)) = (reference, &mut *value) else {
            walk::for_each_child(value, &mut |child| self.inline(child, depth + 1));
            return;
        };
        schema.shift_remove("$ref");
        let found = resolve(self.root, &reference);
        let cost = found.and_then(|found| size_within(found, self.left));
        match (found, cost) {
            (Some(found), Some(cost)) if depth < MAX_DEPTH && !self.open.contains(&reference) => {
                self.left -= cost;
                merge(schema, found);
                self.open.push(reference);
                // What it refers to may be a reference itself.
                self.inline(value, depth + 1);
                self.open.pop();
            }
            (Some(found), _) => merge(schema, &outline(found)),
            (None, _) => {}
        }
    }
}

/// Adds the keys that the schema does not have itself.
fn merge(schema: &mut Map<String, Value>, found: &Value) {
    for (key, value) in found.as_object().into_iter().flatten() {
        schema.entry(key.as_str()).or_insert_with(|| value.clone());
    }
}

/// Type and description alone.
fn outline(found: &Value) -> Value {
    let kept = found
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| matches!(key.as_str(), "type" | "description"));
    Value::Object(
        kept.map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    )
}

/// The number of values in this one, unless it is above `most`.
fn size_within(value: &Value, most: usize) -> Option<usize> {
    let mut size = 1_usize;
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Array(list) => {
                size += list.len();
                waiting.extend(list);
            }
            Value::Object(map) => {
                size += map.len();
                waiting.extend(map.values());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        if size > most {
            return None;
        }
    }
    Some(size)
}
