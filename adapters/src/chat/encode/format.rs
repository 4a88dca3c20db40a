//! The wanted form of the text: a field, or an instruction where the provider
//! has no such field.

use registry::{Quirks, ResponseFormat};

use super::body::Body;
use crate::chat::schema;
use crate::json;
use crate::notes::Notes;
use crate::turn::TextFormat;

/// The instruction that stands in for what the provider cannot be asked for.
/// Providers that know `json_object` want to read the word JSON in the prompt.
pub(in crate::chat) fn instruction(format: &TextFormat<'_>, quirks: &Quirks) -> Option<String> {
    match (format, quirks.response_format) {
        (TextFormat::Text, _)
        | (_, ResponseFormat::JsonSchema)
        | (TextFormat::JsonObject, ResponseFormat::JsonObject) => None,
        (TextFormat::JsonObject, ResponseFormat::None) => {
            Some("Answer with one JSON object, and with nothing else.".to_owned())
        }
        (
            TextFormat::JsonSchema { schema, .. },
            ResponseFormat::JsonObject | ResponseFormat::None,
        ) => Some(format!(
            "Answer with one JSON document that follows this JSON Schema, and with nothing else:\n{}",
            schema.get()
        )),
    }
}

pub(super) fn push(
    body: &mut Body<'_>,
    format: &TextFormat<'_>,
    quirks: &Quirks,
    notes: &mut Notes,
) {
    match (format, quirks.response_format) {
        (TextFormat::Text, _) => {}
        (TextFormat::JsonObject, ResponseFormat::JsonSchema | ResponseFormat::JsonObject) => {
            push_object(body);
        }
        (TextFormat::JsonObject, ResponseFormat::None) => {
            notes.add("json_object_described", "it is asked for by an instruction");
        }
        (TextFormat::JsonSchema { .. }, ResponseFormat::JsonObject) => {
            push_object(body);
            describe(notes);
        }
        (TextFormat::JsonSchema { .. }, ResponseFormat::None) => describe(notes),
        (
            TextFormat::JsonSchema {
                name,
                schema,
                strict,
                description,
            },
            ResponseFormat::JsonSchema,
        ) => {
            body.key("response_format");
            let out = &mut body.out;
            out.extend_from_slice(br#"{"type":"json_schema","json_schema":{"name":"#);
            name.push_json(out);
            if let Some(description) = description {
                json::key(out, "description");
                description.push_json(out);
            }
            let fitted = schema::fit(schema, quirks.schema);
            if fitted.is_some() {
                notes.add("schema_changed", "response format");
            }
            json::raw_field(out, "schema", fitted.as_deref().unwrap_or(schema.get()));
            if let Some(strict) = strict {
                json::field(out, "strict", strict);
            }
            out.extend_from_slice(b"}}");
        }
    }
}

fn push_object(body: &mut Body<'_>) {
    body.raw_field("response_format", r#"{"type":"json_object"}"#);
}

fn describe(notes: &mut Notes) {
    notes.add(
        "json_schema_described",
        "the schema is given as an instruction",
    );
}
