//! From a request body to everything that the engine needs: parse, resolve item references, route,
//! plan and encode. Nothing here waits.

use std::collections::HashMap;
use std::sync::Arc;

use adapters::fault::Fault;
use adapters::responses::assembler::Assembler;
use adapters::responses::request::TurnSource;
use serde::Deserialize;

use super::caller::{Session, TurnKind};
use super::compact::{Compaction, CompactionTrigger};
use super::context::TurnContext;
use super::engine::{AnswerParts, Round, Step, ToolLoop};
use super::failover::{Failover, PreparedAttempt};
use super::observer::TurnEvent;
use super::prepared::{RoutedHistory, first_attempt, new_assembler, resolve_routes};
use super::shared::SharedState;
use crate::config::Config;

/// A client request that was parsed and routed.
pub(super) struct PreparedRequest {
    pub(super) first_step: Step,
    /// What the answer is written with.
    pub(super) parts: AnswerParts,
    pub(super) session: Session,
    /// Whether the client wants events.
    pub(super) stream: bool,
}

/// Prepares a client request. `at_endpoint` is true for `POST /v1/responses/compact`.
pub(super) fn prepare(
    ctx: &TurnContext,
    config: &Arc<Config>,
    shared: &Arc<SharedState>,
    source: &TurnSource,
    at_endpoint: bool,
) -> Result<PreparedRequest, Fault> {
    let mut turn = source.turn()?;
    let references = turn.referenced_ids();
    let items = if references.is_empty() {
        HashMap::new()
    } else {
        shared.memory.items(&ctx.owner, references)
    };
    let resolved = (!items.is_empty()).then(|| source.with_items(items.clone()));
    if let Some(resolved) = &resolved {
        turn = resolved.turn()?;
    }
    let session = Session::from_turn(&ctx.caller, &ctx.owner, &turn);
    let prompt = ctx.caller.prompt(&turn, source.body_len());
    let memory = &shared.memory;
    let hidden_rounds = memory.hidden_rounds(&ctx.owner, &session.id, || turn.call_ids());
    let proxy_tools = ctx
        .environment
        .tools
        .as_ref()
        .map(|runner| runner.offered(ctx, &turn));
    let proxy_tools = proxy_tools.unwrap_or_default();
    let extended = (!hidden_rounds.is_empty() || !proxy_tools.is_empty()).then(|| {
        let source = resolved.as_ref().unwrap_or(source);
        let source = source.with_hidden_rounds(hidden_rounds.clone());
        source.with_proxy_tools(proxy_tools.clone())
    });
    if let Some(extended) = &extended {
        turn = extended.turn()?;
    }
    let routes = resolve_routes(ctx, config, &turn)?;
    let trigger = CompactionTrigger::detect(at_endpoint, &ctx.caller, &turn);
    let tools = (trigger == Some(CompactionTrigger::LocalPrompt))
        .then(|| memory.tools(&ctx.owner, &session.id))
        .flatten();
    if ctx.environment.observer.is_some() {
        let mut state = shared.snapshot(config, &ctx.owner, &session.id, prompt, &routes);
        state.items = items
            .into_iter()
            .map(|(id, json)| (id, json.to_string()))
            .collect();
        state.tools = tools.as_deref().map(str::to_owned);
        state.calibration = (trigger.is_some() || turn.compact_threshold.is_some())
            .then(|| memory.calibration(&ctx.owner, &session.id))
            .flatten();
        state.hidden_rounds = hidden_rounds.iter().map(|one| (**one).clone()).collect();
        state.proxy_tools = proxy_tools;
        ctx.observe(TurnEvent::State(Box::new(state)));
    }
    let history = RoutedHistory {
        config: Arc::clone(config),
        shared: Arc::clone(shared),
        source: extended
            .as_ref()
            .or(resolved.as_ref())
            .unwrap_or(source)
            .clone(),
        session: session.clone(),
        prompt,
        routes,
    };
    let keeps_items = turn.store.then(|| Arc::clone(shared));
    let codex = ctx.caller.codex;
    let compaction = |trigger, tools, id, created_at| {
        Step::Summarize(Box::new(Compaction {
            trigger,
            history: history.clone(),
            tools,
            id,
            created_at,
        }))
    };
    if let Some(trigger) = trigger {
        let (id, created_at) = (ctx.new_id("resp"), ctx.environment.clock.unix());
        let answer_params = Compaction::answer_params(&history.routes);
        return Ok(PreparedRequest {
            parts: AnswerParts {
                assembler: new_assembler(&turn, &id, created_at, codex, answer_params),
                tools: None,
                keeps_items,
            },
            first_step: compaction(trigger, tools, id, created_at),
            session,
            stream: turn.stream && trigger != CompactionTrigger::Endpoint,
        });
    }
    if codex && ctx.caller.kind == TurnKind::Turn {
        memory.keep_tools(&ctx.owner, &session.id, turn.echo.tools);
    }
    let mut failover = Failover::new(ctx, &history);
    let attempt = first_attempt(&mut failover, &turn)?;
    let (id, created_at) = (ctx.new_id("resp"), ctx.environment.clock.unix());
    let answer_params = attempt.answer_params.clone();
    let assembler = new_assembler(&turn, &id, created_at, codex, answer_params);
    let runner = ctx.environment.tools.as_ref();
    let runner = runner.filter(|_| !turn.withheld_tools.is_empty());
    let max_tool_calls = turn.echo.max_tool_calls;
    let max_tool_calls = max_tool_calls.and_then(|raw| raw.get().parse().ok());
    let tools = runner.map(|runner| {
        let runner = Arc::clone(runner);
        Box::new(ToolLoop::new(runner, history.clone(), max_tool_calls))
    });
    let threshold = turn.compact_threshold;
    let first_step = if threshold.is_some_and(|tokens| exceeds_threshold(&attempt, tokens)) {
        compaction(CompactionTrigger::Threshold, None, id, created_at)
    } else {
        failover.keep_source(history.source.clone());
        Step::Upstream(Box::new(Round::new(attempt, failover, session.affinity())))
    };
    Ok(PreparedRequest {
        first_step,
        parts: AnswerParts {
            assembler,
            tools,
            keeps_items,
        },
        session,
        stream: turn.stream,
    })
}

/// A request that cannot be prepared, with a stream that says why. `None` if the client did not ask
/// for a stream, as far as its body can be read.
pub(super) fn failed_request(
    ctx: &TurnContext,
    body: &str,
    fault: &Fault,
) -> Option<PreparedRequest> {
    #[derive(Deserialize)]
    struct Asked {
        #[serde(default)]
        stream: bool,
    }
    let is_streamed = serde_json::from_str::<Asked>(body).is_ok_and(|asked| asked.stream);
    if !is_streamed {
        return None;
    }
    let (id, now) = (ctx.new_id("resp"), ctx.environment.clock.unix());
    let assembler = Assembler::without_request(&id, now, ctx.caller.codex);
    Some(PreparedRequest {
        first_step: Step::Failed(fault.clone()),
        parts: AnswerParts {
            assembler: Box::new(assembler),
            tools: None,
            keeps_items: None,
        },
        session: Session::default(),
        stream: true,
    })
}

/// Whether the request has more tokens than the client's threshold, or than the window holds
/// beside an answer.
fn exceeds_threshold(attempt: &PreparedAttempt, threshold: u64) -> bool {
    let max_input = attempt.route.model.window().max_input();
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
        .then(|| source.with_items(shared.memory.items(&ctx.owner, references)));
    let turn = match &resolved {
        Some(resolved) => resolved.turn()?,
        None => turn,
    };
    let history = RoutedHistory {
        config: Arc::clone(config),
        shared: Arc::clone(shared),
        source: source.clone(),
        session: Session::from_turn(&ctx.caller, &ctx.owner, &turn),
        prompt: ctx.caller.prompt(&turn, source.body_len()),
        routes: resolve_routes(ctx, config, &turn)?,
    };
    Failover::estimate_tokens(ctx, &history, &turn)
}
