//! The turns of the last minutes, in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use super::recorded_turn::RecordedTurn;

/// Turns that are over, the newest last.
#[derive(Default)]
pub(super) struct TurnRing {
    turns: VecDeque<Arc<RecordedTurn>>,
}

impl TurnRing {
    /// Adds a turn.
    pub(super) fn push(&mut self, raw: Arc<RecordedTurn>) {
        self.turns.push_back(raw);
    }

    /// Takes out those that are too many.
    pub(super) fn truncate(&mut self, most: usize) -> Vec<Arc<RecordedTurn>> {
        let too_many = self.turns.len().saturating_sub(most);
        self.turns.drain(..too_many).collect()
    }

    /// Takes out the oldest.
    pub(super) fn pop_oldest(&mut self) -> Option<Arc<RecordedTurn>> {
        self.turns.pop_front()
    }

    /// All of them, the newest first.
    pub(super) fn newest_first(&self) -> Vec<Arc<RecordedTurn>> {
        self.turns.iter().rev().cloned().collect()
    }
}
