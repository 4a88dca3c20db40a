//! The recorded beginning of a streamed body.

use super::recorded_bytes::RecordedBytes;
use crate::diagnostics::bundle::BodyChunk;

/// Bytes of the smallest memory block. A further block is half as large as
/// everything recorded so far.
const MIN_BLOCK_SIZE: usize = 256;
/// Bytes of the largest memory block. A long body is a list of such blocks, so that it wastes
/// little memory and is not moved while it grows.
const MAX_BLOCK_SIZE: usize = 64 << 10;

/// A streamed body as far as the memory budget allowed, and the chunks in which it
/// passed.
#[derive(Default)]
pub(super) struct RecordedBody {
    bytes: RecordedBytes,
    chunks: Vec<BodyChunk>,
    kept_bytes: u64,
    total_bytes: u64,
}

impl RecordedBody {
    /// Adds a chunk. If it does not fit into the memory, it is only counted, and so are all later
    /// ones: the recorded part has no gaps.
    pub(super) fn push(&mut self, bytes: &[u8], at_us: u64, fits: bool) {
        let is_whole = self.kept_bytes == self.total_bytes;
        self.total_bytes += bytes.len() as u64;
        if !(fits && is_whole) {
            return;
        }
        self.kept_bytes = self.total_bytes;
        self.chunks.push(BodyChunk {
            at_us,
            length: bytes.len(),
        });
        let mut left = bytes;
        while !left.is_empty() {
            left = self.fill_block(left);
        }
    }

    /// How [`Self::bytes`] was cut.
    pub(super) fn chunks(&self) -> &[BodyChunk] {
        &self.chunks
    }

    pub(super) fn bytes(&self) -> &RecordedBytes {
        &self.bytes
    }

    /// Compresses what is kept once the body is over; returns how many bytes that saves.
    pub(super) fn compress(&mut self) -> usize {
        self.bytes.compress()
    }

    pub(super) fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// Length of the body as it passed, recorded or not.
    pub(super) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Fills the last block, or a new one; returns the bytes that did not fit.
    fn fill_block<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let RecordedBytes::Blocks(blocks) = &mut self.bytes else {
            return &[];
        };
        let left = |block: &Vec<u8>| block.capacity() - block.len();
        if blocks.last().is_none_or(|block| left(block) == 0) {
            let grown = usize::try_from(self.kept_bytes / 2).unwrap_or(MAX_BLOCK_SIZE);
            let size = bytes.len().max(grown);
            let size = size.clamp(MIN_BLOCK_SIZE, MAX_BLOCK_SIZE);
            blocks.push(Vec::with_capacity(size));
        }
        let Some(block) = blocks.last_mut() else {
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

    fn filled(chunks: &[usize]) -> RecordedBody {
        let mut stream = RecordedBody::default();
        for (length, at_us) in chunks.iter().zip(0..) {
            stream.push(&vec![b'x'; *length], at_us, true);
        }
        stream
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
            let stream = filled(&chunks);
            let length: usize = chunks.iter().sum();
            let RecordedBytes::Blocks(blocks) = &stream.bytes else {
                panic!("compressed");
            };
            let taken: usize = blocks.iter().map(Vec::capacity).sum();
            assert_eq!(stream.bytes().length(), length);
            let most = (length + length / 2)
                .min(length + MAX_BLOCK_SIZE)
                .max(MIN_BLOCK_SIZE);
            assert!(taken <= most, "{length} take {taken}");
        }
    }
}
