//! The pieces of a body, as far as there was room.

use super::memory_budget::{BLOCK_SIZE, MemoryBudget};
use crate::diagnostics::bundle::BodyChunk;

/// The shortest block of memory. Further ones are half as long as what was kept.
const MIN_BLOCK_SIZE: usize = 256;

/// What passed of a body.
#[derive(Default)]
pub(super) struct RecordedBody {
    blocks: Vec<Vec<u8>>,
    chunks: Vec<BodyChunk>,
    kept_bytes: u64,
    total_bytes: u64,
}

impl RecordedBody {
    /// Without room for a piece, neither it nor a later one is kept: what is there
    /// has no gap.
    pub(super) fn push(&mut self, bytes: &[u8], at_us: u64, room: Option<&MemoryBudget>) {
        let is_whole = self.kept_bytes == self.total_bytes;
        self.total_bytes += bytes.len() as u64;
        let Some(room) = room.filter(|_| is_whole) else {
            return;
        };
        self.kept_bytes = self.total_bytes;
        self.chunks.push(BodyChunk {
            at_us,
            length: bytes.len(),
        });
        let mut left = bytes;
        while !left.is_empty() {
            left = self.fill_block(left, room);
        }
    }

    /// The memory that it took, for others.
    pub(super) fn take_blocks(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.blocks)
    }

    /// How `bytes` was cut.
    pub(super) fn pieces(&self) -> &[BodyChunk] {
        &self.chunks
    }

    /// What was kept.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.blocks.concat()
    }

    /// How much of it was kept.
    pub(super) fn kept(&self) -> u64 {
        self.kept_bytes
    }

    /// How much there was.
    pub(super) fn total(&self) -> u64 {
        self.total_bytes
    }

    /// Fills the last block, or a new one; gives back what did not fit.
    fn fill_block<'b>(&mut self, bytes: &'b [u8], room: &MemoryBudget) -> &'b [u8] {
        let left = |block: &Vec<u8>| block.capacity() - block.len();
        if self.blocks.last().is_none_or(|block| left(block) == 0) {
            let grown = usize::try_from(self.kept_bytes / 2).unwrap_or(BLOCK_SIZE);
            self.blocks.push(match bytes.len().max(grown) {
                small @ ..BLOCK_SIZE => Vec::with_capacity(small.max(MIN_BLOCK_SIZE)),
                _ => room.take_block(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(pieces: &[usize]) -> (MemoryBudget, RecordedBody) {
        let (room, mut stream) = (MemoryBudget::default(), RecordedBody::default());
        for (length, at_us) in pieces.iter().zip(0..) {
            stream.push(&vec![b'x'; *length], at_us, Some(&room));
        }
        (room, stream)
    }

    /// A stream that is open for long and says little is what there is most of.
    #[test]
    fn a_body_takes_little_more_than_it_has() {
        for pieces in [
            vec![1],
            vec![2343],
            vec![2343, 200],
            vec![300; 40],
            vec![300; 4000],
        ] {
            let (_, stream) = filled(&pieces);
            let length: usize = pieces.iter().sum();
            let taken: usize = stream.blocks.iter().map(Vec::capacity).sum();
            assert_eq!(stream.bytes().len(), length);
            let most = (length + length / 2)
                .min(length + BLOCK_SIZE)
                .max(MIN_BLOCK_SIZE);
            assert!(taken <= most, "{length} take {taken}");
        }
    }

    #[test]
    fn memory_is_used_again() {
        let (room, mut stream) = filled(&[1 << 20]);
        let blocks = stream.take_blocks();
        let addresses: Vec<*const u8> = blocks.iter().map(Vec::as_ptr).collect();
        room.return_blocks(blocks.into_iter(), 1 << 20);
        assert!(addresses.contains(&room.take_block().as_ptr()));
        assert!(room.take_block().is_empty());
        // None are put by beyond the limit.
        let (room, mut stream) = filled(&[1 << 20]);
        let blocks = stream.take_blocks();
        room.return_blocks(blocks.into_iter(), 3 * BLOCK_SIZE - 1);
        assert_eq!(room.free_block_count(), 2);
    }
}
