//! Takes down turns as they run, keeps the recent ones in memory, and writes the
//! failed ones to disk.
//!
//! A [`Tape`] takes down one turn while it runs: it copies pieces and shares
//! bodies, and nothing else happens on the way of the turn. When the turn is over
//! it goes to the ring, and to the [`keeper`] if it is to be written.

mod headers;
mod memory_budget;
mod query;
mod recorded_body;
mod recorded_turn;
mod recorder;
mod redacted;
mod ring;
#[cfg(test)]
mod tests;
mod writer;

use std::sync::{Arc, Mutex, PoisonError};

use crate::config::{CaptureMode, Config};
use crate::turn::{Surrounding, Surroundings, System};

pub use memory_budget::MemoryBudget;
pub use recorded_turn::RecordedTurn;
pub use recorder::{FinishedTurnSink, Recorder};

use ring::TurnRing;
use writer::BundleWriter;

/// What is known of recent turns. Clones share it.
#[derive(Clone, Default)]
pub struct TurnCapture(Arc<RecentTurns>);

#[derive(Default)]
struct RecentTurns {
    lock_ring: Mutex<TurnRing>,
    budget: Arc<MemoryBudget>,
    writer: BundleWriter,
}

impl Surroundings for TurnCapture {
    fn of(&self, request_id: &Arc<str>, config: &Arc<Config>) -> Surrounding {
        let live = System.of(request_id, config);
        if config.capture.mode == CaptureMode::Off {
            return live;
        }
        let shelves: Arc<RecentTurns> = Arc::clone(&self.0);
        let tape = Arc::new(Recorder::new(
            request_id,
            config,
            (live.clock, live.random),
            &self.0.budget,
            shelves,
        ));
        Surrounding {
            clock: Arc::clone(&tape) as _,
            random: Arc::clone(&tape) as _,
            tap: Some(tape),
        }
    }
}

impl TurnCapture {
    /// Waits until the turns that are to be written are, for a moment.
    pub fn flush(&self) {
        self.0.writer.flush();
    }

    /// Forgets what a new configuration gives no room to, or does not want to be
    /// known at all.
    pub fn apply_limits(&self, config: &Config) {
        let capture = &config.capture;
        let (recent, memory) = match capture.mode {
            CaptureMode::Off => (0, 0),
            CaptureMode::Failures | CaptureMode::All => (capture.recent, capture.memory),
        };
        self.0.evict_beyond(recent, memory);
    }

    /// The turns in memory, the newest first.
    pub(crate) fn recent(&self) -> Vec<Arc<RecordedTurn>> {
        self.0.ring().newest_first()
    }
}

impl RecentTurns {
    fn evict_beyond(&self, recent: usize, memory: usize) {
        let gone = self.ring().truncate(recent);
        // Outside of the lock: it may be much.
        drop(gone);
        while self.budget.taken() > memory && self.evict_oldest() {}
    }

    fn ring(&self) -> std::sync::MutexGuard<'_, TurnRing> {
        self.lock_ring
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl FinishedTurnSink for RecentTurns {
    fn add(&self, raw: RecordedTurn) {
        let raw = Arc::new(raw);
        let capture = &raw.config.capture;
        let (recent, memory) = (capture.recent, capture.memory);
        let is_kept = match capture.mode {
            CaptureMode::All => true,
            CaptureMode::Failures => raw.is_failure(),
            CaptureMode::Off => false,
        };
        if is_kept {
            self.writer.write_bundle(Arc::clone(&raw));
        }
        // A huge request that went well would stand in memory beside the next one.
        if is_kept || raw.body.len() <= memory / 2 {
            self.ring().push(raw);
        }
        // Requests are kept whatever the room.
        self.evict_beyond(recent, memory);
    }

    fn evict_oldest(&self) -> bool {
        let oldest = self.ring().pop_oldest();
        oldest.is_some()
    }
}
