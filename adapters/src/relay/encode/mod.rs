//! Encodes a turn as the body of a Responses request.
//!
//! As on every wire, the history is the last field before the output limit, so that two requests of
//! a session share the longest possible prefix.
//!
//! | module | contents |
//! |---|---|
//! | `parameters` | sampling, reasoning, the format of the text |
//! | `tools` | the tools and `tool_choice` |
//! | `input` | the items in the order of the plan |
//! | `items` | one item: as its maker wrote it, or written anew |

mod annotations;
mod input;
mod items;
mod parameters;
#[cfg(test)]
mod tests;
mod tools;

use std::collections::HashMap;

use registry::RelayQuirks;

use crate::body_writer::BodyWriter;
use crate::encode_options::EncodeOptions;
use crate::encoded::{BodyOffsets, Encoded};
use crate::fault::Fault;
use crate::format_instruction::format_instruction;
use crate::json;
use crate::media::{AcceptedFiles, AcceptedImages, AcceptedMedia, MediaEstimate};
use crate::plan::Plan;
use crate::tools::left_out;
use crate::turn::Turn;

/// Encodes the request. Fails if an item cannot be sent, which is the client's fault.
pub(crate) fn encode(
    turn: &Turn<'_>,
    plan: &Plan,
    options: &EncodeOptions<'_>,
    quirks: &RelayQuirks,
) -> Result<Encoded, Fault> {
    let quirks = &RelayQuirks {
        tools: super::relayed_tools(turn, quirks),
        ..*quirks
    };
    let mut body = BodyWriter::new(turn, options);
    if turn.tools.lacks_search(quirks.tools) {
        body.notes.add("tool_dropped", left_out::WEB_SEARCH);
    }
    body.field("model", options.upstream_model);
    body.field("stream", &quirks.stream);
    body.field("store", &false);
    parameters::push(&mut body, quirks);
    let (tools, beyond) = tools::push(&mut body, plan, quirks)?;
    let beyond: Vec<&str> = beyond.iter().map(String::as_str).collect();
    let notice = left_out::notice(turn, quirks.tools, &beyond);
    let field = quirks.max_output_tokens.then_some("max_output_tokens");
    let limit = body.push_fixed_fields(&["instructions", "input"], field, None);
    let mut offsets = BodyOffsets {
        tools,
        artifact_tools: body.artifact_tools.clone(),
        ..BodyOffsets::default()
    };
    let format = format_instruction(&turn.controls.format, quirks.response_format);
    let notice = [notice, format].into_iter().flatten();
    let notice = notice.reduce(|first, second| format!("{first}\n\n{second}"));
    let instructions = plan.instructions(turn);
    if instructions.is_some() || notice.is_some() {
        body.key("instructions");
        offsets.messages = body.out.len();
        body.out.push(b'"');
        if let Some(text) = &instructions {
            text.push_escaped(&mut body.out);
        }
        if let Some(notice) = notice {
            let between = if instructions.is_some() { "\\n\\n" } else { "" };
            body.out.extend_from_slice(between.as_bytes());
            body.out.extend_from_slice(json::escape(&notice).as_bytes());
        }
        body.out.push(b'"');
        offsets.instructions = body.out.len();
    }
    body.key("input");
    if offsets.messages == 0 {
        offsets.messages = body.out.len();
        offsets.instructions = body.out.len();
    }
    let mut media = MediaEstimate::default();
    let mut input = input::InputWriter {
        out: &mut body.out,
        turn,
        plan,
        options,
        quirks,
        accepted: AcceptedMedia {
            images: AcceptedImages::of(options.model, quirks.image_urls),
            image_texts: turn.image_texts,
            left_out: options.left_out,
            images_without_text: true,
            files: if quirks.files {
                AcceptedFiles::All
            } else {
                AcceptedFiles::None
            },
            audio: options.model.audio,
        },
        media: &mut media,
        notes: &mut body.notes,
        spans: Vec::with_capacity(turn.items.len()),
        call_forms: HashMap::new(),
        ends_with_user: None,
        found_pages: found_pages(turn),
        empty_user: None,
    };
    input.push()?;
    let spans = input.spans;
    let estimated_tokens = body.finish(limit, media);
    Ok(Encoded {
        body: body.out,
        spans,
        offsets,
        cache_marks: Vec::new(),
        notes: body.notes,
        estimated_tokens,
        has_media: media.has_any(),
    })
}

/// The addresses of the pages that a turn knows, each with its first place.
fn found_pages<'t>(turn: &'t Turn<'_>) -> HashMap<&'t str, usize> {
    let mut pages = HashMap::with_capacity(turn.known_sources.len());
    for (place, source) in turn.known_sources.iter().enumerate() {
        pages.entry(&*source.url).or_insert(place);
    }
    pages
}
