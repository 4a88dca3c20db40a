//! Takes down turns as they run, keeps the recent ones in memory, and writes the
//! failed ones to disk.
//!
//! A [`Tape`] takes down one turn while it runs: it copies pieces and shares
//! bodies, and nothing else happens on the way of the turn. When the turn is over
//! it goes to the ring, and to the [`keeper`] if it is to be written.

mod choice;
mod clean;
mod headers;
mod keeper;
mod raw;
mod ring;
mod room;
mod stream;
mod tape;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use crate::config::{CaptureMode, Config};
use crate::turn::{Surrounding, Surroundings, System};

pub use raw::Raw;
pub use room::Room;
pub use tape::{Shelf, Tape};

use keeper::Keeper;
use ring::Ring;

/// What is known of recent turns. Clones share it.
#[derive(Clone, Default)]
pub struct Capture(Arc<Shelves>);

#[derive(Default)]
struct Shelves {
    ring: Mutex<Ring>,
    room: Arc<Room>,
    keeper: Keeper,
}

impl Surroundings for Capture {
    fn of(&self, request_id: &Arc<str>, config: &Arc<Config>) -> Surrounding {
        let live = System.of(request_id, config);
        if config.capture.mode == CaptureMode::Off {
            return live;
        }
        let shelves: Arc<Shelves> = Arc::clone(&self.0);
        let tape = Arc::new(Tape::new(
            request_id,
            config,
            (live.clock, live.random),
            &self.0.room,
            shelves,
        ));
        Surrounding {
            clock: Arc::clone(&tape) as _,
            random: Arc::clone(&tape) as _,
            tap: Some(tape),
        }
    }
}

impl Capture {
    /// Waits until the turns that are to be written are, for a moment.
    pub fn flush(&self) {
        self.0.keeper.flush();
    }

    /// Forgets what a new configuration gives no room to, or does not want to be
    /// known at all.
    pub fn limit(&self, config: &Config) {
        let capture = &config.capture;
        let (recent, memory) = match capture.mode {
            CaptureMode::Off => (0, 0),
            CaptureMode::Failures | CaptureMode::All => (capture.recent, capture.memory),
        };
        self.0.limit(recent, memory);
    }

    /// The turns in memory, the newest first.
    pub(crate) fn recent(&self) -> Vec<Arc<Raw>> {
        self.0.ring().newest_first()
    }
}

impl Shelves {
    fn limit(&self, recent: usize, memory: usize) {
        let gone = self.ring().limit(recent);
        // Outside of the lock: it may be much.
        drop(gone);
        while self.room.taken() > memory && self.make_room() {}
    }

    fn ring(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf for Shelves {
    fn put(&self, raw: Raw) {
        let raw = Arc::new(raw);
        let capture = &raw.config.capture;
        let (recent, memory) = (capture.recent, capture.memory);
        let is_kept = match capture.mode {
            CaptureMode::All => true,
            CaptureMode::Failures => raw.failed(),
            CaptureMode::Off => false,
        };
        if is_kept {
            self.keeper.keep(Arc::clone(&raw));
        }
        // A huge request that went well would stand in memory beside the next one.
        if is_kept || raw.body.len() <= memory / 2 {
            self.ring().put(raw);
        }
        // Requests are kept whatever the room.
        self.limit(recent, memory);
    }

    fn make_room(&self) -> bool {
        let oldest = self.ring().pop();
        oldest.is_some()
    }
}
