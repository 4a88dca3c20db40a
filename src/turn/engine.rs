//! Sends a prepared turn and turns the upstream's answer into events.
//!
//! The commit point: until the first event goes out, a fault is returned and becomes an HTTP
//! status; afterwards the stream ends in `response.failed`. The turn is retried, adapted to the
//! provider or sent to another one until the first *content* event, never after it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use adapters::fault::{Fault, Kind};
use adapters::responses::assembler::Assembler;
use adapters::responses::event_buffer::EventBuffer;
use futures_util::FutureExt;
use tokio::time::{Instant, sleep, sleep_until};

use super::context::TurnContext;
use super::failover::{Failover, PreparedAttempt};
use super::item_cache::ItemCache;
use super::observer::TurnEvent;
use super::prepared::PreparedTurn;
use super::record::Record;
use super::recovery::{self, RecoveryAction, RecoveryState};
use super::response_headers::ResponseHeaders;
use super::sink::Sink;
use crate::secrets::Redactor;
use crate::upstream::{self, AttemptEvent};

mod reading;

/// The most quirk patches that are tried on one route: a request can break several rules of a
/// provider.
const MAX_PATCHES: u32 = 4;

/// When a stream sends something although the provider is silent.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamTiming {
    /// The longest silence towards the client.
    pub(super) heartbeat: Duration,
    /// The longest time from the upstream's response headers to ours.
    pub(super) commit_after: Duration,
}

/// Runs a turn to its end. An error means that nothing was sent to the client.
pub(super) async fn run<S: Sink>(
    ctx: &TurnContext,
    prepared: Box<PreparedTurn>,
    timing: StreamTiming,
    redactor: impl Fn() -> Redactor + Send + Sync,
    record: &mut Record,
    headers: &ResponseHeaders,
    sink: &mut S,
) -> Result<(), Fault> {
    let mut engine = Engine::new(ctx, prepared, timing, record, headers, sink);
    if let Some(skipped) = engine.failover.take_skipped_route() {
        engine.record.skipped_route(&skipped, &engine.attempt.route);
    }
    engine.announce_attempt();
    // A panic ends this turn only, and its stream still gets a last event.
    let result = std::panic::AssertUnwindSafe(engine.run_attempts())
        .catch_unwind()
        .await;
    let fault = match result {
        Ok(Ok(())) => None,
        Ok(Err(fault)) => Some(fault),
        Err(_) => {
            engine.output.frames.discard_open_event();
            let message = "Respondent ran into a defect while it answered this request.";
            Some(Fault::new(Kind::Internal, message))
        }
    };
    engine.finish(fault, &redactor).await
}

struct Engine<'e, S> {
    ctx: &'e TurnContext,
    attempt: PreparedAttempt,
    failover: Failover,
    /// Chooses the API key, so that a session keeps the same one.
    session_affinity: u64,
    timing: StreamTiming,
    record: &'e mut Record,
    headers: &'e ResponseHeaders,
    sink: &'e mut S,
    output: AnswerOutput,
    /// The last attempt failed because of its API key, and another key is usable.
    has_another_key: bool,
    /// Where the answer's items are cached, if at all.
    item_cache: Option<Arc<ItemCache>>,
    last_sent: Instant,
}

/// The answer as it is written.
struct AnswerOutput {
    assembler: Box<Assembler>,
    frames: EventBuffer,
    /// `response.created` was written.
    begun: bool,
    /// A content event was written.
    has_content: bool,
}

impl AnswerOutput {
    fn begin(&mut self) {
        if !self.begun {
            self.begun = true;
            self.assembler.begin(&mut self.frames);
        }
    }
}

impl<'e, S: Sink> Engine<'e, S> {
    /// Takes the turn out of its box, because every future around this one would hold the box as
    /// well.
    fn new(
        ctx: &'e TurnContext,
        prepared: Box<PreparedTurn>,
        timing: StreamTiming,
        record: &'e mut Record,
        headers: &'e ResponseHeaders,
        sink: &'e mut S,
    ) -> Self {
        Self {
            ctx,
            session_affinity: prepared.affinity,
            attempt: prepared.attempt,
            failover: prepared.failover,
            timing,
            record,
            headers,
            sink,
            output: AnswerOutput {
                assembler: prepared.assembler,
                frames: EventBuffer::default(),
                begun: prepared.begun,
                has_content: false,
            },
            item_cache: prepared.item_cache,
            has_another_key: false,
            last_sent: Instant::now(),
        }
    }

    /// Sends the turn until an answer is complete, content was sent, or nothing is left to try.
    async fn run_attempts(&mut self) -> Result<(), Fault> {
        let (mut retries, mut patches) = (0, 0);
        let mut last_patch = None;
        // Boxed to keep this rarely used fault out of every stream's future size.
        let mut earlier_fault: Option<Box<Fault>> = None;
        loop {
            self.has_another_key = false;
            let Err(mut fault) = self.run_attempt().await else {
                return Ok(());
            };
            if self.output.has_content {
                return Err(fault);
            }
            if patches < MAX_PATCHES && self.adapt(&fault) {
                patches += 1;
                last_patch = fault.patch;
                continue;
            }
            if let Some(patch) = fault.patch
                && last_patch == Some(patch)
            {
                // The provider refused the adapted request for the same reason.
                self.failover.forget_patch(&self.attempt.route, patch);
            }
            let state = RecoveryState {
                retries,
                max_retries: self.attempt.upstream.provider().max_retries,
                has_another_key: self.has_another_key,
                is_fallback: earlier_fault.is_some(),
                has_fallback: self.failover.has_alternative(),
                jitter: self.ctx.jitter(),
            };
            match recovery::decide(&fault, state) {
                RecoveryAction::Retry(pause) => {
                    retries += 1;
                    self.record.retry(&fault);
                    self.wait_with_heartbeat(sleep(pause)).await?;
                }
                RecoveryAction::FailOver if self.fail_over(&mut fault) => {
                    (retries, patches) = (0, 0);
                    let fault = recovery::soonest_retry(earlier_fault, fault);
                    earlier_fault = Some(Box::new(fault));
                }
                RecoveryAction::FailOver | RecoveryAction::GiveUp => {
                    return Err(recovery::soonest_retry(earlier_fault, fault));
                }
            }
        }
    }

    /// Learns the quirk patch that the fault suggests and encodes the turn again with it. False if
    /// there is none or the request stays the same.
    fn adapt(&mut self, fault: &Fault) -> bool {
        let Some(patch) = fault.patch else {
            return false;
        };
        let is_new = self.failover.learn_patch(&self.attempt.route, patch);
        match self.failover.encode_again(&self.attempt.route) {
            Ok(attempt) if attempt.request != self.attempt.request => {
                self.record.adapted(fault, patch);
                self.switch_to(attempt);
                true
            }
            Ok(_) | Err(_) => {
                if is_new {
                    self.failover.forget_patch(&self.attempt.route, patch);
                }
                false
            }
        }
    }

    /// Switches to the next route. False if there is none.
    fn fail_over(&mut self, fault: &mut Fault) -> bool {
        let Some(attempt) = self.failover.next_attempt() else {
            return false;
        };
        self.attempt.upstream.set_retry_after(fault);
        self.record.failover(fault, &attempt.route);
        self.switch_to(attempt);
        true
    }

    fn switch_to(&mut self, attempt: PreparedAttempt) {
        self.attempt = attempt;
        let params = self.attempt.answer_params.clone();
        self.output.assembler.switch_provider(params);
        self.announce_attempt();
    }

    /// Writes the attempt's route, notes and prefix report to the record and the response headers.
    fn announce_attempt(&mut self) {
        let prefix = self.failover.prefix_report(&self.attempt);
        self.headers.set_prefix(&prefix);
        self.record.start_attempt(&self.attempt, prefix);
        self.headers.set_route(self.attempt.route.full_name());
        self.headers.add_notes(&self.record.notes);
    }

    /// Sends the request once and reads the answer to its end.
    async fn run_attempt(&mut self) -> Result<(), Fault> {
        self.ctx.observe(TurnEvent::UpstreamRequest {
            upstream: &self.attempt.upstream,
            route: &self.attempt.route,
            answer_params: &self.attempt.answer_params,
            request: &self.attempt.request,
        });
        let result = self.send_and_read().await;
        self.ctx
            .observe(TurnEvent::AttemptEnd(result.as_ref().err()));
        result
    }

    async fn send_and_read(&mut self) -> Result<(), Fault> {
        let injected = self
            .ctx
            .observer
            .as_ref()
            .and_then(|observer| observer.injected_failure());
        if let Some((after, fault)) = &injected
            && fault.kind == Kind::Overloaded
        {
            // The recorded request never got a concurrency permit, so it was not sent.
            self.wait_with_heartbeat(sleep(*after)).await?;
            return Err(fault.clone());
        }
        if let Some(commit) = self.attempt.artifact_commit.take() {
            self.wait_with_heartbeat(commit.wait()).await?;
        }
        let upstream = Arc::clone(&self.attempt.upstream);
        let max_wait = if self.failover.has_alternative() {
            upstream::SHORT_COOLDOWN
        } else {
            upstream.provider().timeouts.first_byte
        };
        let permit = self
            .wait_with_heartbeat(upstream.acquire_permit(max_wait))
            .await??;
        let key = upstream.keys().choose(self.session_affinity);
        if let Some(key) = key {
            self.ctx.observe(TurnEvent::Key(key));
        }
        let opened = if let Some((after, fault)) = injected {
            self.wait_with_heartbeat(sleep(after)).await?;
            Err(fault)
        } else {
            let request = self.attempt.request.clone();
            let (ctx, dialect) = (self.ctx, Arc::clone(&self.attempt.route.dialect));
            let observe = |event: AttemptEvent<'_>| ctx.observe(event.into());
            let (quirks, clock) = (&dialect.quirks, &*ctx.clock);
            let opening =
                upstream::send_request(&upstream, permit, key, request, quirks, clock, &observe);
            // Boxed to keep this future out of the size of the stream that follows it.
            let opening = Box::pin(opening);
            self.wait_with_heartbeat(opening).await?
        };
        let result = match opened {
            Ok(answer) => self.read_answer(answer).await,
            Err(fault) => Err(fault),
        };
        if let Err(fault) = &result {
            self.has_another_key = upstream.record_failure(key, fault);
            if upstream.health().down_for(Instant::now()).is_some() {
                self.record.provider_down(true);
            }
        }
        result
    }

    /// Waits for a future and sends heartbeats meanwhile, if the stream has begun. Fails if the
    /// process shuts down.
    async fn wait_with_heartbeat<F: Future>(&mut self, future: F) -> Result<F::Output, Fault> {
        let mut future = pin!(future);
        let ctx = self.ctx;
        let mut shutdown = pin!(ctx.shutdown.cancelled());
        loop {
            let heartbeat = self.last_sent + self.timing.heartbeat;
            tokio::select! {
                biased;
                () = &mut shutdown => return Err(self.shutdown_fault()),
                output = &mut future => return Ok(output),
                () = sleep_until(heartbeat), if S::STREAMS && self.output.begun => {
                    self.send_heartbeat().await;
                }
            }
        }
    }

    fn shutdown_fault(&self) -> Fault {
        self.ctx.observe(TurnEvent::ShuttingDown);
        Fault::new(
            Kind::Draining,
            "Respondent is shutting down; send the request again in a moment.",
        )
    }

    /// Sends `response.created` if that was not sent yet, else a heartbeat event.
    async fn send_heartbeat(&mut self) {
        if self.output.begun {
            self.output.assembler.heartbeat(&mut self.output.frames);
        } else {
            self.output.begin();
        }
        self.send().await;
    }

    /// Sends what was written. With the last event, first completes the record and the caches: the
    /// client may disconnect when it has that event, which drops this future.
    async fn send(&mut self) {
        self.record.mark_event();
        if let Some(outcome) = self.output.assembler.final_status() {
            self.record.usage = self.output.assembler.usage();
            if let Some(usage) = self.record.usage {
                self.failover.calibrate(&self.attempt, usage.input);
            }
            self.record.notes.extend(self.output.assembler.notes());
            self.record.answer_ended(outcome);
            if let Some(items) = &self.item_cache {
                items.keep(&self.ctx.owner, self.output.assembler.items());
            }
            if self.attempt.answer_params.seal_reasoning {
                self.failover.cache_reasoning(self.output.assembler.items());
            }
        }
        self.sink.send(&mut self.output.frames, self.ctx).await;
        self.last_sent = Instant::now();
    }

    /// Writes a fault to the record, and to the stream if the client has to get it there. Else
    /// returns it.
    async fn finish(
        mut self,
        fault: Option<Fault>,
        redactor: &(impl Fn() -> Redactor + Send + Sync),
    ) -> Result<(), Fault> {
        let Some(mut fault) = fault else {
            return Ok(());
        };
        self.attempt.upstream.set_retry_after(&mut fault);
        self.record.failed(&mut fault, &redactor());
        let in_stream = self.output.begun || fault.is_reported_in_stream(self.ctx.caller.codex);
        if S::STREAMS && in_stream {
            self.output.begin();
            self.output.assembler.fail(&fault, &mut self.output.frames);
            self.send().await;
            Ok(())
        } else {
            self.record.notes.extend(self.output.assembler.notes());
            self.headers.add_notes(&self.record.notes);
            Err(fault)
        }
    }
}
