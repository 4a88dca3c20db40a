//! The recording of one turn in memory. It contains secrets, so it is never printed
//! or written as it is: [`RecordedTurn::to_bundle_turn`] converts it, and the result
//! is redacted before it leaves the process.
//!
//! A recording holds the inputs of the turn. What the turn made of them is only there as
//! hashes, unless [`FinishedTurnSink::wants_results`](super::FinishedTurnSink::wants_results):
//! a replay makes it again.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use adapters::event::Usage;
use adapters::fault::Fault;
use adapters::notes::Notes;
use adapters::plan::{Bounds, NoCache, plan_with_unkept};
use adapters::responses::request::TurnSource;
use adapters::shared_text::SharedText;
use http::StatusCode;
use registry::{RegistrySnapshot, Route, Window};

use super::headers::RecordedHeaders;
use super::memory_budget::MemoryBudget;
use super::recorded_body::RecordedBody;
use super::recorded_text::RecordedText;
use super::sent::Sent;
use crate::clock::milliseconds;
use crate::config::Config;
use crate::diagnostics::bundle::{
    BundleAttempt, BundleRequest, BundleResponse, BundleResponseHead, BundleTurn, OmittedPart,
};
use crate::diagnostics::selection::{ListedTurn, is_codex};
use crate::net::LOCAL_OWNER;
use crate::turn::Outcome;
use crate::turn::TurnState;
use crate::upstream::Upstream;

/// The recording of a turn that is running or finished. The recorder fills it; it is
/// dropped when newer turns need the memory.
pub struct RecordedTurn {
    pub(super) request_id: Arc<str>,
    pub(super) owner: Arc<str>,
    pub(super) config: Arc<Config>,
    pub(super) began_ms: u64,
    pub(super) took_us: u64,
    pub(super) path: String,
    pub(super) headers: RecordedHeaders,
    pub(super) body: RecordedText,
    pub(super) requested_model: String,
    pub(super) routes: Vec<Route>,
    pub(super) similar_names: Vec<String>,
    pub(super) state_before: TurnState,
    pub(super) attempts: Vec<RecordedAttempt>,
    pub(super) status: Option<StatusCode>,
    pub(super) response_headers: RecordedHeaders,
    pub(super) sent: Sent,
    /// Indices of those chunks of the answer that are heartbeats sent while no attempt was running.
    pub(super) heartbeats_between_attempts: Vec<usize>,
    /// Whether the bytes of requests and response are kept, not only their hashes.
    pub(super) keeps_results: bool,
    /// Clock readings that differ from the one before: the number of earlier readings,
    /// and seconds since 1970.
    pub(super) clock: Vec<(u64, u64)>,
    pub(super) random: Vec<u128>,
    pub(super) ending_us: Option<u64>,
    /// When the tool call began that runs or ran last.
    /// Boxed, because a running turn has none.
    pub(super) end: Option<Box<TurnEnd>>,
    /// Bytes of the budget that this turn holds; released on drop.
    pub(super) reserved_bytes: usize,
    /// Bytes that compression has saved. They count where one turn is limited: reading the
    /// recording takes memory for all of it.
    pub(super) saved_bytes: usize,
    pub(super) budget: Arc<MemoryBudget>,
}

pub(super) struct TurnEnd {
    pub(super) outcome: Outcome,
    pub(super) notes: Notes,
    pub(super) usage: Option<Usage>,
    pub(super) fault: Option<Fault>,
}

/// One request to a provider and the response to it.
pub(super) struct RecordedAttempt {
    pub(super) at_us: u64,
    /// `None` if the client left before the attempt was over.
    pub(super) end_us: Option<u64>,
    pub(super) upstream: Arc<Upstream>,
    /// `provider/model`.
    pub(super) route: String,
    /// The path below the provider's base URL.
    pub(super) path: Cow<'static, str>,
    /// The headers that the wire requires.
    pub(super) wire_headers: &'static [(&'static str, &'static str)],
    pub(super) window: Window,
    pub(super) bytes_per_token: f32,
    /// Whether the reasoning of earlier turns was sent along.
    pub(super) replays_reasoning: bool,
    pub(super) cached_price: Option<f64>,
    pub(super) estimated_input: u64,
    pub(super) key: Option<usize>,
    pub(super) head: Option<(u64, StatusCode, RecordedHeaders)>,
    pub(super) response: RecordedBody,
    pub(super) body_complete: bool,
    pub(super) fault: Option<Fault>,
}

impl RecordedTurn {
    pub(super) fn new(
        request_id: Arc<str>,
        config: Arc<Config>,
        began_ms: u64,
        budget: Arc<MemoryBudget>,
        keeps_results: bool,
    ) -> Self {
        Self {
            request_id,
            owner: LOCAL_OWNER.into(),
            config,
            began_ms,
            took_us: 0,
            path: String::new(),
            headers: RecordedHeaders::default(),
            body: RecordedText::default(),
            requested_model: String::new(),
            routes: Vec::new(),
            similar_names: Vec::new(),
            state_before: TurnState::default(),
            attempts: Vec::new(),
            status: None,
            response_headers: RecordedHeaders::default(),
            sent: Sent::default(),
            heartbeats_between_attempts: Vec::new(),
            keeps_results,
            clock: Vec::new(),
            random: Vec::new(),
            ending_us: None,
            end: None,
            reserved_bytes: 0,
            saved_bytes: 0,
            budget,
        }
    }

    /// Whether the turn failed, no matter whose fault it was.
    pub fn is_failure(&self) -> bool {
        self.end
            .as_ref()
            .is_some_and(|end| end.outcome.is_failure())
    }

    /// Whether the turn failed, and not by a mistake of the client alone: there is nothing to find
    /// out about such a request, and it may be private.
    pub(super) fn is_worth_writing(&self) -> bool {
        let outcome = self.end.as_ref().map(|end| end.outcome);
        outcome.is_some_and(|outcome| outcome.is_failure() && outcome != Outcome::Refused)
    }

    /// The turn with everything that a replay needs. Not redacted. What the turn made is empty,
    /// and listed as omitted, if only its hashes are kept.
    pub fn to_bundle_turn(&self) -> BundleTurn {
        let server = &self.config.server;
        let settings = if self.routes.is_empty() {
            RegistrySnapshot::for_unknown_model(
                &self.requested_model,
                &self.config.registry,
                &self.similar_names,
            )
        } else {
            RegistrySnapshot::new(&self.requested_model, &self.routes)
        };
        let mut turn = BundleTurn {
            request_id: self.request_id.to_string(),
            owner: self.owner.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config_digest: format!("{:016x}", self.config.digest),
            began_ms: self.began_ms,
            took_us: self.took_us,
            outcome: self.end.as_ref().map(|end| end.outcome),
            fault: self.end.as_ref().and_then(|end| end.fault.clone()),
            usage: self.end.as_ref().and_then(|end| end.usage),
            ending_us: self.ending_us,
            request: BundleRequest {
                path: self.path.clone(),
                headers: self.headers.to_pairs(),
                body: self.body.to_vec(),
            },
            answer: BundleResponse {
                status: self.status.map_or(0, |status| status.as_u16()),
                headers: self.response_headers.to_pairs(),
                pieces: self.sent.answer.chunks().to_vec(),
                body: self.sent.answer.bytes.clone(),
            },
            attempts: self
                .attempts
                .iter()
                .zip(&self.sent.requests)
                .map(|(attempt, sent)| attempt.to_bundle_attempt(&sent.bytes, self.took_us))
                .collect(),
            settings,
            heartbeat_ms: milliseconds(server.heartbeat),
            commit_after_ms: milliseconds(server.commit_after),
            turn_timeout_ms: Some(milliseconds(server.turn_timeout)),
            heartbeats_between_attempts: self.heartbeats_between_attempts.clone(),
            state_before: self.state_before.clone(),
            clock: self.clock.clone(),
            random: self
                .random
                .iter()
                .map(|bits| format!("{bits:032x}"))
                .collect(),
            omitted: self.omitted(),
            ..BundleTurn::default()
        };
        if let Some(end) = &self.end {
            turn.set_notes(&end.notes);
        }
        if self.keeps_results && !turn.attempts.is_empty() {
            turn.plan = self.plan_json().unwrap_or_default();
        }
        turn
    }

    /// The plan of the first attempt as JSON. It is computed again rather than recorded:
    /// it depends only on the request and the state before the turn.
    fn plan_json(&self) -> Option<Vec<u8>> {
        let attempt = self.attempts.first()?;
        let items = self.state_before.items.iter();
        let items: HashMap<String, SharedText> = items
            .map(|(id, json)| (id.clone(), json.clone().into()))
            .collect();
        let body = String::from_utf8(self.body.to_vec()).ok()?;
        let source = TurnSource::new(body).with_items(items);
        let turn = source.turn().ok()?;
        let bounds = Bounds {
            window: attempt.window,
            bytes_per_token: attempt.bytes_per_token,
            replays_reasoning: self.attempts.first().is_some_and(|it| it.replays_reasoning),
            outputs: self.state_before.outputs,
            retention: self.state_before.retention,
            cached_price: attempt.cached_price,
            unshortened_from: self.state_before.unshortened_from.clone(),
        };
        let unkept = &self.state_before.unkept;
        let plan = plan_with_unkept(&turn, &bounds, &NoCache, unkept);
        serde_json::to_vec_pretty(&plan).ok()
    }

    /// The length of the client's request and of the responses of the providers.
    pub(super) fn body_bytes(&self) -> usize {
        let responses = self.attempts.iter().map(|it| it.response.original_length());
        self.body.original_length() + responses.sum::<usize>()
    }

    pub(super) fn is_worth_compressing(&self) -> bool {
        let mut responses = self.attempts.iter().map(|it| &it.response);
        self.body.is_worth_compressing() || responses.any(RecordedBody::is_worth_compressing)
    }

    /// Compresses the bodies, and gives what that saves back to the budget.
    pub(super) fn compress(&mut self) {
        let responses = self.attempts.iter_mut().map(|it| it.response.compress());
        let saved = self.body.compress() + responses.sum::<usize>();
        self.release_compressed(saved);
    }

    /// Gives back to the budget what compression has saved.
    pub(super) fn release_compressed(&mut self, saved: usize) {
        self.saved_bytes += saved;
        self.reserved_bytes -= saved;
        self.budget.release(saved);
    }

    fn omitted(&self) -> Vec<OmittedPart> {
        let mut omitted = Vec::new();
        let mut check = |what: String, total: u64, kept: u64| {
            if kept < total {
                omitted.push(OmittedPart { what, total, kept });
            }
        };
        let attempts = self.attempts.iter().zip(&self.sent.requests);
        for ((attempt, request), number) in attempts.zip(1..) {
            let kept = request.bytes.len() as u64;
            check(OmittedPart::request(number), request.length(), kept);
            let answer = &attempt.response;
            let total = answer.total_bytes();
            check(OmittedPart::answer(number), total, answer.kept_bytes());
        }
        let answer = &self.sent.answer;
        let kept = answer.bytes.len() as u64;
        check(OmittedPart::ANSWER.to_owned(), answer.total_bytes(), kept);
        omitted
    }

    /// The row of the turn in a listing; whether it is on disk is not known here.
    pub(super) fn listed(&self) -> ListedTurn {
        let ended = self.end.as_ref();
        let last = self.attempts.last();
        let redactor = self.config.redactor();
        let begun = self.status.is_some_and(|status| status.is_success());
        let id = self.random.first().filter(|_| begun);
        ListedTurn {
            request_id: self.request_id.to_string(),
            owner: self.owner.to_string(),
            response_id: id.map(|bits| format!("resp_{bits:032x}")),
            began_ms: self.began_ms,
            took_us: self.took_us,
            outcome: ended.map(|ended| ended.outcome),
            // A client chooses the name of a model that is not listed.
            route: last.map(|attempt| redactor.redact_known(&attempt.route).into_owned()),
            failed: self.is_failure(),
            agent: last.is_some() || is_codex(&self.headers.to_pairs()),
            memory: true,
            disk: false,
        }
    }
}

impl Drop for RecordedTurn {
    fn drop(&mut self) {
        self.budget.release(self.reserved_bytes);
    }
}

impl RecordedAttempt {
    fn to_bundle_attempt(&self, request: &[u8], took_us: u64) -> BundleAttempt {
        BundleAttempt {
            at_us: self.at_us,
            end_us: self.end_us.unwrap_or(took_us),
            route: self.route.clone(),
            url: self.upstream.url(&self.path).to_string(),
            headers: RecordedHeaders::from_map(&self.upstream.headers(self.wire_headers))
                .to_pairs(),
            key: self.key,
            window: Some(self.window),
            bytes_per_token: self.bytes_per_token,
            estimated_input: self.estimated_input,
            head: self
                .head
                .as_ref()
                .map(|(at_us, status, headers)| BundleResponseHead {
                    at_us: *at_us,
                    status: status.as_u16(),
                    headers: headers.to_pairs(),
                }),
            pieces: self.response.chunks().to_vec(),
            ended: self.body_complete,
            fault: self.fault.clone(),
            body: request.to_vec(),
            answer: self.response.to_vec(),
        }
    }
}
