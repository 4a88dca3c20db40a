//! Finished turns in memory: first as they were recorded, then compressed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::memory_budget::MemoryBudget;
use super::recorded_turn::RecordedTurn;
use super::sent::Sent;
use crate::config::Config;
use crate::diagnostics::bundle::{Bundle, BundleError, BundleTurn};
use crate::diagnostics::selection::ListedTurn;

/// A turn that is over, in the list of recent turns or waiting to be written. The thread that
/// writes bundles compresses it.
pub(super) struct FinishedTurn {
    /// Its row in a listing, without what is on disk.
    pub(super) listed: ListedTurn,
    /// The configuration that it ran with.
    pub(super) config: Arc<Config>,
    recording: Mutex<Recording>,
}

enum Recording {
    Whole(Arc<RecordedTurn>),
    Compressed(CompressedTurn),
}

/// A bundle of the turn, not redacted, and the hashes of what it sent.
struct CompressedTurn {
    bundle: Box<[u8]>,
    sent: Sent,
    budget: Arc<MemoryBudget>,
}

impl FinishedTurn {
    pub(super) fn new(turn: RecordedTurn) -> Self {
        Self {
            listed: turn.listed(),
            config: Arc::clone(&turn.config),
            recording: Mutex::new(Recording::Whole(Arc::new(turn))),
        }
    }

    /// What was recorded, not redacted, and the hashes of what the turn sent.
    pub(super) fn open(&self) -> Result<(BundleTurn, Sent), BundleError> {
        match &*self.lock() {
            Recording::Whole(turn) => Ok((turn.to_bundle_turn(), turn.sent.clone())),
            Recording::Compressed(compressed) => compressed.open(),
        }
    }

    /// Compresses the recording. One that no bundle could hold stays as it is.
    pub(super) fn compress(&self) {
        let turn = match &*self.lock() {
            Recording::Whole(turn) => Arc::clone(turn),
            Recording::Compressed(_) => return,
        };
        if let Ok(compressed) = CompressedTurn::new(&turn) {
            *self.lock() = Recording::Compressed(compressed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.recording
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl CompressedTurn {
    fn new(turn: &RecordedTurn) -> Result<Self, BundleError> {
        let mut recorded = turn.to_bundle_turn();
        // A bundle has no chunks of a response that it does not hold.
        recorded.answer.pieces.clear();
        let bundle = Bundle {
            turns: vec![recorded],
            ..Bundle::default()
        };
        let compressed = Self {
            bundle: bundle.to_bytes()?.into_boxed_slice(),
            sent: turn.sent.clone(),
            budget: Arc::clone(&turn.budget),
        };
        compressed.budget.reserve(compressed.size());
        Ok(compressed)
    }

    fn open(&self) -> Result<(BundleTurn, Sent), BundleError> {
        let mut turns = Bundle::from_bytes(&self.bundle)?.turns;
        let mut turn = turns.pop().ok_or(BundleError::NoTurns)?;
        turn.answer.pieces = self.sent.answer.chunks().to_vec();
        Ok((turn, self.sent.clone()))
    }

    fn size(&self) -> usize {
        self.bundle.len() + self.sent.size()
    }
}

impl Drop for CompressedTurn {
    fn drop(&mut self) {
        self.budget.release(self.size());
    }
}
