//! Accounting for the memory of recorded turns, and reuse of their memory blocks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of the largest memory block. A long body is a list of such blocks, so that
/// it wastes little memory and is not moved while it grows.
pub(super) const BLOCK_SIZE: usize = 64 << 10;

/// Counts the bytes of all recorded turns: running, finished, and waiting to be
/// written. Together they may take what `[capture] memory` allows; running turns
/// have priority over finished ones.
#[derive(Default)]
pub struct MemoryBudget {
    used: AtomicUsize,
    /// Blocks of dropped turns. Reusing them costs a fraction of what fresh memory from
    /// the operating system costs.
    free_blocks: Mutex<Vec<Vec<u8>>>,
}

impl MemoryBudget {
    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Reserves bytes without regard to a limit.
    pub(super) fn reserve(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn try_reserve(&self, bytes: usize, limit: usize) -> bool {
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= limit;
        if !fits {
            self.release(bytes);
        }
        fits
    }

    pub(super) fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// An empty block of [`BLOCK_SIZE`], a used one if possible.
    pub(super) fn take_block(&self) -> Vec<u8> {
        let block = self.lock_free_blocks().pop();
        block.unwrap_or_else(|| Vec::with_capacity(BLOCK_SIZE))
    }

    /// Keeps blocks for reuse, as many as fit below the limit.
    pub(super) fn return_blocks(&self, used: impl Iterator<Item = Vec<u8>>, limit: usize) {
        let most = limit.saturating_sub(self.used()) / BLOCK_SIZE;
        let mut blocks = self.lock_free_blocks();
        for mut block in used.filter(|block| block.capacity() == BLOCK_SIZE) {
            if blocks.len() >= most {
                break;
            }
            block.clear();
            blocks.push(block);
        }
    }

    #[cfg(test)]
    pub(super) fn free_block_count(&self) -> usize {
        self.lock_free_blocks().len()
    }

    fn lock_free_blocks(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.free_blocks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
