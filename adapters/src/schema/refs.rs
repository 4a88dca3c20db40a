//! Replaces references inside a schema by what they refer to.

use serde_json::{Map, Value};

use super::walk;

/// The most nodes that are written for all references of a schema together, because
/// references to references multiply.
const MAX_NODES: usize = 5_000;

/// How deep schemas may be nested before references are cut short.
const MAX_DEPTH: usize = 48;

/// The target of a reference into the same document.
pub(super) fn resolve<'v>(root: &'v Value, reference: &str) -> Option<&'v Value> {
    root.pointer(reference.strip_prefix('#')?)
}

/// Replaces every reference by its target. A reference that leads back to itself,
/// or too far, is replaced by the type and description of its target.
pub(super) fn inline_refs(schema: &mut Value) {
    let root = schema.clone();
    let mut inliner = RefInliner {
        root: &root,
        open: Vec::new(),
        nodes_left: MAX_NODES,
    };
    inliner.inline(schema, 0);
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
    nodes_left: usize,
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
        let cost = found.and_then(|found| size_within(found, self.nodes_left));
        match (found, cost) {
            (Some(found), Some(cost)) if depth < MAX_DEPTH && !self.open.contains(&reference) => {
                self.nodes_left -= cost;
                merge(schema, found);
                self.open.push(reference);
                // The target may be a reference itself.
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

/// The type and description of a schema.
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

/// The number of values in this one; `None` if it exceeds `max`.
fn size_within(value: &Value, max: usize) -> Option<usize> {
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
        if size > max {
            return None;
        }
    }
    Some(size)
}
