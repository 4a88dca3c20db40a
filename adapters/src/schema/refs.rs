//! Replaces references inside a schema by what they refer to.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::walk;

/// The most bytes that are written for all references of a request together: references to
/// references multiply, and so do references to one long text.
const MAX_BYTES: usize = 4 << 20;

/// The most bytes of a `type` that is written more than once.
const MAX_TYPE_BYTES: usize = 64;

/// The bytes that every value counts besides its text.
const VALUE_BYTES: usize = 8;

/// How deep schemas may be nested before references are cut short.
const MAX_DEPTH: usize = 48;

/// The bytes that may still be written for the references of a request. Made with the request, and
/// shared by all of its schemas.
#[derive(Debug)]
pub(crate) struct ReferenceRoom(usize);

impl Default for ReferenceRoom {
    fn default() -> Self {
        Self(MAX_BYTES)
    }
}

impl ReferenceRoom {
    /// Takes `bytes` bytes; false if fewer are left.
    fn take(&mut self, bytes: usize) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// The target of a reference into the same document.
pub(super) fn resolve<'v>(root: &'v Value, reference: &str) -> Option<&'v Value> {
    root.pointer(reference.strip_prefix('#')?)
}

/// Replaces every reference by its target. A reference that leads back to itself,
/// or too far, is replaced by the type and description of its target, or by its type
/// alone once there is no `room`.
pub(super) fn inline_refs(schema: &mut Value, room: &mut ReferenceRoom) {
    let root = schema.clone();
    let mut inliner = RefInliner {
        root: &root,
        open: Vec::new(),
        room,
        sizes: HashMap::new(),
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
    room: &'v mut ReferenceRoom,
    /// The sizes of the targets that were measured, by their references.
    sizes: HashMap<String, usize>,
}

impl RefInliner<'_> {
    fn inline(&mut self, value: &mut Value, depth: usize) {
        let reference = value.get("$ref").and_then(Value::as_str).map(str::to_owned);
        let (Some(reference), Value::Object(schema)) = (reference, &mut *value) else {
            walk::for_each_child(value, &mut |child| self.inline(child, depth + 1));
            return;
        };
        schema.shift_remove("$ref");
        let Some(found) = resolve(self.root, &reference) else {
            return;
        };
        let leads_on = depth < MAX_DEPTH && !self.open.contains(&reference);
        if leads_on && self.take(&reference, found) {
            merge(schema, found);
            self.open.push(reference);
            // The target may be a reference itself.
            self.inline(value, depth + 1);
            self.open.pop();
            return;
        }
        if let Some(kind) = found.get("type").filter(|kind| is_short_type(kind)) {
            schema.entry("type").or_insert_with(|| kind.clone());
        }
        if let Some(Value::String(text)) = found.get("description")
            && self.room.take(VALUE_BYTES + text.len())
        {
            schema
                .entry("description")
                .or_insert_with(|| text.clone().into());
        }
    }

    /// Takes the size of a target from what is left; false if it is too large.
    fn take(&mut self, reference: &str, found: &Value) -> bool {
        let measured = self.sizes.get(reference).copied();
        let size = measured.unwrap_or_else(|| {
            let size = size_up_to(found, MAX_BYTES);
            self.sizes.insert(reference.to_owned(), size);
            size
        });
        self.room.take(size)
    }
}

/// Adds the keys that the schema does not have itself.
fn merge(schema: &mut Map<String, Value>, found: &Value) {
    for (key, value) in found.as_object().into_iter().flatten() {
        schema.entry(key.as_str()).or_insert_with(|| value.clone());
    }
}

/// Whether a `type` is so short that it can be written many times: a name, or a list of a few.
pub(super) fn is_short_type(kind: &Value) -> bool {
    size_up_to(kind, MAX_TYPE_BYTES) <= MAX_TYPE_BYTES
}

/// About the bytes of a value as JSON. A value larger than `max` is not measured to its end,
/// and counts as more than `max`.
fn size_up_to(value: &Value, max: usize) -> usize {
    let mut size = 0_usize;
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        size += VALUE_BYTES;
        match value {
            Value::String(text) => size += text.len(),
            Value::Array(list) => waiting.extend(list),
            Value::Object(map) => {
                size += map.keys().map(String::len).sum::<usize>();
                waiting.extend(map.values());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        if size > max {
            break;
        }
    }
    size
}
