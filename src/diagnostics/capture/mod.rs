//! Records turns while they run, keeps the recent ones in memory, and writes the
//! failed ones to disk.
//!
//! A [`Recorder`] observes one turn. It copies streamed chunks, compresses them 64 KB at a time,
//! and shares request bodies; that is all the work it adds to a running turn. When the turn ends,
//! the recording goes to the recent turns in memory, where the thread of the `writer` compresses
//! what is left, and, if the configuration asks for it, to the writer itself, which redacts it and
//! stores it as a bundle. `query` lists the recorded turns and packs selected ones; `work` bounds
//! what that takes.

mod finished;
mod frames;
mod headers;
mod memory_budget;
mod query;
mod recorded_body;
mod recorded_text;
mod recorded_turn;
mod recorder;
mod redacted;
mod sent;
#[cfg(test)]
mod tests;
mod work;
mod writer;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use adapters::stop_flag::StopFlag;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clock::System;
use crate::config::{CaptureMode, Config};
use crate::log;
use crate::net::memory::{MemoryKind, ProcessMemory};
use crate::turn::{ToolRunner, TurnEnvironment, TurnEnvironmentFactory};

pub use memory_budget::MemoryBudget;
pub use recorded_turn::RecordedTurn;
pub use recorder::{FinishedTurnSink, Recorder};
pub use work::{CaptureWork, CaptureWorkError};

use finished::FinishedTurn;
use writer::BundleWriter;

/// Records the turns of a server and holds the recent recordings. Created once at
/// start; clones share the same recordings.
#[derive(Clone, Default)]
pub struct TurnCapture(Arc<RecentTurns>);

#[derive(Default)]
struct RecentTurns {
    /// Finished turns, newest last.
    turns: Mutex<VecDeque<Arc<FinishedTurn>>>,
    budget: Arc<MemoryBudget>,
    writer: BundleWriter,
    /// For the work of one client at a time.
    work: WorkSlot,
    /// The tools of the turns, if there are any.
    tools: OnceLock<Arc<dyn ToolRunner>>,
}

struct WorkSlot(Arc<Semaphore>);

impl Default for WorkSlot {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

/// How long the end of the server waits for turns that are not on disk yet.
const FINAL_FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

impl TurnEnvironmentFactory for TurnCapture {
    fn create(&self, request_id: &Arc<str>, config: &Arc<Config>) -> TurnEnvironment {
        let live = TurnEnvironment {
            tools: self.tools(),
            ..System.create(request_id, config)
        };
        if config.capture.mode == CaptureMode::Off {
            return live;
        }
        let recent: Arc<RecentTurns> = Arc::clone(&self.0);
        Recorder::environment(request_id, config, live, &self.0.budget, recent)
    }

    fn tools(&self) -> Option<Arc<dyn ToolRunner>> {
        self.0.tools.get().cloned()
    }
}

impl TurnCapture {
    /// The turns have these tools from now on. Called once, at the start of the server.
    pub fn set_tools(&self, tools: Arc<dyn ToolRunner>) {
        self.0.tools.set(tools).ok();
    }

    /// Blocks until all queued turns are on disk, for ten seconds at most. Logs how many are not
    /// on disk by then: they are lost with the process.
    pub fn flush_at_end(&self) {
        let lost = self
            .0
            .writer
            .flush(FINAL_FLUSH_TIMEOUT, &StopFlag::default());
        if lost > 0 {
            tracing::warn!(
                target: log::CAPTURE_TARGET,
                "the server ends before all turns could be written: {lost} were not kept"
            );
        }
    }

    /// Counts the recordings in the memory budget of the process.
    pub fn count_memory(&self, memory: &ProcessMemory) {
        let budget = Arc::clone(&self.0.budget);
        memory.add_store(MemoryKind::Recordings, move || budget.used());
    }

    /// Drops the recordings that exceed the limits of a new configuration; all of them
    /// if it switches capturing off.
    pub fn apply_limits(&self, config: &Config) {
        let capture = &config.capture;
        let (recent, memory) = match capture.mode {
            CaptureMode::Off => (0, 0),
            CaptureMode::Failures | CaptureMode::All => (capture.recent, capture.memory),
        };
        self.0.evict_beyond(recent, memory);
    }

    /// The turns in memory, newest first.
    fn recent(&self) -> Vec<Arc<FinishedTurn>> {
        self.0.lock_turns().iter().rev().cloned().collect()
    }
}

impl RecentTurns {
    fn evict_beyond(&self, recent: usize, memory: usize) {
        let mut turns = self.lock_turns();
        let too_many = turns.len().saturating_sub(recent);
        let evicted: Vec<_> = turns.drain(..too_many).collect();
        drop(turns);
        // Freed outside the lock: it may be a lot of memory.
        drop(evicted);
        while self.budget.used() > memory && self.evict_oldest() {}
    }

    /// Waits until the work before has ended.
    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.work.0).acquire_owned().await.ok()
    }

    fn lock_turns(&self) -> MutexGuard<'_, VecDeque<Arc<FinishedTurn>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FinishedTurnSink for RecentTurns {
    fn add(&self, turn: RecordedTurn) {
        let capture = &turn.config.capture;
        let (recent, memory) = (capture.recent, capture.memory);
        let is_written = match capture.mode {
            CaptureMode::All => true,
            CaptureMode::Failures => turn.is_worth_writing(),
            CaptureMode::Off => false,
        };
        // A huge successful request would fill the memory together with the next
        // one, which is about as large.
        let is_kept = is_written || turn.body.length() <= memory / 2;
        let kept = is_kept.then(|| Arc::new(FinishedTurn::new(turn)));
        self.lock_turns().extend(kept.clone());
        // Requests are recorded even beyond the budget, so it may be exceeded here.
        self.evict_beyond(recent, memory);
        if let Some(turn) = kept {
            self.writer.enqueue(&turn, is_written);
        }
    }

    fn evict_oldest(&self) -> bool {
        let oldest = self.lock_turns().pop_front();
        oldest.is_some()
    }

    fn wants_results(&self) -> bool {
        false
    }
}
