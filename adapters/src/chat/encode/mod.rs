//! Encodes a turn as the body of a Chat Completions request.
//!
//! The history is the last field before the output limit; everything that stays the same precedes
//! it. So two requests of a session share the longest possible prefix. Large strings are copied
//! without being unescaped.
//!
//! `parameters`, `effort`, `format` and `tools` each write one part of the body,
//! and `history` writes the messages.

mod effort;
mod format;
mod parameters;
#[cfg(test)]
mod tests;
mod tools;

pub(super) use self::effort::is_thinking;

use registry::{ChatQuirks, MaxTokensField};

use super::options::ChatOptions;
use super::{history, provider_search};
use crate::body_writer::BodyWriter;
use crate::encode_options::EncodeOptions;
use crate::encoded::{BodyOffsets, Encoded};
use crate::fault::Fault;
use crate::media::MediaEstimate;
use crate::plan::Plan;
use crate::tools::left_out;
use crate::turn::Turn;

/// Encodes the request. Fails if an item cannot be sent, which is the client's
/// fault.
pub(crate) fn encode(
    turn: &Turn<'_>,
    plan: &Plan,
    options: &EncodeOptions<'_>,
    quirks: &ChatQuirks,
) -> Result<Encoded, Fault> {
    let mut body = BodyWriter::new(turn, options);
    let (mut offered, search) = tools::offered_tools(&mut body, plan, quirks);
    let most = quirks.max_tools;
    let most = most.map(|most| most.saturating_sub(u16::from(search.is_some())));
    let mut beyond = body.leave_out_refused(&mut offered);
    beyond.extend(body.cut_tools(&mut offered, most));
    let relayed = provider_search::relayed_tools(turn, body.model, quirks);
    if turn.tools.lacks_search(relayed) {
        body.notes.add("tool_dropped", left_out::WEB_SEARCH);
    }
    let tool_notice = left_out::notice(turn, relayed, &beyond);
    let has_tools = !offered.is_empty() || search.is_some();
    let stream = quirks.stream && (quirks.stream_tools || !has_tools);
    body.field("model", options.upstream_model);
    body.field("stream", &stream);
    if stream && quirks.stream_usage {
        body.raw_field("stream_options", r#"{"include_usage":true}"#);
    }
    parameters::push(&mut body, quirks);
    effort::push(&mut body, quirks.reasoning_control);
    parameters::push_services(&mut body, quirks);
    format::push(&mut body, quirks);
    let tools = tools::push(&mut body, &offered, search, quirks)?;
    let field = match quirks.max_tokens_field {
        MaxTokensField::MaxTokens => Some("max_tokens"),
        MaxTokensField::MaxCompletionTokens => Some("max_completion_tokens"),
        MaxTokensField::None => None,
    };
    let limit = body.push_fixed_fields(&["messages"], field, quirks.default_max_tokens);
    body.key("messages");
    let mut media = MediaEstimate::default();
    let start = body.out.len();
    let options = &ChatOptions {
        quirks,
        options,
        tool_notice: tool_notice.as_deref(),
        image_texts: turn.image_texts,
    };
    let (out, notes) = (&mut body.out, &mut body.notes);
    let messages = history::push_messages(out, turn, plan, options, &mut media, notes)?;
    let estimated_tokens = body.finish(limit, media);
    Ok(Encoded {
        body: body.out,
        spans: messages.spans,
        offsets: BodyOffsets {
            tools,
            artifact_tools: body.artifact_tools,
            messages: start,
            instructions: messages.instructions.max(start),
        },
        cache_marks: messages.marks,
        notes: body.notes,
        estimated_tokens,
        has_media: media.has_any(),
    })
}
