//! The turns of the last minutes, in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use super::raw::Raw;

/// Turns that are over, the newest last.
#[derive(Default)]
pub(super) struct Ring {
    turns: VecDeque<Arc<Raw>>,
    bytes: usize,
}

impl Ring {
    /// Adds a turn, and takes out what there is no room for.
    pub(super) fn put(&mut self, raw: Arc<Raw>, most: usize, memory: usize) -> Vec<Arc<Raw>> {
        self.bytes += raw.bytes;
        self.turns.push_back(raw);
        self.limit(most, memory)
    }

    /// Takes out what there is no room for.
    pub(super) fn limit(&mut self, most: usize, memory: usize) -> Vec<Arc<Raw>> {
        let mut gone = Vec::new();
        while (self.turns.len() > most || self.bytes > memory)
            && let Some(oldest) = self.turns.pop_front()
        {
            self.bytes -= oldest.bytes;
            gone.push(oldest);
        }
        gone
    }

    /// All of them, the newest first.
    pub(super) fn newest_first(&self) -> Vec<Arc<Raw>> {
        self.turns.iter().rev().cloned().collect()
    }
}
