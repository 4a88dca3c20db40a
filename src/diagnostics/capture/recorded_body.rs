//! The recorded beginning of a streamed body.

use super::memory_budget::{BLOCK_SIZE, MemoryBudget};
use crate::diagnostics::bundle::BodyChunk;

/// Bytes of the smallest memory block. A further block is half as large as
/// everything recorded so far.
const MIN_BLOCK_SIZE: usize = 256;

/// A streamed body as far as the memory budget allowed, and the chunks in which it
/// passed.
#[derive(Default)]
pub(super) struct RecordedBody {
    blocks: Vec<Vec<u8>>,
    chunks: Vec<BodyChunk>,
    kept_bytes: u64,
    total_bytes: u64,
}

impl RecordedBody {
    /// Adds a chunk. Without a budget the chunk is only counted, and so are all later
    /// ones: the recorded part has no gaps.
    pub(super) fn push(&mut self, bytes: &[u8], at_us: u64, budget: Option<&MemoryBudget>) {
        let is_whole = self.kept_bytes == self.total_bytes;
        self.total_bytes += bytes.len() as u64;
        let Some(budget) = budget.filter(|_| is_whole) else {
            return;
        };
        self.kept_bytes = self.total_bytes;
        self.chunks.push(BodyChunk {
            at_us,
            length: bytes.len(),
        });
        let mut left = bytes;
        while !left.is_empty() {
            left = self.fill_block(left, budget);
        }
    }

    /// Empties the body and returns its memory for reuse.
    pub(super) fn take_blocks(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.blocks)
    }

    /// How [`Self::bytes`] was cut.
    pub(super) fn chunks(&self) -> &[BodyChunk] {
        &self.chunks
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.blocks.concat()
    }

    pub(super) fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// Length of the body as it passed, recorded or not.
    pub(super) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Fills the last block, or a new one; returns the bytes that did not fit.
    fn fill_block<'b>(&mut self, bytes: &'b [u8], budget: &MemoryBudget) -> &'b [u8] {
        let left = |block: &Vec<u8>| block.capacity() - block.len();
        if self.blocks.last().is_none_or(|block| left(block) == 0) {
            let grown = usize::try_from(self.kept_bytes / 2).unwrap_or(BLOCK_SIZE);
            self.blocks.push(match bytes.len().max(grown) {
                small @ ..BLOCK_SIZE => Vec::with_capacity(small.max(MIN_BLOCK_SIZE)),
                _ => budget.take_block(),
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

    fn filled(chunks: &[usize]) -> (MemoryBudget, RecordedBody) {
        let (budget, mut stream) = (MemoryBudget::default(), RecordedBody::default());
        for (length, at_us) in chunks.iter().zip(0..) {
            stream.push(&vec![b'x'; *length], at_us, Some(&budget));
        }
        (budget, stream)
    }

    /// Most streams are open for a long time and carry little.
    #[test]
    fn a_body_takes_little_more_than_it_has() {
        for chunks in [
            vec![1],
            vec![2343],
            vec![2343, 200],
            vec![300; 40],
            vec![300; 4000],
        ] {
            let (_, stream) = filled(&chunks);
            let length: usize = chunks.iter().sum();
            let taken: usize = stream.blocks.iter().map(Vec::capacity).sum();
            assert_eq!(stream.bytes().len(), length);
            let most = (length + length / 2)
                .min(length + BLOCK_SIZE)
                .max(MIN_BLOCK_SIZE);
            assert!(taken <= most, "{length} take {taken}");
        }
    }

    #[test]
    fn blocks_are_reused() {
        let (budget, mut stream) = filled(&[1 << 20]);
        let blocks = stream.take_blocks();
        let addresses: Vec<*const u8> = blocks.iter().map(Vec::as_ptr).collect();
        budget.return_blocks(blocks.into_iter(), 1 << 20);
        assert!(addresses.contains(&budget.take_block().as_ptr()));
        assert!(budget.take_block().is_empty());
        // Beyond the limit no block is kept.
        let (budget, mut stream) = filled(&[1 << 20]);
        let blocks = stream.take_blocks();
        budget.return_blocks(blocks.into_iter(), 3 * BLOCK_SIZE - 1);
        assert_eq!(budget.free_block_count(), 2);
    }
}
