//! Answers the requests that run turns: `POST /v1/responses` and `/v1/responses/compact`, jobs in
//! the background, and the token estimate of `/v1/responses/input_tokens`.

use std::sync::{Arc, Weak};

use adapters::fault::Fault;
use adapters::json;
use adapters::responses::event_buffer::EventBuffer;
use axum::body::Body;
use http::Response;
use tokio::time::Instant;

use super::background::{self, AcceptedJob, BackgroundJob, BackgroundQueue, ResponseIdentity};
use super::context::TurnContext;
use super::engine::{self, Answer, Step, StreamTiming};
use super::observer::TurnEvent;
use super::prepare::{PreparedFor, PreparedRequest};
use super::received::{ReceivedRequest, refuse};
use super::record::Record;
use super::reply::ReplyBuilder;
use super::request::{TurnEndpoint, TurnRequest};
use super::response_headers::ResponseHeaders;
use super::service::Service;
use super::sink::{ChunkSlot, JsonSink, LogSink, Sink, SseSink};
use super::stream::{EventStream, LAST_EVENT_ROOM};
use super::turn_memory::{ReceivedBody, TurnMemory};
use super::workflow::continued_run;
use crate::responses::response_text;

/// Answers `POST /v1/responses` and `POST /v1/responses/compact`.
pub async fn respond(
    service: &Arc<Service>,
    request: TurnRequest,
    body: impl Into<ReceivedBody>,
) -> Response<Body> {
    let mut body = body.into();
    let config = service.config.load_full();
    let continued = continued_run(service, &request.owner, &mut body).await;
    if let Some(queue) = service.background.get().and_then(Weak::upgrade)
        && request.endpoint == TurnEndpoint::Responses
        && json::has_true(&body.text, "background")
    {
        let received = ReceivedRequest::without_turn(service, config, request, body, continued);
        return accept(received, queue.as_ref()).await;
    }
    let ctx = service.turn_context(&request, &config);
    let received = ReceivedRequest::new(service, config, request, ctx, body, continued);
    answer(received).await
}

/// Runs a turn for which no client waits. Its events go to the log of the job; it ends when they
/// are written.
pub async fn run_in_background(
    service: &Arc<Service>,
    request: TurnRequest,
    body: ReceivedBody,
    identity: ResponseIdentity,
    job: BackgroundJob,
) {
    let config = service.config.load_full();
    let mut ctx = service.turn_context(&request, &config);
    ctx.deadline = Instant::now() + config.jobs.timeout;
    ctx.mcp = service.waiting_secrets.take(&identity.id);
    ctx.identity = Some(identity);
    if job.resumed.lock().is_some() {
        // A recording of the rest alone could not be replayed.
        ctx.environment.observer = None;
    }
    ctx.job = Some(job);
    let received = ReceivedRequest::new(service, config, request, ctx, body, Ok(false));
    answer(received).await;
}

/// Checks a request for a background response and hands it to the queue. It is no turn yet.
async fn accept(received: ReceivedRequest, queue: &dyn BackgroundQueue) -> Response<Body> {
    let prepared = match received.check() {
        Ok(()) => received.prepare(PreparedFor::Queue).await,
        Err(fault) => Err(fault),
    };
    let ReceivedRequest {
        service,
        ctx,
        config,
        request,
        body,
        memory,
        reply,
        ..
    } = received;
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(fault) => return refuse(&reply, &config, fault),
    };
    let (stream, busy) = (prepared.stream, prepared.busy);
    let (mut assembler, stored) = (prepared.parts.assembler, prepared.parts.stored);
    let busy = busy.or(stored.and_then(|stored| stored.busy));
    let mut events = EventBuffer::default();
    assembler.queue(&mut events);
    let response = assembler.response();
    let mut json = Vec::new();
    response.push_json(&mut json);
    service.waiting_secrets.keep(&response.id, ctx.mcp.as_ref());
    let job = AcceptedJob {
        owner: request.owner,
        by: request.by,
        identity: ResponseIdentity {
            id: response.id.clone(),
            created_at: response.created_at,
        },
        response: json,
        text: response_text(response),
        events,
        request: Arc::unwrap_or_clone(body),
        memory,
        headers: background::kept_headers(&request.headers),
        stream,
        busy,
    };
    match queue.accept(job).await {
        Ok(response) => response,
        Err(fault) => refuse(&reply, &config, fault),
    }
}

/// A turn that is ready for its engine.
pub(super) struct BegunTurn {
    pub(super) ctx: TurnContext,
    pub(super) request: PreparedRequest,
    memory: TurnMemory,
    timing: StreamTiming,
    record: Record,
    /// The headers of the reply.
    headers: ResponseHeaders,
}

impl BegunTurn {
    /// Runs the turn to its end. Returns the document if its answer is one. An error means that
    /// nothing was sent to the client. The turn is boxed, because it would be in the future of each
    /// stream twice.
    pub(super) async fn run(self: Box<Self>, sink: Sink<'_>) -> Result<Option<Vec<u8>>, Fault> {
        let mut turn = self;
        let (parts, first_step) = (turn.request.parts, turn.request.first_step);
        let (ctx, headers, record) = (&turn.ctx, &turn.headers, &mut turn.record);
        let mut answer = Answer::new(ctx, parts, turn.memory, turn.timing, record, headers, sink);
        engine::run(&mut answer, first_step).await
    }
}

/// Runs one turn.
async fn answer(received: ReceivedRequest) -> Response<Body> {
    let (turn, reply) = match begin(received).await {
        Ok(begun) => begun,
        Err((fault, reply)) => return reply.fault(&fault),
    };
    if turn.request.stream && turn.ctx.job.is_none() {
        return stream(turn, reply).await;
    }
    match whole(turn).await {
        Ok(json) => reply.json(json),
        Err(fault) => reply.fault(&fault),
    }
}

/// Prepares a turn. An error is a fault that the client does not get in a stream, and what its
/// reply is made with.
pub(super) async fn begin(
    received: ReceivedRequest,
) -> Result<(Box<BegunTurn>, ReplyBuilder), (Fault, ReplyBuilder)> {
    let (ctx, service) = (&received.ctx, &received.service);
    ctx.observe(TurnEvent::ClientRequest {
        request: &received.request,
        body: &received.body,
    });
    let mut record = Record::new(
        &service.metrics,
        &service.running,
        &received.config,
        Arc::clone(&ctx.request_id),
        Arc::clone(&ctx.owner),
        ctx.caller.clone(),
        ctx.environment.observer.clone(),
    );
    let prepared = match received.admit() {
        Ok(slot) => {
            record.slot = slot;
            let purpose = match received.request.endpoint {
                TurnEndpoint::Responses => PreparedFor::Turn,
                TurnEndpoint::Compact => PreparedFor::CompactEndpoint,
            };
            received.prepare(purpose).await
        }
        Err(fault) => Err(fault),
    };
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(mut fault) => {
            let Some(failed) = received.streamed_failure(&fault).await else {
                record.failed(&mut fault);
                return Err((fault, received.reply));
            };
            failed
        }
    };
    record.set_session(&prepared.session, &service.shared.logged);
    let ReceivedRequest {
        config,
        ctx,
        body,
        memory,
        reply,
        ..
    } = received;
    let mut memory = TurnMemory::new(memory, body.len(), ctx.environment.observer.is_some());
    memory.set_upstream_body(match &prepared.first_step {
        Step::Upstream(round) => round.attempt.request.body.len(),
        Step::Approved(_)
        | Step::Workflow(_)
        | Step::WorkflowEnd
        | Step::Summarize(_)
        | Step::Tools
        | Step::Nothing
        | Step::Done
        | Step::Failed(_)
        | Step::Document(_) => body.len(),
    });
    let turn = BegunTurn {
        ctx,
        request: prepared,
        memory,
        timing: StreamTiming {
            heartbeat: config.server.heartbeat,
            commit_after: config.server.commit_after,
        },
        record,
        headers: reply.headers.clone(),
    };
    Ok((Box::new(turn), reply))
}

/// Answers `POST /v1/responses/input_tokens`: an estimate of the input tokens of a turn with this
/// body, which follows OpenAI's count and what the model has counted before. Nothing is sent or
/// stored.
pub async fn input_tokens(
    service: &Arc<Service>,
    request: TurnRequest,
    body: ReceivedBody,
) -> Response<Body> {
    let config = service.config.load_full();
    let received = ReceivedRequest::without_turn(service, config, request, body, Ok(false));
    match received.estimate_tokens().await {
        Ok(tokens) => {
            let json = format!(r#"{{"object":"response.input_tokens","input_tokens":{tokens}}}"#);
            received.reply.json(json.into_bytes())
        }
        Err(fault) => refuse(&received.reply, &received.config, fault),
    }
}

async fn stream(turn: Box<BegunTurn>, reply: ReplyBuilder) -> Response<Body> {
    if let Some(client) = &turn.ctx.client {
        // A client that takes nothing keeps the engine from being polled, and so from ending.
        client.set_write_deadline(Some(turn.ctx.deadline + LAST_EVENT_ROOM));
    }
    let slot = ChunkSlot::default();
    let sink = Sink::Sse(SseSink(slot.clone()));
    let engine = Box::pin(async move { turn.run(sink).await.map(|_| ()) });
    let mut events = EventStream::new(engine, slot);
    match events.wait_for_commit().await {
        Ok(()) => reply.stream(Body::new(events)),
        Err(fault) => reply.fault(&fault),
    }
}

/// The final response object, or the document of a compaction. A background answer is in its log
/// then.
async fn whole(turn: Box<BegunTurn>) -> Result<Vec<u8>, Fault> {
    let (document, response) = if let Some(job) = &turn.ctx.job {
        let mut log = LogSink::new(Arc::clone(&job.log));
        let document = Box::pin(turn.run(Sink::Log(&mut log))).await?;
        (document, log.response)
    } else {
        let mut json = JsonSink::default();
        let document = Box::pin(turn.run(Sink::Json(&mut json))).await?;
        (document, json.0)
    };
    Ok(document.or(response).unwrap_or_default())
}
