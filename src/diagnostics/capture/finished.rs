//! Finished turns in memory: first as they were recorded, then with compressed bodies.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::recorded_bytes::RecordedBytes;
use super::recorded_turn::RecordedTurn;
use super::sent::Sent;
use crate::config::Config;
use crate::diagnostics::bundle::BundleTurn;
use crate::diagnostics::selection::ListedTurn;

/// A turn that is over, in the list of recent turns or waiting to be written. The thread that
/// writes bundles compresses it.
pub(super) struct FinishedTurn {
    /// Its row in a listing, without what is on disk.
    pub(super) listed: ListedTurn,
    /// The configuration that it ran with.
    pub(super) config: Arc<Config>,
    recording: Mutex<RecordedTurn>,
}

impl FinishedTurn {
    pub(super) fn new(turn: RecordedTurn) -> Self {
        Self {
            listed: turn.listed(),
            config: Arc::clone(&turn.config),
            recording: Mutex::new(turn),
        }
    }

    /// What was recorded, not redacted, and the hashes of what the turn sent.
    pub(super) fn open(&self) -> (BundleTurn, Sent) {
        let turn = self.lock();
        (turn.to_bundle_turn(), turn.sent.clone())
    }

    pub(super) fn is_worth_compressing(&self) -> bool {
        self.lock()
            .bodies()
            .any(RecordedBytes::is_worth_compressing)
    }

    /// Compresses the bodies of the recording. Takes time in proportion to them.
    pub(super) fn compress(&self) {
        self.lock().compress();
    }

    fn lock(&self) -> MutexGuard<'_, RecordedTurn> {
        self.recording
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
