//! A turn becomes the body of a Chat Completions request.
//!
//! The history stands last, behind all that stays the same: two requests of a
//! session have the longest possible prefix in common. Big strings are copied
//! still escaped.

use registry::{
    Dialect, MaxTokensField, Model, Quirks, ReasoningControl, ReasoningReplay, ResponseFormat,
};
use serde::Serialize;

use super::content::Takes;
use super::history;
use crate::encoded::Encoded;
use crate::fault::Fault;
use crate::json;
use crate::notes::Notes;
use crate::plan::Plan;
use crate::tools::{Choice, Tool};
use crate::turn::{Format, Turn};

/// Whom the request is for.
#[derive(Debug)]
pub struct Options<'a> {
    /// How the model is spoken to.
    pub dialect: &'a Dialect,
    /// What is known of the model.
    pub model: &'a Model,
    /// The model's name in the request.
    pub upstream_model: &'a str,
}

impl Options<'_> {
    pub(super) fn quirks(&self) -> &Quirks {
        &self.dialect.quirks
    }

    /// The message field that earlier reasoning goes back in.
    pub(super) fn reasoning_field(&self) -> Option<&'static str> {
        match self.quirks().reasoning_replay {
            ReasoningReplay::ReasoningContent => Some("reasoning_content"),
            _ => None,
        }
    }

    pub(super) fn takes(&self) -> Takes {
        Takes {
            images: self.model.images,
            files: self.quirks().files,
        }
    }

    /// The instruction that stands in for a JSON schema.
    pub(super) fn format_instruction(&self, format: &Format<'_>) -> Option<String> {
        let Format::JsonSchema { schema, .. } = format else {
            return None;
        };
        (self.quirks().response_format != ResponseFormat::JsonSchema).then(|| {
            format!("Answer with one JSON document that follows this JSON Schema, and with nothing else:\n{}", schema.get())
        })
    }
}

/// Writes the request. Errors are the client's: an item that cannot be sent.
pub fn encode(turn: &Turn<'_>, plan: &Plan, options: &Options<'_>) -> Result<Encoded, Fault> {
    let mut notes = turn.notes.clone();
    let mut spans = Vec::with_capacity(turn.items.len());
    let mut out = Vec::with_capacity(size_hint(turn));
    out.push(b'{');
    json::field(&mut out, "model", options.upstream_model);
    json::field(&mut out, "stream", &true);
    if options.quirks().stream_usage {
        json::raw_field(&mut out, "stream_options", r#"{"include_usage":true}"#);
    }
    push_sampling(&mut out, turn, options, &mut notes);
    push_controls(&mut out, turn, options, &mut notes);
    push_format(&mut out, turn, options, &mut notes);
    push_tools(&mut out, turn, options, &mut notes);
    json::key(&mut out, "messages");
    history::push_messages(&mut out, turn, plan, options, &mut spans, &mut notes)?;
    out.push(b'}');
    Ok(Encoded {
        body: out,
        spans,
        notes,
    })
}

/// About as long as the request: nearly all of it is copied.
fn size_hint(turn: &Turn<'_>) -> usize {
    let items: usize = turn
        .items
        .iter()
        .map(|item| {
            [item.content(), item.arguments(), item.output()]
                .into_iter()
                .flatten()
                .map(|raw| raw.get().len())
                .sum::<usize>()
                + 128
        })
        .sum();
    items + turn.echo.tools.map_or(0, |tools| tools.get().len()) + 4096
}

fn push_sampling(out: &mut Vec<u8>, turn: &Turn<'_>, options: &Options<'_>, notes: &mut Notes) {
    let controls = &turn.controls;
    for (name, value) in [
        ("temperature", controls.temperature),
        ("top_p", controls.top_p),
        ("presence_penalty", controls.presence_penalty),
        ("frequency_penalty", controls.frequency_penalty),
    ] {
        push_if(out, name, value, options.model.sampling, notes);
    }
    if controls.logprobs || controls.top_logprobs.is_some_and(|n| n > 0) {
        json::field(out, "logprobs", &true);
        if let Some(top) = controls.top_logprobs {
            json::field(out, "top_logprobs", &top);
        }
    }
    if let Some(wanted) = controls.max_output_tokens {
        let limit = options
            .model
            .max_output
            .map_or(wanted, |limit| limit.min(wanted));
        if limit < wanted {
            notes.add(
                "max_output_tokens_lowered",
                format!("{wanted} to the model's limit {limit}"),
            );
        }
        let name = match options.quirks().max_tokens_field {
            MaxTokensField::MaxTokens => "max_tokens",
            MaxTokensField::MaxCompletionTokens => "max_completion_tokens",
            MaxTokensField::None => return,
        };
        json::field(out, name, &limit);
    }
}

fn push_controls(out: &mut Vec<u8>, turn: &Turn<'_>, options: &Options<'_>, notes: &mut Notes) {
    let (controls, quirks) = (&turn.controls, options.quirks());
    let has_levels = !options.model.reasoning.is_empty();
    let effort = controls
        .effort
        .as_deref()
        .map(|effort| known_effort(effort, options.model, notes));
    push_if(
        out,
        "reasoning_effort",
        effort,
        quirks.reasoning_control == ReasoningControl::Effort && has_levels,
        notes,
    );
    push_if(
        out,
        "verbosity",
        controls.verbosity.as_deref(),
        quirks.verbosity && has_levels,
        notes,
    );
    push_if(
        out,
        "service_tier",
        controls.service_tier.as_deref(),
        quirks.service_tier,
        notes,
    );
    if let Some(key) = controls
        .prompt_cache_key
        .as_ref()
        .filter(|_| quirks.prompt_cache_key)
    {
        json::key(out, "prompt_cache_key");
        key.push(out);
    }
}

/// The effort level that the model has and that is nearest to the wanted one.
fn known_effort<'t>(wanted: &'t str, model: &'t Model, notes: &mut Notes) -> &'t str {
    const LEVELS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
    if model.reasoning.iter().any(|level| level == wanted) {
        return wanted;
    }
    let rank = |level: &str| LEVELS.iter().position(|known| *known == level);
    let Some(target) = rank(wanted) else {
        return wanted;
    };
    let nearest = model
        .reasoning
        .iter()
        .filter_map(|level| Some((rank(level)?.abs_diff(target), level)))
        .min_by_key(|(distance, _)| *distance);
    match nearest {
        Some((_, level)) => {
            notes.add("effort_mapped", format!("{wanted} to {level}"));
            level
        }
        None => wanted,
    }
}

/// Writes a parameter that the provider takes, or notes that it was left out.
fn push_if<T: Serialize>(
    out: &mut Vec<u8>,
    name: &'static str,
    value: Option<T>,
    accepted: bool,
    notes: &mut Notes,
) {
    match value {
        Some(value) if accepted => json::field(out, name, &value),
        Some(_) => notes.add("parameter_dropped", name),
        None => {}
    }
}

fn push_format(out: &mut Vec<u8>, turn: &Turn<'_>, options: &Options<'_>, notes: &mut Notes) {
    match &turn.controls.format {
        Format::Text => {}
        Format::JsonObject => json::raw_field(out, "response_format", r#"{"type":"json_object"}"#),
        Format::JsonSchema { .. }
            if options.quirks().response_format != ResponseFormat::JsonSchema =>
        {
            notes.add(
                "json_schema_described",
                "the schema is given as an instruction",
            );
        }
        Format::JsonSchema {
            name,
            schema,
            strict,
            description,
        } => {
            json::key(out, "response_format");
            out.extend_from_slice(br#"{"type":"json_schema","json_schema":{"name":"#);
            name.push(out);
            if let Some(description) = description {
                json::key(out, "description");
                description.push(out);
            }
            json::raw_field(out, "schema", schema.get());
            if let Some(strict) = strict {
                json::field(out, "strict", strict);
            }
            out.extend_from_slice(b"}}");
        }
    }
}

fn push_tools(out: &mut Vec<u8>, turn: &Turn<'_>, options: &Options<'_>, notes: &mut Notes) {
    let allowed = |tool: &&Tool<'_>| match &turn.choice {
        Choice::Allowed { names, .. } => names.contains(&tool.wire_name),
        Choice::Auto | Choice::None | Choice::Required | Choice::Named(_) => true,
    };
    let mut tools = turn.tools.iter().filter(allowed).peekable();
    if tools.peek().is_none() {
        return;
    }
    json::key(out, "tools");
    out.push(b'[');
    for tool in tools {
        if out.last() != Some(&b'[') {
            out.push(b',');
        }
        push_tool(out, tool, options.quirks());
    }
    out.push(b']');
    match &turn.choice {
        Choice::Auto => {}
        Choice::None => json::field(out, "tool_choice", "none"),
        Choice::Required => json::field(out, "tool_choice", "required"),
        Choice::Allowed { required, .. } => {
            if *required {
                json::field(out, "tool_choice", "required");
            }
        }
        Choice::Named(name) => {
            json::key(out, "tool_choice");
            out.extend_from_slice(br#"{"type":"function","function":{"name":"#);
            json::push(out, name);
            out.extend_from_slice(b"}}");
        }
    }
    push_if(
        out,
        "parallel_tool_calls",
        turn.parallel,
        options.quirks().parallel_tool_calls,
        notes,
    );
}

fn push_tool(out: &mut Vec<u8>, tool: &Tool<'_>, quirks: &Quirks) {
    out.extend_from_slice(br#"{"type":"function","function":{"name":"#);
    json::push(out, &tool.wire_name);
    if let Some(description) = &tool.description {
        json::key(out, "description");
        description.push(out);
    }
    let parameters = tool
        .parameters
        .map_or(r#"{"type":"object","properties":{}}"#, |raw| raw.get());
    json::raw_field(out, "parameters", parameters);
    if let Some(strict) = tool.strict.filter(|_| quirks.strict_tools) {
        json::field(out, "strict", &strict);
    }
    out.extend_from_slice(b"}}");
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::plan::plan;
    use crate::responses::request::Source;

    /// The messages and the codes of the notes for a model that nobody knows.
    fn messages(images: bool, input: &Value) -> (Value, String) {
        let source = Source::new(json!({"model": "m", "input": input}).to_string());
        let turn = source.turn().unwrap();
        let model = Model {
            images,
            ..Model::unlisted("m")
        };
        let options = Options {
            dialect: &Dialect::default(),
            model: &model,
            upstream_model: "m",
        };
        let encoded = encode(&turn, &plan(&turn), &options).unwrap();
        let mut body: Value = serde_json::from_slice(&encoded.body).unwrap();
        (body["messages"].take(), encoded.notes.codes())
    }

    #[test]
    fn a_model_without_eyes_gets_no_image() {
        let input = json!([
            {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA"}]},
            {"type": "function_call", "call_id": "c", "name": "view", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": "data:image/png;base64,AA"}]},
        ]);
        let (blind, notes) = messages(false, &input);
        assert!(!blind.to_string().contains("image_url"), "{blind}");
        assert_eq!(blind.to_string().matches("left out").count(), 2);
        assert_eq!(notes, "image_dropped");
        let (seeing, notes) = messages(true, &input);
        assert_eq!(seeing.to_string().matches("\"image_url\":{").count(), 2);
        assert_eq!(notes, "");
    }

    #[test]
    fn arguments_that_are_no_object_are_wrapped() {
        for (arguments, sent, note) in [
            (r#"{"a":1}"#, r#"{"a":1}"#, ""),
            (" {} ", " {} ", ""),
            ("", "{}", ""),
            (
                r#"{"a":"#,
                r#"{"arguments":"{\"a\":"}"#,
                "arguments_wrapped",
            ),
            ("[1]", r#"{"arguments":"[1]"}"#, "arguments_wrapped"),
            (
                "line\n\"x\"",
                r#"{"arguments":"line\n\"x\""}"#,
                "arguments_wrapped",
            ),
        ] {
            let input = json!([{"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}, {"type": "function_call_output", "call_id": "c", "output": ""}]);
            let (messages, notes) = messages(true, &input);
            let call = &messages[0]["tool_calls"][0]["function"];
            assert_eq!(call["arguments"], sent, "{arguments}");
            assert_eq!(notes, note, "{arguments}");
        }
    }
}
