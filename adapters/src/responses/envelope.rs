//! The response object: the 31 keys that every lifecycle event (`response.created`,
//! `response.completed` and so on) and a non-streamed answer contain.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::event::Usage;
use crate::json;
use crate::turn::Turn;

/// The keys of the response object that do not change during an answer, already encoded
/// as JSON. One is made for each answer and lives in its assembler.
#[derive(Debug)]
pub struct ResponseEnvelope {
    id: String,
    /// The opening brace and the keys before `status`.
    head: Vec<u8>,
    /// The keys after `usage`.
    tail: Vec<u8>,
}

/// The keys of the response object that change during an answer.
#[derive(Debug)]
pub(super) struct ResponseState<'s> {
    pub(super) status: &'static str,
    /// Unix seconds.
    pub(super) completed_at: Option<u64>,
    /// The error's code and message.
    pub(super) error: Option<(&'s str, &'s str)>,
    /// The reason in `incomplete_details`.
    pub(super) incomplete: Option<&'static str>,
    /// The finished items as JSON, separated by commas.
    pub(super) output: &'s [u8],
    pub(super) usage: Option<Usage>,
}

impl ResponseEnvelope {
    /// The envelope for the answer to `turn`, whose parameters it repeats. `id` is the
    /// response id, `created_at` is in Unix seconds.
    pub fn new(turn: &Turn<'_>, id: &str, created_at: u64) -> Self {
        let mut head = Vec::new();
        head.push(b'{');
        json::field(&mut head, "id", id);
        json::field(&mut head, "object", "response");
        json::field(&mut head, "created_at", &created_at);
        Self {
            id: id.to_owned(),
            head,
            tail: tail(turn),
        }
    }

    /// The id of the response.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Appends the response object as JSON.
    pub(super) fn push(&self, out: &mut Vec<u8>, state: &ResponseState<'_>) {
        out.extend_from_slice(&self.head);
        json::field(out, "status", state.status);
        json::field(out, "completed_at", &state.completed_at);
        json::key(out, "error");
        match state.error {
            None => out.extend_from_slice(b"null"),
            Some((code, message)) => json::push(out, &json!({"code": code, "message": message})),
        }
        json::key(out, "incomplete_details");
        match state.incomplete {
            None => out.extend_from_slice(b"null"),
            Some(reason) => json::push(out, &json!({"reason": reason})),
        }
        json::key(out, "output");
        out.push(b'[');
        out.extend_from_slice(state.output);
        out.push(b']');
        json::key(out, "usage");
        match state.usage {
            None => out.extend_from_slice(b"null"),
            Some(usage) => push_usage(out, usage),
        }
        out.extend_from_slice(&self.tail);
        out.push(b'}');
    }
}

pub(super) fn push_usage(out: &mut Vec<u8>, usage: Usage) {
    out.push(b'{');
    json::field(out, "input_tokens", &usage.input);
    json::key(out, "input_tokens_details");
    out.push(b'{');
    json::field(out, "cached_tokens", &usage.cached);
    json::field(out, "cache_write_tokens", &usage.cache_write);
    out.push(b'}');
    json::field(out, "output_tokens", &usage.output);
    json::key(out, "output_tokens_details");
    out.push(b'{');
    json::field(out, "reasoning_tokens", &usage.reasoning);
    out.push(b'}');
    json::field(
        out,
        "total_tokens",
        &usage.input.saturating_add(usage.output),
    );
    out.push(b'}');
}

/// The keys after `usage`, with the defaults of the API for parameters that the client did
/// not send.
fn tail(turn: &Turn<'_>) -> Vec<u8> {
    let (echo, controls) = (&turn.echo, &turn.controls);
    let mut out = Vec::new();
    let raw = |out: &mut Vec<u8>, name: &str, value: Option<&RawValue>, default: &str| {
        json::raw_field(out, name, value.map_or(default, RawValue::get));
    };
    raw(&mut out, "instructions", echo.instructions, "null");
    json::field(&mut out, "max_output_tokens", &controls.max_output_tokens);
    raw(&mut out, "max_tool_calls", echo.max_tool_calls, "null");
    json::field(&mut out, "model", turn.model.as_ref());
    json::field(
        &mut out,
        "parallel_tool_calls",
        &turn.parallel_tool_calls.unwrap_or(true),
    );
    json::raw_field(&mut out, "previous_response_id", "null");
    raw(&mut out, "prompt_cache_key", echo.prompt_cache_key, "null");
    object_with_defaults(
        &mut out,
        "reasoning",
        echo.reasoning,
        r#"{"effort":null,"summary":null}"#,
    );
    raw(
        &mut out,
        "safety_identifier",
        echo.safety_identifier,
        "null",
    );
    json::field(&mut out, "service_tier", "default");
    json::field(&mut out, "store", &false);
    json::field(&mut out, "background", &false);
    json::field(
        &mut out,
        "temperature",
        &controls.temperature.unwrap_or(1.0),
    );
    object_with_defaults(
        &mut out,
        "text",
        echo.text,
        r#"{"format":{"type":"text"},"verbosity":"medium"}"#,
    );
    raw(&mut out, "tool_choice", echo.tool_choice, "\"auto\"");
    raw(&mut out, "tools", echo.tools, "[]");
    json::field(
        &mut out,
        "top_logprobs",
        &controls.top_logprobs.unwrap_or(0),
    );
    json::field(&mut out, "top_p", &controls.top_p.unwrap_or(1.0));
    json::field(
        &mut out,
        "presence_penalty",
        &controls.presence_penalty.unwrap_or(0.0),
    );
    json::field(
        &mut out,
        "frequency_penalty",
        &controls.frequency_penalty.unwrap_or(0.0),
    );
    raw(&mut out, "truncation", echo.truncation, "\"disabled\"");
    raw(&mut out, "user", echo.user, "null");
    raw(&mut out, "metadata", echo.metadata, "{}");
    // The envelope lives as long as the stream.
    out.shrink_to_fit();
    out
}

/// Appends the client's object, with the keys of `defaults` that it lacks or that are null
/// in it.
fn object_with_defaults(out: &mut Vec<u8>, name: &str, given: Option<&RawValue>, defaults: &str) {
    let Some(given) = given else {
        json::raw_field(out, name, defaults);
        return;
    };
    let read = |json: &str| serde_json::from_str::<Map<String, Value>>(json).unwrap_or_default();
    let mut all = read(defaults);
    all.extend(
        read(given.get())
            .into_iter()
            .filter(|(_, value)| !value.is_null()),
    );
    json::field(out, name, &all);
}
