//! An HTTP request for a response, answered.

use std::sync::Arc;

use adapters::fault::Fault;
use adapters::responses::request::Source;
use arc_swap::ArcSwap;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use tokio_util::sync::CancellationToken;

use super::caller::Caller;
use super::ctx::{Clock, Ctx, Random, Seen, System, Tap, TraceTap};
use super::engine::{self, Pace};
use super::prepare::{Prepared, prepare};
use super::record::Record;
use super::sink::{JsonSink, Slot, SseSink};
use super::stream::EventStream;
use super::told::Told;
use super::way::Shared;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::serve::{Body, RequestId};
use crate::upstream::Lessons;

/// What all turns share.
pub struct Service {
    /// The live configuration.
    pub config: Arc<ArcSwap<Config>>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Cancelled when streams must end.
    pub ending: CancellationToken,
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    pub(super) tap: Arc<dyn Tap>,
}

impl Service {
    /// A service on the system's clock and randomness.
    pub fn new(
        config: Arc<ArcSwap<Config>>,
        metrics: Arc<Metrics>,
        ending: CancellationToken,
    ) -> Self {
        Self {
            config,
            metrics,
            ending,
            shared: Arc::default(),
            clock: Arc::new(System),
            random: Arc::new(System),
            tap: Arc::new(TraceTap),
        }
    }

    /// What providers taught about their models.
    pub fn lessons(&self) -> &Lessons {
        self.shared.upstreams.lessons()
    }

    fn ctx(&self, head: &Parts) -> Ctx {
        let request_id = head
            .extensions
            .get::<RequestId>()
            .map_or_else(|| "".into(), |id| Arc::clone(&id.0));
        Ctx {
            request_id,
            owner: "local".into(),
            caller: Caller::of(&head.headers),
            clock: Arc::clone(&self.clock),
            random: Arc::clone(&self.random),
            ending: self.ending.clone(),
            tap: Arc::clone(&self.tap),
        }
    }
}

/// Answers `POST /v1/responses`.
pub async fn respond(service: &Arc<Service>, head: &Parts, body: String) -> Response<Body> {
    let ctx = service.ctx(head);
    ctx.tap
        .saw(&ctx.request_id, Seen::ClientRequest(body.as_bytes()));
    let config = service.config.load_full();
    let mut record = Record::new(
        &service.metrics,
        &config,
        Arc::clone(&ctx.request_id),
        ctx.caller.clone(),
    );
    let codex = ctx.caller.codex;
    let source = Source::new(body);
    let told = Told::default();
    let prepared = match prepare(&ctx, &config, &service.shared, source) {
        Ok(prepared) => prepared,
        Err(mut fault) => {
            record.failed(&mut fault, &config.redactor());
            return refuse(&fault, codex, &told);
        }
    };
    record.session.clone_from(&prepared.session.id);
    let pace = Pace {
        heartbeat: config.server.heartbeat,
        commit_after: config.server.commit_after,
    };
    if prepared.stream {
        stream(ctx, prepared, pace, config, record, told).await
    } else {
        whole(&ctx, prepared, pace, &config, record, told).await
    }
}

async fn stream(
    ctx: Ctx,
    prepared: Box<Prepared>,
    pace: Pace,
    config: Arc<Config>,
    mut record: Record,
    told: Told,
) -> Response<Body> {
    let codex = ctx.caller.codex;
    let slot = Slot::default();
    let telling = told.clone();
    let mut sink = SseSink(slot.clone());
    let engine = Box::pin(async move {
        engine::run(
            &ctx,
            prepared,
            pace,
            || config.redactor(),
            &mut record,
            &telling,
            &mut sink,
        )
        .await
    });
    let mut events = EventStream::new(engine, slot);
    match events.committed().await {
        Ok(()) => reply(
            "text/event-stream; charset=utf-8",
            Body::stream(events),
            &told,
        ),
        Err(fault) => refuse(&fault, codex, &told),
    }
}

async fn whole(
    ctx: &Ctx,
    prepared: Box<Prepared>,
    pace: Pace,
    config: &Config,
    mut record: Record,
    told: Told,
) -> Response<Body> {
    let mut sink = JsonSink::default();
    let run = engine::run(
        ctx,
        prepared,
        pace,
        || config.redactor(),
        &mut record,
        &told,
        &mut sink,
    );
    match Box::pin(run).await {
        Ok(()) => reply(
            "application/json",
            Body::full(sink.0.unwrap_or_default()),
            &told,
        ),
        Err(fault) => refuse(&fault, ctx.caller.codex, &told),
    }
}

fn reply(content_type: &'static str, body: Body, told: &Told) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    told.add_to(headers);
    response
}

/// A fault as an HTTP reply.
fn refuse(fault: &Fault, codex: bool, told: &Told) -> Response<Body> {
    let mut response = Response::new(Body::full(fault.body()));
    *response.status_mut() =
        StatusCode::from_u16(fault.status(codex)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = fault.retry_after() {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    told.add_to(response.headers_mut());
    response
}
