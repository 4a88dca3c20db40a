//! The memory of one turn, as the budget of the process counts it.

use crate::net::memory::{MemoryKind, MemoryShare, ProcessMemory, STEP};

/// The body of a request, with the memory that it and what is made of it take.
#[derive(Debug)]
pub struct ReceivedBody {
    /// The decoded body.
    pub text: String,
    /// Its memory.
    pub memory: MemoryShare,
}

/// A body that no budget counts, for replays.
impl From<String> for ReceivedBody {
    fn from(text: String) -> Self {
        Self {
            text,
            memory: ProcessMemory::unlimited().share(MemoryKind::Requests),
        }
    }
}

/// The memory of a turn. Made with the turn; the shares change as it goes on, and are free again
/// when it ends.
#[derive(Debug)]
pub(super) struct TurnMemory {
    /// The bodies: the client's, and the one that is sent for it.
    request: MemoryShare,
    /// What the client's body counts; 0 if its recording counts it.
    client_body: usize,
    /// The answer so far.
    answer: MemoryShare,
}

impl TurnMemory {
    /// The memory of a turn with this body, which counts as a part of its recording if it
    /// `is_recorded`.
    pub(super) fn new(memory: MemoryShare, bytes: usize, is_recorded: bool) -> Self {
        Self {
            answer: memory.memory().share(MemoryKind::Answers),
            request: memory,
            client_body: if is_recorded { 0 } else { bytes },
        }
    }

    /// Counts the body of the client and one of `bytes` bytes for a provider.
    pub(super) fn set_upstream_body(&mut self, bytes: usize) {
        // A step is for the turn itself.
        self.request.set(self.client_body + bytes + STEP);
    }

    /// Neither body is needed any more.
    pub(super) fn free_bodies(&mut self) {
        self.client_body = 0;
        self.request.set(STEP);
    }

    /// The answer and what was read of it take `bytes` bytes.
    pub(super) fn set_answer(&mut self, bytes: usize) {
        self.answer.set(bytes);
    }
}
