//! Accounting for the memory of recorded turns.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the bytes of all recorded turns: running, finished, and waiting to be
/// written. Together they may take what `[capture] memory` allows; running turns
/// have priority over finished ones.
#[derive(Default)]
pub struct MemoryBudget(AtomicUsize);

impl MemoryBudget {
    pub(super) fn used(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Reserves bytes without regard to a limit.
    pub(super) fn reserve(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn try_reserve(&self, bytes: usize, limit: usize) -> bool {
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= limit;
        if !fits {
            self.release(bytes);
        }
        fits
    }

    pub(super) fn release(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}
