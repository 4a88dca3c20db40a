//! Parameters that a response repeats. Nested objects get the keys that Open Responses requires
//! and a client may leave out.

use std::borrow::Cow;

use registry::{EnumSet, RelayToolKind};
use serde_json::value::RawValue;

use crate::json;
use crate::members::EditedObject;
use crate::tools::left_out;
use crate::turn::Turn;

/// The members of a response that repeat the request, with the defaults of the API for what the
/// client did not send: JSON on one line behind a comma. Tools that are not run are left out; those
/// of the kinds `relayed` run at the upstream. They are in three pieces, between which the response
/// says what it continues and how it is kept.
pub(super) fn parameters(turn: &Turn<'_>, relayed: EnumSet<RelayToolKind>) -> [Vec<u8>; 3] {
    let (sent, controls) = (&turn.echo, &turn.controls);
    let mut pieces = [Vec::new(), Vec::new(), Vec::new()];
    let [out, second, third] = &mut pieces;
    json::raw_field(out, "instructions", or_default(sent.instructions, "null"));
    json::field(out, "max_output_tokens", &controls.max_output_tokens);
    json::raw_field(
        out,
        "max_tool_calls",
        or_default(sent.max_tool_calls, "null"),
    );
    json::field(out, "model", &turn.model);
    let parallel = turn.parallel_tool_calls.unwrap_or(true);
    json::field(out, "parallel_tool_calls", &parallel);
    let out = second;
    json::raw_field(
        out,
        "prompt_cache_key",
        or_default(sent.prompt_cache_key, "null"),
    );
    json::raw_field(out, "reasoning", &reasoning(sent.reasoning));
    json::raw_field(
        out,
        "safety_identifier",
        or_default(sent.safety_identifier, "null"),
    );
    json::field(out, "service_tier", "default");
    let out = third;
    json::field(out, "temperature", &controls.temperature.unwrap_or(1.0));
    json::raw_field(out, "text", &text(sent.text));
    let tool_choice = sent.tool_choice.as_deref().unwrap_or("\"auto\"");
    json::raw_field(out, "tool_choice", tool_choice);
    let kept = sent
        .tools
        .and_then(|list| left_out::kept_definitions(&turn.tools, list, relayed));
    let kept = kept.map(|kept| {
        let kept: Vec<&str> = kept.into_iter().map(RawValue::get).collect();
        format!("[{}]", kept.join(","))
    });
    let tools = kept.as_deref().unwrap_or(or_default(sent.tools, "[]"));
    let completed = turn
        .tools
        .has_short_function()
        .then(|| completed_tools(tools));
    json::raw_field(
        out,
        "tools",
        completed.flatten().as_deref().unwrap_or(tools),
    );
    json::field(out, "top_logprobs", &controls.top_logprobs.unwrap_or(0));
    json::field(out, "top_p", &controls.top_p.unwrap_or(1.0));
    json::field(
        out,
        "presence_penalty",
        &controls.presence_penalty.unwrap_or(0.0),
    );
    json::field(
        out,
        "frequency_penalty",
        &controls.frequency_penalty.unwrap_or(0.0),
    );
    json::raw_field(
        out,
        "truncation",
        or_default(sent.truncation, "\"disabled\""),
    );
    json::raw_field(out, "user", or_default(sent.user, "null"));
    json::raw_field(out, "metadata", or_default(sent.metadata, "{}"));
    pieces
}

fn or_default<'s>(sent: Option<&'s RawValue>, default: &'static str) -> &'s str {
    sent.map_or(default, RawValue::get)
}

/// `reasoning`, always with `effort` and `summary`.
fn reasoning(sent: Option<&RawValue>) -> Cow<'static, str> {
    let Some(mut members) = sent.and_then(|raw| EditedObject::read(raw.get())) else {
        return r#"{"effort":null,"summary":null}"#.into();
    };
    members.set_default("effort", "null");
    members.set_default("summary", "null");
    members.to_json().into()
}

/// `text`, always with `format` and `verbosity`. A format with a schema has a `description`,
/// which may be null, and `strict`, whose default is false.
fn text(sent: Option<&RawValue>) -> Cow<'static, str> {
    let Some(mut members) = sent.and_then(|raw| EditedObject::read(raw.get())) else {
        return r#"{"format":{"type":"text"},"verbosity":"medium"}"#.into();
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
    members.to_json().into()
}

/// `tools`, with null for each field that the client left out of a function tool. Tools of other
/// types are repeated as they came. `None` if nothing was left out.
fn completed_tools(all: &str) -> Option<String> {
    let mut tools: Vec<EditedObject<'_>> = serde_json::from_str::<Vec<&RawValue>>(all)
        .ok()?
        .into_iter()
        .map(|tool| EditedObject::read(tool.get()))
        .collect::<Option<_>>()?;
    let mut changed = false;
    for tool in tools.iter_mut().filter(|tool| tool.is("type", "function")) {
        for key in ["description", "parameters", "strict"] {
            changed |= tool.set_default(key, "null");
        }
    }
    let tools: Vec<String> = tools.iter().map(EditedObject::to_json).collect();
    changed.then(|| format!("[{}]", tools.join(",")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn echoed(echo: fn(Option<&RawValue>) -> Cow<'static, str>, sent: &Value) -> Value {
        let raw = serde_json::value::to_raw_value(sent).unwrap();
        serde_json::from_str(&echo(Some(&raw))).unwrap()
    }

    #[test]
    fn a_function_tool_says_null_for_what_the_client_left_out() {
        let web = json!({"type": "web_search"});
        let namespace =
            json!({"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]});
        let whole = json!({"type": "function", "name": "g", "description": "d", "strict": true, "parameters": {"type": "object"}});
        let bare = json!({"type": "function", "name": "f", "strict": null});
        let filled = json!({"type": "function", "name": "f", "strict": null, "description": null, "parameters": null});
        let sent = json!([web, bare, namespace, whole]).to_string();
        let completed: Value = serde_json::from_str(&completed_tools(&sent).unwrap()).unwrap();
        assert_eq!(completed, json!([web, filled, namespace, whole]));
    }

    #[test]
    fn tools_that_lack_nothing_are_not_written_again() {
        let list = r#"[ {"strict":false, "type":"function","name":"f","description":"","parameters":{}},{"type":"custom","name":"c"}]"#;
        assert_eq!(completed_tools(list), None);
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
        assert!(!echoed.contains(['\n', '\r']));
        let read: Value = serde_json::from_str(&echoed).unwrap();
        assert_eq!(
            read,
            json!({"a\"b": [1, 2], "effort": null, "summary": null})
        );
    }
}
