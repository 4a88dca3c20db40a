//! Answers the requests that run turns: `POST /v1/responses` and `/v1/responses/compact`, the
//! messages of a WebSocket, and the token estimate of `/v1/responses/input_tokens`.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use adapters::fault::{Fault, Kind};
use adapters::json;
use adapters::responses::client_event::CreateEvent;
use adapters::responses::event_buffer::EventBuffer;
use adapters::responses::request::TurnSource;
use adapters::stop_flag::{StopFlag, StopReason};
use adapters::turn::Continuation;
use futures_util::FutureExt as _;
use http::Response;
use http::request::Parts;
use tokio::time::Instant;

use super::background::{self, AcceptedRun, BackgroundQueue, BackgroundRun, ResponseIdentity};
use super::caller::set_turn_metadata;
use super::context::{TurnContext, TurnEnvironmentFactory as _};
use super::engine::{self, Answer, Step, StreamTiming};
use super::observer::TurnEvent;
use super::prepare::{
    LoadedParts, Preparation, PreparedRequest, estimate_input_tokens, failed_request, prepare,
};
use super::record::{Record, redact};
use super::reply::ReplyBuilder;
use super::response_headers::ResponseHeaders;
use super::service::{Service, request_id};
use super::sink::{ChunkSlot, JsonSink, LogSink, MessageSink, SseSink, WholeSink};
use super::stream::EventStream;
use super::turn_memory::{ReceivedBody, TurnMemory};
use crate::clock::System;
use crate::config::Config;
use crate::net::blocking::is_handed_over;
use crate::net::memory::{MemoryKind, MemoryShare, ProcessMemory};
use crate::responses::{ConnectionResponses, HistoryBefore, memory_fault, response_text};
use axum::body::Body;

/// How long after the limit of a turn its client may take no byte of the stream. It gets the last
/// event in this time.
const LAST_EVENT_ROOM: Duration = Duration::from_secs(5);
/// The code of the fault of a request that continues an unknown response.
const NOT_FOUND: &str = "previous_response_not_found";
/// The end of the path of `POST /v1/responses/compact`.
const COMPACT_SUFFIX: &str = "/compact";

/// Answers `POST /v1/responses` and `POST /v1/responses/compact`.
pub async fn respond(
    service: &Arc<Service>,
    owner: Arc<str>,
    head: &Parts,
    body: impl Into<ReceivedBody>,
) -> Response<Body> {
    let body = body.into();
    let config = service.config.load_full();
    if let Some(queue) = service.background.get().and_then(Weak::upgrade)
        && !is_compaction(head)
        && json::has_true(&body.text, "background")
    {
        return accept(service, queue.as_ref(), owner, &config, head, body).await;
    }
    let ctx = service.turn_context(owner, head, &config);
    answer(service, ctx, config, head, body).await
}

/// Runs a turn for which no client waits. Its events go to the log of the run; it ends when they
/// are written.
pub async fn run_in_background(
    service: &Arc<Service>,
    owner: Arc<str>,
    head: &Parts,
    body: ReceivedBody,
    identity: ResponseIdentity,
    run: BackgroundRun,
) {
    let config = service.config.load_full();
    let mut ctx = service.turn_context(owner, head, &config);
    ctx.client = None;
    ctx.deadline = Instant::now() + config.jobs.timeout;
    ctx.identity = Some(identity);
    ctx.run = Some(run);
    answer(service, ctx, config, head, body).await;
}

/// Checks a request for a background answer and hands it to the queue. It is no turn yet.
async fn accept(
    service: &Arc<Service>,
    queue: &dyn BackgroundQueue,
    owner: Arc<str>,
    config: &Arc<Config>,
    head: &Parts,
    mut body: ReceivedBody,
) -> Response<Body> {
    let request_id = request_id(head);
    let environment = System.create(&request_id, config);
    let mut ctx = service.context_with(owner, head, config, request_id, environment);
    let reply = ReplyBuilder {
        codex: ctx.caller.codex,
        headers: ResponseHeaders::default(),
        observer: None,
    };
    let filled = fill_in_prompt(&mut ctx, config, &mut body);
    let ReceivedBody { text: body, memory } = body;
    let body = Arc::new(body);
    let allowed = filled.and_then(|()| service.check_day(&ctx.owner, config));
    let prepared = match allowed {
        Ok(()) => prepare_stored(service, &ctx, config, &body, memory.memory(), false).await,
        Err(fault) => Err(fault),
    };
    let accepted = match prepared {
        Ok(request) => {
            let (stream, busy) = (request.stream, request.busy);
            let (mut assembler, stored) = (request.parts.assembler, request.parts.stored);
            let busy = busy.or(stored.and_then(|stored| stored.busy));
            // The run encodes it again, and has the only copy of the body.
            drop(request.first_step);
            let mut events = EventBuffer::default();
            assembler.queue(&mut events);
            let response = assembler.response();
            let mut json = Vec::new();
            response.push_json(&mut json);
            let run = AcceptedRun {
                owner: Arc::clone(&ctx.owner),
                by: head.extensions.get().copied().unwrap_or_default(),
                identity: ResponseIdentity {
                    id: response.id.clone(),
                    created_at: response.created_at,
                },
                response: json,
                text: response_text(response),
                events,
                request: Arc::unwrap_or_clone(body),
                memory,
                headers: background::kept_headers(&head.headers),
                stream,
                busy,
            };
            queue.accept(run).await
        }
        Err(fault) => Err(fault),
    };
    match accepted {
        Ok(response) => response,
        Err(mut fault) => {
            redact(&mut fault, config.redactor());
            reply.fault(&fault)
        }
    }
}

/// Fills in the template that a request names, so that what is stored, recorded and replayed needs
/// no template. Work on a body that is large after that can be stopped.
fn fill_in_prompt(
    ctx: &mut TurnContext,
    config: &Config,
    body: &mut ReceivedBody,
) -> Result<(), Fault> {
    if let Some(refusal) = &config.replay_refusal {
        return Err(refusal.clone());
    }
    let mut filled = Ok(None);
    if !is_filled_in(ctx, config) && !config.prompts.is_empty() {
        let max_bytes = config.server.body_limit;
        filled = ctx.run_work(body.text.len(), || {
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

/// Whether the prompt of a request was filled in before: when a background response was accepted, or
/// when a turn was recorded.
fn is_filled_in(ctx: &TurnContext, config: &Config) -> bool {
    ctx.run.is_some() || config.replay_origin.is_some()
}

/// Prepares a request, with what it needs from the store.
async fn prepare_stored(
    service: &Arc<Service>,
    ctx: &TurnContext,
    config: &Arc<Config>,
    body: &Arc<String>,
    memory: &ProcessMemory,
    at_endpoint: bool,
) -> Result<PreparedRequest, Fault> {
    let prepare = |source: &TurnSource, loaded: &mut LoadedParts| {
        prepare(ctx, config, &service.shared, source, at_endpoint, loaded)
    };
    with_stored(service, ctx, config, body, memory, !at_endpoint, prepare).await
}

/// Takes a step with a request until it has what it needs from the store. `begins_turn` is true for
/// a turn, which no other one may meet in its conversation.
async fn with_stored<T>(
    service: &Arc<Service>,
    ctx: &TurnContext,
    config: &Config,
    body: &Arc<String>,
    memory: &ProcessMemory,
    begins_turn: bool,
    mut step: impl FnMut(&TurnSource, &mut LoadedParts) -> Result<Preparation<T>, Fault>,
) -> Result<T, Fault> {
    let responses = &service.shared.responses;
    let mut source = TurnSource::from_shared(Arc::clone(body))
        .with_stop_flag(ctx.stop.clone())
        .with_least_effort(ctx.caller.brief);
    if config.prompts.is_empty() && !is_filled_in(ctx, config) {
        source = source.without_templates();
    }
    let mut loaded = LoadedParts::default();
    loop {
        let bytes = body.len().saturating_add(loaded.size());
        let preparation = ctx.run_work(bytes, || step(&source, &mut loaded));
        let needs = match preparation? {
            Preparation::Ready(done) => return Ok(done),
            Preparation::NeedsStored(needs) => needs,
        };
        if let Some(continues) = &needs.continues {
            if let Continuation::Conversation(id) = continues
                && begins_turn
            {
                let given = ctx.run.as_ref().and_then(|run| run.busy.lock().take());
                loaded.busy = Some(if let Some(given) = given {
                    given
                } else {
                    let settings = config.responses;
                    responses.check_room(&ctx.owner, 0, settings).await?;
                    responses.begin_turn(&ctx.owner, id)?
                });
            }
            let kept = match (continues, &ctx.connection) {
                (Continuation::Response(id), Some(kept)) => kept.get(id),
                _ => None,
            };
            let (history, copy, before) = if let Some(segment) = kept {
                let (history, copy) = segment.load(memory).await?;
                (history, copy, HistoryBefore::Kept(segment))
            } else {
                let now = ctx.environment.clock.unix();
                let history = responses.load(&ctx.owner, continues, config.history, now);
                let (history, copy) = history.await?;
                let items = history.items.clone();
                (history, copy, HistoryBefore::Loaded(items))
            };
            loaded.history = Some(history);
            loaded.history_copy = copy;
            loaded.before = Some(before);
        }
        if loaded.items.is_none() {
            loaded.items = Some(responses.items(&ctx.owner, needs.items).await?);
        } else if needs.copies > 0 {
            let mut share = memory.share(MemoryKind::Requests);
            let granted = share.request(needs.copies).await;
            granted.map_err(|full| memory_fault(&full))?;
            loaded.item_copies = Some((share, needs.copies));
        }
    }
}

/// Whether this is `POST /v1/responses/compact`.
fn is_compaction(head: &Parts) -> bool {
    head.uri.path().ends_with(COMPACT_SUFFIX)
}

/// A turn that is ready for its engine.
struct BegunTurn {
    ctx: TurnContext,
    request: PreparedRequest,
    memory: TurnMemory,
    timing: StreamTiming,
    record: Record,
    reply: ReplyBuilder,
}

/// Runs one turn.
async fn answer(
    service: &Arc<Service>,
    ctx: TurnContext,
    config: Arc<Config>,
    head: &Parts,
    body: ReceivedBody,
) -> Response<Body> {
    let turn = match begin(service, ctx, &config, head, body).await {
        Ok(turn) => turn,
        Err((fault, reply)) => return reply.fault(&fault),
    };
    if let Some(run) = turn.ctx.run.clone() {
        whole(turn, LogSink::new(run.log)).await
    } else if turn.request.stream {
        stream(turn).await
    } else {
        whole(turn, JsonSink::default()).await
    }
}

/// Prepares a turn. An error is a fault that the client does not get in a stream, and what its
/// reply is made with.
async fn begin(
    service: &Arc<Service>,
    mut ctx: TurnContext,
    config: &Arc<Config>,
    head: &Parts,
    mut body: ReceivedBody,
) -> Result<BegunTurn, (Fault, ReplyBuilder)> {
    let filled = fill_in_prompt(&mut ctx, config, &mut body);
    let ReceivedBody { text: body, memory } = body;
    let body = Arc::new(body);
    ctx.observe(TurnEvent::ClientRequest {
        owner: &ctx.owner,
        head,
        body: &body,
    });
    let mut record = Record::new(
        &service.metrics,
        &service.running,
        config,
        Arc::clone(&ctx.request_id),
        Arc::clone(&ctx.owner),
        ctx.caller.clone(),
        ctx.environment.observer.clone(),
    );
    let reply = ReplyBuilder {
        codex: ctx.caller.codex,
        headers: ResponseHeaders::default(),
        observer: ctx.environment.observer.clone(),
    };
    let bytes = body.len();
    let mut memory = TurnMemory::new(memory, bytes, ctx.environment.observer.is_some());
    let at_endpoint = is_compaction(head);
    // A turn in the background is counted by its queue.
    let admitted = match ctx.run {
        Some(_) => service.check_day(&ctx.owner, config).map(|()| None),
        None => service.admit(&ctx.owner, config).map(Some),
    };
    let prepared = match filled.and(admitted) {
        Ok(slot) => {
            record.slot = slot;
            prepare_stored(service, &ctx, config, &body, memory.budget(), at_endpoint).await
        }
        Err(fault) => Err(fault),
    };
    let request = match prepared {
        Ok(request) => request,
        Err(mut fault) => {
            match ctx.stop.reason() {
                // The connection drops this future.
                Some(StopReason::ClientLeft) => std::future::pending().await,
                Some(StopReason::ShuttingDown) => ctx.observe(TurnEvent::ShuttingDown),
                Some(StopReason::TurnTimeout) | None => {}
            }
            // A client sends everything again if it learns this as an error.
            let is_forgotten = ctx.connection.is_some() && fault.code() == Some(NOT_FOUND);
            let is_streamed =
                fault.is_reported_in_stream(ctx.caller.codex) && !at_endpoint && !is_forgotten;
            if (is_streamed || ctx.run.is_some())
                && let Some(request) = failed_request(&ctx, &body, &fault)
            {
                request
            } else {
                record.failed(&mut fault);
                return Err((fault, reply));
            }
        }
    };
    drop(body);
    record.session.clone_from(&request.session);
    memory.set_upstream_body(match &request.first_step {
        Step::Upstream(round) => round.attempt.request.body.len(),
        Step::Summarize(_)
        | Step::Tools
        | Step::Nothing
        | Step::Done
        | Step::Failed(_)
        | Step::Document(_) => bytes,
    });
    let timing = StreamTiming {
        heartbeat: config.server.heartbeat,
        commit_after: config.server.commit_after,
    };
    Ok(BegunTurn {
        ctx,
        request,
        memory,
        timing,
        record,
        reply,
    })
}

/// Answers `POST /v1/responses/input_tokens`: an estimate of the input tokens of a turn with this
/// body, which follows OpenAI's count and what the model has counted before. Nothing is sent or
/// stored.
pub async fn input_tokens(
    service: &Arc<Service>,
    owner: Arc<str>,
    head: &Parts,
    mut body: ReceivedBody,
) -> Response<Body> {
    let config = service.config.load_full();
    let request_id = request_id(head);
    let environment = System.create(&request_id, &config);
    let mut ctx = service.context_with(owner, head, &config, request_id, environment);
    let reply = ReplyBuilder {
        codex: ctx.caller.codex,
        headers: ResponseHeaders::default(),
        observer: None,
    };
    let filled = fill_in_prompt(&mut ctx, &config, &mut body);
    // The memory counts until the estimate is made.
    let ReceivedBody { text: body, memory } = body;
    let body = Arc::new(body);
    let estimate = |source: &TurnSource, loaded: &mut LoadedParts| {
        estimate_input_tokens(&ctx, &config, &service.shared, source, loaded)
    };
    let estimated = match filled {
        Ok(()) => {
            with_stored(
                service,
                &ctx,
                &config,
                &body,
                memory.memory(),
                false,
                estimate,
            )
            .await
        }
        Err(fault) => Err(fault),
    };
    match estimated {
        Ok(tokens) => {
            let json = format!(r#"{{"object":"response.input_tokens","input_tokens":{tokens}}}"#);
            reply.json(json.into_bytes())
        }
        Err(mut fault) => {
            redact(&mut fault, config.redactor());
            reply.fault(&fault)
        }
    }
}

async fn stream(turn: BegunTurn) -> Response<Body> {
    if let Some(client) = &turn.ctx.client {
        // A client that takes nothing keeps the engine from being polled, and so from ending.
        client.set_write_deadline(Some(turn.ctx.deadline + LAST_EVENT_ROOM));
    }
    let slot = ChunkSlot::default();
    let mut sink = SseSink(slot.clone());
    let BegunTurn {
        ctx,
        request,
        memory,
        timing,
        mut record,
        reply,
    } = turn;
    let headers = reply.headers.clone();
    let (parts, first_step) = (request.parts, request.first_step);
    let engine = Box::pin(async move {
        let mut answer = Answer::new(
            &ctx,
            parts,
            memory,
            timing,
            &mut record,
            &headers,
            &mut sink,
        );
        engine::run(&mut answer, first_step).await.map(|_| ())
    });
    let mut events = EventStream::new(engine, slot);
    match events.wait_for_commit().await {
        Ok(()) => reply.stream(Body::new(events)),
        Err(fault) => reply.fault(&fault),
    }
}

/// Answers with the final response object, or with the document of a compaction. A background
/// answer is in its log then.
async fn whole<S: WholeSink>(turn: BegunTurn, mut sink: S) -> Response<Body> {
    let BegunTurn {
        ctx,
        request,
        memory,
        timing,
        mut record,
        reply,
    } = turn;
    let headers = reply.headers.clone();
    let mut answer = Answer::new(
        &ctx,
        request.parts,
        memory,
        timing,
        &mut record,
        &headers,
        &mut sink,
    );
    match Box::pin(engine::run(&mut answer, request.first_step)).await {
        Ok(document) => reply.json(
            document
                .or_else(|| sink.into_response())
                .unwrap_or_default(),
        ),
        Err(fault) => reply.fault(&fault),
    }
}

/// A request for a response on a WebSocket.
pub struct MessageRequest {
    /// The owner of the turn.
    pub owner: Arc<str>,
    /// The head of the handshake, as that of a request of its own.
    pub head: Parts,
    /// What the client asks for.
    pub event: CreateEvent,
    /// The memory of its body.
    pub memory: MemoryShare,
    /// The earlier responses of the connection, which the request may continue.
    pub connection: Arc<ConnectionResponses>,
}

/// The turn of a message. It runs when its frames are asked for; dropping it ends it.
pub fn message_turn(service: &Arc<Service>, request: MessageRequest) -> EventStream {
    let slot = ChunkSlot::default();
    let sink = MessageSink {
        slot: slot.clone(),
        stream_id: request.event.stream_id.clone(),
        reply: None,
        continued: request.event.continues.clone(),
        connection: Arc::clone(&request.connection),
    };
    let service = Arc::clone(service);
    EventStream::new(Box::pin(run_message(service, request, sink)), slot)
}

async fn run_message(
    service: Arc<Service>,
    request: MessageRequest,
    mut sink: MessageSink,
) -> Result<(), Fault> {
    let panicked = AssertUnwindSafe(answer_message(&service, request, &mut sink)).catch_unwind();
    if panicked.await.is_err() {
        let message = "Respondent ran into a defect while it answered this request.";
        let fault = Fault::new(Kind::Internal, message);
        sink.refuse(&fault, false).await;
    }
    Ok(())
}

async fn answer_message(service: &Arc<Service>, request: MessageRequest, sink: &mut MessageSink) {
    let MessageRequest {
        owner,
        mut head,
        event,
        memory,
        connection,
    } = request;
    if let Some(metadata) = &event.codex_metadata {
        set_turn_metadata(&mut head.headers, metadata);
    }
    let config = service.config.load_full();
    let mut ctx = service.turn_context(owner, &head, &config);
    ctx.connection = Some(connection);
    let codex = ctx.caller.codex;
    let body = ReceivedBody {
        text: event.body,
        memory,
    };
    let turn = match begin(service, ctx, &config, &head, body).await {
        Ok(turn) => turn,
        Err((fault, reply)) => {
            reply.fault(&fault);
            return sink.refuse(&fault, codex).await;
        }
    };
    let BegunTurn {
        ctx,
        request,
        memory,
        timing,
        mut record,
        reply,
    } = turn;
    let headers = reply.headers.clone();
    sink.reply = Some(reply);
    let (parts, mut first_step) = (request.parts, request.first_step);
    let mut answer = Answer::new(&ctx, parts, memory, timing, &mut record, &headers, sink);
    if !event.generate && !matches!(first_step, Step::Failed(_)) {
        first_step = Step::Nothing;
    }
    let ended = Box::pin(engine::run(&mut answer, first_step)).await;
    drop(answer);
    if let Err(fault) = ended {
        if let Some(reply) = sink.reply.take() {
            reply.fault(&fault);
        }
        sink.refuse(&fault, codex).await;
    }
}
