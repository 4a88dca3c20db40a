//! Takes down one turn: what passes, and each reading of clock and randomness.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use registry::ReasoningReplay;
use tokio::time::Instant;

use super::headers::Headers;
use super::raw::{Ended, Kept, Raw, RawAttempt};
use super::room::Room;
use super::stream::Stream;
use crate::config::Config;
use crate::diagnostics::bundle::Piece;
use crate::tap::{Seen, Tap};
use crate::turn::{Clock, Random};

/// Takes down one turn. When the last of its users drops it, the turn is over
/// and goes to the shelf.
pub struct Tape {
    began: Instant,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    shelf: Arc<dyn Shelf>,
    raw: Mutex<Option<Raw>>,
    /// Readings of the clock so far, and the last one.
    readings: AtomicU64,
    last: AtomicU64,
}

/// Where turns go that are over.
pub trait Shelf: Send + Sync {
    /// Takes a turn. It must not wait.
    fn put(&self, raw: Raw);

    /// Lets a turn go, so that one that runs has room. False if there is none.
    fn make_room(&self) -> bool {
        false
    }
}

impl Tape {
    /// Begins to take down a turn that runs on this clock and randomness.
    pub fn new(
        request_id: &Arc<str>,
        config: &Arc<Config>,
        (clock, random): (Arc<dyn Clock>, Arc<dyn Random>),
        room: &Arc<Room>,
        shelf: Arc<dyn Shelf>,
    ) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let began_ms = now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(0));
        let (id, config) = (Arc::clone(request_id), Arc::clone(config));
        let raw = Raw::new(id, config, began_ms, Arc::clone(room));
        Self {
            began: Instant::now(),
            clock,
            random,
            shelf,
            raw: Mutex::new(Some(raw)),
            readings: AtomicU64::new(0),
            last: AtomicU64::new(u64::MAX),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn raw(&self) -> MutexGuard<'_, Option<Raw>> {
        self.raw.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tap for Tape {
    fn saw(&self, seen: Seen<'_>) {
        let at_us = self.now();
        if let Some(raw) = self.raw().as_mut() {
            raw.saw(seen, at_us, &*self.shelf);
        }
    }
}

impl Raw {
    fn saw(&mut self, seen: Seen<'_>, at_us: u64, shelf: &dyn Shelf) {
        match seen {
            Seen::ClientRequest { head, body } => {
                self.path = head.uri.to_string();
                self.headers = Headers::of(&head.headers);
                self.must(body.len());
                self.body = Arc::clone(body);
            }
            Seen::Routes {
                asked,
                routes,
                near,
            } => {
                asked.clone_into(&mut self.asked);
                self.routes = routes.to_vec();
                self.near = near.to_vec();
            }
            Seen::Given(given) => {
                self.must(sizes(&given.items));
                self.must(given.tools.as_ref().map_or(0, String::len));
                self.given = given;
            }
            Seen::Baggage(blobs) => {
                self.must(sizes(blobs));
                let blobs = blobs.iter();
                self.given
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
                let kept = if self.fits(total, shelf) {
                    body.clone()
                } else {
                    Bytes::new()
                };
                // One that fails is rare.
                self.attempts.reserve_exact(1);
                self.attempts.push(RawAttempt {
                    at_us,
                    end_us: None,
                    upstream: Arc::clone(upstream),
                    route: route.full_name(),
                    window: route.model.window(),
                    bytes_per_token: terms.bytes_per_token,
                    reasoning: route.dialect.quirks.reasoning_replay != ReasoningReplay::None,
                    estimated_input: terms.estimated_input_tokens,
                    body: Kept { bytes: kept, total },
                    key: None,
                    head: None,
                    answer: Stream::default(),
                    ended: false,
                    fault: None,
                });
            }
            Seen::Key(key) => self.attempt(|attempt| attempt.key = Some(key.index())),
            Seen::UpstreamHead { status, headers } => {
                let headers = Headers::of(headers);
                self.attempt(|attempt| attempt.head = Some((at_us, status, headers)));
            }
            Seen::UpstreamAnswer(bytes) => {
                let fits = self.fits(bytes.len() + size_of::<Piece>(), shelf);
                if let Some(attempt) = self.attempts.last_mut() {
                    let room = fits.then_some(&*self.room);
                    attempt.answer.push(bytes, at_us, room);
                }
            }
            Seen::UpstreamEnd => self.attempt(|attempt| attempt.ended = true),
            Seen::AttemptEnd(fault) => self.attempt(|attempt| {
                attempt.end_us = Some(at_us);
                attempt.fault = fault.cloned();
            }),
            Seen::Ending => self.ending_us = Some(at_us),
            Seen::ClientHead { status, headers } => {
                self.status = Some(status);
                self.answer_headers = Headers::of(headers);
            }
            Seen::ClientAnswer(bytes) => {
                let fits = self.fits(bytes.len() + size_of::<Piece>(), shelf);
                let room = fits.then_some(&*self.room);
                self.answer.push(bytes, at_us, room);
            }
            Seen::Ended {
                outcome,
                notes,
                usage,
                fault,
            } => {
                self.ended = Some(Ended {
                    outcome,
                    notes: notes.clone(),
                    usage,
                    fault: fault.cloned(),
                });
            }
        }
    }

    fn attempt(&mut self, change: impl FnOnce(&mut RawAttempt)) {
        if let Some(attempt) = self.attempts.last_mut() {
            change(attempt);
        }
    }

    /// Without the request and what belongs to it there is nothing to show: it
    /// counts, and is kept whatever the room.
    fn must(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.room.take(bytes);
    }

    /// Takes room for so many bytes. A turn may have a quarter of the memory.
    fn fits(&mut self, bytes: usize, shelf: &dyn Shelf) -> bool {
        let limit = self.config.capture.memory;
        if self.bytes + bytes > limit / 4 {
            return false;
        }
        while !self.room.try_take(bytes, limit) {
            if !shelf.make_room() {
                return false;
            }
        }
        self.bytes += bytes;
        true
    }
}

fn sizes<'s>(texts: impl IntoIterator<Item = (&'s String, &'s String)>) -> usize {
    texts
        .into_iter()
        .map(|(id, text)| id.len() + text.len())
        .sum()
}

impl Clock for Tape {
    fn unix(&self) -> u64 {
        let now = self.clock.unix();
        let before = self.readings.fetch_add(1, Ordering::Relaxed);
        if self.last.swap(now, Ordering::Relaxed) != now
            && let Some(raw) = self.raw().as_mut()
        {
            raw.clock.push((before, now));
        }
        now
    }
}

impl Random for Tape {
    fn bits(&self) -> u128 {
        let bits = self.random.bits();
        if let Some(raw) = self.raw().as_mut() {
            raw.random.push(bits);
        }
        bits
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        let took_us = self.now();
        let raw = self.raw().take();
        if let Some(mut raw) = raw {
            raw.took_us = took_us;
            self.shelf.put(raw);
        }
    }
}
