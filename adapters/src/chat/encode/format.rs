//! The `response_format`. What a provider does not have is described in an instruction, which
//! `history` writes.

use registry::{ChatQuirks, ResponseFormat};

use crate::body_writer::BodyWriter;
use crate::format_instruction::note_described;
use crate::json;
use crate::schema;
use crate::turn::TextFormat;

pub(super) fn push(body: &mut BodyWriter<'_, '_>, quirks: &ChatQuirks) {
    let (format, accepted) = (&body.turn.controls.format, quirks.response_format);
    note_described(format, accepted, &mut body.notes);
    match (format, accepted) {
        (TextFormat::Text, _) | (_, ResponseFormat::None) => {}
        (TextFormat::JsonObject, _) | (_, ResponseFormat::JsonObject) => {
            body.raw_field("response_format", r#"{"type":"json_object"}"#);
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
