//! Parameters besides the tools: reasoning, the format of the text, sampling, services.

use registry::{Model, RelayQuirks, ResponseFormat};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::body_writer::BodyWriter;
use crate::effort::nearest;
use crate::format_instruction::note_described;
use crate::json::{self, only_from_object};
use crate::turn::TextFormat;

/// Writes everything that does not depend on the tools or the input.
pub(super) fn push(body: &mut BodyWriter<'_, '_>, quirks: &RelayQuirks) {
    push_include(body, quirks);
    push_reasoning(body, quirks);
    push_text(body, quirks);
    let temperature = body.turn.controls.temperature;
    let accepted = [quirks.temperature, quirks.top_p, quirks.penalties];
    body.push_sampling(temperature, accepted);
    body.push_services(quirks.service_tier, quirks.prompt_cache_key);
}

/// Whether it is not known what the model can do, so that the provider has to say what it lacks.
fn is_unlisted(model: &Model) -> bool {
    model.reasoning.is_empty() && (model.unlisted || model.window.is_none())
}

/// `include`: the encrypted reasoning, which goes back with the next request, and log
/// probabilities. A model that does not reason refuses the former ("Encrypted content is not
/// supported with this model").
fn push_include(body: &mut BodyWriter<'_, '_>, quirks: &RelayQuirks) {
    let reasons = is_unlisted(body.model) || !body.model.reasoning.is_empty();
    let controls = &body.turn.controls;
    let wanted = controls.wants_logprobs();
    let logprobs = wanted && quirks.logprobs && quirks.include && body.model.sampling;
    if wanted && !logprobs {
        body.notes.add("parameter_dropped", "logprobs");
    }
    let mut include = Vec::new();
    if quirks.encrypted_reasoning && quirks.include && reasons {
        include.push("reasoning.encrypted_content");
    }
    if logprobs {
        include.push("message.output_text.logprobs");
    }
    if !include.is_empty() {
        body.field("include", &include);
    }
    if let Some(top) = controls.top_logprobs.filter(|_| logprobs) {
        body.field("top_logprobs", &top);
    }
}

/// `reasoning`, if the client asked for something: the default effort of a model is its
/// maker's choice.
fn push_reasoning(body: &mut BodyWriter<'_, '_>, quirks: &RelayQuirks) {
    #[derive(Default, Deserialize)]
    #[serde(remote = "Self")]
    #[serde(default)]
    struct ReasoningSummary<'a> {
        #[serde(borrow)]
        summary: Option<&'a RawValue>,
    }
    only_from_object!(ReasoningSummary, "an object");
    let asked: ReasoningSummary<'_> = body
        .turn
        .echo
        .reasoning
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default();
    let model = body.model;
    let wanted = body.turn.controls.wanted_effort(model, &mut body.notes);
    let mut reasoning = vec![b'{'];
    if model.reasoning.is_empty() && !is_unlisted(body.model) {
        if wanted.is_some() {
            body.notes.add("parameter_dropped", "reasoning_effort");
        }
        return;
    }
    match wanted {
        Some(wanted) if quirks.effort => {
            json::field(
                &mut reasoning,
                "effort",
                nearest(wanted, model, &mut body.notes),
            );
        }
        Some(_) => body.notes.add("parameter_dropped", "reasoning_effort"),
        None => {}
    }
    let summary = asked.summary.filter(|raw| raw.get().starts_with('"'));
    if let Some(summary) = summary.filter(|_| quirks.reasoning_summary) {
        json::raw_field(&mut reasoning, "summary", summary.get());
    }
    if reasoning.len() > 1 {
        reasoning.push(b'}');
        body.raw_field("reasoning", &String::from_utf8_lossy(&reasoning));
    }
}

/// `text`: the format and the verbosity.
fn push_text(body: &mut BodyWriter<'_, '_>, quirks: &RelayQuirks) {
    let controls = &body.turn.controls;
    let mut text = vec![b'{'];
    let (format, accepted) = (&controls.format, quirks.response_format);
    note_described(format, accepted, &mut body.notes);
    match (format, accepted) {
        (TextFormat::Text, _) | (_, ResponseFormat::None) => {}
        (TextFormat::JsonObject, _) | (_, ResponseFormat::JsonObject) => {
            json::raw_field(&mut text, "format", r#"{"type":"json_object"}"#);
        }
        (
            TextFormat::JsonSchema {
                name,
                schema,
                strict,
                description,
            },
            ResponseFormat::JsonSchema,
        ) => {
            json::key(&mut text, "format");
            text.extend_from_slice(br#"{"type":"json_schema","name":"#);
            name.push_json(&mut text);
            if let Some(description) = description {
                json::key(&mut text, "description");
                description.push_json(&mut text);
            }
            if let Some(strict) = strict {
                json::field(&mut text, "strict", strict);
            }
            json::raw_field(&mut text, "schema", schema.get());
            text.push(b'}');
        }
    }
    match controls.verbosity.as_deref() {
        Some(verbosity) if quirks.verbosity && !body.model.reasoning.is_empty() => {
            json::field(&mut text, "verbosity", verbosity);
        }
        Some(_) => body.notes.add("parameter_dropped", "verbosity"),
        None => {}
    }
    if text.len() > 1 {
        text.push(b'}');
        body.raw_field("text", &String::from_utf8_lossy(&text));
    }
}
