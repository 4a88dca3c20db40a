//! Encodes a turn as the body of a Chat Completions request.
//!
//! The history is the last field but for the output limit; everything that stays
//! the same precedes it. So two requests of a session share the longest possible
//! prefix. Large strings are copied without being unescaped.
//!
//! `parameters`, `effort`, `format` and `tools` each write one part of the body,
//! and `history` writes the messages.

mod effort;
mod format;
mod parameters;
#[cfg(test)]
mod tests;
mod tools;

use registry::{ChatQuirks, MaxTokensField};

use super::history;
use super::options::ChatOptions;
use crate::body_writer::BodyWriter;
use crate::encoded::{BodyOffsets, Encoded};
use crate::fault::Fault;
use crate::media::MediaEstimate;
use crate::output_limit::OutputLimit;
use crate::plan::Plan;
use crate::turn::Turn;
use crate::wire::EncodeOptions;

/// Encodes the request. Fails if an item cannot be sent, which is the client's
/// fault.
pub(crate) fn encode(
    turn: &Turn<'_>,
    plan: &Plan,
    options: &EncodeOptions<'_>,
    quirks: &ChatQuirks,
) -> Result<Encoded, Fault> {
    let options = &ChatOptions::new(options, quirks);
    let mut notes = turn.notes.clone();
    let mut body = BodyWriter::new(options.fixed_fields, size_hint(turn));
    let offered = tools::offered_tools(turn, quirks, &mut notes);
    let stream = quirks.stream_tools || offered.is_empty();
    body.field("model", options.upstream_model);
    body.field("stream", &stream);
    if stream && quirks.stream_usage {
        body.raw_field("stream_options", r#"{"include_usage":true}"#);
    }
    parameters::push(&mut body, turn, options, &mut notes);
    effort::push(&mut body, turn, options, &mut notes);
    parameters::push_services(&mut body, turn, options, &mut notes);
    format::push(&mut body, &turn.controls.format, quirks, &mut notes);
    let tools = tools::push(&mut body, &offered, turn, quirks, &mut notes)?;
    let field = match quirks.max_tokens_field {
        MaxTokensField::MaxTokens => Some("max_tokens"),
        MaxTokensField::MaxCompletionTokens => Some("max_completion_tokens"),
        MaxTokensField::None => None,
    };
    let default = quirks.default_max_tokens;
    let limit = OutputLimit::requested(turn, options.model, field, default, &mut notes);
    body.claim("messages");
    if let Some(limit) = limit {
        body.claim(limit.field);
    }
    body.push_fixed_fields();
    body.key("messages");
    let mut media = MediaEstimate::default();
    let start = body.out.len();
    let messages =
        history::push_messages(&mut body.out, turn, plan, options, &mut media, &mut notes)?;
    let estimated_tokens = media.tokens_of(body.out.len(), options.model.bytes_per_token());
    if let Some(limit) = limit {
        let tokens = limit.fit(options.model, estimated_tokens, &mut notes);
        body.field(limit.field, &tokens);
    }
    body.out.push(b'}');
    Ok(Encoded {
        body: body.out,
        spans: messages.spans,
        offsets: BodyOffsets {
            tools,
            messages: start,
            instructions: messages.instructions.max(start),
        },
        cache_marks: messages.marks,
        notes,
        estimated_tokens,
    })
}

/// About the size of the request: nearly all of it is copied.
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
