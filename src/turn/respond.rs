//! An HTTP request for a response, answered.

use std::sync::Arc;

use adapters::fault::Fault;
use adapters::responses::request::Source;
use arc_swap::ArcSwap;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use tokio_util::sync::CancellationToken;

use super::caller::{Caller, Session};
use super::compact::{self, Door};
use super::ctx::{Ctx, Surrounding, Surroundings, System};
use super::engine::{self, Pace};
use super::given::Given;
use super::prepare::{Job, count, prepare, routes};
use super::record::{Record, redact};
use super::sink::{JsonSink, Slot, SseSink};
use super::stream::EventStream;
use super::told::Told;
use super::way::Shared;
use crate::artifacts::Artifacts;
use crate::artifacts::owned::{LOCAL, Owned};
use crate::config::Config;
use crate::metrics::Metrics;
use crate::net::blocking::block_in_place_if_large;
use crate::serve::{Body, RequestId};
use crate::tap::{Seen, Tap};
use crate::upstream::LearnedQuirks;

/// What all turns share.
pub struct Service {
    /// The live configuration.
    pub config: Arc<ArcSwap<Config>>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Cancelled when streams must end.
    pub ending: CancellationToken,
    shared: Arc<Shared>,
    pub(super) surroundings: Arc<dyn Surroundings>,
}

impl Service {
    /// A service whose turns have these surroundings.
    pub fn new(
        config: Arc<ArcSwap<Config>>,
        metrics: Arc<Metrics>,
        ending: CancellationToken,
        surroundings: Arc<dyn Surroundings>,
        artifacts: Artifacts,
    ) -> Self {
        Self {
            config,
            metrics,
            ending,
            shared: Arc::new(Shared::new(artifacts)),
            surroundings,
        }
    }

    /// What providers taught about their models.
    pub fn lessons(&self) -> &LearnedQuirks {
        self.shared.upstreams.lessons()
    }

    /// What tool outputs were kept whole, to be read back.
    pub fn artifacts(&self) -> Owned {
        let keep_days = self.config.load().artifacts.keep_days;
        Owned::local(self.shared.artifacts.clone(), keep_days)
    }

    /// Knows from now on what was known before a turn, so that the turn goes
    /// again as it went. Errors are those of the request.
    pub fn remember(&self, given: &Given, head: &Parts, body: &Arc<String>) -> Result<(), Fault> {
        let config = self.config.load_full();
        let ctx = self.ctx(head, &config);
        let source = Source::shared(Arc::clone(body));
        let turn = source.turn()?;
        let session = Session::of(&ctx.caller, &ctx.owner, &turn);
        let routes = routes(&ctx, &config, &turn)?;
        self.shared
            .restore(given, &config, &ctx.owner, &session.id, &routes);
        Ok(())
    }

    fn ctx(&self, head: &Parts, config: &Arc<Config>) -> Ctx {
        let request_id = request_id(head);
        let Surrounding { clock, random, tap } = self.surroundings.of(&request_id, config);
        Ctx {
            request_id,
            owner: LOCAL.into(),
            caller: Caller::of(&head.headers),
            clock,
            random,
            ending: self.ending.clone(),
            tap,
        }
    }
}

/// What stands at the end of the path of `POST /v1/responses/compact`.
const COMPACT: &str = "/compact";

fn request_id(head: &Parts) -> Arc<str> {
    let id = head.extensions.get::<RequestId>();
    id.map_or_else(|| "".into(), |id| Arc::clone(&id.0))
}

/// Answers `POST /v1/responses` and `POST /v1/responses/compact`.
pub async fn respond(service: &Arc<Service>, head: &Parts, body: String) -> Response<Body> {
    let config = service.config.load_full();
    let ctx = service.ctx(head, &config);
    let body = Arc::new(body);
    ctx.saw(Seen::ClientRequest { head, body: &body });
    let mut record = Record::new(
        &service.metrics,
        &config,
        Arc::clone(&ctx.request_id),
        ctx.caller.clone(),
        ctx.tap.clone(),
    );
    let reply = Reply {
        codex: ctx.caller.codex,
        told: Told::default(),
        tap: ctx.tap.clone(),
    };
    let bytes = body.len();
    let source = Source::shared(body);
    let at_endpoint = head.uri.path().ends_with(COMPACT);
    let prepared = block_in_place_if_large(bytes, || {
        prepare(&ctx, &config, &service.shared, source, at_endpoint)
    });
    let request = match prepared {
        Ok(request) => request,
        Err(mut fault) => {
            record.failed(&mut fault, &config.redactor());
            return reply.refusal(&fault);
        }
    };
    record.session.clone_from(&request.session.id);
    let pace = Pace {
        heartbeat: config.server.heartbeat,
        commit_after: config.server.commit_after,
    };
    if request.stream {
        stream(ctx, request.job, pace, config, record, reply).await
    } else {
        whole(&ctx, request.job, pace, &config, record, reply).await
    }
}

/// Answers `POST /v1/responses/input_tokens`: about how many tokens the body of a
/// turn has as input, by its bytes. Nothing is sent, and nothing is kept.
pub async fn input_tokens(service: &Arc<Service>, head: &Parts, body: String) -> Response<Body> {
    let config = service.config.load_full();
    let ctx = Ctx {
        request_id: request_id(head),
        owner: LOCAL.into(),
        caller: Caller::of(&head.headers),
        clock: Arc::new(System),
        random: Arc::new(System),
        ending: service.ending.clone(),
        tap: None,
    };
    let reply = Reply {
        codex: ctx.caller.codex,
        told: Told::default(),
        tap: None,
    };
    let bytes = body.len();
    let source = Source::new(body);
    match block_in_place_if_large(bytes, || count(&ctx, &config, &service.shared, &source)) {
        Ok(tokens) => {
            let json = format!(r#"{{"object":"response.input_tokens","input_tokens":{tokens}}}"#);
            reply.whole(json.into_bytes())
        }
        Err(mut fault) => {
            redact(&mut fault, &config.redactor());
            reply.refusal(&fault)
        }
    }
}

async fn stream(
    ctx: Ctx,
    job: Job,
    pace: Pace,
    config: Arc<Config>,
    mut record: Record,
    reply: Reply,
) -> Response<Body> {
    let slot = Slot::default();
    let telling = reply.told.clone();
    let mut sink = SseSink(slot.clone());
    let engine = Box::pin(async move {
        let redactor = || config.redactor();
        match job {
            Job::Turn(turn) => {
                engine::run(&ctx, turn, pace, redactor, &mut record, &telling, &mut sink).await
            }
            // Boxed: it would weigh on every stream.
            Job::Compaction(compaction) => {
                Box::pin(compact::run(
                    &ctx,
                    compaction,
                    pace,
                    &redactor,
                    &mut record,
                    &telling,
                    &mut sink,
                ))
                .await
            }
        }
    });
    let mut events = EventStream::new(engine, slot);
    match events.committed().await {
        Ok(()) => reply.stream(Body::stream(events)),
        Err(fault) => reply.refusal(&fault),
    }
}

async fn whole(
    ctx: &Ctx,
    job: Job,
    pace: Pace,
    config: &Config,
    mut record: Record,
    reply: Reply,
) -> Response<Body> {
    let (redactor, told) = (|| config.redactor(), &reply.told);
    let mut sink = JsonSink::default();
    let record = &mut record;
    let answered = match job {
        Job::Turn(turn) => {
            Box::pin(engine::run(
                ctx, turn, pace, redactor, record, told, &mut sink,
            ))
            .await
        }
        Job::Compaction(compaction) if compaction.door == Door::Endpoint => {
            let answer = compact::endpoint(ctx, compaction, pace, &redactor, record, told);
            Box::pin(answer).await.map(|json| sink.0 = Some(json))
        }
        Job::Compaction(compaction) => {
            Box::pin(compact::run(
                ctx, compaction, pace, &redactor, record, told, &mut sink,
            ))
            .await
        }
    };
    match answered {
        Ok(()) => reply.whole(sink.0.unwrap_or_default()),
        Err(fault) => reply.refusal(&fault),
    }
}

/// Makes the HTTP reply.
struct Reply {
    codex: bool,
    told: Told,
    tap: Option<Arc<dyn Tap>>,
}

impl Reply {
    fn stream(&self, events: Body) -> Response<Body> {
        self.finish("text/event-stream; charset=utf-8", Response::new(events))
    }

    fn whole(&self, json: Vec<u8>) -> Response<Body> {
        self.saw(Seen::ClientAnswer(&json));
        self.finish("application/json", Response::new(Body::full(json)))
    }

    /// A fault as an HTTP reply.
    fn refusal(&self, fault: &Fault) -> Response<Body> {
        let json = fault.body();
        self.saw(Seen::ClientAnswer(&json));
        let mut response = Response::new(Body::full(json));
        *response.status_mut() = StatusCode::from_u16(fault.status(self.codex))
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if let Some(seconds) = fault.retry_after() {
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        self.finish("application/json", response)
    }

    fn finish(&self, content_type: &'static str, mut response: Response<Body>) -> Response<Body> {
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        self.told.add_to(headers);
        self.saw(Seen::ClientHead {
            status: response.status(),
            headers: response.headers(),
        });
        response
    }

    fn saw(&self, seen: Seen<'_>) {
        if let Some(tap) = &self.tap {
            tap.saw(seen);
        }
    }
}
