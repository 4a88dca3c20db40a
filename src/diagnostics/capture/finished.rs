//! Finished turns in memory: first as they were recorded, then with compressed bodies.

#[cfg(test)]
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

    /// The bytes of the bodies that [`Self::open`] copies.
    pub(super) fn body_bytes(&self) -> usize {
        self.lock().body_bytes()
    }

    pub(super) fn is_worth_compressing(&self) -> bool {
        self.lock().is_worth_compressing()
    }

    /// Compresses the bodies of the recording. Takes time in proportion to them.
    pub(super) fn compress(&self) {
        self.lock().compress();
    }

    /// Holds the recording on another thread until the first of the two is dropped. The second one
    /// gets a message when it is held.
    #[cfg(test)]
    pub(super) fn hold(self: &Arc<Self>) -> (Sender<()>, Receiver<()>) {
        let (release, released) = channel::<()>();
        let (held, is_held) = channel();
        let turn = Arc::clone(self);
        std::thread::spawn(move || {
            let _recording = turn.lock();
            held.send(()).unwrap();
            let _ = released.recv();
        });
        (release, is_held)
    }

    fn lock(&self) -> MutexGuard<'_, RecordedTurn> {
        self.recording
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
