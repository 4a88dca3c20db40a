//! From a request body to everything the engine needs. Nothing here waits.

use std::collections::HashMap;
use std::sync::Arc;

use adapters::compact::Purpose;
use adapters::fault::{Fault, Kind};
use adapters::responses::assembler::{Assembler, Settings, Terms};
use adapters::responses::envelope::Envelope;
use adapters::responses::request::Source;
use adapters::turn::Turn;
use registry::Route;

use super::caller::{Session, TurnKind};
use super::compact::{Compaction, Door};
use super::ctx::Ctx;
use super::recent::Recent;
use super::way::{Shared, Way, Ways};
use crate::config::Config;
use crate::net::blocking::block_in_place_if_large;
use crate::tap::Seen;

/// The most bytes of text that an answer may have.
const ANSWER_LIMIT: usize = 64 << 20;

/// What a request wants done.
pub(super) enum Job {
    /// An answer.
    Turn(Box<Prepared>),
    /// A compaction, or one before the answer.
    Compaction(Box<Compaction>),
}

/// A turn that is ready to be sent.
pub(super) struct Prepared {
    /// Where it goes.
    pub(super) way: Way,
    /// Where else it can go.
    pub(super) ways: Ways,
    /// The session as a number, by which it keeps its key.
    pub(super) affinity: u64,
    pub(super) assembler: Box<Assembler>,
    /// The assembler has begun to write.
    pub(super) begun: bool,
    /// Where the answer's items are kept, if the client may refer to them.
    pub(super) recent: Option<Arc<Recent>>,
}

/// A request that was read and routed.
pub(super) struct Request {
    pub(super) job: Job,
    pub(super) session: Session,
    /// Whether the client wants events.
    pub(super) stream: bool,
}

/// A history, and where it can go.
pub(super) struct History {
    pub(super) config: Arc<Config>,
    pub(super) shared: Arc<Shared>,
    pub(super) source: Source,
    pub(super) session: Session,
    pub(super) routes: Vec<Route>,
}

/// Parses, routes, plans and encodes a turn. `at_endpoint` says that it came to the
/// endpoint that compacts.
pub(super) fn prepare(
    ctx: &Ctx,
    config: &Arc<Config>,
    shared: &Arc<Shared>,
    source: Source,
    at_endpoint: bool,
) -> Result<Request, Fault> {
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
    let door = Door::of(at_endpoint, &ctx.caller, &turn);
    let tools = match door {
        Some(Door::Local) => shared.tools.find(&ctx.owner, &session.id),
        Some(Door::Endpoint | Door::Trigger | Door::Threshold) | None => None,
    };
    if ctx.tap.is_some() {
        let mut given = shared.given(config, &ctx.owner, &session.id, &routes);
        given.items = items
            .into_iter()
            .map(|(id, json)| (id, json.to_string()))
            .collect();
        given.tools = tools.as_deref().map(str::to_owned);
        given.weighed = (door.is_some() || turn.compact_from.is_some())
            .then(|| shared.weighings.find(&ctx.owner, &session.id))
            .flatten();
        ctx.saw(Seen::Given(given));
    }
    let (stream, store) = (turn.stream, turn.store);
    let recent = store.then(|| Arc::clone(&shared.recent));
    if let Some(door) = door {
        let id = ctx.id("resp");
        let created_at = ctx.clock.unix();
        let terms = Compaction::terms(&routes);
        let assembler = assembler(&turn, &id, created_at, ctx.caller.codex, terms);
        let compaction = Compaction {
            door,
            history: History {
                config: Arc::clone(config),
                shared: Arc::clone(shared),
                session: session.clone(),
                source: resolved.unwrap_or(source),
                routes,
            },
            tools,
            id,
            created_at,
            assembler: Some(assembler),
            recent,
        };
        return Ok(Request {
            job: Job::Compaction(Box::new(compaction)),
            session,
            stream: stream && door != Door::Endpoint,
        });
    }
    if ctx.caller.codex && ctx.caller.kind == TurnKind::Turn {
        shared.tools.keep(&ctx.owner, &session.id, turn.echo.tools);
    }
    let over = turn.compact_from;
    let spare = over.map(|_| routes.clone());
    let mut ways = Ways::new(ctx, config, shared, &session, routes);
    let way = first(&mut ways, &turn)?;
    let id = ctx.id("resp");
    let created_at = ctx.clock.unix();
    let terms = way.terms.clone();
    let is_over = over.is_some_and(|limit| {
        let window = way.route.model.window();
        let room = window.tokens.saturating_sub(window.output_allowance());
        way.terms.estimated_input > limit.min(room)
    });
    let assembler = assembler(&turn, &id, created_at, ctx.caller.codex, terms);
    let source = resolved.unwrap_or(source);
    let job = match spare {
        Some(routes) if is_over => Job::Compaction(Box::new(Compaction {
            door: Door::Threshold,
            history: History {
                config: Arc::clone(config),
                shared: Arc::clone(shared),
                session: session.clone(),
                source,
                routes,
            },
            tools: None,
            id,
            created_at,
            assembler: Some(assembler),
            recent,
        })),
        _ => {
            ways.keep(source);
            Job::Turn(Box::new(Prepared {
                way,
                ways,
                affinity: session.affinity(),
                assembler,
                begun: false,
                recent,
            }))
        }
    };
    Ok(Request {
        job,
        session,
        stream,
    })
}

impl History {
    /// The first choice, named in full.
    pub(super) fn home(&self) -> String {
        self.routes
            .first()
            .map(Route::full_name)
            .unwrap_or_default()
    }

    /// The same history for another purpose, ready to be sent. Nothing of the answer
    /// is kept for references.
    pub(super) fn prepared(&self, ctx: &Ctx, purpose: Purpose) -> Result<Box<Prepared>, Fault> {
        let source = self.source.with_purpose(purpose);
        block_in_place_if_large(source.bytes(), || self.read(ctx, source))
    }

    fn read(&self, ctx: &Ctx, source: Source) -> Result<Box<Prepared>, Fault> {
        let turn = source.turn()?;
        let routes = self.routes.clone();
        let mut ways = Ways::new(ctx, &self.config, &self.shared, &self.session, routes);
        let way = first(&mut ways, &turn)?;
        let (id, now) = (ctx.id("resp"), ctx.clock.unix());
        let assembler = assembler(&turn, &id, now, false, way.terms.clone());
        ways.keep(source);
        Ok(Box::new(Prepared {
            way,
            ways,
            affinity: self.session.affinity(),
            assembler,
            begun: false,
            recent: None,
        }))
    }
}

/// Takes the first way.
fn first(ways: &mut Ways, turn: &Turn<'_>) -> Result<Way, Fault> {
    let mut way = ways.first(turn)?;
    if way.route.found == registry::Found::Default {
        way.notes
            .add("default_model", format!("nobody knows '{}'", turn.model));
    }
    Ok(way)
}

fn assembler(
    turn: &Turn<'_>,
    id: &str,
    created_at: u64,
    codex: bool,
    terms: Terms,
) -> Box<Assembler> {
    Box::new(Assembler::new(Settings {
        envelope: Envelope::new(turn, id, created_at),
        tools: turn.tools.names(),
        known_calls: turn.call_ids(),
        codex,
        terms,
        limit: ANSWER_LIMIT,
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
