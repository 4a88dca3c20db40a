//! Encodes a turn as the body of a Responses request.
//!
//! As on every wire the history is the last field but for the output limit, so that two
//! requests of a session share the longest possible prefix.
//!
//! | module | contents |
//! |---|---|
//! | `parameters` | sampling, reasoning, the format of the text |
//! | `tools` | the tools and `tool_choice` |
//! | `input` | the items in the order of the plan |
//! | `items` | one item: as its maker wrote it, or written anew |

mod input;
mod items;
mod parameters;
#[cfg(test)]
mod tests;
mod tools;

use std::collections::HashMap;

use registry::RelayQuirks;

use crate::body_writer::BodyWriter;
use crate::encoded::{BodyOffsets, Encoded};
use crate::fault::Fault;
use crate::media::{AcceptedImages, AcceptedMedia, MediaEstimate};
use crate::output_limit::OutputLimit;
use crate::plan::Plan;
use crate::turn::{Item, Turn};
use crate::wire::EncodeOptions;

/// Encodes the request. Fails if an item cannot be sent, which is the client's fault.
pub(crate) fn encode(
    turn: &Turn<'_>,
    plan: &Plan,
    options: &EncodeOptions<'_>,
    quirks: &RelayQuirks,
) -> Result<Encoded, Fault> {
    let mut notes = turn.notes.clone();
    let mut body = BodyWriter::new(&options.dialect.body, size_hint(turn));
    body.field("model", options.upstream_model);
    body.field("stream", &true);
    body.field("store", &false);
    parameters::push(&mut body, turn, options, quirks, &mut notes);
    let tools = tools::push(&mut body, turn, quirks, &mut notes)?;
    let field = quirks.max_output_tokens.then_some("max_output_tokens");
    let limit = OutputLimit::requested(turn, options.model, field, None, &mut notes);
    for name in ["instructions", "input"] {
        body.claim(name);
    }
    if let Some(limit) = limit {
        body.claim(limit.field);
    }
    body.push_fixed_fields();
    let mut offsets = BodyOffsets {
        tools,
        ..BodyOffsets::default()
    };
    if let Some(text) = plan.instructions(turn) {
        body.key("instructions");
        offsets.messages = body.out.len();
        text.push_json(&mut body.out);
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
            images_without_text: true,
            files: quirks.files,
        },
        media: &mut media,
        notes: &mut notes,
        spans: Vec::with_capacity(turn.items.len()),
        call_forms: HashMap::new(),
    };
    input.push()?;
    let spans = input.spans;
    let estimated_tokens = media.tokens_of(body.out.len(), options.model.bytes_per_token());
    if let Some(limit) = limit {
        let tokens = limit.fit(options.model, estimated_tokens, &mut notes);
        body.field(limit.field, &tokens);
    }
    body.out.push(b'}');
    Ok(Encoded {
        body: body.out,
        spans,
        offsets,
        cache_marks: Vec::new(),
        notes,
        estimated_tokens,
    })
}

/// About the size of the request: nearly all of it is copied.
fn size_hint(turn: &Turn<'_>) -> usize {
    let items = turn.items.iter().filter_map(Item::raw);
    let items: usize = items.map(|raw| raw.len() + 16).sum();
    items + turn.echo.tools.map_or(0, |tools| tools.get().len()) + 4096
}
