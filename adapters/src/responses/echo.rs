//! Parameters that a response repeats. Nested objects get the keys that Open Responses requires
//! and a client may leave out.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::json;
use crate::members::EditedObject;

/// A parameter of the client as JSON on one line, or its default.
///
/// Made with the response object from the request, whose buffer is freed before the answer
/// arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EchoedJson(Cow<'static, str>);

impl EchoedJson {
    /// What the client sent, else `default`.
    pub(super) fn new(sent: Option<&RawValue>, default: &'static str) -> Self {
        Self(match sent {
            None => Cow::Borrowed(default),
            Some(raw) => Cow::Owned(one_line(raw.get())),
        })
    }

    /// The JSON.
    pub fn get(&self) -> &str {
        &self.0
    }

    /// Appends a key and the value.
    pub(super) fn push_field(&self, out: &mut Vec<u8>, name: &str) {
        json::key(out, name);
        out.extend_from_slice(self.0.as_bytes());
    }
}

fn one_line(json: &str) -> String {
    let mut out = Vec::with_capacity(json.len());
    json::push_one_line(&mut out, json);
    String::from_utf8(out).unwrap_or_default()
}

/// `reasoning`, always with `effort` and `summary`.
pub(super) fn reasoning(sent: Option<&RawValue>) -> EchoedJson {
    let Some(mut members) = sent.and_then(|raw| EditedObject::read(raw.get())) else {
        return EchoedJson(Cow::Borrowed(r#"{"effort":null,"summary":null}"#));
    };
    members.set_default("effort", "null");
    members.set_default("summary", "null");
    EchoedJson(Cow::Owned(members.to_json()))
}

/// `text`, always with `format` and `verbosity`. A format with a schema has a `description`,
/// which may be null, and `strict`, whose default is false.
pub(super) fn text(sent: Option<&RawValue>) -> EchoedJson {
    let Some(mut members) = sent.and_then(|raw| EditedObject::read(raw.get())) else {
        let default = r#"{"format":{"type":"text"},"verbosity":"medium"}"#;
        return EchoedJson(Cow::Borrowed(default));
    };
    members.set_default("format", r#"{"type":"text"}"#);
    members.set_default("verbosity", r#""medium""#);
    if let Some(mut format) = members.get("format").and_then(EditedObject::read)
        && format.is("type", "json_schema")
    {
        format.set_default("description", "null");
        format.set_default("strict", "false");
        let format = format.to_json();
        members.set("format", format);
    }
    EchoedJson(Cow::Owned(members.to_json()))
}

/// `tools`, as they came.
pub(super) fn tools(sent: Option<&RawValue>) -> EchoedJson {
    EchoedJson::new(sent, "[]")
}

/// `tools`, where null stands for what the client left out of a function tool. Tools of other
/// types are repeated as they came.
pub(super) fn completed_tools(sent: Option<&RawValue>) -> EchoedJson {
    let all = tools(sent);
    let tools: Vec<&RawValue> = serde_json::from_str(all.get()).unwrap_or_default();
    let tools = tools.into_iter().map(|tool| EditedObject::read(tool.get()));
    let mut tools: Vec<EditedObject<'_>> = tools.collect::<Option<_>>().unwrap_or_default();
    let mut changed = false;
    for tool in tools.iter_mut().filter(|tool| tool.is("type", "function")) {
        for key in ["description", "parameters", "strict"] {
            changed |= tool.set_default(key, "null");
        }
    }
    if !changed {
        return all;
    }
    let tools: Vec<String> = tools.iter().map(EditedObject::to_json).collect();
    EchoedJson(Cow::Owned(format!("[{}]", tools.join(","))))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn echoed(echo: fn(Option<&RawValue>) -> EchoedJson, sent: &Value) -> Value {
        let raw = serde_json::value::to_raw_value(sent).unwrap();
        serde_json::from_str(echo(Some(&raw)).get()).unwrap()
    }

    #[test]
    fn a_function_tool_says_null_for_what_the_client_left_out() {
        let web = json!({"type": "web_search"});
        let namespace =
            json!({"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]});
        let whole = json!({"type": "function", "name": "g", "description": "d", "strict": true, "parameters": {"type": "object"}});
        let bare = json!({"type": "function", "name": "f", "strict": null});
        let filled = json!({"type": "function", "name": "f", "strict": null, "description": null, "parameters": null});
        assert_eq!(
            echoed(completed_tools, &json!([web, bare, namespace, whole])),
            json!([web, filled, namespace, whole])
        );
    }

    #[test]
    fn tools_that_lack_nothing_are_repeated_byte_for_byte() {
        let list = r#"[ {"strict":false, "type":"function","name":"f","description":"","parameters":{}},{"type":"custom","name":"c"}]"#;
        let raw: &RawValue = serde_json::from_str(list).unwrap();
        assert_eq!(completed_tools(Some(raw)).get(), list);
    }

    #[test]
    fn a_schema_has_a_description_and_says_whether_it_is_strict() {
        let format = json!({"type": "json_schema", "name": "n", "schema": {"type": "object"}});
        assert_eq!(
            echoed(text, &json!({"verbosity": "low", "format": format})),
            json!({"verbosity": "low", "format": {
                "type": "json_schema", "name": "n", "schema": {"type": "object"},
                "description": null, "strict": false,
            }})
        );
        assert_eq!(
            echoed(text, &json!({"format": null})),
            json!({"format": {"type": "text"}, "verbosity": "medium"})
        );
    }

    #[test]
    fn a_parameter_of_the_wrong_type_is_its_default() {
        assert_eq!(
            echoed(reasoning, &json!("high")),
            json!({"effort": null, "summary": null})
        );
    }

    #[test]
    fn escaped_keys_and_line_ends_stay_valid() {
        let sent = "{\n\"a\\\"b\":\r\n[1,\n2]}";
        let raw: &RawValue = serde_json::from_str(sent).unwrap();
        let echoed = reasoning(Some(raw));
        assert!(!echoed.get().contains(['\n', '\r']));
        let read: Value = serde_json::from_str(echoed.get()).unwrap();
        assert_eq!(
            read,
            json!({"a\"b": [1, 2], "effort": null, "summary": null})
        );
    }
}
