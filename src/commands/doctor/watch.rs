//! Watches the turns of a measurement, and keeps its limits.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use adapters::fault::{Fault, Kind, Retry};
use adapters::quirk_patch::QuirkPatch;
use bytes::Bytes;
use tokio::time::{Instant, sleep_until};

use crate::clock::System;
use crate::config::Config;
use crate::turn::{TurnDirector, TurnEnvironment, TurnEnvironmentFactory, TurnEvent, TurnObserver};

/// At most this many requests are sent for one model.
pub(super) const MAX_REQUESTS: usize = 12;
/// At most this many tokens are used for one model.
pub(super) const MAX_TOKENS: u64 = 20_000;
/// At most this long one model is measured.
pub(super) const MAX_TIME: Duration = Duration::from_mins(1);
/// The most bytes of an answer that are looked at.
pub(super) const MAX_BODY: usize = 1 << 20;
/// How long to wait at a rate limit if the provider does not say, and at least.
const PAUSE: Duration = Duration::from_secs(5);
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// The bytes of a token in an estimate, which is rather too high.
const BYTES_PER_TOKEN: usize = 3;

/// What was used for a model so far, over all wires in which it was asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Used {
    pub(super) requests: usize,
    pub(super) tokens: u64,
    /// When the measurement ends.
    pub(super) deadline: Instant,
}

impl Used {
    /// Nothing was used, and the time begins.
    pub(super) fn nothing() -> Self {
        Self {
            requests: 0,
            tokens: 0,
            deadline: Instant::now() + MAX_TIME,
        }
    }

    /// Waits for the pause that a rate limit asks for. False, and at once, if the time does not
    /// allow it.
    pub(super) async fn wait_out(&self, pause: Option<Duration>) -> bool {
        let end = Instant::now().checked_add(pause.unwrap_or(PAUSE).max(MIN_PAUSE));
        let Some(end) = end.filter(|end| *end < self.deadline) else {
            return false;
        };
        sleep_until(end).await;
        true
    }
}

/// What was seen of the requests to the provider.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) used: Used,
    /// The turns that were answered.
    pub(super) answers: usize,
    /// The tokens that the answer to the next request may have.
    pub(super) max_output: u64,
    /// Whether the next request may have any number of tokens.
    pub(super) has_no_token_limit: bool,
    /// The tokens of the last request, estimated.
    pub(super) prompt: u64,
    /// How many times as many tokens as estimated the provider has counted in a request.
    excess: u64,
    /// Whether a request was not sent because a limit was reached.
    pub(super) is_limited: bool,
    /// The body of the last request.
    request: Bytes,
    /// The bodies of the requests that were refused.
    refused: Vec<Bytes>,
    /// Whether no request that was refused is sent again.
    pub(super) skips_refused: bool,
    /// The body of the last reply, cut to [`MAX_BODY`].
    pub(super) body: String,
    /// The kind and the status of the last failure.
    pub(super) refusal: Option<(Kind, Option<u16>)>,
    /// What the last failure suggests to change.
    pub(super) patch: Option<QuirkPatch>,
    /// Whether the last failure was a rate limit, and the pause for which it asks.
    pub(super) limit: Option<Retry>,
}

impl Seen {
    pub(super) fn new(used: Used) -> Self {
        Self {
            used,
            answers: 0,
            max_output: 0,
            has_no_token_limit: false,
            prompt: 0,
            excess: 1,
            is_limited: false,
            request: Bytes::new(),
            refused: Vec::new(),
            skips_refused: false,
            body: String::new(),
            refusal: None,
            patch: None,
            limit: None,
        }
    }

    /// Whether the last failure was a prompt that is too long.
    pub(super) fn is_overflow(&self) -> bool {
        matches!(self.refusal, Some((Kind::ContextLength, _)))
    }

    /// Whether the last failure was a refusal of the request itself, not of its address. Templates
    /// that do not take a history end in a 500.
    pub(super) fn is_refusal(&self) -> bool {
        match self.refusal {
            Some((Kind::Refused, status)) => !matches!(status, Some(404 | 405 | 501)),
            Some((Kind::Unavailable, status)) => status == Some(500),
            _ => false,
        }
    }

    /// Whether the request is not to be sent, because it was refused before.
    fn is_skipped(&self) -> bool {
        self.skips_refused && self.refused.contains(&self.request)
    }

    /// Counts the tokens of an answer, as the provider counted them.
    pub(super) fn count_tokens(&mut self, input: u64, output: u64) {
        self.used.tokens = self
            .used
            .tokens
            .saturating_add(input)
            .saturating_add(output);
        self.excess = self.excess.max(input.div_ceil(self.prompt.max(1)));
    }

    /// Counts a request. False if it is not to be sent, mostly because a limit does not allow it.
    fn count_request(&mut self) -> bool {
        if self.is_skipped() {
            self.is_limited = false;
            return false;
        }
        let prompt = self.prompt.saturating_mul(self.excess);
        let tokens = self.used.tokens.saturating_add(prompt) + self.max_output;
        self.is_limited =
            self.used.requests >= MAX_REQUESTS || (tokens > MAX_TOKENS && !self.has_no_token_limit);
        if !self.is_limited {
            self.used.requests += 1;
        }
        !self.is_limited
    }
}

/// The estimated tokens of `bytes` bytes.
pub(super) fn estimated_tokens(bytes: usize) -> u64 {
    u64::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(u64::MAX)
}

/// Watches the turns of a measurement. A request that a limit does not allow is not sent.
pub(super) struct Watching(pub(super) Arc<Mutex<Seen>>);

impl TurnEnvironmentFactory for Watching {
    fn create(&self, _: &Arc<str>, _: &Arc<Config>) -> TurnEnvironment {
        TurnEnvironment {
            clock: Arc::new(System),
            random: Arc::new(System),
            observer: Some(Arc::new(Self(Arc::clone(&self.0)))),
            director: Some(Arc::new(Self(Arc::clone(&self.0)))),
            tools: None,
        }
    }
}

impl TurnObserver for Watching {
    fn on_event(&self, event: TurnEvent<'_>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            TurnEvent::UpstreamRequest { request, .. } => {
                seen.prompt = estimated_tokens(request.body.len());
                seen.request = request.body.clone();
                seen.body.clear();
            }
            TurnEvent::UpstreamBody(bytes) if seen.body.len() < MAX_BODY => {
                seen.body.push_str(&String::from_utf8_lossy(bytes));
            }
            TurnEvent::AttemptEnd(fault) if !seen.is_limited && !seen.is_skipped() => {
                seen.refusal = fault.map(|fault| (fault.kind, fault.upstream_status));
                seen.patch = fault.and_then(|fault| fault.patch);
                let limit = fault.filter(|fault| fault.kind == Kind::RateLimit);
                seen.limit = limit.map(|fault| fault.retry);
                if seen.is_refusal() {
                    let request = seen.request.clone();
                    seen.refused.push(request);
                }
            }
            _ => {}
        }
    }
}

impl TurnDirector for Watching {
    fn injected_failure(&self) -> Option<(Duration, Fault)> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_allowed = seen.count_request();
        let fault = || {
            Fault::new(
                Kind::InvalidRequest,
                "A limit of the measurement is reached.",
            )
        };
        (!is_allowed).then(|| (Duration::ZERO, fault()))
    }
}
