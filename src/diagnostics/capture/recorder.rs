//! Records one turn: every event of it, and every reading of its clock and
//! randomness, so that a replay can return the same values.

use registry::Price;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use adapters::hidden_rounds::HiddenRounds;
use tokio::time::Instant;

use super::headers::RecordedHeaders;
use super::memory_budget::MemoryBudget;
use super::recorded_body::RecordedBody;
use super::recorded_text::RecordedText;
use super::recorded_turn::{RecordedAttempt, RecordedTurn, TurnEnd};
use super::sent::SentRequest;
use crate::clock::{Clock, Random};
use crate::config::Config;
use crate::diagnostics::bundle::{BodyChunk, MAX_LIST_LENGTH};
use crate::turn::{RecordedToolCall, TurnEnvironment, TurnEvent, TurnObserver};

/// How a heartbeat in an answer begins. The first event of this kind follows `response.created` in
/// its chunk.
const HEARTBEAT: &[u8] = b"event: response.in_progress\n";

/// Records one turn as its observer, clock and source of randomness. The turn is
/// over when its last user drops the recorder; the recording then goes to the sink.
pub struct Recorder {
    began: Instant,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    sink: Arc<dyn FinishedTurnSink>,
    turn: Mutex<Option<RecordedTurn>>,
    clock_readings: AtomicU64,
    last_clock_reading: AtomicU64,
}

/// Receives the recordings of finished turns.
pub trait FinishedTurnSink: Send + Sync {
    /// Takes over a finished turn. It is called while the turn is dropped, so it must
    /// not block.
    fn add(&self, turn: RecordedTurn);

    /// Drops the oldest finished turn to free memory for a running one; false if there
    /// is none to drop.
    fn evict_oldest(&self) -> bool {
        false
    }

    /// Whether a recording holds what the turn sent, to providers and to the client. If not, it
    /// holds hashes of that: it then takes little memory while the turn runs.
    fn wants_results(&self) -> bool {
        true
    }
}

impl Recorder {
    /// Starts to record a turn: its environment is `live`, with a recorder as its clock, its
    /// randomness and its observer.
    pub fn environment(
        request_id: &Arc<str>,
        config: &Arc<Config>,
        live: TurnEnvironment,
        budget: &Arc<MemoryBudget>,
        sink: Arc<dyn FinishedTurnSink>,
    ) -> TurnEnvironment {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let began_ms = now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(0));
        let (id, config) = (Arc::clone(request_id), Arc::clone(config));
        let keeps_results = sink.wants_results();
        let turn = RecordedTurn::new(id, config, began_ms, Arc::clone(budget), keeps_results);
        let recorder = Arc::new(Self {
            began: Instant::now(),
            clock: live.clock,
            random: live.random,
            sink,
            turn: Mutex::new(Some(turn)),
            clock_readings: AtomicU64::new(0),
            last_clock_reading: AtomicU64::new(u64::MAX),
        });
        TurnEnvironment {
            clock: Arc::clone(&recorder) as _,
            random: Arc::clone(&recorder) as _,
            observer: Some(recorder),
            director: live.director,
            tools: live.tools,
        }
    }

    fn elapsed_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn lock_turn(&self) -> MutexGuard<'_, Option<RecordedTurn>> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TurnObserver for Recorder {
    fn on_event(&self, event: TurnEvent<'_>) {
        let at_us = self.elapsed_us();
        if let Some(turn) = self.lock_turn().as_mut() {
            turn.record(event, at_us, &*self.sink);
        }
    }
}

impl RecordedTurn {
    fn record(&mut self, event: TurnEvent<'_>, at_us: u64, sink: &dyn FinishedTurnSink) {
        match event {
            TurnEvent::ClientRequest { request, body } => {
                self.owner = Arc::clone(&request.owner);
                self.path = request.uri.to_string();
                self.headers = RecordedHeaders::from_map(&request.headers);
                self.reserve_required(body.len());
                self.body = RecordedText::Shared(Arc::clone(body));
            }
            TurnEvent::Routes {
                asked,
                routes,
                near,
            } => {
                asked.clone_into(&mut self.requested_model);
                self.routes = routes.to_vec();
                self.similar_names = near.to_vec();
            }
            TurnEvent::State(state) => {
                self.reserve_required(text_bytes(&state.items));
                self.reserve_required(state.tools.as_ref().map_or(0, String::len));
                let hidden = state.hidden_rounds.iter().map(HiddenRounds::bytes);
                self.reserve_required(hidden.sum());
                self.state_before = *state;
            }
            TurnEvent::Baggage(blobs) => {
                self.reserve_required(text_bytes(blobs));
                let blobs = blobs.iter();
                self.state_before
                    .baggage
                    .extend(blobs.map(|(call, blobs)| (call.clone(), blobs.clone())));
            }
            TurnEvent::Unkept(ids) => {
                self.reserve_required(ids.iter().map(String::len).sum());
                self.state_before.unkept.extend(ids.iter().cloned());
            }
            TurnEvent::CacheDiagnostics(found) => {
                self.state_before.cache_diagnostics = Some(found);
            }
            TurnEvent::UpstreamRequest {
                upstream,
                route,
                answer_params,
                request,
            } => {
                let sent = SentRequest::new(&request.body, self.keeps_results);
                // Exact, because few turns have more than one attempt.
                self.sent.requests.reserve_exact(1);
                self.sent.requests.push(sent);
                self.attempts.reserve_exact(1);
                self.attempts.push(RecordedAttempt {
                    at_us,
                    end_us: None,
                    upstream: Arc::clone(upstream),
                    route: route.full_name(),
                    path: request.path.clone(),
                    wire_headers: request.headers,
                    window: route.model.window(),
                    bytes_per_token: answer_params.bytes_per_token,
                    replays_reasoning: route.dialect.quirks.replays_reasoning(),
                    cached_price: route.model.price.as_ref().and_then(Price::cached_ratio),
                    estimated_input: answer_params.estimated_input_tokens,
                    key: None,
                    head: None,
                    response: RecordedBody::default(),
                    body_complete: false,
                    fault: None,
                });
            }
            TurnEvent::Key(key) => self.update_attempt(|attempt| attempt.key = Some(key.index())),
            TurnEvent::UpstreamHead { status, headers } => {
                let headers = RecordedHeaders::from_map(headers);
                self.update_attempt(|attempt| attempt.head = Some((at_us, status, headers)));
            }
            TurnEvent::UpstreamBody(bytes) => {
                let fits = self.try_reserve(bytes.len() + size_of::<BodyChunk>(), sink);
                if !fits {
                    self.sent.answer.cut();
                }
                if let Some(attempt) = self.attempts.last_mut() {
                    let saved = attempt.response.push(bytes, at_us, fits);
                    self.release_compressed(saved);
                }
            }
            TurnEvent::UpstreamEnd => self.update_attempt(|attempt| attempt.body_complete = true),
            TurnEvent::AttemptEnd(fault) => self.update_attempt(|attempt| {
                attempt.end_us = Some(at_us);
                attempt.fault = fault.cloned();
            }),
            TurnEvent::ToolCall { call_id, shown } => {
                // Until the call has ended, this is when it began.
                self.state_before.tool_calls.push(RecordedToolCall {
                    call_id: call_id.to_owned(),
                    shown: shown.cloned(),
                    took_us: at_us,
                    result: None,
                });
            }
            TurnEvent::ToolResult { call_id, result } => {
                self.reserve_required(result.text.len());
                let mut calls = self.state_before.tool_calls.iter_mut();
                if let Some(call) = calls.rfind(|call| call.call_id == call_id) {
                    call.took_us = at_us.saturating_sub(call.took_us);
                    call.result = Some(result.clone());
                }
            }
            TurnEvent::ToolResultShortened { call_id, text } => {
                let mut calls = self.state_before.tool_calls.iter_mut();
                let call = calls.rfind(|call| call.call_id == call_id);
                if let Some(result) = call.and_then(|call| call.result.as_mut()) {
                    text.clone_into(&mut result.text);
                }
            }
            TurnEvent::ShuttingDown => self.ending_us = Some(at_us),
            TurnEvent::ClientHead { status, headers } => {
                self.status = Some(status);
                self.response_headers = RecordedHeaders::from_map(headers);
            }
            TurnEvent::ClientBody(bytes) => {
                self.note_heartbeat(bytes);
                let keeps_results = self.keeps_results;
                let grown = self.sent.answer.push(bytes, at_us, keeps_results);
                self.reserve_required(grown);
            }
            TurnEvent::Ended {
                outcome,
                notes,
                usage,
                fault,
            } => {
                self.end = Some(Box::new(TurnEnd {
                    outcome,
                    notes: notes.clone(),
                    usage,
                    fault: fault.cloned(),
                }));
            }
        }
    }

    /// Records the index of a chunk that is a heartbeat, if no attempt is running.
    fn note_heartbeat(&mut self, chunk: &[u8]) {
        let is_between = self.attempts.last().is_none_or(|it| it.end_us.is_some());
        let heartbeats = &mut self.heartbeats_between_attempts;
        if is_between && chunk.starts_with(HEARTBEAT) && heartbeats.len() < MAX_LIST_LENGTH {
            heartbeats.push(self.sent.answer.chunks().len());
        }
    }

    fn update_attempt(&mut self, change: impl FnOnce(&mut RecordedAttempt)) {
        if let Some(attempt) = self.attempts.last_mut() {
            change(attempt);
        }
    }

    /// Reserves memory without regard to the limit: a recording is useless without the
    /// client's request and the state that belongs to it.
    fn reserve_required(&mut self, bytes: usize) {
        self.reserved_bytes += bytes;
        self.budget.reserve(bytes);
    }

    /// Reserves memory if the budget allows it, dropping finished turns if need be. One
    /// turn gets at most a quarter of the budget.
    fn try_reserve(&mut self, bytes: usize, sink: &dyn FinishedTurnSink) -> bool {
        let limit = self.config.capture.memory;
        if self.reserved_bytes + self.saved_bytes + bytes > limit / 4 {
            return false;
        }
        while !self.budget.try_reserve(bytes, limit) {
            if !sink.evict_oldest() {
                return false;
            }
        }
        self.reserved_bytes += bytes;
        true
    }
}

fn text_bytes<'s>(texts: impl IntoIterator<Item = (&'s String, &'s String)>) -> usize {
    texts
        .into_iter()
        .map(|(id, text)| id.len() + text.len())
        .sum()
}

impl Clock for Recorder {
    fn unix(&self) -> u64 {
        let now = self.clock.unix();
        let before = self.clock_readings.fetch_add(1, Ordering::Relaxed);
        if self.last_clock_reading.swap(now, Ordering::Relaxed) != now
            && let Some(turn) = self.lock_turn().as_mut()
        {
            turn.clock.push((before, now));
        }
        now
    }
}

impl Random for Recorder {
    fn bits(&self) -> u128 {
        let bits = self.random.bits();
        if let Some(turn) = self.lock_turn().as_mut() {
            turn.random.push(bits);
        }
        bits
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let took_us = self.elapsed_us();
        let turn = self.lock_turn().take();
        if let Some(mut turn) = turn {
            turn.took_us = took_us;
            self.sink.add(turn);
        }
    }
}
