//! From a request body to everything the engine needs. Nothing here waits; at
//! the end nothing borrows the request any more, so its body can go.

use std::sync::Arc;

use adapters::chat::encode::{self, Options};
use adapters::fault::{Fault, Kind};
use adapters::notes::Notes;
use adapters::plan;
use adapters::responses::assembler::{Assembler, Settings};
use adapters::responses::envelope::Envelope;
use adapters::responses::request::Source;
use adapters::turn::Turn;
use bytes::Bytes;
use registry::{ReasoningReplay, Route, Wire};

use super::caller::Session;
use super::ctx::Ctx;
use super::recent::Recent;
use crate::config::Config;
use crate::upstream::{Upstream, Upstreams};

/// The most bytes of text that an answer may have.
const ANSWER_LIMIT: usize = 64 << 20;

/// A turn that is ready to be sent.
pub(super) struct Prepared {
    pub(super) route: Route,
    pub(super) upstream: Arc<Upstream>,
    pub(super) session: Session,
    /// The upstream request.
    pub(super) body: Bytes,
    pub(super) assembler: Box<Assembler>,
    pub(super) notes: Notes,
    /// Whether the client wants events.
    pub(super) stream: bool,
    /// Where the answer's items are kept, if the client may refer to them.
    pub(super) recent: Option<Arc<Recent>>,
}

/// Parses, routes, plans and encodes a turn.
pub(super) fn prepare(
    ctx: &Ctx,
    config: &Config,
    upstreams: &Upstreams,
    recent: &Arc<Recent>,
    source: &Source,
) -> Result<Prepared, Fault> {
    let mut turn = source.turn()?;
    let references = turn.references();
    let resolved;
    if !references.is_empty() {
        resolved = source.with_items(recent.find(&ctx.owner, references));
        turn = resolved.turn()?;
    }
    let route = config
        .registry
        .resolve(&turn.model, ctx.caller.codex)
        .map_err(|unresolved| Fault {
            param: Some("model".into()),
            ..Fault::new(Kind::ModelNotFound, unresolved.to_string())
        })?;
    let upstream = upstreams.get(config, &route.provider)?;
    let plan = plan::plan(&turn);
    let encoded = match route.provider.wire {
        Wire::Chat => {
            let origin = format!("{}/{}", route.provider.id, route.model.id);
            let options = Options {
                dialect: &route.dialect,
                model: &route.model,
                upstream_model: &route.upstream_model,
                origin: &origin,
                known_baggage: None,
            };
            encode::encode(&turn, &plan, &options)?
        }
    };
    let mut notes = encoded.notes;
    if route.found == registry::Found::Default {
        notes.add("default_model", format!("nobody knows '{}'", turn.model));
    }
    Ok(Prepared {
        session: Session::of(&ctx.caller, &ctx.owner, &turn),
        assembler: Box::new(Assembler::new(settings(
            ctx,
            &turn,
            &route,
            encoded.estimated_tokens,
        ))),
        stream: turn.stream,
        recent: turn.store.then(|| Arc::clone(recent)),
        body: encoded.body.into(),
        upstream,
        route,
        notes,
    })
}

fn settings(ctx: &Ctx, turn: &Turn<'_>, route: &Route, estimated_input: u64) -> Settings {
    let replays = route.dialect.quirks.reasoning_replay != ReasoningReplay::None;
    Settings {
        envelope: Envelope::new(turn, &ctx.id("resp"), ctx.clock.unix()),
        tools: turn.tools.names(),
        known_calls: turn.call_ids(),
        codex: ctx.caller.codex,
        seal_reasoning: replays || turn.controls.encrypted_reasoning,
        estimated_input,
        bytes_per_token: route.model.bytes_per_token(),
        limit: ANSWER_LIMIT,
    }
}
