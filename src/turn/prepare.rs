//! From a request body to everything the engine needs. Nothing here waits.

use std::collections::HashMap;
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
use crate::tap::Seen;

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
    let items = if references.is_empty() {
        HashMap::new()
    } else {
        shared.recent.find(&ctx.owner, references)
    };
    let resolved = (!items.is_empty()).then(|| source.with_items(items.clone()));
    if let Some(resolved) = &resolved {
        turn = resolved.turn()?;
    }
    let session = Session::of(&ctx.caller, &ctx.owner, &turn);
    let routes = routes(ctx, config, &turn)?;
    if ctx.tap.is_some() {
        let mut given = shared.given(config, &ctx.owner, &session.id, &routes);
        given.items = items
            .into_iter()
            .map(|(id, json)| (id, json.to_string()))
            .collect();
        ctx.saw(Seen::Given(given));
    }
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

/// About how many tokens a request has as input.
pub(super) fn count(
    ctx: &Ctx,
    config: &Arc<Config>,
    shared: &Arc<Shared>,
    source: &Source,
) -> Result<u64, Fault> {
    let turn = source.turn()?;
    let references = turn.references();
    let found = (!references.is_empty())
        .then(|| source.with_items(shared.recent.find(&ctx.owner, references)));
    let turn = match &found {
        Some(resolved) => resolved.turn()?,
        None => turn,
    };
    let session = Session::of(&ctx.caller, &ctx.owner, &turn);
    let routes = routes(ctx, config, &turn)?;
    Ways::count(ctx, config, shared, &session, routes, &turn)
}

/// The first choice and what stands in for it.
pub(super) fn routes(ctx: &Ctx, config: &Config, turn: &Turn<'_>) -> Result<Vec<Route>, Fault> {
    let saw = |routes: &[Route], near: &[String]| {
        ctx.saw(Seen::Routes {
            asked: &turn.model,
            routes,
            near,
        });
    };
    let first = config
        .registry
        .resolve(&turn.model, ctx.caller.codex)
        .map_err(|unresolved| {
            saw(&[], &unresolved.near);
            Fault {
                param: Some("model".into()),
                ..Fault::new(Kind::ModelNotFound, unresolved.to_string())
            }
        })?;
    let mut routes = config.registry.fallbacks(&turn.model, &first);
    routes.insert(0, first);
    saw(&routes, &[]);
    Ok(routes)
}
