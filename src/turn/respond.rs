//! Answers the HTTP requests that run turns: `POST /v1/responses` and `/v1/responses/compact`, and
//! the token estimate of `/v1/responses/input_tokens`.

use std::sync::Arc;
use std::time::Duration;

use adapters::responses::request::TurnSource;
use adapters::stop_flag::{StopFlag, StopReason};
use http::Response;
use http::request::Parts;

use super::context::{TurnContext, TurnEnvironmentFactory as _};
use super::engine::{self, Answer, Step, StreamTiming};
use super::observer::TurnEvent;
use super::prepare::{PreparedRequest, estimate_input_tokens, failed_request, prepare};
use super::record::{Record, redact};
use super::reply::ReplyBuilder;
use super::response_headers::ResponseHeaders;
use super::service::{Service, request_id};
use super::sink::{ChunkSlot, JsonSink, SseSink};
use super::stream::EventStream;
use super::turn_memory::{ReceivedBody, TurnMemory};
use crate::clock::System;
use crate::net::blocking::is_handed_over;
use axum::body::Body;

/// How long after the limit of a turn its client may take no byte of the stream. It gets the last
/// event in this time.
const LAST_EVENT_ROOM: Duration = Duration::from_secs(5);
/// The end of the path of `POST /v1/responses/compact`.
const COMPACT_SUFFIX: &str = "/compact";

/// Answers `POST /v1/responses` and `POST /v1/responses/compact`.
pub async fn respond(
    service: &Arc<Service>,
    head: &Parts,
    body: impl Into<ReceivedBody>,
) -> Response<Body> {
    let ReceivedBody { text: body, memory } = body.into();
    let config = service.config.load_full();
    let mut ctx = service.turn_context(head, &config);
    let body = Arc::new(body);
    if is_handed_over(body.len()) {
        ctx.stop = StopFlag::new();
    }
    ctx.observe(TurnEvent::ClientRequest { head, body: &body });
    let mut record = Record::new(
        &service.metrics,
        &service.running,
        &config,
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
    let at_endpoint = head.uri.path().ends_with(COMPACT_SUFFIX);
    let prepared = ctx.run_work(bytes, || {
        let source = TurnSource::from_shared(Arc::clone(&body)).with_stop_flag(ctx.stop.clone());
        prepare(&ctx, &config, &service.shared, &source, at_endpoint)
    });
    let request = match prepared {
        Ok(request) => request,
        Err(mut fault) => {
            match ctx.stop.reason() {
                // The connection drops this future.
                Some(StopReason::ClientLeft) => std::future::pending().await,
                Some(StopReason::ShuttingDown) => ctx.observe(TurnEvent::ShuttingDown),
                Some(StopReason::TurnTimeout) | None => {}
            }
            let in_stream = fault.is_reported_in_stream(ctx.caller.codex) && !at_endpoint;
            let in_stream = in_stream.then(|| failed_request(&ctx, &body, &fault));
            if let Some(request) = in_stream.flatten() {
                request
            } else {
                record.failed(&mut fault);
                return reply.fault(&fault);
            }
        }
    };
    drop(body);
    record.session.clone_from(&request.session);
    memory.set_upstream_body(match &request.first_step {
        Step::Upstream(round) => round.attempt.request.body.len(),
        Step::Summarize(_) | Step::Tools | Step::Done | Step::Failed(_) | Step::Document(_) => {
            bytes
        }
    });
    let timing = StreamTiming {
        heartbeat: config.server.heartbeat,
        commit_after: config.server.commit_after,
    };
    if request.stream {
        stream(ctx, request, memory, timing, record, reply).await
    } else {
        whole(&ctx, request, memory, timing, record, reply).await
    }
}

/// Answers `POST /v1/responses/input_tokens`: an estimate of the input tokens of a turn with this
/// body, made from its bytes. Nothing is sent or stored.
pub async fn input_tokens(
    service: &Arc<Service>,
    head: &Parts,
    body: ReceivedBody,
) -> Response<Body> {
    // The memory counts until the estimate is made.
    let ReceivedBody {
        text: body,
        memory: _memory,
    } = body;
    let config = service.config.load_full();
    let request_id = request_id(head);
    let environment = System.create(&request_id, &config);
    let mut ctx = service.context_with(head, &config, request_id, environment);
    let reply = ReplyBuilder {
        codex: ctx.caller.codex,
        headers: ResponseHeaders::default(),
        observer: None,
    };
    let bytes = body.len();
    if is_handed_over(bytes) {
        ctx.stop = StopFlag::new();
    }
    let source = TurnSource::new(body).with_stop_flag(ctx.stop.clone());
    let estimate = || estimate_input_tokens(&ctx, &config, &service.shared, &source);
    match ctx.run_work(bytes, estimate) {
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

async fn stream(
    ctx: TurnContext,
    request: PreparedRequest,
    memory: TurnMemory,
    timing: StreamTiming,
    mut record: Record,
    reply: ReplyBuilder,
) -> Response<Body> {
    if let Some(client) = &ctx.client {
        // A client that takes nothing keeps the engine from being polled, and so from ending.
        client.set_write_deadline(Some(ctx.deadline + LAST_EVENT_ROOM));
    }
    let slot = ChunkSlot::default();
    let headers = reply.headers.clone();
    let mut sink = SseSink(slot.clone());
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

/// Answers with the final response object, or with the document of a compaction.
async fn whole(
    ctx: &TurnContext,
    request: PreparedRequest,
    memory: TurnMemory,
    timing: StreamTiming,
    mut record: Record,
    reply: ReplyBuilder,
) -> Response<Body> {
    let mut sink = JsonSink::default();
    let headers = reply.headers.clone();
    let mut answer = Answer::new(
        ctx,
        request.parts,
        memory,
        timing,
        &mut record,
        &headers,
        &mut sink,
    );
    match Box::pin(engine::run(&mut answer, request.first_step)).await {
        Ok(document) => reply.json(document.or(sink.0).unwrap_or_default()),
        Err(fault) => reply.fault(&fault),
    }
}
