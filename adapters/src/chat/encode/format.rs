//! The `response_format`. What a provider does not have is described in an
//! instruction, which `history` writes.

use registry::{ChatQuirks, ResponseFormat};

use crate::body_writer::BodyWriter;
use crate::json;
use crate::notes::Notes;
use crate::schema;
use crate::turn::TextFormat;

pub(super) fn push(body: &mut BodyWriter<'_, '_>, quirks: &ChatQuirks) {
    let notes = &mut body.notes;
    match (&body.turn.controls.format, quirks.response_format) {
        (TextFormat::Text, _) => {}
        (TextFormat::JsonObject, ResponseFormat::JsonSchema | ResponseFormat::JsonObject) => {
            push_object(body);
        }
        (TextFormat::JsonObject, ResponseFormat::None) => {
            notes.add("json_object_described", "it is asked for by an instruction");
        }
        (TextFormat::JsonSchema { .. }, ResponseFormat::JsonObject) => {
            note_described(notes);
            push_object(body);
        }
        (TextFormat::JsonSchema { .. }, ResponseFormat::None) => note_described(notes),
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
            let fitted = schema::fit(schema, quirks.schema, &mut body.reference_room);
            if fitted.is_some() {
                body.notes.add("schema_changed", "response format");
            }
            json::raw_field(out, "schema", fitted.as_deref().unwrap_or(schema.get()));
            if let Some(strict) = strict {
                json::field(out, "strict", strict);
            }
            out.extend_from_slice(b"}}");
        }
    }
}

fn push_object(body: &mut BodyWriter<'_, '_>) {
    body.raw_field("response_format", r#"{"type":"json_object"}"#);
}

fn note_described(notes: &mut Notes) {
    notes.add(
        "json_schema_described",
        "the schema is given as an instruction",
    );
}
