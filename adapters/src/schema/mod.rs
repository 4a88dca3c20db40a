//! Rewrites JSON schemas so that a provider accepts them.
//!
//! A schema that satisfies the rules is passed on byte for byte. Any other is
//! parsed and rewritten with its keys in their order: [`refs`] replaces references,
//! [`node`] applies the rules to one node, and [`walk`] visits all nodes. A schema
//! that is nested too deeply to be parsed stays as it is.

mod node;
mod refs;
#[cfg(test)]
mod tests;
mod walk;

use registry::{EnumSet, SchemaRule};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::json;

use self::node::SchemaNode;
pub(crate) use self::refs::ReferenceRoom;

/// The parameters of a tool that has none.
pub(crate) const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;

/// The schema rewritten by these rules, if it has to change. `room` is shared by all schemas of the
/// request.
pub(crate) fn fit(
    raw: &RawValue,
    rules: EnumSet<SchemaRule>,
    room: &mut ReferenceRoom,
) -> Option<String> {
    if rules.is_empty() && !may_encrypt(raw.get()) {
        return None;
    }
    let before: Value = serde_json::from_str(raw.get()).ok()?;
    let mut after = before.clone();
    apply(&mut after, rules, room);
    (after != before).then(|| after.to_string())
}

/// The parameters of a tool with nothing but the names and descriptions of its arguments, and their
/// types where they are simple. The model reads the whole schema in their description.
pub(crate) fn plain_parameters(raw: &RawValue) -> String {
    let schema: Map<String, Value> = serde_json::from_str(raw.get()).unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object);
    let plain = properties.into_iter().flatten().map(|(name, schema)| {
        let kept = ["type", "description"].into_iter().filter_map(|keyword| {
            let value = schema.get(keyword).filter(|value| value.is_string())?;
            Some((keyword.to_owned(), value.clone()))
        });
        (name.clone(), Value::Object(kept.collect()))
    });
    let properties: Map<String, Value> = plain.collect();
    let whole = format!("The arguments follow this JSON Schema: {}", raw.get());
    let plain = serde_json::json!({
        "type": "object", "description": whole, "properties": properties,
    });
    plain.to_string()
}

/// The parameters of a tool rewritten by these rules, if they have to change. The
/// root must describe an object: arguments are an object, and every provider
/// refuses a schema that says otherwise.
pub(crate) fn fit_parameters(
    raw: &RawValue,
    rules: EnumSet<SchemaRule>,
    room: &mut ReferenceRoom,
) -> Option<String> {
    let text = raw.get();
    let object_schema = match root_kind(text) {
        RootKind::Object => None,
        RootKind::Untyped(rest) => Some(format!(r#"{{"type":"object",{rest}"#)),
        RootKind::Empty | RootKind::Other => Some(NO_PARAMETERS.to_owned()),
        RootKind::Mistyped => Some(match serde_json::from_str(text) {
            Ok(Value::Object(schema)) => as_object_schema(schema).to_string(),
            _ => NO_PARAMETERS.to_owned(),
        }),
    };
    if rules.is_empty() && !may_encrypt(text) {
        return object_schema;
    }
    let before = object_schema.as_deref().unwrap_or(text);
    let Ok(raw) = serde_json::from_str::<&RawValue>(before) else {
        return object_schema;
    };
    fit(raw, rules, room).or(object_schema)
}

/// Whether a part of a schema breaks a rule.
pub(crate) fn breaks(part: &Value, rule: SchemaRule) -> bool {
    let whole = serde_json::json!({"type": "object", "properties": {"part": part}});
    let mut fitted = whole.clone();
    let mut room = ReferenceRoom::default();
    apply(&mut fitted, EnumSet::empty().with(rule), &mut room);
    fitted != whole
}

fn apply(schema: &mut Value, rules: EnumSet<SchemaRule>, room: &mut ReferenceRoom) {
    if rules.contains(SchemaRule::InlineRefs) {
        refs::inline_refs(schema, room);
    }
    walk::for_each_node(schema, &mut |schema, is_root| {
        schema.shift_remove(ENCRYPTED);
        SchemaNode { schema, is_root }.apply(rules);
    });
}

/// The keyword with which Codex asks OpenAI to encrypt an argument for another agent. No provider
/// gets it: what one has encrypted, the model of the other agent could not read.
const ENCRYPTED: &str = "encrypted";

/// Whether the keyword may be in this JSON.
fn may_encrypt(json: &str) -> bool {
    json::may_have(json, ENCRYPTED)
}

/// A tool, a namespace or a list of these without the keyword in its schemas; `None` if it is
/// nowhere.
pub(crate) fn without_encryption(tools: &str) -> Option<String> {
    fn remove_from(tools: &mut Value) {
        match tools {
            Value::Array(list) => list.iter_mut().for_each(remove_from),
            Value::Object(tool) => {
                if let Some(schema) = tool.get_mut("parameters") {
                    walk::for_each_node(schema, &mut |node, _| {
                        node.shift_remove(ENCRYPTED);
                    });
                }
                tool.get_mut("tools").into_iter().for_each(remove_from);
            }
            _ => {}
        }
    }
    let before: Value = may_encrypt(tools).then(|| serde_json::from_str(tools).ok())??;
    let mut after = before.clone();
    remove_from(&mut after);
    (after != before).then(|| after.to_string())
}

enum RootKind<'a> {
    /// Its type is `object`.
    Object,
    /// A JSON object without `type` and `$ref`; contains what follows its brace.
    Untyped(&'a str),
    /// `{}`
    Empty,
    /// A JSON object whose `type` is not `object`, or that has a `$ref` instead.
    Mistyped,
    /// Not a JSON object.
    Other,
}

#[derive(Deserialize)]
struct RootFields<'a> {
    #[serde(borrow, default, rename = "type", deserialize_with = "present")]
    kind: Option<&'a RawValue>,
    #[serde(rename = "$ref")]
    reference: Option<&'a RawValue>,
}

fn root_kind(text: &str) -> RootKind<'_> {
    let Some(rest) = text.strip_prefix('{') else {
        return RootKind::Other;
    };
    if rest.trim_start().starts_with('}') {
        return RootKind::Empty;
    }
    let Ok(head) = serde_json::from_str::<RootFields<'_>>(text) else {
        return RootKind::Mistyped;
    };
    match (head.kind.map(RawValue::get), head.reference) {
        (Some(r#""object""#), _) => RootKind::Object,
        (None, None) => RootKind::Untyped(rest),
        (Some(_), _) | (None, Some(_)) => RootKind::Mistyped,
    }
}

/// The value of a field that is present, even if it is null.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(from).map(Some)
}

/// The root, changed so that it describes an object.
fn as_object_schema(mut schema: Map<String, Value>) -> Value {
    let whole = Value::Object(schema.clone());
    let target = schema
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|reference| refs::resolve(&whole, reference))
        .and_then(Value::as_object);
    if let Some(target) = target.filter(|target| describes_object(target)) {
        schema.shift_remove("$ref");
        for (key, value) in target {
            schema.entry(key.as_str()).or_insert_with(|| value.clone());
        }
    }
    schema.insert("type".to_owned(), Value::from("object"));
    Value::Object(schema)
}

fn describes_object(schema: &Map<String, Value>) -> bool {
    schema.contains_key("properties") || schema.get("type").is_some_and(|kind| kind == "object")
}
