//! From a request body to everything that the engine needs: parse, resolve item references, route,
//! plan and encode. Nothing here waits.

use std::collections::HashMap;
use std::sync::Arc;

use adapters::fault::Fault;
use adapters::responses::assembler::Assembler;
use adapters::responses::request::TurnSource;

use super::caller::{Session, TurnKind};
use super::compact::{Compaction, CompactionTrigger};
use super::context::TurnContext;
use super::engine::{Round, Step};
use super::failover::{Failover, PreparedAttempt};
use super::item_cache::ItemCache;
use super::observer::TurnEvent;
use super::prepared::{RoutedHistory, first_attempt, new_assembler, resolve_routes};
use super::shared::SharedState;
use crate::config::Config;

/// A client request that was parsed and routed.
pub(super) struct PreparedRequest {
    pub(super) first_step: Step,
    /// Writes the answer.
    pub(super) assembler: Box<Assembler>,
    /// Where the answer's items are cached, if the client may refer to them by id.
    pub(super) item_cache: Option<Arc<ItemCache>>,
    pub(super) session: Session,
    /// Whether the client wants events.
    pub(super) stream: bool,
}

/// Prepares a client request. `at_endpoint` is true for `POST /v1/responses/compact`.
pub(super) fn prepare(
    ctx: &TurnContext,
    config: &Arc<Config>,
    shared: &Arc<SharedState>,
    source: TurnSource,
    at_endpoint: bool,
) -> Result<PreparedRequest, Fault> {
    let mut turn = source.turn()?;
    let references = turn.referenced_ids();
    let items = if references.is_empty() {
        HashMap::new()
    } else {
        shared.items.find(&ctx.owner, references)
    };
    let resolved = (!items.is_empty()).then(|| source.with_items(items.clone()));
    if let Some(resolved) = &resolved {
        turn = resolved.turn()?;
    }
    let session = Session::from_turn(&ctx.caller, &ctx.owner, &turn);
    let routes = resolve_routes(ctx, config, &turn)?;
    let trigger = CompactionTrigger::detect(at_endpoint, &ctx.caller, &turn);
    let tools = match trigger {
        Some(CompactionTrigger::LocalPrompt) => shared.tools.find(&ctx.owner, &session.id),
        Some(
            CompactionTrigger::Endpoint
            | CompactionTrigger::TriggerItem
            | CompactionTrigger::Threshold,
        )
        | None => None,
    };
    if ctx.observer.is_some() {
        let mut state = shared.snapshot(config, &ctx.owner, &session.id, &routes);
        state.items = items
            .into_iter()
            .map(|(id, json)| (id, json.to_string()))
            .collect();
        state.tools = tools.as_deref().map(str::to_owned);
        state.calibration = (trigger.is_some() || turn.compact_threshold.is_some())
            .then(|| shared.calibrations.find(&ctx.owner, &session.id))
            .flatten();
        ctx.observe(TurnEvent::State(state));
    }
    let (stream, store) = (turn.stream, turn.store);
    let item_cache = store.then(|| Arc::clone(&shared.items));
    if let Some(trigger) = trigger {
        let id = ctx.new_id("resp");
        let created_at = ctx.clock.unix();
        let answer_params = Compaction::answer_params(&routes);
        let codex = ctx.caller.codex;
        let assembler = new_assembler(&turn, &id, created_at, codex, answer_params);
        let compaction = Compaction {
            trigger,
            history: RoutedHistory {
                config: Arc::clone(config),
                shared: Arc::clone(shared),
                session: session.clone(),
                source: resolved.unwrap_or(source),
                routes,
            },
            tools,
            id,
            created_at,
        };
        return Ok(PreparedRequest {
            first_step: Step::Summarize(Box::new(compaction)),
            assembler,
            item_cache,
            session,
            stream: stream && trigger != CompactionTrigger::Endpoint,
        });
    }
    if ctx.caller.codex && ctx.caller.kind == TurnKind::Turn {
        shared.tools.keep(&ctx.owner, &session.id, turn.echo.tools);
    }
    let threshold = turn.compact_threshold;
    let compaction_routes = threshold.map(|_| routes.clone());
    let mut failover = Failover::new(ctx, config, shared, &session, routes);
    let attempt = first_attempt(&mut failover, &turn)?;
    let id = ctx.new_id("resp");
    let created_at = ctx.clock.unix();
    let answer_params = attempt.answer_params.clone();
    let exceeds = threshold.is_some_and(|tokens| exceeds_threshold(&attempt, tokens));
    let assembler = new_assembler(&turn, &id, created_at, ctx.caller.codex, answer_params);
    let source = resolved.unwrap_or(source);
    let first_step = match compaction_routes {
        Some(routes) if exceeds => Step::Summarize(Box::new(Compaction {
            trigger: CompactionTrigger::Threshold,
            history: RoutedHistory {
                config: Arc::clone(config),
                shared: Arc::clone(shared),
                session: session.clone(),
                source,
                routes,
            },
            tools: None,
            id,
            created_at,
        })),
        _ => {
            failover.keep_source(source);
            Step::Upstream(Box::new(Round::new(attempt, failover, session.affinity())))
        }
    };
    Ok(PreparedRequest {
        first_step,
        assembler,
        item_cache,
        session,
        stream,
    })
}

/// Whether the request has more tokens than the client's threshold, or than the window holds
/// beside an answer.
fn exceeds_threshold(attempt: &PreparedAttempt, threshold: u64) -> bool {
    let window = attempt.route.model.window();
    let max_input = window.tokens.saturating_sub(window.output_allowance());
    attempt.answer_params.estimated_input_tokens > threshold.min(max_input)
}

/// Estimates the input tokens of a request. Nothing is sent or stored.
pub(super) fn estimate_input_tokens(
    ctx: &TurnContext,
    config: &Arc<Config>,
    shared: &Arc<SharedState>,
    source: &TurnSource,
) -> Result<u64, Fault> {
    let turn = source.turn()?;
    let references = turn.referenced_ids();
    let resolved = (!references.is_empty())
        .then(|| source.with_items(shared.items.find(&ctx.owner, references)));
    let turn = match &resolved {
        Some(resolved) => resolved.turn()?,
        None => turn,
    };
    let session = Session::from_turn(&ctx.caller, &ctx.owner, &turn);
    let routes = resolve_routes(ctx, config, &turn)?;
    Failover::estimate_tokens(ctx, config, shared, &session, routes, &turn)
}
