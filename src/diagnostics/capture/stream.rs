//! The pieces of a body, as far as there was room.

use super::room::Room;
use crate::diagnostics::bundle::Piece;

/// The first block of memory; each further one is twice as long.
const FIRST: usize = 1 << 10;
/// The longest one: a body of any length takes no more than it has, and is not
/// moved while it grows.
pub(super) const BLOCK: usize = 64 << 10;

/// What passed of a body.
#[derive(Default)]
pub(super) struct Stream {
    blocks: Vec<Vec<u8>>,
    pieces: Vec<Piece>,
    kept: u64,
    total: u64,
}

impl Stream {
    /// Without room for a piece, neither it nor a later one is kept: what is there
    /// has no gap.
    pub(super) fn push(&mut self, bytes: &[u8], at_us: u64, room: Option<&Room>) {
        let is_whole = self.kept == self.total;
        self.total += bytes.len() as u64;
        let Some(room) = room.filter(|_| is_whole) else {
            return;
        };
        self.kept = self.total;
        self.pieces.push(Piece {
            at_us,
            length: bytes.len(),
        });
        let mut left = bytes;
        while !left.is_empty() {
            left = self.fill(left, room);
        }
    }

    /// The memory that it took, for others.
    pub(super) fn take_blocks(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.blocks)
    }

    /// How `bytes` was cut.
    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// What was kept.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.blocks.concat()
    }

    /// How much of it was kept.
    pub(super) fn kept(&self) -> u64 {
        self.kept
    }

    /// How much there was.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Fills the last block, or a new one; gives back what did not fit.
    fn fill<'b>(&mut self, bytes: &'b [u8], room: &Room) -> &'b [u8] {
        let last = self.blocks.last().map_or(0, Vec::capacity);
        let left = |block: &Vec<u8>| block.capacity() - block.len();
        if self.blocks.last().is_none_or(|block| left(block) == 0) {
            let next = (last * 2).clamp(FIRST, BLOCK);
            self.blocks.push(if next == BLOCK {
                room.block()
            } else {
                Vec::with_capacity(next)
            });
        }
        let Some(block) = self.blocks.last_mut() else {
            return &[];
        };
        let (now, later) = bytes.split_at(left(block).min(bytes.len()));
        block.extend_from_slice(now);
        later
    }
}
