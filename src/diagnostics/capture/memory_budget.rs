//! The memory that captured turns may take.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The longest one: a body of any length takes no more than it has, and is not
/// moved while it grows.
pub(super) const BLOCK_SIZE: usize = 64 << 10;

/// How many bytes turns take: those that run, those that are kept, and those that
/// wait to be written. Together they may take what the configuration gives to
/// memory; a turn that runs comes before one that is kept.
#[derive(Default)]
pub struct MemoryBudget {
    used: AtomicUsize,
    /// Blocks of turns that went. Memory that was used before costs a fraction of
    /// what the system has to make ready.
    free_blocks: Mutex<Vec<Vec<u8>>>,
}

impl MemoryBudget {
    pub(super) fn taken(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// For what is kept whatever the room.
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

    /// An empty block.
    pub(super) fn take_block(&self) -> Vec<u8> {
        let block = self.blocks().pop();
        block.unwrap_or_else(|| Vec::with_capacity(BLOCK_SIZE))
    }

    /// Takes blocks back, as many as the limit leaves room for.
    pub(super) fn return_blocks(&self, used: impl Iterator<Item = Vec<u8>>, limit: usize) {
        let most = limit.saturating_sub(self.taken()) / BLOCK_SIZE;
        let mut blocks = self.blocks();
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
        self.blocks().len()
    }

    fn blocks(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.free_blocks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
