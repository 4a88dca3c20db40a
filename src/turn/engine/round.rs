//! One round of an answer: its request is sent until an upstream answer is complete, content was
//! sent, or nothing is left to try.

use std::sync::Arc;
use std::time::Duration;

use adapters::failed_request::FailedRequest;
use adapters::fault::{Fault, FaultClass, FaultSide, Kind, Patience};
use adapters::responses::assembler::{Assembler, RoundItem};
use adapters::responses::event_buffer::EventBuffer;
use adapters::responses::prompt_cache::PromptCacheDiagnostics;
use tokio::time::{Instant, sleep};

use super::Answer;
use crate::turn::director::TurnDirector;
use crate::turn::failover::{Failover, PreparedAttempt, PromptComparison};
use crate::turn::observer::TurnEvent;
use crate::turn::recovery::{self, RecoveryAction, RecoveryState};
use crate::turn::request_budget::{self, MAX_FAILED_REQUESTS};
use crate::turn::stored_prompts::PendingComparison;
use crate::upstream::{self, AttemptEvent, KeyIndex};

/// The most changes that are tried on one route: a request can break several rules of a provider.
const MAX_CHANGES: u32 = 4;

/// One upstream answer within an [`Answer`], with all attempts to get it. Made when its request is
/// encoded for the first route; ends with the upstream's last event or a fault.
pub(in crate::turn) struct Round {
    pub(in crate::turn) attempt: PreparedAttempt,
    pub(in crate::turn) failover: Failover,
    /// Chooses the API key, so that a session keeps the same one.
    session_affinity: u64,
    /// Content of this round arrived, so its request is not sent again. After an answer that cannot
    /// be used it says whether the client has any of it.
    pub(super) has_content: bool,
    /// The last attempt failed because of its API key, and another key is usable.
    has_another_key: bool,
    /// The API key of the last attempt.
    key: Option<KeyIndex>,
    /// The provider began to answer the last attempt.
    is_answered: bool,
    /// The comparison that the client asked for, while it is looked for in the store.
    comparison: Option<PendingComparison>,
    /// Takes the events of a round that the client must not see: a request for a summary.
    pub(super) hidden: Option<Box<HiddenAnswer>>,
}

/// An upstream answer that is read by the proxy and not sent to the client.
pub(super) struct HiddenAnswer {
    pub(super) assembler: Box<Assembler>,
    pub(super) events: EventBuffer,
    /// The final response object as JSON, once the answer is complete.
    response: Vec<u8>,
}

impl HiddenAnswer {
    /// Drops the events that were written, except for the final response object.
    pub(super) fn discard_events(&mut self) {
        if let Some(response) = self.events.final_response() {
            self.response = response.into_owned();
        }
        self.events.clear();
    }
}

impl Round {
    /// A round whose answer goes to the client.
    pub(in crate::turn) fn new(
        attempt: PreparedAttempt,
        failover: Failover,
        session_affinity: u64,
    ) -> Self {
        Self {
            attempt,
            failover,
            session_affinity,
            has_content: false,
            has_another_key: false,
            key: None,
            is_answered: false,
            comparison: None,
            hidden: None,
        }
    }

    /// A round whose answer the client does not see; `assembler` writes it.
    pub(in crate::turn) fn hidden(self, assembler: Box<Assembler>) -> Self {
        let hidden = HiddenAnswer {
            assembler,
            events: EventBuffer::default(),
            response: Vec::new(),
        };
        Self {
            hidden: Some(Box::new(hidden)),
            ..self
        }
    }

    /// The assembler that writes this round: its own, or the answer's.
    pub(super) fn assembler<'r>(&'r self, of_answer: &'r Assembler) -> &'r Assembler {
        self.hidden.as_ref().map_or(of_answer, |it| &it.assembler)
    }

    /// The final response object of a hidden round as JSON; empty if there is none.
    pub(in crate::turn) fn into_response(self) -> Vec<u8> {
        self.hidden
            .map(|hidden| hidden.response)
            .unwrap_or_default()
    }
}

impl Answer<'_> {
    /// Sends the round's request until an answer is complete, content was sent, or nothing is left
    /// to try.
    pub(in crate::turn) async fn run_round(&mut self, round: &mut Round) -> Result<(), Fault> {
        self.record.begin_round();
        let now = self.ctx.environment.clock.unix();
        self.record.reserve(&round.attempt, now)?;
        if let Some(skipped) = round.failover.take_skipped_route() {
            self.record.skipped_route(&skipped, &round.attempt.route);
        }
        self.announce_attempt(round);
        let failed_before = round.failover.failed_requests();
        let mut failed = failed_before;
        let (mut retries, mut changes) = (0, 0);
        let mut loading_for = Duration::ZERO;
        let mut is_later_attempt = false;
        let mut last_message: Option<Box<str>> = None;
        // Boxed to keep this rarely used fault out of every stream's future size.
        let mut earlier_fault: Option<Box<Fault>> = None;
        loop {
            round.has_another_key = false;
            (round.key, round.is_answered) = (None, false);
            match &mut round.hidden {
                Some(hidden) => hidden.assembler.begin_attempt(is_later_attempt),
                None => self.assembler.begin_attempt(is_later_attempt),
            }
            is_later_attempt = true;
            let Err(mut fault) = self.run_attempt(round).await else {
                if failed > 0 {
                    round.failover.forget_failed_requests();
                }
                return Ok(());
            };
            let is_limit_refuted = round.failover.drop_wrong_limit(&round.attempt, &mut fault);
            let has_fallback = round.failover.has_alternative();
            let upstream = &round.attempt.upstream;
            let timeouts = &upstream.provider().timeouts;
            let (waited, first_byte) = (loading_for, timeouts.first_byte);
            if !round.has_content
                && let Some(pause) =
                    recovery::loading_pause(&fault, waited, first_byte, has_fallback)
            {
                loading_for += pause;
                self.record.retry(&fault);
                Box::pin(self.pause(round, &fault, pause)).await?;
                continue;
            }
            let answered_lately = upstream.health().answered_lately(Instant::now());
            // Nobody waits for a background response.
            let is_patient = answered_lately || self.ctx.job.is_some();
            let most = request_budget::max_failed_requests(fault.patience, is_patient);
            let most_retries =
                request_budget::max_retries(failed_before, most, self.ctx.caller.codex);
            let max_retries = upstream.provider().max_retries.min(most_retries);
            // What a failing server says may be about something else, unless it says it again.
            let is_outage = matches!(fault.kind, Kind::Unavailable | Kind::Overloaded);
            let is_about_request = !is_outage || fault.patch.is_some();
            let says_the_same = last_message.as_deref() == Some(&*fault.message);
            last_message = Some(fault.message.as_str().into());
            let may_adapt = !is_limit_refuted
                && fault.patience != Patience::UntilReady
                && (is_about_request || says_the_same || retries >= max_retries);
            let has_room = changes < MAX_CHANGES && failed < MAX_FAILED_REQUESTS;
            if !round.has_content && may_adapt && self.adapt(round, &fault, has_room) {
                changes += 1;
                failed = round.failover.count_failed_request();
                continue;
            }
            if fault.side() == FaultSide::Upstream {
                failed = round.failover.count_failed_request();
                fault.gave_up = failed >= most;
                // That one prompt is refused does not show that the provider is gone.
                let is_gone =
                    fault.patience != Patience::Usual || fault.kind.class() == FaultClass::Outage;
                if failed >= MAX_FAILED_REQUESTS && is_gone {
                    round.attempt.upstream.health().give_up();
                }
            }
            round.explain(&mut fault, failed);
            if round.has_content {
                return Err(round.final_fault(fault));
            }
            let state = RecoveryState {
                retries,
                max_retries,
                failed_before,
                has_another_key: round.has_another_key,
                is_fallback: earlier_fault.is_some(),
                has_fallback,
                jitter: self.ctx.jitter(),
            };
            match recovery::decide(&fault, state) {
                RecoveryAction::Retry(pause) => {
                    retries += 1;
                    self.record.retry(&fault);
                    Box::pin(self.pause(round, &fault, pause)).await?;
                }
                RecoveryAction::FailOver if self.fail_over(round, &mut fault) => {
                    (retries, changes) = (0, 0);
                    let fault = recovery::soonest_retry(earlier_fault, fault);
                    earlier_fault = Some(Box::new(fault));
                }
                RecoveryAction::FailOver | RecoveryAction::GiveUp => {
                    let fault = recovery::soonest_retry(earlier_fault, fault);
                    return Err(round.final_fault(fault));
                }
            }
        }
    }

    /// Encodes the request again with a change that may answer the fault. False if there is none.
    fn adapt(&mut self, round: &mut Round, fault: &Fault, may_send: bool) -> bool {
        let (failover, attempt) = (&mut round.failover, &round.attempt);
        let answered = failover.answer_refusal(self.ctx, attempt, fault, may_send);
        let Some((change, attempt)) = answered else {
            return false;
        };
        self.record.adapted(fault, &change);
        self.switch_to(round, attempt);
        true
    }

    /// Switches to the next route. False if there is none.
    fn fail_over(&mut self, round: &mut Round, fault: &mut Fault) -> bool {
        let Some(attempt) = round.failover.next_attempt(self.ctx) else {
            return false;
        };
        round.attempt.upstream.set_retry_after(fault);
        self.record.failover(fault, &attempt.route);
        self.switch_to(round, attempt);
        true
    }

    fn switch_to(&mut self, round: &mut Round, attempt: PreparedAttempt) {
        round.attempt = attempt;
        self.announce_attempt(round);
    }

    /// Writes the attempt's route, notes and prefix report to the record and the response headers,
    /// and what the answer depends on to the assembler.
    fn announce_attempt(&mut self, round: &mut Round) {
        let params = round.attempt.answer_params.clone();
        if let Some(hidden) = &mut round.hidden {
            hidden.assembler.switch_provider(params);
        } else {
            self.assembler.switch_provider(params);
            self.describe_prompt(round);
        }
        let prefix = round.failover.prefix_report(&round.attempt);
        self.headers.set_prefix(&prefix);
        let forecast = round.failover.bill_forecast(&round.attempt);
        self.record.start_attempt(&round.attempt, prefix, forecast);
        self.headers
            .set_route(self.record.route_name(&round.attempt.route));
        self.headers.add_notes(&self.record.notes);
    }

    /// Takes what is known of the attempt's prompt to the response.
    fn describe_prompt(&mut self, round: &mut Round) {
        let removed = std::mem::take(&mut round.attempt.removed_reasoning);
        self.assembler.describe_prompt(removed);
        match round.failover.compare_prompt(&round.attempt) {
            Some(PromptComparison::Known(known)) => self.diagnose_prompt(known),
            Some(PromptComparison::Pending(pending)) => round.comparison = Some(pending),
            None => {}
        }
    }

    fn diagnose_prompt(&mut self, diagnostics: PromptCacheDiagnostics) {
        self.ctx.observe(TurnEvent::CacheDiagnostics(diagnostics));
        self.assembler.diagnose_prompt(diagnostics);
    }

    /// Takes the comparison with a prompt in the store to the response. It was looked for while the
    /// upstream began to answer.
    async fn finish_comparison(&mut self, round: &mut Round) -> Result<(), Fault> {
        if let Some(pending) = round.comparison.take() {
            let found = self.wait_with_heartbeat(pending.finish()).await?;
            self.diagnose_prompt(found);
        }
        Ok(())
    }

    /// Waits until the outputs that the request names can be read back. If some cannot, the request
    /// is encoded again and does not name them.
    async fn wait_for_artifacts(&mut self, round: &mut Round) -> Result<(), Fault> {
        while let Some(commit) = round.attempt.artifact_commit.take() {
            // Boxed because it is large and most requests need none: every open stream has room for
            // what is awaited in place.
            let waiting = Box::pin(commit.wait());
            let unkept = self.wait_with_heartbeat(waiting).await?;
            if !unkept.is_empty() {
                let route = round.attempt.route.clone();
                let attempt = round.failover.encode_without(self.ctx, unkept, &route)?;
                self.switch_to(round, attempt);
            }
        }
        self.wait_as_recorded().await
    }

    /// Sends the request once and reads the answer to its end.
    async fn run_attempt(&mut self, round: &mut Round) -> Result<(), Fault> {
        self.wait_for_artifacts(round).await?;
        self.ctx.observe(TurnEvent::UpstreamRequest {
            upstream: &round.attempt.upstream,
            route: &round.attempt.route,
            answer_params: &round.attempt.answer_params,
            request: &round.attempt.request,
        });
        let result = self.send_and_read(round).await;
        self.ctx
            .observe(TurnEvent::AttemptEnd(result.as_ref().err()));
        result
    }

    async fn send_and_read(&mut self, round: &mut Round) -> Result<(), Fault> {
        let director = self.ctx.director();
        let injected = director.and_then(TurnDirector::injected_failure);
        if let Some((after, fault)) = &injected
            && fault.kind == Kind::Overloaded
        {
            // The recorded request never got a concurrency permit, so it was not sent.
            self.wait_with_heartbeat(sleep(*after)).await?;
            return Err(fault.clone());
        }
        let upstream = Arc::clone(&round.attempt.upstream);
        let max_wait = if round.failover.has_alternative() {
            upstream::SHORT_COOLDOWN
        } else {
            upstream.provider().timeouts.first_byte
        };
        let permit = self
            .wait_with_heartbeat(upstream.acquire_permit(max_wait))
            .await??;
        let key = upstream.keys().choose(round.session_affinity);
        round.key = key;
        if let Some(key) = key {
            self.ctx.observe(TurnEvent::Key(key));
        }
        let opened = if let Some((after, fault)) = injected {
            self.wait_with_heartbeat(sleep(after)).await?;
            Err(fault)
        } else {
            let request = round.attempt.request.clone();
            let (ctx, dialect) = (self.ctx, Arc::clone(&round.attempt.route.dialect));
            let reply_headers = self.headers.clone();
            let observe = |event: AttemptEvent<'_>| {
                if let AttemptEvent::Head { headers, .. } = &event {
                    reply_headers.set_rate_limits(headers);
                }
                ctx.observe(event.into());
            };
            let (quirks, clock) = (&dialect.quirks, &*ctx.environment.clock);
            let opening =
                upstream::send_request(&upstream, permit, key, request, quirks, clock, &observe);
            // Boxed to keep this future out of the size of the stream that follows it.
            let opening = Box::pin(opening);
            self.wait_with_heartbeat(opening).await?
        };
        let result = match opened {
            Ok(answer) => {
                round.is_answered = true;
                self.end_wait().await;
                self.finish_comparison(round).await?;
                self.read_answer(round, answer).await
            }
            Err(fault) => Err(fault),
        };
        if let Err(fault) = &result {
            let so_far = &mut self.record.usage_so_far;
            // What ended before its content was most likely not billed.
            so_far.take_if(|usage| usage.output == 0);
            round.has_another_key = upstream.record_failure(key, fault);
            if upstream.health().down_for(Instant::now()).is_some() {
                self.record.provider_down(true);
            }
        }
        result
    }

    /// Takes what the answer's end says to the record and the session's memory.
    pub(super) fn end_round(&mut self, round: &Round) {
        self.ctx.log_stage("round", self.record.round_began);
        let assembler = round.assembler(&self.assembler);
        self.record.usage = assembler.usage();
        if let Some(usage) = self.record.usage {
            round.failover.calibrate(&round.attempt, usage.input);
            self.record.usage_is_counted = assembler.usage_is_counted();
            if assembler.usage_is_counted() {
                let forecast = &self.record.forecast;
                let (failover, attempt) = (&round.failover, &round.attempt);
                failover.record_answer(attempt, forecast, usage);
                if round.hidden.is_none() && failover.count_lost(attempt, forecast, usage) {
                    self.record.whole_session_begins();
                }
            }
        }
        // What a response that is not stored was asked is not stored either.
        if self.stored.is_some() {
            round.failover.store_prompt(&round.attempt);
        }
        if round.hidden.is_some() {
            self.record.notes.extend(assembler.notes());
        }
        if round.attempt.route.dialect.quirks.wants_baggage() {
            let origin = &round.attempt.answer_params.origin;
            if assembler.awaits_tools() {
                let items = assembler.round_items();
                let items = items.iter().flat_map(RoundItem::to_items);
                round
                    .failover
                    .cache_reasoning(origin, items.map(str::as_bytes));
            } else {
                let items = assembler.items().map(|(_, json)| json);
                round.failover.cache_reasoning(origin, items);
            }
        }
        self.remember_rounds();
    }
}

impl Round {
    /// Completes the message of the last attempt's fault.
    fn explain(&self, fault: &mut Fault, failed: u32) {
        let request = FailedRequest {
            provider: self.attempt.upstream.provider(),
            path: &self.attempt.request.path,
            model: &self.attempt.route.upstream_model,
            key: self.attempt.upstream.key_source(self.key),
            is_answered: self.is_answered,
            failed,
        };
        request.explain(fault);
    }

    /// The fault with which the round ends. It says when the provider can be asked again.
    fn final_fault(&self, mut fault: Fault) -> Fault {
        self.attempt.upstream.set_retry_after(&mut fault);
        fault
    }
}
