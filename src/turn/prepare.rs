//! From a request body to everything the engine needs. Nothing here waits.

use std::sync::Arc;

use adapters::fault::{Fault, Kind};
use adapters::responses::assembler::{Assembler, Settings};
use adapters::responses::envelope::Envelope;
use adapters::responses::request::Source;
use adapters::turn::Turn;
use registry::Route;

use super::caller::Session;
use super::ctx::Ctx;
use super::recent::Recent;
use super::way::{Shared, Way, Ways};
use crate::config::Config;

/// The most bytes of text that an answer may have.
const ANSWER_LIMIT: usize = 64 << 20;

/// A turn that is ready to be sent.
pub(super) struct Prepared {
    /// Where it goes.
    pub(super) way: Way,
    /// Where else it can go.
    pub(super) ways: Ways,
    pub(super) session: Session,
    pub(super) assembler: Box<Assembler>,
    /// Whether the client wants events.
    pub(super) stream: bool,
    /// Where the answer's items are kept, if the client may refer to them.
    pub(super) recent: Option<Arc<Recent>>,
}

/// Parses, routes, plans and encodes a turn.
pub(super) fn prepare(
    ctx: &Ctx,
    config: &Arc<Config>,
    shared: &Arc<Shared>,
    source: Source,
) -> Result<Box<Prepared>, Fault> {
    let mut turn = source.turn()?;
    let references = turn.references();
    let resolved = if references.is_empty() {
        None
    } else {
        Some(source.with_items(shared.recent.find(&ctx.owner, references)))
    };
    if let Some(resolved) = &resolved {
        turn = resolved.turn()?;
    }
    let session = Session::of(&ctx.caller, &ctx.owner, &turn);
    let routes = routes(ctx, config, &turn)?;
    let mut ways = Ways::new(ctx, config, shared, &session, routes);
    let mut way = ways.first(&turn)?;
    if way.route.found == registry::Found::Default {
        way.notes
            .add("default_model", format!("nobody knows '{}'", turn.model));
    }
    let settings = Settings {
        envelope: Envelope::new(&turn, &ctx.id("resp"), ctx.clock.unix()),
        tools: turn.tools.names(),
        known_calls: turn.call_ids(),
        codex: ctx.caller.codex,
        terms: way.terms.clone(),
        limit: ANSWER_LIMIT,
    };
    let (stream, store) = (turn.stream, turn.store);
    ways.keep(resolved.unwrap_or(source));
    Ok(Box::new(Prepared {
        way,
        ways,
        session,
        assembler: Box::new(Assembler::new(settings)),
        stream,
        recent: store.then(|| Arc::clone(&shared.recent)),
    }))
}

/// The first choice and what stands in for it.
fn routes(ctx: &Ctx, config: &Config, turn: &Turn<'_>) -> Result<Vec<Route>, Fault> {
    let first = config
        .registry
        .resolve(&turn.model, ctx.caller.codex)
        .map_err(|unresolved| Fault {
            param: Some("model".into()),
            ..Fault::new(Kind::ModelNotFound, unresolved.to_string())
        })?;
    let mut routes = config.registry.fallbacks(&turn.model, &first);
    routes.insert(0, first);
    Ok(routes)
}
