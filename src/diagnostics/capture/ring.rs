//! The turns of the last minutes, in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use super::raw::Raw;

/// Turns that are over, the newest last.
#[derive(Default)]
pub(super) struct Ring {
    turns: VecDeque<Arc<Raw>>,
}

impl Ring {
    /// Adds a turn.
    pub(super) fn put(&mut self, raw: Arc<Raw>) {
        self.turns.push_back(raw);
    }

    /// Takes out those that are too many.
    pub(super) fn limit(&mut self, most: usize) -> Vec<Arc<Raw>> {
        let too_many = self.turns.len().saturating_sub(most);
        self.turns.drain(..too_many).collect()
    }

    /// Takes out the oldest.
    pub(super) fn pop(&mut self) -> Option<Arc<Raw>> {
        self.turns.pop_front()
    }

    /// All of them, the newest first.
    pub(super) fn newest_first(&self) -> Vec<Arc<Raw>> {
        self.turns.iter().rev().cloned().collect()
    }
}
