//! The wanted format of the answer as an instruction, for providers that have no
//! `response_format` for it.

use registry::{ChatQuirks, ResponseFormat};

use crate::turn::TextFormat;

/// The instruction that replaces a `response_format` that the provider lacks, if
/// it lacks it. Providers with `json_object` require the word JSON in the prompt.
pub(super) fn format_instruction(format: &TextFormat<'_>, quirks: &ChatQuirks) -> Option<String> {
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
