//! Takes down one turn: what passes, and each reading of clock and randomness.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use registry::ReasoningReplay;
use tokio::time::Instant;

use super::headers::RecordedHeaders;
use super::memory_budget::MemoryBudget;
use super::recorded_body::RecordedBody;
use super::recorded_turn::{BoundedBody, RecordedAttempt, RecordedTurn, TurnEnd};
use crate::config::Config;
use crate::diagnostics::bundle::BodyChunk;
use crate::tap::{Seen, Tap};
use crate::turn::{Clock, Random};

/// Takes down one turn. When the last of its users drops it, the turn is over
/// and goes to the shelf.
pub struct Recorder {
    began: Instant,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    sink: Arc<dyn FinishedTurnSink>,
    lock_turn: Mutex<Option<RecordedTurn>>,
    /// Readings of the clock so far, and the last one.
    clock_readings: AtomicU64,
    last_clock_reading: AtomicU64,
}

/// Where turns go that are over.
pub trait FinishedTurnSink: Send + Sync {
    /// Takes a turn. It must not wait.
    fn add(&self, raw: RecordedTurn);

    /// Lets a turn go, so that one that runs has room. False if there is none.
    fn evict_oldest(&self) -> bool {
        false
    }
}

impl Recorder {
    /// Begins to take down a turn that runs on this clock and randomness.
    pub fn new(
        request_id: &Arc<str>,
        config: &Arc<Config>,
        (clock, random): (Arc<dyn Clock>, Arc<dyn Random>),
        room: &Arc<MemoryBudget>,
        sink: Arc<dyn FinishedTurnSink>,
    ) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let began_ms = now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(0));
        let (id, config) = (Arc::clone(request_id), Arc::clone(config));
        let raw = RecordedTurn::new(id, config, began_ms, Arc::clone(room));
        Self {
            began: Instant::now(),
            clock,
            random,
            sink,
            lock_turn: Mutex::new(Some(raw)),
            clock_readings: AtomicU64::new(0),
            last_clock_reading: AtomicU64::new(u64::MAX),
        }
    }

    fn elapsed_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn raw(&self) -> MutexGuard<'_, Option<RecordedTurn>> {
        self.lock_turn
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tap for Recorder {
    fn saw(&self, seen: Seen<'_>) {
        let at_us = self.elapsed_us();
        if let Some(raw) = self.raw().as_mut() {
            raw.record(seen, at_us, &*self.sink);
        }
    }
}

impl RecordedTurn {
    fn record(&mut self, seen: Seen<'_>, at_us: u64, shelf: &dyn FinishedTurnSink) {
        match seen {
            Seen::ClientRequest { head, body } => {
                self.path = head.uri.to_string();
                self.headers = RecordedHeaders::from_map(&head.headers);
                self.reserve_required(body.len());
                self.body = Arc::clone(body);
            }
            Seen::Routes {
                asked,
                routes,
                near,
            } => {
                asked.clone_into(&mut self.requested_model);
                self.routes = routes.to_vec();
                self.similar_names = near.to_vec();
            }
            Seen::Given(given) => {
                self.reserve_required(text_bytes(&given.items));
                self.reserve_required(given.tools.as_ref().map_or(0, String::len));
                self.state_before = given;
            }
            Seen::Baggage(blobs) => {
                self.reserve_required(text_bytes(blobs));
                let blobs = blobs.iter();
                self.state_before
                    .baggage
                    .extend(blobs.map(|(call, blobs)| (call.clone(), blobs.clone())));
            }
            Seen::UpstreamRequest {
                upstream,
                route,
                terms,
                body,
            } => {
                let total = body.len();
                let kept = if self.try_reserve(total, shelf) {
                    body.clone()
                } else {
                    Bytes::new()
                };
                // One that fails is rare.
                self.attempts.reserve_exact(1);
                self.attempts.push(RecordedAttempt {
                    at_us,
                    end_us: None,
                    upstream: Arc::clone(upstream),
                    route: route.full_name(),
                    window: route.model.window(),
                    bytes_per_token: terms.bytes_per_token,
                    replays_reasoning: route.dialect.quirks.reasoning_replay
                        != ReasoningReplay::None,
                    estimated_input: terms.estimated_input,
                    body: BoundedBody { bytes: kept, total },
                    key: None,
                    head: None,
                    response: RecordedBody::default(),
                    body_complete: false,
                    fault: None,
                });
            }
            Seen::Key(key) => self.update_attempt(|attempt| attempt.key = Some(key.index())),
            Seen::UpstreamHead { status, headers } => {
                let headers = RecordedHeaders::from_map(headers);
                self.update_attempt(|attempt| attempt.head = Some((at_us, status, headers)));
            }
            Seen::UpstreamAnswer(bytes) => {
                let fits = self.try_reserve(bytes.len() + size_of::<BodyChunk>(), shelf);
                if let Some(attempt) = self.attempts.last_mut() {
                    let room = fits.then_some(&*self.budget);
                    attempt.response.push(bytes, at_us, room);
                }
            }
            Seen::UpstreamEnd => self.update_attempt(|attempt| attempt.body_complete = true),
            Seen::AttemptEnd(fault) => self.update_attempt(|attempt| {
                attempt.end_us = Some(at_us);
                attempt.fault = fault.cloned();
            }),
            Seen::Ending => self.ending_us = Some(at_us),
            Seen::ClientHead { status, headers } => {
                self.status = Some(status);
                self.response_headers = RecordedHeaders::from_map(headers);
            }
            Seen::ClientAnswer(bytes) => {
                let fits = self.try_reserve(bytes.len() + size_of::<BodyChunk>(), shelf);
                let room = fits.then_some(&*self.budget);
                self.response.push(bytes, at_us, room);
            }
            Seen::Ended {
                outcome,
                notes,
                usage,
                fault,
            } => {
                self.end = Some(TurnEnd {
                    outcome,
                    notes: notes.clone(),
                    usage,
                    fault: fault.cloned(),
                });
            }
        }
    }

    fn update_attempt(&mut self, change: impl FnOnce(&mut RecordedAttempt)) {
        if let Some(attempt) = self.attempts.last_mut() {
            change(attempt);
        }
    }

    /// Without the request and what belongs to it there is nothing to show: it
    /// counts, and is kept whatever the room.
    fn reserve_required(&mut self, bytes: usize) {
        self.reserved_bytes += bytes;
        self.budget.reserve(bytes);
    }

    /// Takes room for so many bytes. A turn may have a quarter of the memory.
    fn try_reserve(&mut self, bytes: usize, shelf: &dyn FinishedTurnSink) -> bool {
        let limit = self.config.capture.memory;
        if self.reserved_bytes + bytes > limit / 4 {
            return false;
        }
        while !self.budget.try_reserve(bytes, limit) {
            if !shelf.evict_oldest() {
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
            && let Some(raw) = self.raw().as_mut()
        {
            raw.clock.push((before, now));
        }
        now
    }
}

impl Random for Recorder {
    fn bits(&self) -> u128 {
        let bits = self.random.bits();
        if let Some(raw) = self.raw().as_mut() {
            raw.random.push(bits);
        }
        bits
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let took_us = self.elapsed_us();
        let raw = self.raw().take();
        if let Some(mut raw) = raw {
            raw.took_us = took_us;
            self.sink.add(raw);
        }
    }
}
