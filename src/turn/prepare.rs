//! From a parsed request to everything that the engine needs: route, plan and encode. Nothing here
//! waits.

use std::sync::Arc;

use adapters::fault::Fault;
use adapters::hidden_rounds::{HiddenRounds, anchors_of};
use adapters::json;
use adapters::responses::assembler::{AnswerParams, Assembler, AssemblerSettings, HostedItem};
use adapters::responses::event_buffer::EventBuffer;
use adapters::responses::request::{TurnSource, call_not_found};
use adapters::tools::ProxyTool;
use adapters::turn::Turn;
use adapters::wire;
use adapters::workflow::{StateDetail, WorkflowRun};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::background::{BackgroundJob, ResponseIdentity};
use super::caller::{Session, TurnKind};
use super::compact::{Compaction, CompactionTrigger};
use super::context::TurnContext;
use super::engine::{AnswerParts, ApprovedCalls, Round, Step, ToolLoop};
use super::failover::Failover;
use super::observer::TurnEvent;
use super::prepared::{first_attempt, resolve_routes};
use super::received::LoadedParts;
use super::routed_history::RoutedHistory;
use super::shared::SharedState;
use super::tool_runner::McpTools;
use super::workflow::WorkflowStep;
use crate::config::{ClientToolMode, Config};
use crate::responses::{BusyConversation, ConnectionTurn, LoadedHistory, StoredTurn};
use crate::store::ToolRecord;

/// What a request is prepared for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PreparedFor {
    /// A turn that runs now.
    Turn,
    /// `POST /v1/responses/compact`.
    CompactEndpoint,
    /// A job that waits in the queue. It is planned when it begins.
    Queue,
}

/// A request that was parsed, with what it refers to.
pub(super) struct ParsedRequest<'t> {
    pub(super) ctx: &'t TurnContext,
    pub(super) config: &'t Arc<Config>,
    pub(super) shared: &'t Arc<SharedState>,
    pub(super) source: &'t TurnSource,
    pub(super) turn: Turn<'t>,
    /// The results of calls in its own items: index and call id.
    pub(super) own_results: Vec<(usize, String)>,
    pub(super) loaded: LoadedParts,
}

/// A client request that was parsed and routed.
pub(super) struct PreparedRequest {
    pub(super) first_step: Step,
    /// What the answer is written with.
    pub(super) parts: AnswerParts,
    pub(super) session: Session,
    /// Whether the client wants events.
    pub(super) stream: bool,
    /// The conversation, for a background response that is not stored by this turn.
    pub(super) busy: Option<BusyConversation>,
}

/// Prepares a client request.
pub(super) fn prepare(
    parsed: ParsedRequest<'_>,
    purpose: PreparedFor,
) -> Result<PreparedRequest, Fault> {
    let ParsedRequest {
        ctx,
        config,
        shared,
        source,
        mut turn,
        own_results,
        mut loaded,
    } = parsed;
    let mut session = Session::from_turn(&ctx.caller, &ctx.owner, &turn);
    if let Some(history) = &loaded.history {
        session.continue_stored(&history.session);
    }
    let prompt = ctx.caller.prompt(&turn, source.size());
    let added = AddedByProxy::new(ctx, shared, &session, &turn);
    let extended = added.extend(source);
    if let Some(extended) = &extended {
        turn = extended.turn()?;
    }
    check_results(&turn, &own_results, loaded.history.as_ref())?;
    let routes = resolve_routes(ctx, config, shared, &turn)?;
    let at_endpoint = purpose == PreparedFor::CompactEndpoint;
    let trigger = CompactionTrigger::detect(at_endpoint, &ctx.caller, &turn);
    let tools = (trigger == Some(CompactionTrigger::LocalPrompt))
        .then(|| shared.memory.tools(&ctx.owner, &session.id))
        .flatten();
    let history = RoutedHistory {
        config: Arc::clone(config),
        shared: Arc::clone(shared),
        source: extended.as_ref().unwrap_or(source).clone(),
        session: session.clone(),
        prompt,
        routes,
    };
    let has_store = turn.store && shared.responses.is_available();
    let routed = RoutedTurn {
        ctx,
        turn: &turn,
        history,
        mcp: loaded.mcp.take(),
        is_stored: has_store && !at_endpoint,
    };
    if ctx.environment.observer.is_some() {
        routed.observe_state(&loaded, &added, tools.as_deref(), trigger);
    }
    let stored = routed.is_stored.then(|| {
        Box::new(StoredTurn {
            responses: shared.responses.clone(),
            request_id: Arc::clone(&ctx.request_id),
            owner: Arc::clone(&ctx.owner),
            session: session.id.clone(),
            continues: turn.continues.clone(),
            source: source.clone(),
            busy: loaded.busy.take(),
            began: Instant::now(),
            tools: ToolRecord::after(ctx.written_tool_places()),
            keeps_shown: wants_shown_sources(turn.echo.metadata),
            paused: None,
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
    if trigger.is_none() && ctx.caller.codex && ctx.caller.kind == TurnKind::Turn {
        let memory = &shared.memory;
        memory.keep_tools(&ctx.owner, &session.id, turn.echo.tools);
    }
    let first = match (purpose, trigger) {
        (PreparedFor::Queue, _) => routed.queued()?,
        (PreparedFor::Turn, _) if let Some(run) = WorkflowRun::read(source.body()) => {
            routed.workflow(run)?
        }
        (PreparedFor::Turn | PreparedFor::CompactEndpoint, Some(trigger)) => {
            routed.summary(trigger, tools)
        }
        (PreparedFor::Turn | PreparedFor::CompactEndpoint, None) => routed.answer()?,
    };
    Ok(PreparedRequest {
        first_step: first.step,
        parts: AnswerParts {
            assembler: first.assembler,
            tools: first.tools,
            compaction: first.compaction,
            keeps_items,
            stored,
            connection,
        },
        session,
        stream: turn.stream && trigger != Some(CompactionTrigger::Endpoint),
        busy: loaded.busy.take(),
    })
}

/// What the proxy adds to a request: rounds that the client did not see, and its own tools.
struct AddedByProxy {
    rounds: Vec<Arc<HiddenRounds>>,
    tools: Vec<ProxyTool>,
}

impl AddedByProxy {
    fn new(ctx: &TurnContext, shared: &SharedState, session: &Session, turn: &Turn<'_>) -> Self {
        let runner = ctx.environment.tools.as_ref();
        Self {
            rounds: shared
                .memory
                .hidden_rounds(&ctx.owner, &session.id, || anchors_of(turn)),
            tools: runner.map_or_else(Vec::new, |runner| runner.offered(ctx, turn)),
        }
    }

    /// The request with all of it; `None` if there is nothing.
    fn extend(&self, source: &TurnSource) -> Option<TurnSource> {
        if self.rounds.is_empty() && self.tools.is_empty() {
            return None;
        }
        let source = source.with_hidden_rounds(self.rounds.clone());
        Some(source.with_proxy_tools(self.tools.clone()))
    }
}

/// Whether the metadata of a request ask that what the model sees of each source is kept.
fn wants_shown_sources(metadata: Option<&RawValue>) -> bool {
    #[derive(Deserialize)]
    struct DebugMetadata {
        debug_sources: Option<String>,
    }
    let metadata = metadata.and_then(|raw| serde_json::from_str(raw.get()).ok());
    metadata.is_some_and(|it: DebugMetadata| it.debug_sources.as_deref() == Some("true"))
}

/// A turn that was routed. Made by [`prepare`] to choose its first step.
struct RoutedTurn<'t> {
    ctx: &'t TurnContext,
    turn: &'t Turn<'t>,
    history: RoutedHistory,
    /// The tools of its MCP servers, if the proxy connects to them.
    mcp: Option<McpTools>,
    is_stored: bool,
}

/// The first step of an answer, and what goes with it.
struct FirstStep {
    step: Step,
    assembler: Box<Assembler>,
    tools: Option<Box<ToolLoop>>,
    /// The compaction that may follow the answer.
    compaction: Option<Box<Compaction>>,
}

impl RoutedTurn<'_> {
    /// Tells the observer with which state the turn begins.
    fn observe_state(
        &self,
        loaded: &LoadedParts,
        added: &AddedByProxy,
        tools: Option<&str>,
        trigger: Option<CompactionTrigger>,
    ) {
        let (ctx, turn) = (self.ctx, self.turn);
        let RoutedHistory {
            config,
            shared,
            session,
            prompt,
            routes,
            ..
        } = &self.history;
        let has_history = turn.has_history();
        let mut state = shared.snapshot(
            config,
            &ctx.owner,
            &session.id,
            *prompt,
            routes,
            has_history,
        );
        let items = loaded.items.iter();
        state.items = items
            .map(|(id, json)| (id.clone(), json.to_string()))
            .collect();
        state.tools = tools.map(str::to_owned);
        state.calibration = (trigger.is_some() || turn.compact_threshold.is_some())
            .then(|| shared.memory.calibration(&ctx.owner, &session.id))
            .flatten();
        state.hidden_rounds = added.rounds.iter().map(|one| (**one).clone()).collect();
        state.proxy_tools = self.history.source.proxy_tools().to_vec();
        state.mcp = self.mcp.as_ref().map(|mcp| (*mcp.listing).clone());
        let texts = loaded.image_texts.as_deref();
        state.image_texts = texts.cloned().unwrap_or_default();
        state.tool_limits = config.tools;
        state.client_tools = config.jobs.client_tools;
        state.stored = turn.store && shared.responses.is_available();
        state.history.clone_from(&loaded.history);
        state.identity.clone_from(&ctx.identity);
        ctx.observe(TurnEvent::State(Box::new(state)));
    }

    /// The response of a job that waits, which asks no provider yet.
    fn queued(self) -> Result<FirstStep, Fault> {
        self.turn.check_items()?;
        let first_choice = self.history.routes.first();
        let relayed = first_choice
            .map(|route| wire::relayed_tools(&route.dialect.quirks, self.turn, &route.model));
        let params = AnswerParams {
            relayed_tools: relayed.unwrap_or_default(),
            ..Compaction::answer_params(&self.history.routes)
        };
        let mut assembler = self.assembler(&self.ctx.response_identity(), params);
        if let Some(run) = WorkflowRun::read(self.history.source.body()) {
            self.check_workflow(&run)?;
            assembler.set_workflow_state(&run.snapshot().state(StateDetail::Brief));
        }
        Ok(FirstStep {
            assembler,
            step: Step::Nothing,
            tools: None,
            compaction: None,
        })
    }

    /// The run of a workflow, which may have begun in an earlier response or an earlier process.
    fn workflow(mut self, mut run: WorkflowRun) -> Result<FirstStep, Fault> {
        self.check_workflow(&run)?;
        self.history.source.remove_artifact_tools();
        let identity = self.ctx.response_identity();
        let params = Compaction::answer_params(&self.history.routes);
        let mut assembler = self.assembler(&identity, params);
        assembler.withhold_only(|name| !self.turn.tools.reads_artifacts(name));
        assembler.hold_every_end();
        let job = self.ctx.job.as_ref();
        let resumed = job.and_then(BackgroundJob::take_resumed);
        if let Some(resumed) = &resumed {
            resumed.apply(&mut run);
            assembler.resume(resumed.sequence, resumed.items.clone());
        } else {
            assembler.set_servers(self.unseen_servers());
        }
        // Nobody waits for calls of functions that the workflow does not have.
        let mut tools = self.tool_loop(true);
        if let Some(tools) = &mut tools {
            tools.refuses_client_tools = true;
            assembler.withhold_servers(tools.servers.iter().map(String::as_str));
            assembler.withhold_functions();
        }
        let workflow = WorkflowStep::new(run, self.history, resumed.as_ref());
        Ok(FirstStep {
            step: Step::Workflow(Box::new(workflow)),
            assembler,
            tools,
            compaction: None,
        })
    }

    /// Refuses a workflow that cannot run to its end.
    fn check_workflow(&self, run: &WorkflowRun) -> Result<(), Fault> {
        let id = &run.id;
        if run.definition.asks_a_person() && !self.is_stored {
            let message = format!(
                "The workflow '{id}' asks a person, and goes on with a later request: its response must be stored, so leave 'store' out, on a server that stores responses."
            );
            return Err(Fault::invalid("store", message));
        }
        let tools = self.ctx.environment.tools.as_ref();
        let has_search = tools.is_some_and(|tools| tools.searches_the_web());
        if run.definition.uses_the_web() && !has_search {
            let message = format!(
                "The workflow '{id}' searches the web, and this server does not: set up [search] in its configuration."
            );
            return Err(Fault::invalid("prompt.id", message));
        }
        Ok(())
    }

    /// A summary, which the request asks for.
    fn summary(self, trigger: CompactionTrigger, tools: Option<Arc<str>>) -> FirstStep {
        let identity = self.ctx.response_identity();
        let params = Compaction::answer_params(&self.history.routes);
        FirstStep {
            assembler: self.assembler(&identity, params),
            step: Step::Summarize(self.compaction(trigger, None, tools, identity)),
            tools: None,
            compaction: None,
        }
    }

    /// An answer. A history that does not fit the window is compacted before it; one that is beyond
    /// the threshold of the request, after it.
    fn answer(mut self) -> Result<FirstStep, Fault> {
        let (ctx, turn) = (self.ctx, self.turn);
        let mut failover = Failover::new(ctx, &self.history);
        let attempt = first_attempt(&mut failover, turn)?;
        let identity = ctx.response_identity();
        let mut assembler = self.assembler(&identity, attempt.answer_params.clone());
        let max_input = attempt.route.model.window().max_input();
        let estimate = attempt.answer_params.estimated_input_tokens;
        let is_too_long = || {
            let memory = &self.history.shared.memory;
            let calibration = memory.calibration(&ctx.owner, &self.history.session.id);
            let origin = &attempt.answer_params.origin;
            let likely = calibration.map_or(estimate, |known| known.scale(origin, estimate));
            likely > max_input
        };
        let summarizes = turn.compact_threshold.is_some() && is_too_long();
        // A further round begins with the bytes of this one, so it has the same tools.
        let keeps_artifact_tools = attempt.has_artifact_tools || summarizes;
        if !keeps_artifact_tools {
            self.history.source.remove_artifact_tools();
            assembler.withhold_only(|name| !turn.tools.reads_artifacts(name));
        }
        let compaction = turn.compact_threshold.map(|threshold| {
            let limit = Some(threshold.min(max_input)).filter(|limit| estimate <= *limit);
            self.compaction(CompactionTrigger::Threshold, limit, None, identity)
        });
        let has_tools = attempt.has_proxy_tools || (summarizes && !turn.withheld_tools.is_empty());
        let (approved, refused) = (turn.approved_calls()?, turn.refused_calls());
        let decided = !(approved.is_empty() && refused.is_empty());
        let tools = self.tool_loop(has_tools || decided);
        if let Some(tools) = &tools {
            // Without its tools the answer could not go on after such calls.
            assembler.withhold_servers(tools.servers.iter().map(String::as_str));
            if tools.refuses_client_tools {
                assembler.withhold_functions();
            }
        }
        let (step, compaction) = match compaction {
            Some(compaction) if summarizes => (Step::Summarize(compaction), None),
            compaction => {
                failover.keep_source(self.history.source.clone());
                let round = Round::new(attempt, failover, self.history.session.affinity());
                (Step::Upstream(Box::new(round)), compaction)
            }
        };
        if compaction.is_some() {
            assembler.hold_end();
        }
        assembler.set_servers(self.unseen_servers());
        let step = match &tools {
            Some(_) => ApprovedCalls::before(approved, refused, step),
            None => step,
        };
        Ok(FirstStep {
            step,
            assembler,
            tools,
            compaction,
        })
    }

    /// The tools of the answer, if it has any.
    fn tool_loop(&self, has_tools: bool) -> Option<Box<ToolLoop>> {
        let (ctx, turn) = (self.ctx, self.turn);
        let servers = self.mcp.iter().flat_map(|mcp| &mcp.listing.servers);
        let servers: Vec<String> = servers.map(|server| server.label.clone()).collect();
        let mode = self.history.config.jobs.client_tools;
        let refuses_client_tools = ctx.job.is_some() && mode == ClientToolMode::Error;
        let is_needed = has_tools || refuses_client_tools || !servers.is_empty();
        let runner = ctx.environment.tools.as_ref().filter(|_| is_needed)?;
        let max_calls = turn.echo.max_tool_calls;
        let max_calls = max_calls.and_then(|raw| raw.get().parse().ok());
        let of_servers = self.mcp.as_ref().and_then(|mcp| mcp.tools.clone());
        let session = &self.history.session.id;
        let tools = runner.begin_with(ctx, turn, session, of_servers);
        let history = self.history.clone();
        let mut tools = ToolLoop::new(tools, &ctx.owner, history, max_calls);
        tools.servers = servers;
        tools.refuses_client_tools = refuses_client_tools;
        Some(Box::new(tools))
    }

    /// The MCP servers whose tools the client has not seen in this conversation.
    fn unseen_servers(&self) -> Vec<HostedItem> {
        let servers = self.mcp.iter().flat_map(|mcp| &mcp.listing.servers);
        let unseen = servers.filter(|server| !self.turn.shows_mcp_server(&server.label));
        unseen.map(HostedItem::of_server).collect()
    }

    fn assembler(&self, identity: &ResponseIdentity, params: AnswerParams) -> Box<Assembler> {
        let (id, created_at) = (&identity.id, identity.created_at);
        let codex = self.ctx.caller.codex;
        let settings = AssemblerSettings::for_turn(self.turn, codex, params);
        let mut assembler = Box::new(Assembler::for_turn(self.turn, id, created_at, settings));
        assembler.set_stored(self.is_stored, &mut EventBuffer::default());
        if self.ctx.job.is_some() {
            assembler.continue_queued();
        }
        assembler
    }

    fn compaction(
        &self,
        trigger: CompactionTrigger,
        limit: Option<u64>,
        tools: Option<Arc<str>>,
        identity: ResponseIdentity,
    ) -> Box<Compaction> {
        Box::new(Compaction {
            trigger,
            limit,
            history: self.history.clone(),
            tools,
            id: identity.id,
            created_at: identity.created_at,
        })
    }
}

/// Refuses a request for a background response that cannot run in the background.
pub(super) fn check_background(
    ctx: &TurnContext,
    shared: &SharedState,
    turn: &Turn<'_>,
    purpose: PreparedFor,
) -> Result<(), Fault> {
    let why = if !turn.background {
        return Ok(());
    } else if purpose == PreparedFor::CompactEndpoint {
        "A compaction does not run in the background"
    } else if !shared.responses.is_available() && ctx.identity.is_none() {
        "Background responses need a store, and this server has none"
    } else {
        return Ok(());
    };
    let message = format!("{why}: send the request without 'background'.");
    Err(Fault::invalid("background", message).with_code("unsupported_parameter"))
}

/// A request that cannot be prepared, with a stream that says why. `None` if the readable part of
/// the body does not ask for a stream.
pub(super) fn failed_request(
    ctx: &TurnContext,
    body: &str,
    fault: &Fault,
) -> Option<PreparedRequest> {
    if !json::has_true(body, "stream") && ctx.job.is_none() {
        return None;
    }
    let ResponseIdentity { id, created_at } = ctx.response_identity();
    let codex = ctx.caller.codex;
    let assembler = match &ctx.job {
        Some(job) => job_assembler(job, body, &id, created_at, codex),
        None => Assembler::without_request(&id, created_at, codex),
    };
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

/// An assembler that can only fail the response of a job, which repeats its request and has what an
/// earlier process has done.
fn job_assembler(
    job: &BackgroundJob,
    body: &str,
    id: &str,
    created_at: u64,
    codex: bool,
) -> Assembler {
    let source = TurnSource::new(body.to_owned());
    let mut assembler = match source.read() {
        Ok(turn) => {
            let settings = AssemblerSettings::for_turn(&turn, codex, AnswerParams::default());
            Assembler::for_turn(&turn, id, created_at, settings)
        }
        Err(_) => Assembler::without_request(id, created_at, codex),
    };
    assembler.set_stored(true, &mut EventBuffer::default());
    let resumed = job.take_resumed();
    if let Some(mut run) = WorkflowRun::read(body) {
        if let Some(resumed) = &resumed {
            resumed.apply(&mut run);
        }
        assembler.set_workflow_state(&run.snapshot().state(StateDetail::Final));
    }
    match resumed {
        Some(resumed) => assembler.resume(resumed.sequence, resumed.items),
        None => assembler.continue_queued(),
    }
    assembler
}

/// Refuses a request that continues a response if it has the result of a call that neither of them
/// has. Such a result in the stored history is repaired, because the client cannot change it any
/// more.
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
pub(super) fn estimate_input_tokens(parsed: &ParsedRequest<'_>) -> Result<u64, Fault> {
    let ParsedRequest {
        ctx,
        config,
        shared,
        source,
        turn,
        ..
    } = parsed;
    let history = RoutedHistory {
        config: Arc::clone(config),
        shared: Arc::clone(shared),
        source: (*source).clone(),
        session: Session::from_turn(&ctx.caller, &ctx.owner, turn),
        prompt: ctx.caller.prompt(turn, source.size()),
        routes: resolve_routes(ctx, config, shared, turn)?,
    };
    Failover::estimate_tokens(ctx, &history, turn)
}
