//! JSON schemas as a provider accepts them.
//!
//! A schema that keeps to the rules is passed on byte for byte. Any other is read
//! as a tree and rewritten, with its keys in their order: [`refs`] replaces
//! references, [`node`] carries out the rules for one node, and [`walk`] goes
//! through them all. A schema that is nested too deeply to be read stays as it is.

mod node;
mod refs;
#[cfg(test)]
mod tests;
mod walk;

use registry::{EnumSet, SchemaRule};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use self::node::Node;

/// The parameters of a tool that has none.
pub(super) const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;

/// The schema by these rules, if it has to change.
pub(super) fn fit(raw: &RawValue, rules: EnumSet<SchemaRule>) -> Option<String> {
    if rules.is_empty() {
        return None;
    }
    let before: Value = serde_json::from_str(raw.get()).ok()?;
    let mut after = before.clone();
    apply(&mut after, rules);
    (after != before).then(|| after.to_string())
}

/// The schema of a tool's arguments by these rules, if it has to change. Its root
/// must describe an object: arguments are one, and every provider refuses a
/// schema that says otherwise.
pub(super) fn fit_parameters(raw: &RawValue, rules: EnumSet<SchemaRule>) -> Option<String> {
    let text = raw.get();
    let rooted = match root(text) {
        Root::Object => None,
        Root::Untyped(rest) => Some(format!(r#"{{"type":"object",{rest}"#)),
        Root::Empty | Root::Other => Some(NO_PARAMETERS.to_owned()),
        Root::Mistyped => Some(match serde_json::from_str(text) {
            Ok(Value::Object(schema)) => rooted(schema).to_string(),
            _ => NO_PARAMETERS.to_owned(),
        }),
    };
    if rules.is_empty() {
        return rooted;
    }
    let before = rooted.as_deref().unwrap_or(text);
    let Ok(raw) = serde_json::from_str::<&RawValue>(before) else {
        return rooted;
    };
    fit(raw, rules).or(rooted)
}

fn apply(schema: &mut Value, rules: EnumSet<SchemaRule>) {
    if rules.contains(SchemaRule::InlineRefs) {
        refs::inline(schema);
    }
    walk::each(schema, &mut |schema, is_root| {
        Node { schema, is_root }.keep_to(rules);
    });
}

enum Root<'a> {
    /// Its type is `object`.
    Object,
    /// An object without `type` and `$ref`: what follows its brace.
    Untyped(&'a str),
    /// `{}`
    Empty,
    /// An object whose `type` is not `object`, or that only refers to one.
    Mistyped,
    /// No object.
    Other,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default, rename = "type", deserialize_with = "present")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, rename = "$ref")]
    reference: Option<&'a RawValue>,
}

fn root(text: &str) -> Root<'_> {
    let Some(rest) = text.strip_prefix('{') else {
        return Root::Other;
    };
    if rest.trim_start().starts_with('}') {
        return Root::Empty;
    }
    let Ok(head) = serde_json::from_str::<Head<'_>>(text) else {
        return Root::Mistyped;
    };
    match (head.kind.map(RawValue::get), head.reference) {
        (Some(r#""object""#), _) => Root::Object,
        (None, None) => Root::Untyped(rest),
        (Some(_), _) | (None, Some(_)) => Root::Mistyped,
    }
}

/// A value that stands there, be it null.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(from).map(Some)
}

/// A root that describes an object.
fn rooted(mut schema: Map<String, Value>) -> Value {
    let whole = Value::Object(schema.clone());
    let target = schema
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|reference| refs::target(&whole, reference))
        .and_then(Value::as_object);
    if let Some(target) = target.filter(|target| is_object(target)) {
        schema.shift_remove("$ref");
        for (key, value) in target {
            schema.entry(key.as_str()).or_insert_with(|| value.clone());
        }
    }
    schema.insert("type".to_owned(), Value::from("object"));
    Value::Object(schema)
}

fn is_object(schema: &Map<String, Value>) -> bool {
    schema.contains_key("properties") || schema.get("type").is_some_and(|kind| kind == "object")
}
