//! The wanted format of the answer as an instruction, for providers that have no parameter for it.

use registry::ResponseFormat;

use crate::notes::Notes;
use crate::turn::TextFormat;

/// The instruction that replaces a format that the provider lacks, if it lacks it. Providers with
/// `json_object` require the word JSON in the prompt.
pub(crate) fn format_instruction(
    format: &TextFormat<'_>,
    accepted: ResponseFormat,
) -> Option<String> {
    match (format, accepted) {
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

/// Notes that the wanted format is described in place of being enforced, if it is.
pub(crate) fn note_described(format: &TextFormat<'_>, accepted: ResponseFormat, notes: &mut Notes) {
    match (format, accepted) {
        (TextFormat::JsonObject, ResponseFormat::None) => {
            notes.add("json_object_described", "it is asked for by an instruction");
        }
        (TextFormat::JsonSchema { .. }, ResponseFormat::JsonObject | ResponseFormat::None) => {
            let detail = "the schema is given as an instruction";
            notes.add("json_schema_described", detail);
        }
        (TextFormat::Text, _)
        | (_, ResponseFormat::JsonSchema)
        | (TextFormat::JsonObject, ResponseFormat::JsonObject) => {}
    }
}
