//! Recent turns in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use super::recorded_turn::RecordedTurn;

/// Finished turns, newest last.
#[derive(Default)]
pub(super) struct TurnRing {
    turns: VecDeque<Arc<RecordedTurn>>,
}

impl TurnRing {
    pub(super) fn push(&mut self, turn: Arc<RecordedTurn>) {
        self.turns.push_back(turn);
    }

    /// Removes and returns the oldest turns beyond `max`.
    pub(super) fn truncate(&mut self, max: usize) -> Vec<Arc<RecordedTurn>> {
        let too_many = self.turns.len().saturating_sub(max);
        self.turns.drain(..too_many).collect()
    }

    pub(super) fn pop_oldest(&mut self) -> Option<Arc<RecordedTurn>> {
        self.turns.pop_front()
    }

    pub(super) fn newest_first(&self) -> Vec<Arc<RecordedTurn>> {
        self.turns.iter().rev().cloned().collect()
    }
}
