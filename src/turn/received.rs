//! A request with its body and its context, before it is parsed. It runs a turn, waits for a job in
//! the background, or only has its tokens counted.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use adapters::fault::Fault;
use adapters::image_texts::ImageTexts;
use adapters::responses::request::TurnSource;
use adapters::shared_text::SharedText;
use adapters::stop_flag::{StopFlag, StopReason};
use adapters::tools::{McpDefinition, ProxyTool};
use adapters::turn::{Continuation, Turn};
use adapters::workflow::WorkflowRun;
use axum::body::Body;
use http::Response;

use super::caller::Session;
use super::context::{TurnContext, TurnEnvironment};
use super::mcp_request::begin_mcp;
use super::observer::TurnEvent;
use super::owner_limits::OwnerSlot;
use super::prepare::{
    ParsedRequest, PreparedFor, PreparedRequest, check_background, estimate_input_tokens,
    failed_request, prepare,
};
use super::record::redact;
use super::reply::ReplyBuilder;
use super::request::{TurnEndpoint, TurnRequest};
use super::response_headers::ResponseHeaders;
use super::service::Service;
use super::tool_runner::McpTools;
use super::turn_memory::ReceivedBody;
use crate::config::Config;
use crate::net::blocking::is_handed_over;
use crate::net::memory::{MemoryKind, MemoryShare};
use crate::responses::{BusyConversation, HistoryBefore, LoadedHistory, memory_fault};

/// The code of the fault of a request that continues an unknown response.
const NOT_FOUND: &str = "previous_response_not_found";

/// A request that was received. Made for each one; it ends when the turn begins, when the request
/// is queued, or when it was counted.
pub(super) struct ReceivedRequest {
    pub(super) service: Arc<Service>,
    pub(super) config: Arc<Config>,
    pub(super) request: TurnRequest,
    pub(super) ctx: TurnContext,
    /// The body, with the template that it names filled in.
    pub(super) body: Arc<String>,
    /// The memory of the body.
    pub(super) memory: MemoryShare,
    pub(super) reply: ReplyBuilder,
    /// Whether its template could be filled in, and the secrets for its MCP servers be read.
    filled: Result<(), Fault>,
}

impl ReceivedRequest {
    /// Fills in the template, or the workflow, that the request names. `ctx` is the context of its
    /// turn, and `continued` says whether the body has a workflow already that it goes on with.
    pub(super) fn new(
        service: &Arc<Service>,
        config: Arc<Config>,
        request: TurnRequest,
        mut ctx: TurnContext,
        mut body: ReceivedBody,
        continued: Result<bool, Fault>,
    ) -> Self {
        let filled = continued
            .and_then(|is_filled_in| fill_in_prompt(&mut ctx, &config, &mut body, is_filled_in));
        let filled = filled.and_then(|()| begin_mcp(&mut ctx, &config, &mut body));
        let reply = ReplyBuilder {
            codex: ctx.caller.codex,
            headers: ResponseHeaders::default(),
            observer: ctx.environment.observer.clone(),
        };
        Self {
            service: Arc::clone(service),
            config,
            request,
            ctx,
            body: Arc::new(body.text),
            memory: body.memory,
            reply,
            filled,
        }
    }

    /// The same for a request that runs no turn, which nobody observes.
    pub(super) fn without_turn(
        service: &Arc<Service>,
        config: Arc<Config>,
        request: TurnRequest,
        body: ReceivedBody,
        continued: Result<bool, Fault>,
    ) -> Self {
        let environment = TurnEnvironment {
            tools: service.environments.tools(),
            ..TurnEnvironment::default()
        };
        let ctx = service.context_with(&request, &config, environment);
        Self::new(service, config, request, ctx, body, continued)
    }

    /// Refuses a request whose template cannot be filled in, or whose owner has used up a limit of
    /// the day.
    pub(super) fn check(&self) -> Result<(), Fault> {
        self.filled.clone()?;
        self.service.check_day(&self.ctx.owner, &self.config)
    }

    /// Lets its turn begin, within the limits of its owner.
    pub(super) fn admit(&self) -> Result<Option<OwnerSlot>, Fault> {
        // A turn in the background is counted by its queue.
        if self.ctx.job.is_some() || self.request.is_part_of_turn {
            return self.check().map(|()| None);
        }
        self.filled.clone()?;
        self.service.admit(&self.ctx.owner, &self.config).map(Some)
    }

    /// Prepares its turn, with what it refers to.
    pub(super) async fn prepare(&self, purpose: PreparedFor) -> Result<PreparedRequest, Fault> {
        let (ctx, shared) = (&self.ctx, &self.service.shared);
        let source = self.source();
        let read = ctx.run_work(source.size(), || {
            let read = source.read()?;
            check_background(ctx, shared, &read, purpose)?;
            read.check_approvals()?;
            Ok(read)
        });
        let read = read?;
        let begins_turn = purpose != PreparedFor::CompactEndpoint;
        let mcp = self.list_mcp(&read, purpose).await?;
        let mut loaded = self.load(&read, begins_turn).await?;
        loaded.mcp = mcp;
        let texts = self.image_texts(&source, &read, &loaded, purpose).await;
        loaded.image_texts = texts.map(Arc::new);
        self.parsed(&source, read, loaded, |parsed| prepare(parsed, purpose))
    }

    /// Estimates its input tokens.
    pub(super) async fn estimate_tokens(&self) -> Result<u64, Fault> {
        self.filled.clone()?;
        let source = self.source();
        let read = self.ctx.run_work(source.size(), || source.read())?;
        let mut loaded = self.load(&read, false).await?;
        loaded.mcp = self.ctx.mcp.is_some().then(McpTools::default);
        self.parsed(&source, read, loaded, |parsed| {
            estimate_input_tokens(&parsed)
        })
    }

    /// Asks the MCP servers of a request for their tools, if its turn begins now and the proxy
    /// connects to them.
    async fn list_mcp(
        &self,
        read: &Turn<'_>,
        purpose: PreparedFor,
    ) -> Result<Option<McpTools>, Fault> {
        let ctx = &self.ctx;
        let runner = ctx.environment.tools.as_ref();
        let Some(runner) = runner.filter(|_| ctx.mcp.is_some()) else {
            return Ok(None);
        };
        let servers = McpDefinition::read_all(read.echo.tools)?;
        runner.check_mcp(&servers)?;
        Ok(Some(match purpose {
            PreparedFor::Turn => runner.list_mcp(ctx, servers).await?,
            PreparedFor::CompactEndpoint | PreparedFor::Queue => McpTools::default(),
        }))
    }

    /// Completes a body that was read with what was loaded for it, and goes on with that.
    fn parsed<'r, T>(
        &'r self,
        source: &'r TurnSource,
        read: Turn<'r>,
        loaded: LoadedParts,
        go_on: impl FnOnce(ParsedRequest<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let own_results = match read.continues {
            Some(Continuation::Response(_)) => read.results(),
            Some(Continuation::Conversation(_)) | None => Vec::new(),
        };
        let bytes = source.size().saturating_add(loaded.size());
        let source = loaded.complete(source.clone());
        self.ctx.run_work(bytes, || {
            go_on(ParsedRequest {
                ctx: &self.ctx,
                config: &self.config,
                shared: &self.service.shared,
                turn: source.complete(read)?,
                source: &source,
                own_results,
                loaded,
            })
        })
    }

    /// The answer to a request that cannot be prepared, if its client gets the fault in a stream.
    pub(super) async fn streamed_failure(&self, fault: &Fault) -> Option<PreparedRequest> {
        let ctx = &self.ctx;
        match ctx.stop.reason() {
            // The connection drops this future.
            Some(StopReason::ClientLeft) => std::future::pending().await,
            Some(StopReason::ShuttingDown) => ctx.observe(TurnEvent::ShuttingDown),
            Some(StopReason::TurnTimeout) | None => {}
        }
        // A client sends everything again if it learns this as an error.
        let is_forgotten = ctx.connection.is_some() && fault.code() == Some(NOT_FOUND);
        let is_streamed = fault.is_reported_in_stream(ctx.caller.codex)
            && self.request.endpoint != TurnEndpoint::Compact
            && !is_forgotten;
        if is_streamed || ctx.job.is_some() {
            failed_request(ctx, &self.body, fault)
        } else {
            None
        }
    }

    /// The body as the source of a turn, without what it refers to.
    fn source(&self) -> TurnSource {
        let source = TurnSource::from_shared(Arc::clone(&self.body))
            .with_stop_flag(self.ctx.stop.clone())
            .with_least_effort(self.ctx.caller.brief)
            .with_proxy_tools(fixed_tools(&self.ctx));
        let has_prompts = !self.config.prompts.is_empty() || self.runs_workflow();
        if !has_prompts && !is_filled_in(&self.ctx, &self.config) {
            source.without_templates()
        } else {
            source
        }
    }

    /// Whether it runs a workflow.
    fn runs_workflow(&self) -> bool {
        WorkflowRun::read(&self.body).is_some()
    }

    /// Loads what a request refers to: the history that it continues, and items. `turn` is its body
    /// alone. With `begins_turn` its conversation is reserved for it.
    async fn load(&self, turn: &Turn<'_>, begins_turn: bool) -> Result<LoadedParts, Fault> {
        let mut loaded = LoadedParts::default();
        if let Some(continues) = &turn.continues {
            self.load_history(continues, begins_turn, &mut loaded)
                .await?;
        }
        self.load_hidden_rounds(turn, loaded.history.as_ref()).await;
        let references = turn.referenced_ids();
        if references.is_empty() {
            return Ok(loaded);
        }
        let (ctx, shared) = (&self.ctx, &self.service.shared);
        let mut items = shared.memory.items(&ctx.owner, references.clone());
        if shared.responses.store().is_some() {
            let unknown = references.iter().filter(|id| !items.contains_key(*id));
            let unknown: BTreeSet<String> = unknown.cloned().collect();
            if !unknown.is_empty() {
                items.extend(shared.responses.items(&ctx.owner, unknown).await?);
            }
        }
        let copies = size_of_references(&references, &items, self.config.server.body_limit)?;
        if copies > 0 {
            let mut share = self.memory.memory().share(MemoryKind::Requests);
            let granted = share.request(copies).await;
            granted.map_err(|full| memory_fault(&full))?;
            loaded.item_copies = Some(share);
        }
        loaded.items = items;
        Ok(loaded)
    }

    /// Reads what the client did not see of the answers of its session, if only the store has it.
    async fn load_hidden_rounds(&self, turn: &Turn<'_>, history: Option<&LoadedHistory>) {
        let (ctx, shared) = (&self.ctx, &self.service.shared);
        if shared.rounds.has_any() {
            let mut session = Session::from_turn(&ctx.caller, &ctx.owner, turn);
            if let Some(history) = history {
                session.continue_stored(&history.session);
            }
            let rounds = &shared.rounds;
            rounds.load(&ctx.owner, &session.id, &shared.memory).await;
        }
    }

    async fn load_history(
        &self,
        continues: &Continuation,
        begins_turn: bool,
        loaded: &mut LoadedParts,
    ) -> Result<(), Fault> {
        let (ctx, responses) = (&self.ctx, self.service.responses());
        if let Continuation::Conversation(id) = continues
            && begins_turn
        {
            let given = ctx.job.as_ref().and_then(|job| job.busy.lock().take());
            loaded.busy = Some(if let Some(given) = given {
                given
            } else {
                let settings = self.config.responses;
                responses.check_room(&ctx.owner, 0, settings).await?;
                responses.begin_turn(&ctx.owner, id)?
            });
        }
        let kept = match (continues, &ctx.connection) {
            (Continuation::Response(id), Some(kept)) => kept.get(id),
            _ => None,
        };
        let (history, copy, before) = if let Some(segment) = kept {
            let (history, copy) = segment.load(self.memory.memory()).await?;
            (history, copy, HistoryBefore::Kept(segment))
        } else {
            let (now, settings) = (ctx.environment.clock.unix(), self.config.history);
            let history = responses.load(&ctx.owner, continues, settings, now);
            let (history, copy) = history.await?;
            let items = history.items.clone();
            (history, copy, HistoryBefore::Loaded(items))
        };
        loaded.history = Some(history);
        loaded.history_copy = copy;
        loaded.before = Some(before);
        Ok(())
    }
}

/// What was loaded for a request.
#[derive(Default)]
pub(super) struct LoadedParts {
    /// The history that it continues.
    pub(super) history: Option<LoadedHistory>,
    /// The items that it refers to, by id.
    pub(super) items: HashMap<String, SharedText>,
    /// The conversation, which no other turn may use meanwhile.
    pub(super) busy: Option<BusyConversation>,
    /// The history, for what continues it on the same connection.
    pub(super) before: Option<HistoryBefore>,
    /// The tools of its MCP servers, if the proxy connects to them.
    pub(super) mcp: Option<McpTools>,
    /// What is known of its images, if its model takes none.
    pub(super) image_texts: Option<Arc<ImageTexts>>,
    /// Memory for a copy of the history.
    history_copy: Option<MemoryShare>,
    /// Memory for copies of the items.
    item_copies: Option<MemoryShare>,
}

impl LoadedParts {
    /// The bytes of it all.
    pub(super) fn size(&self) -> usize {
        let history = self.history.as_ref().map_or(0, |it| it.items.len());
        history + self.items.values().map(|item| item.len()).sum::<usize>()
    }

    /// The request with all of it.
    pub(super) fn complete(&self, source: TurnSource) -> TurnSource {
        let mut source = source;
        if let Some(history) = &self.history {
            source = source
                .with_history(history.items.clone())
                .with_max_message_chars(history.max_message_chars);
        }
        if !self.items.is_empty() {
            source = source.with_items(self.items.clone());
        }
        if let Some(mcp) = &self.mcp {
            source = source.with_mcp_listing(Arc::clone(&mcp.listing));
            if !mcp.functions.is_empty() {
                source = source.with_proxy_tools(mcp.functions.clone());
            }
        }
        if let Some(texts) = &self.image_texts {
            source = source.with_image_texts(Arc::clone(texts));
        }
        source
    }
}

/// The tools of the proxy that depend on no request.
fn fixed_tools(ctx: &TurnContext) -> Arc<[ProxyTool]> {
    let tools = ctx.environment.tools.as_ref();
    tools.map_or_else(Arc::default, |tools| tools.fixed())
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

/// The response to a request that is refused before a turn begins.
pub(super) fn refuse(reply: &ReplyBuilder, config: &Config, mut fault: Fault) -> Response<Body> {
    redact(&mut fault, config.redactor());
    reply.fault(&fault)
}

/// Fills in the template that a request names, so that what is stored, recorded and replayed needs
/// no template. Work on a body that is large after that can be stopped.
fn fill_in_prompt(
    ctx: &mut TurnContext,
    config: &Config,
    body: &mut ReceivedBody,
    was_filled_in: bool,
) -> Result<(), Fault> {
    if let Some(refusal) = &config.replay_refusal {
        return Err(refusal.clone());
    }
    let mut filled = Ok(None);
    if !was_filled_in && !is_filled_in(ctx, config) {
        let max_bytes = config.server.body_limit;
        filled = ctx.run_work(body.text.len(), || {
            let workflow = config
                .workflows
                .expand(&body.text, max_bytes, |id| config.prompts.has(id))?;
            if workflow.is_some() || config.prompts.is_empty() {
                return Ok(workflow);
            }
            config.prompts.expand(&body.text, max_bytes)
        });
    }
    if let Ok(Some(text)) = &mut filled {
        body.text = std::mem::take(text);
        // As a body that was received: itself and a working copy of it.
        body.memory.set(body.text.len().saturating_mul(2));
    }
    if is_handed_over(body.text.len()) {
        ctx.stop = StopFlag::new();
    }
    filled.map(|_| ())
}

/// Whether the prompt of a request was filled in before: when a background response was accepted,
/// or when a turn was recorded.
fn is_filled_in(ctx: &TurnContext, config: &Config) -> bool {
    ctx.job.is_some() || config.replay_origin.is_some()
}
