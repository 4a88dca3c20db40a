//! From a request body to everything that the engine needs: parse, resolve item references, route,
//! plan and encode. Nothing here waits.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use adapters::fault::Fault;
use adapters::json;
use adapters::responses::assembler::Assembler;
use adapters::responses::event_buffer::EventBuffer;
use adapters::responses::request::{TurnSource, call_not_found};
use adapters::shared_text::SharedText;
use adapters::turn::{Continuation, Turn};

use super::background::ResponseIdentity;
use super::caller::{Session, TurnKind};
use super::compact::{Compaction, CompactionTrigger};
use super::context::TurnContext;
use super::engine::{AnswerParts, Round, Step, ToolLoop};
use super::failover::Failover;
use super::observer::TurnEvent;
use super::prepared::{RoutedHistory, first_attempt, new_assembler, resolve_routes};
use super::shared::SharedState;
use crate::config::Config;
use crate::net::memory::MemoryShare;
use crate::responses::{
    BusyConversation, ConnectionTurn, HistoryBefore, LoadedHistory, StoredTurn,
};

/// The result of a step that may need something from the store.
pub(super) enum Preparation<T> {
    /// It is done.
    Ready(T),
    /// It has to be done again, with this from the store.
    NeedsStored(StoredNeeds),
}

/// What a request needs from the store.
#[derive(Debug, Default)]
pub(super) struct StoredNeeds {
    /// What it continues.
    pub(super) continues: Option<Continuation>,
    /// The ids of items that it refers to.
    pub(super) items: BTreeSet<String>,
    /// The bytes of the items that it refers to, each as often as it is named: so much memory its
    /// copy for a provider may take.
    pub(super) copies: usize,
}

/// What was loaded from the store for a request.
#[derive(Default)]
pub(super) struct LoadedParts {
    /// The history that it continues.
    pub(super) history: Option<LoadedHistory>,
    /// The items that it refers to; `None` if nobody looked for them.
    pub(super) items: Option<HashMap<String, SharedText>>,
    /// The conversation, which no other turn may use meanwhile.
    pub(super) busy: Option<BusyConversation>,
    /// The history, for what continues it on the same connection.
    pub(super) before: Option<HistoryBefore>,
    /// Memory for a copy of the history.
    pub(super) history_copy: Option<MemoryShare>,
    /// Memory for copies of the items, and its bytes.
    pub(super) item_copies: Option<(MemoryShare, usize)>,
}

impl LoadedParts {
    /// The bytes of it all.
    pub(super) fn size(&self) -> usize {
        let history = self.history.as_ref().map_or(0, |it| it.items.len());
        let items = self.items.iter().flat_map(HashMap::values);
        history + items.map(|item| item.len()).sum::<usize>()
    }
}

/// A request with what it refers to. Made by [`resolve`].
struct ResolvedRequest {
    /// The request with its history and items; `None` if it refers to nothing.
    source: Option<TurnSource>,
    /// The items that it refers to, by id.
    items: HashMap<String, SharedText>,
}

/// A client request that was parsed and routed.
pub(super) struct PreparedRequest {
    pub(super) first_step: Step,
    /// What the answer is written with.
    pub(super) parts: AnswerParts,
    pub(super) session: Session,
    /// Whether the client wants events.
    pub(super) stream: bool,
    /// The conversation, for a background answer that is not stored by this turn.
    pub(super) busy: Option<BusyConversation>,
}

/// Prepares a client request. `at_endpoint` is true for `POST /v1/responses/compact`; `loaded` is
/// what an earlier call needed.
pub(super) fn prepare(
    ctx: &TurnContext,
    config: &Arc<Config>,
    shared: &Arc<SharedState>,
    source: &TurnSource,
    at_endpoint: bool,
    loaded: &mut LoadedParts,
) -> Result<Preparation<PreparedRequest>, Fault> {
    let mut turn = source.turn()?;
    let responses = &shared.responses;
    let refusal = if !turn.background {
        None
    } else if at_endpoint {
        Some("A compaction does not run in the background")
    } else if !responses.is_available() && ctx.identity.is_none() {
        Some("Background responses need a store, and this server has none")
    } else {
        None
    };
    if let Some(why) = refusal {
        let message = format!("{why}: send the request without 'background'.");
        return Err(Fault::invalid("background", message).with_code("unsupported_parameter"));
    }
    let own_results = match turn.continues {
        Some(Continuation::Response(_)) => turn.results(),
        Some(Continuation::Conversation(_)) | None => Vec::new(),
    };
    let resolved = match resolve(ctx, config, shared, source, &turn, loaded)? {
        Preparation::Ready(resolved) => resolved,
        Preparation::NeedsStored(needs) => return Ok(Preparation::NeedsStored(needs)),
    };
    let items = resolved.items;
    let source = resolved.source.as_ref().unwrap_or(source);
    if resolved.source.is_some() {
        turn = source.turn()?;
    }
    let mut session = Session::from_turn(&ctx.caller, &ctx.owner, &turn);
    if let Some(history) = &loaded.history {
        session.continue_stored(&history.session);
    }
    let prompt = ctx.caller.prompt(&turn, source.size());
    let memory = &shared.memory;
    let hidden_rounds = memory.hidden_rounds(&ctx.owner, &session.id, || turn.call_ids());
    let proxy_tools = ctx
        .environment
        .tools
        .as_ref()
        .map(|runner| runner.offered(ctx, &turn));
    let proxy_tools = proxy_tools.unwrap_or_default();
    let extended = (!hidden_rounds.is_empty() || !proxy_tools.is_empty()).then(|| {
        let source = source.with_hidden_rounds(hidden_rounds.clone());
        source.with_proxy_tools(proxy_tools.clone())
    });
    if let Some(extended) = &extended {
        turn = extended.turn()?;
    }
    check_results(&turn, &own_results, loaded.history.as_ref())?;
    let routes = resolve_routes(ctx, config, shared, &turn)?;
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
        state.stored = turn.store && responses.is_available();
        state.history.clone_from(&loaded.history);
        state.identity.clone_from(&ctx.identity);
        ctx.observe(TurnEvent::State(Box::new(state)));
    }
    let history = RoutedHistory {
        config: Arc::clone(config),
        shared: Arc::clone(shared),
        source: extended.as_ref().unwrap_or(source).clone(),
        session: session.clone(),
        prompt,
        routes,
    };
    let stored = (turn.store && responses.is_available() && !at_endpoint).then(|| {
        Box::new(StoredTurn {
            responses: responses.clone(),
            owner: Arc::clone(&ctx.owner),
            session: session.id.clone(),
            continues: turn.continues.clone(),
            source: source.clone(),
            busy: loaded.busy.take(),
        })
    });
    let keeps_items = (turn.store && stored.is_none()).then(|| Arc::clone(shared));
    let connection = ctx.connection.as_ref().filter(|_| stored.is_none());
    let connection = connection.map(|responses| {
        Box::new(ConnectionTurn {
            responses: Arc::clone(responses),
            before: loaded.before.take(),
            session: session.id.clone(),
            source: source.clone(),
        })
    });
    let codex = ctx.caller.codex;
    let assembler = |identity: &ResponseIdentity, answer_params| {
        let (id, created_at) = (&identity.id, identity.created_at);
        let mut assembler = new_assembler(&turn, id, created_at, codex, answer_params);
        assembler.set_stored(stored.is_some(), &mut EventBuffer::default());
        if ctx.run.is_some() {
            assembler.continue_queued();
        }
        assembler
    };
    let compaction = |trigger, limit, tools, identity: ResponseIdentity| {
        Box::new(Compaction {
            trigger,
            limit,
            history: history.clone(),
            tools,
            id: identity.id,
            created_at: identity.created_at,
        })
    };
    if let Some(trigger) = trigger {
        let identity = ctx.response_identity();
        let answer_params = Compaction::answer_params(&history.routes);
        return Ok(Preparation::Ready(PreparedRequest {
            parts: AnswerParts {
                assembler: assembler(&identity, answer_params),
                tools: None,
                compaction: None,
                keeps_items,
                stored,
                connection,
            },
            first_step: Step::Summarize(compaction(trigger, None, tools, identity)),
            session,
            stream: turn.stream && trigger != CompactionTrigger::Endpoint,
            busy: loaded.busy.take(),
        }));
    }
    if codex && ctx.caller.kind == TurnKind::Turn {
        memory.keep_tools(&ctx.owner, &session.id, turn.echo.tools);
    }
    let mut failover = Failover::new(ctx, &history);
    let attempt = first_attempt(&mut failover, &turn)?;
    let identity = ctx.response_identity();
    let mut assembler = assembler(&identity, attempt.answer_params.clone());
    let runner = ctx.environment.tools.as_ref();
    let runner = runner.filter(|_| !turn.withheld_tools.is_empty());
    let max_tool_calls = turn.echo.max_tool_calls;
    let max_tool_calls = max_tool_calls.and_then(|raw| raw.get().parse().ok());
    let tools = runner.map(|runner| {
        let runner = Arc::clone(runner);
        Box::new(ToolLoop::new(runner, history.clone(), max_tool_calls))
    });
    let max_input = attempt.route.model.window().max_input();
    let estimate = attempt.answer_params.estimated_input_tokens;
    let is_too_long = || {
        let calibration = memory.calibration(&ctx.owner, &session.id);
        let origin = &attempt.answer_params.origin;
        let likely = calibration.map_or(estimate, |known| known.scale(origin, estimate));
        likely > max_input
    };
    let compaction = turn.compact_threshold.map(|threshold| {
        let limit = Some(threshold.min(max_input)).filter(|limit| estimate <= *limit);
        compaction(CompactionTrigger::Threshold, limit, None, identity)
    });
    // A history that does not fit the window is compacted before its answer, another one after it.
    let (first_step, compaction) = match compaction {
        Some(compaction) if is_too_long() => (Step::Summarize(compaction), None),
        compaction => {
            failover.keep_source(history.source.clone());
            let round = Round::new(attempt, failover, session.affinity());
            (Step::Upstream(Box::new(round)), compaction)
        }
    };
    if compaction.is_some() {
        assembler.hold_end();
    }
    Ok(Preparation::Ready(PreparedRequest {
        first_step,
        parts: AnswerParts {
            assembler,
            tools,
            compaction,
            keeps_items,
            stored,
            connection,
        },
        session,
        stream: turn.stream,
        busy: loaded.busy.take(),
    }))
}

/// Puts what was loaded into a request, or says what has to be loaded first.
fn resolve(
    ctx: &TurnContext,
    config: &Config,
    shared: &SharedState,
    source: &TurnSource,
    turn: &Turn<'_>,
    loaded: &LoadedParts,
) -> Result<Preparation<ResolvedRequest>, Fault> {
    let mut needs = StoredNeeds::default();
    if loaded.history.is_none() {
        needs.continues.clone_from(&turn.continues);
    }
    let references = turn.referenced_ids();
    let mut items = if references.is_empty() {
        HashMap::new()
    } else {
        shared.memory.items(&ctx.owner, references.clone())
    };
    match &loaded.items {
        Some(stored) => items.extend(stored.iter().map(|(id, json)| (id.clone(), json.clone()))),
        None if shared.responses.store().is_some() => {
            let unknown = references.iter().filter(|id| !items.contains_key(*id));
            needs.items = unknown.cloned().collect();
        }
        None => {}
    }
    let copied = loaded.item_copies.as_ref().map_or(0, |(_, bytes)| *bytes);
    needs.copies = size_of_references(&references, &items, config.server.body_limit)?;
    if needs.continues.is_some() || !needs.items.is_empty() || needs.copies > copied {
        return Ok(Preparation::NeedsStored(needs));
    }
    let mut resolved = None;
    if let Some(history) = &loaded.history {
        let source = source.with_history(history.items.clone());
        resolved = Some(source.with_max_message_chars(history.max_message_chars));
    }
    if !items.is_empty() {
        let source = resolved.as_ref().unwrap_or(source);
        resolved = Some(source.with_items(items.clone()));
    }
    Ok(Preparation::Ready(ResolvedRequest {
        source: resolved,
        items,
    }))
}

/// The bytes of the items that a request refers to, each as often as it is named. They are limited
/// like those of a body that has the items itself.
fn size_of_references(
    references: &[String],
    items: &HashMap<String, SharedText>,
    limit: usize,
) -> Result<usize, Fault> {
    let named = references.iter().filter_map(|id| items.get(id));
    let bytes = named.map(|item| item.len()).fold(0, usize::saturating_add);
    if bytes > limit {
        let message = format!(
            "The items that this request refers to have {bytes} bytes, more than the {limit} that body_limit in [server] allows: refer to fewer of them, or to each only once."
        );
        return Err(Fault::invalid("input", message));
    }
    Ok(bytes)
}

/// A request that cannot be prepared, with a stream that says why. `None` if the client did not ask
/// for a stream, as far as its body can be read.
pub(super) fn failed_request(
    ctx: &TurnContext,
    body: &str,
    fault: &Fault,
) -> Option<PreparedRequest> {
    if !json::has_true(body, "stream") && ctx.run.is_none() {
        return None;
    }
    let ResponseIdentity { id, created_at } = ctx.response_identity();
    let mut assembler = Assembler::without_request(&id, created_at, ctx.caller.codex);
    if ctx.run.is_some() {
        assembler.continue_queued();
    }
    Some(PreparedRequest {
        first_step: Step::Failed(fault.clone()),
        parts: AnswerParts {
            assembler: Box::new(assembler),
            tools: None,
            compaction: None,
            keeps_items: None,
            stored: None,
            connection: None,
        },
        session: Session::default(),
        stream: true,
        busy: None,
    })
}

/// Refuses a request that continues a response if it has the result of a call that neither of them
/// has. Such a result in the stored history is repaired, because the client cannot change it any more.
fn check_results(
    turn: &Turn<'_>,
    own_results: &[(usize, String)],
    history: Option<&LoadedHistory>,
) -> Result<(), Fault> {
    if own_results.is_empty() || !history.is_some_and(LoadedHistory::has_all_items) {
        return Ok(());
    }
    let calls = turn.call_ids();
    let unknown = own_results.iter().find(|(_, call)| !calls.contains(call));
    unknown.map_or(Ok(()), |(index, call)| Err(call_not_found(*index, call)))
}

/// Estimates the input tokens of a request, without the caution of the bounds. Nothing is sent or
/// stored.
pub(super) fn estimate_input_tokens(
    ctx: &TurnContext,
    config: &Arc<Config>,
    shared: &Arc<SharedState>,
    source: &TurnSource,
    loaded: &LoadedParts,
) -> Result<Preparation<u64>, Fault> {
    let mut turn = source.turn()?;
    let resolved = match resolve(ctx, config, shared, source, &turn, loaded)? {
        Preparation::Ready(resolved) => resolved.source,
        Preparation::NeedsStored(needs) => return Ok(Preparation::NeedsStored(needs)),
    };
    let source = resolved.as_ref().unwrap_or(source);
    if resolved.is_some() {
        turn = source.turn()?;
    }
    let history = RoutedHistory {
        config: Arc::clone(config),
        shared: Arc::clone(shared),
        source: source.clone(),
        session: Session::from_turn(&ctx.caller, &ctx.owner, &turn),
        prompt: ctx.caller.prompt(&turn, source.size()),
        routes: resolve_routes(ctx, config, shared, &turn)?,
    };
    Failover::estimate_tokens(ctx, &history, &turn).map(Preparation::Ready)
}
