//! Takes down one turn: what passes, and each reading of clock and randomness.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::time::Instant;

use super::raw::{Ended, Kept, Raw, RawAttempt};
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
    room: Arc<Room>,
    shelf: Arc<dyn Shelf>,
    raw: Mutex<Option<Raw>>,
}

/// Where turns go that are over.
pub trait Shelf: Send + Sync {
    /// Takes a turn. It must not wait.
    fn put(&self, raw: Raw);
}

/// How many bytes the running turns take. Together they may take what the
/// configuration gives to memory, and each of them a quarter of it.
#[derive(Debug, Default)]
pub struct Room(AtomicUsize);

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
        let raw = Raw::new(Arc::clone(request_id), Arc::clone(config), began_ms);
        Self {
            began: Instant::now(),
            clock,
            random,
            room: Arc::clone(room),
            shelf,
            raw: Mutex::new(Some(raw)),
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
            raw.saw(seen, at_us, &self.room);
        }
    }
}

impl Raw {
    fn saw(&mut self, seen: Seen<'_>, at_us: u64, room: &Room) {
        match seen {
            Seen::ClientRequest { head, body } => {
                self.path = head.uri.to_string();
                self.headers = head.headers.clone();
                self.must(body.len(), room);
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
                self.must(sizes(&given.items), room);
                self.given = given;
            }
            Seen::Baggage(blobs) => {
                self.must(sizes(blobs), room);
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
                let kept = if self.fits(total, room) {
                    body.clone()
                } else {
                    Bytes::new()
                };
                self.attempts.push(RawAttempt {
                    at_us,
                    end_us: None,
                    upstream: Arc::clone(upstream),
                    route: route.clone(),
                    terms: terms.clone(),
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
                self.attempt(|attempt| attempt.head = Some((at_us, status, headers.clone())));
            }
            Seen::UpstreamAnswer(bytes) => {
                let fits = self.fits(size_of::<Piece>() + bytes.len(), room);
                self.attempt(|attempt| attempt.answer.push(bytes, at_us, fits));
            }
            Seen::UpstreamEnd => self.attempt(|attempt| attempt.ended = true),
            Seen::AttemptEnd(fault) => self.attempt(|attempt| {
                attempt.end_us = Some(at_us);
                attempt.fault = fault.cloned();
            }),
            Seen::Ending => self.ending_us = Some(at_us),
            Seen::ClientHead { status, headers } => {
                self.status = Some(status);
                self.answer_headers = headers.clone();
            }
            Seen::ClientAnswer(bytes) => {
                let fits = self.fits(size_of::<Piece>() + bytes.len(), room);
                self.answer.push(bytes, at_us, fits);
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
    fn must(&mut self, bytes: usize, room: &Room) {
        self.bytes += bytes;
        room.take(bytes);
    }

    fn fits(&mut self, bytes: usize, room: &Room) -> bool {
        let limit = self.config.capture.memory;
        let fits = self.bytes + bytes <= limit / 4 && room.try_take(bytes, limit);
        if fits {
            self.bytes += bytes;
        }
        fits
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
        if let Some(raw) = self.raw().as_mut() {
            if raw.clock.last().is_none_or(|(_, last)| *last != now) {
                raw.clock.push((raw.readings, now));
            }
            raw.readings += 1;
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
            self.room.give_back(raw.bytes);
            self.shelf.put(raw);
        }
    }
}

impl Room {
    fn take(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    fn try_take(&self, bytes: usize, limit: usize) -> bool {
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= limit;
        if !fits {
            self.give_back(bytes);
        }
        fits
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}
