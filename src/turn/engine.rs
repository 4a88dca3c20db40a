//! Sends a prepared turn and turns the upstream's answer into events.
//!
//! The commit point: until the first event goes out, a fault is returned and
//! becomes an HTTP status; afterwards the stream ends in `response.failed`. A
//! turn is tried again until the first content event, never after it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use adapters::fault::{Fault, Kind};
use adapters::responses::assembler::Assembler;
use adapters::responses::frames::Frames;
use futures_util::FutureExt;
use tokio::time::{Instant, sleep, sleep_until};

use super::ctx::Ctx;
use super::prepare::Prepared;
use super::recent::Recent;
use super::record::Record;
use super::recovery::{self, Next, Tried};
use super::sink::Sink;
use super::told::Told;
use super::way::{Way, Ways};
use crate::secrets::Redactor;
use crate::tap::Seen;
use crate::upstream;

mod reading;

/// Lessons that one turn may teach: a request can offend in several ways.
const MOST_LESSONS: u32 = 4;

/// Times of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Silence towards the client before a sign of life.
    pub(super) heartbeat: Duration,
    /// From the upstream's headers to ours at the latest.
    pub(super) commit_after: Duration,
}

/// Runs a turn to its end. An error means that nothing was sent.
pub(super) async fn run<S: Sink>(
    ctx: &Ctx,
    prepared: Box<Prepared>,
    pace: Pace,
    redactor: impl Fn() -> Redactor + Send + Sync,
    record: &mut Record,
    told: &Told,
    sink: &mut S,
) -> Result<(), Fault> {
    let mut engine = Engine::new(ctx, prepared, pace, record, told, sink);
    if let Some(home) = engine.ways.passed_over() {
        engine.record.passed_over(&home, &engine.way.route);
    }
    engine.tell_way();
    // A defect costs this turn alone, and its stream still gets an end.
    let result = std::panic::AssertUnwindSafe(engine.turn())
        .catch_unwind()
        .await;
    let fault = match result {
        Ok(Ok(())) => None,
        Ok(Err(fault)) => Some(fault),
        Err(_) => {
            engine.output.frames.drop_open();
            let message = "Respondent ran into a defect while it answered this request.";
            Some(Fault::new(Kind::Internal, message))
        }
    };
    engine.end(fault, &redactor).await
}

struct Engine<'e, S> {
    ctx: &'e Ctx,
    /// The way that is taken now.
    way: Way,
    /// What else can be tried, until an answer has begun.
    ways: Ways,
    /// The session as a number, by which it keeps its key.
    session: u64,
    pace: Pace,
    record: &'e mut Record,
    told: &'e Told,
    sink: &'e mut S,
    output: Output,
    /// The last attempt failed for its key, and another key is awake.
    another_key: bool,
    /// Where the answer's items are kept, if at all.
    recent: Option<Arc<Recent>>,
    last_sent: Instant,
}

/// The answer as it is written.
struct Output {
    assembler: Box<Assembler>,
    frames: Frames,
    /// Something was written: `response.created` at least.
    begun: bool,
    /// Content was written.
    content: bool,
}

impl Output {
    fn begin(&mut self) {
        if !self.begun {
            self.begun = true;
            self.assembler.begin(&mut self.frames);
        }
    }
}

impl<'e, S: Sink> Engine<'e, S> {
    /// Takes the turn out of its box: each future around this one would hold it
    /// once more.
    fn new(
        ctx: &'e Ctx,
        prepared: Box<Prepared>,
        pace: Pace,
        record: &'e mut Record,
        told: &'e Told,
        sink: &'e mut S,
    ) -> Self {
        Self {
            ctx,
            session: prepared.affinity,
            way: prepared.way,
            ways: prepared.ways,
            pace,
            record,
            told,
            sink,
            output: Output {
                assembler: prepared.assembler,
                frames: Frames::default(),
                begun: prepared.begun,
                content: false,
            },
            recent: prepared.recent,
            another_key: false,
            last_sent: Instant::now(),
        }
    }

    async fn turn(&mut self) -> Result<(), Fault> {
        let (mut repeats, mut lessons) = (0, 0);
        let mut taught = None;
        // Boxed: it would weigh on every stream.
        let mut before: Option<Box<Fault>> = None;
        loop {
            self.another_key = false;
            let Err(mut fault) = self.attempt().await else {
                return Ok(());
            };
            if self.output.content {
                return Err(fault);
            }
            if lessons < MOST_LESSONS && self.learn(&fault) {
                lessons += 1;
                taught = fault.mend;
                continue;
            }
            if let Some(mend) = fault.mend
                && taught == Some(mend)
            {
                self.ways.unlearn(&self.way.route, mend);
            }
            let tried = Tried {
                repeats,
                most_repeats: self.way.upstream.provider().max_retries,
                another_key: self.another_key,
                stands_in: before.is_some(),
                fallback: self.ways.has_more(),
                jitter: self.ctx.jitter(),
            };
            match recovery::next(&fault, tried) {
                Next::Again(pause) => {
                    repeats += 1;
                    self.record.retry(&fault);
                    self.patiently(sleep(pause)).await?;
                }
                Next::Elsewhere if self.go_elsewhere(&mut fault) => {
                    (repeats, lessons) = (0, 0);
                    before = Some(Box::new(recovery::sooner(before, fault)));
                }
                Next::Elsewhere | Next::GiveUp => return Err(recovery::sooner(before, fault)),
            }
        }
    }

    /// Encodes the turn again with what the fault teaches. False if it teaches
    /// nothing that makes a difference.
    fn learn(&mut self, fault: &Fault) -> bool {
        let Some(mend) = fault.mend else {
            return false;
        };
        let is_new = self.ways.learn(&self.way.route, mend);
        match self.ways.again(&self.way.route) {
            Ok(way) if way.body != self.way.body => {
                self.record.healed(fault, mend);
                self.take_way(way);
                true
            }
            Ok(_) | Err(_) => {
                if is_new {
                    self.ways.unlearn(&self.way.route, mend);
                }
                false
            }
        }
    }

    fn go_elsewhere(&mut self, fault: &mut Fault) -> bool {
        let Some(way) = self.ways.next() else {
            return false;
        };
        self.way.upstream.set_retry_after(fault);
        self.record.failover(fault, &way.route);
        self.take_way(way);
        true
    }

    fn take_way(&mut self, way: Way) {
        self.way = way;
        self.output.assembler.goes_to(self.way.terms.clone());
        self.tell_way();
    }

    fn tell_way(&mut self) {
        let prefix = self.ways.telling(&self.way);
        self.told.prefix(&prefix);
        self.record.way(&self.way, prefix);
        self.told.route(self.way.route.full_name());
        self.told.notes(&self.record.notes);
    }

    /// Sends the request once and reads the answer to its end.
    async fn attempt(&mut self) -> Result<(), Fault> {
        self.ctx.saw(Seen::UpstreamRequest {
            upstream: &self.way.upstream,
            route: &self.way.route,
            terms: &self.way.terms,
            body: &self.way.body,
        });
        let result = self.exchange().await;
        self.ctx.saw(Seen::AttemptEnd(result.as_ref().err()));
        result
    }

    async fn exchange(&mut self) -> Result<(), Fault> {
        let unreached = self.ctx.tap.as_ref().and_then(|tap| tap.unreached());
        if let Some((after, fault)) = &unreached
            && fault.kind == Kind::Overloaded
        {
            // It waited for a place in vain and was not sent.
            self.patiently(sleep(*after)).await?;
            return Err(fault.clone());
        }
        if let Some(commit) = self.way.commit.take() {
            self.patiently(commit.done()).await?;
        }
        let upstream = Arc::clone(&self.way.upstream);
        let patience = if self.ways.has_more() {
            upstream::SHORT_COOLDOWN
        } else {
            upstream.provider().timeouts.first_byte
        };
        let place = self.patiently(upstream.acquire_permit(patience)).await??;
        let key = upstream.keys().choose(self.session);
        if let Some(key) = key {
            self.ctx.saw(Seen::Key(key));
        }
        let opened = if let Some((after, fault)) = unreached {
            self.patiently(sleep(after)).await?;
            Err(fault)
        } else {
            // Boxed: it would weigh on the stream that follows it.
            let body = self.way.body.clone();
            let seeing = (&*self.ctx.clock, self.ctx.tap.as_deref());
            let opening = Box::pin(upstream::send_request(&upstream, place, key, body, seeing));
            self.patiently(opening).await?
        };
        let result = match opened {
            Ok(answer) => self.read(answer).await,
            Err(fault) => Err(fault),
        };
        if let Err(fault) = &result {
            self.another_key = upstream.record_failure(key, fault);
            if upstream.health().down_for(Instant::now()).is_some() {
                self.record.down(true);
            }
        }
        result
    }

    /// Waits for something, with signs of life once the stream has begun.
    async fn patiently<F: Future>(&mut self, future: F) -> Result<F::Output, Fault> {
        let mut future = pin!(future);
        let ctx = self.ctx;
        let mut ending = pin!(ctx.ending.cancelled());
        loop {
            let sign = self.last_sent + self.pace.heartbeat;
            tokio::select! {
                biased;
                () = &mut ending => return Err(self.ending()),
                output = &mut future => return Ok(output),
                () = sleep_until(sign), if S::STREAMS && self.output.begun => self.sign_of_life().await,
            }
        }
    }

    fn ending(&self) -> Fault {
        self.ctx.saw(Seen::Ending);
        Fault::new(
            Kind::Draining,
            "Respondent is shutting down; send the request again in a moment.",
        )
    }

    async fn sign_of_life(&mut self) {
        if self.output.begun {
            self.output.assembler.heartbeat(&mut self.output.frames);
        } else {
            self.output.begin();
        }
        self.send().await;
    }

    async fn send(&mut self) {
        self.record.event();
        if let Some(outcome) = self.output.assembler.outcome() {
            // Told before the last event goes out: a client may leave with it.
            self.record.usage = self.output.assembler.usage();
            if let Some(usage) = self.record.usage {
                self.ways.weighed(&self.way, usage.input);
            }
            self.record.notes.extend(self.output.assembler.notes());
            self.record.ended(outcome);
            if let Some(recent) = &self.recent {
                recent.keep(&self.ctx.owner, self.output.assembler.items());
            }
            if self.way.terms.seal_reasoning {
                self.ways.keep_baggage(self.output.assembler.items());
            }
        }
        if S::STREAMS {
            self.ctx.saw(Seen::ClientAnswer(self.output.frames.bytes()));
        }
        self.sink.send(&mut self.output.frames).await;
        self.last_sent = Instant::now();
    }

    /// Tells the record how it went, and the client if it was promised a
    /// stream.
    async fn end(
        mut self,
        fault: Option<Fault>,
        redactor: &(impl Fn() -> Redactor + Send + Sync),
    ) -> Result<(), Fault> {
        let Some(mut fault) = fault else {
            return Ok(());
        };
        self.way.upstream.set_retry_after(&mut fault);
        self.record.failed(&mut fault, &redactor());
        let in_stream = self.output.begun || fault.is_told_in_stream(self.ctx.caller.codex);
        if S::STREAMS && in_stream {
            self.output.begin();
            self.output.assembler.fail(&fault, &mut self.output.frames);
            self.send().await;
            Ok(())
        } else {
            self.record.notes.extend(self.output.assembler.notes());
            self.told.notes(&self.record.notes);
            Err(fault)
        }
    }
}
