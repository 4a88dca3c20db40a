//! A turn becomes the body of a Chat Completions request.
//!
//! The history stands last but for the output limit, behind all that stays the
//! same: two requests of a session have the longest possible prefix in common.
//! Big strings are copied still escaped.
//!
//! [`parameters`], [`effort`], [`format`] and [`tools`] write one part of the
//! body each, `history` the messages, [`limit`] what they leave to the answer.

mod body;
mod effort;
pub(super) mod format;
pub(crate) mod limit;
mod parameters;
#[cfg(test)]
mod tests;
mod tools;

use std::collections::HashMap;

use registry::{Dialect, Model, Quirks};

use self::body::Body;
use self::limit::Media;
use super::history;
use crate::content::{Images, Takes};
use crate::encoded::{Encoded, Head};
use crate::fault::Fault;
use crate::plan::Plan;
use crate::turn::Turn;

/// Whom the request is for.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// How the model is spoken to.
    pub dialect: &'a Dialect,
    /// What is known of the model.
    pub model: &'a Model,
    /// The model's name in the request.
    pub upstream_model: &'a str,
    /// Whom the answer is from, as in [`crate::baggage::Baggage::origin`]: what
    /// only its maker can read goes back to it alone.
    pub origin: &'a str,
    /// Blobs ([`crate::baggage::Baggage::seal`]) of answers by the ids of their
    /// calls, several separated by blanks, for clients that do not send reasoning
    /// items back.
    pub known_baggage: Option<&'a HashMap<String, String>>,
}

impl<'a> Options<'a> {
    /// A request without a second source of baggage.
    pub fn new(dialect: &'a Dialect, model: &'a Model, upstream_model: &'a str) -> Self {
        Self {
            dialect,
            model,
            upstream_model,
            origin: "",
            known_baggage: None,
        }
    }

    pub(super) fn quirks(&self) -> &'a Quirks {
        &self.dialect.quirks
    }

    pub(super) fn takes(&self) -> Takes {
        let quirks = self.quirks();
        Takes {
            images: match (self.model.images, quirks.image_urls) {
                (false, _) => Images::None,
                (true, false) => Images::Data,
                (true, true) => Images::Any,
            },
            lone_images: !quirks.image_needs_text,
            files: quirks.files,
        }
    }
}

/// Writes the request. Errors are the client's: an item that cannot be sent.
pub fn encode(turn: &Turn<'_>, plan: &Plan, options: &Options<'_>) -> Result<Encoded, Fault> {
    let quirks = options.quirks();
    let mut notes = turn.notes.clone();
    let mut body = Body::new(options.dialect, size_hint(turn));
    let offered = tools::offered(turn, quirks, &mut notes);
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
    let tools = tools::push(&mut body, &offered, turn, quirks, &mut notes);
    let limit = limit::wanted(turn, options, &mut notes);
    body.claim("messages");
    if let Some(limit) = limit {
        body.claim(limit.field);
    }
    body.rest();
    body.key("messages");
    let mut media = Media::default();
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
        head: Head {
            tools,
            messages: start,
            instructions: messages.instructions.max(start),
        },
        marks: messages.marks,
        notes,
        estimated_tokens,
    })
}

/// About as long as the request: nearly all of it is copied.
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
