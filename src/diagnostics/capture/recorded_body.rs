//! The recorded beginning of a streamed body.

use super::frames::{Frames, MIN_COMPRESSED};
use crate::diagnostics::bundle::BodyChunk;

/// Bytes of the smallest memory block. A further block is half as large as
/// everything recorded so far.
const MIN_BLOCK_SIZE: usize = 256;
/// Bytes of the largest memory block. As many bytes are compressed together while the body arrives.
const MAX_BLOCK_SIZE: usize = 64 << 10;

/// A streamed body, cut where the memory budget ended, and the chunks in which it passed.
#[derive(Default)]
pub(super) struct RecordedBody {
    /// What arrived first.
    frames: Frames,
    /// What arrived since then. Only the last block has room.
    blocks: Vec<Vec<u8>>,
    chunks: Vec<BodyChunk>,
    kept_bytes: u64,
    total_bytes: u64,
}

impl RecordedBody {
    /// Adds a chunk; returns how many bytes fewer the recording takes, because earlier ones were
    /// compressed. If the chunk does not fit into the memory, it is only counted, and so are all
    /// later ones: the recorded part has no gaps.
    pub(super) fn push(&mut self, bytes: &[u8], at_us: u64, fits: bool) -> usize {
        let is_whole = self.kept_bytes == self.total_bytes;
        self.total_bytes += bytes.len() as u64;
        if !(fits && is_whole) {
            return 0;
        }
        self.kept_bytes = self.total_bytes;
        self.chunks.push(BodyChunk {
            at_us,
            length: bytes.len(),
        });
        let mut saved = 0;
        let mut left = bytes;
        while !left.is_empty() {
            let is_full = self.blocks.last().is_none_or(|block| room(block) == 0);
            if is_full && self.plain_length() >= MAX_BLOCK_SIZE {
                saved += self.compress_blocks();
            }
            left = self.fill_block(left);
        }
        saved
    }

    /// How [`Self::to_vec`] was cut.
    pub(super) fn chunks(&self) -> &[BodyChunk] {
        &self.chunks
    }

    /// The bytes that were kept.
    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.original_length());
        self.frames.append_to(&mut bytes);
        self.blocks
            .iter()
            .for_each(|block| bytes.extend_from_slice(block));
        bytes
    }

    /// Compresses the rest of what is kept once the body is over; returns how many bytes that
    /// saves.
    pub(super) fn compress(&mut self) -> usize {
        if self.is_worth_compressing() {
            self.compress_blocks()
        } else {
            0
        }
    }

    /// Whether much is not compressed yet.
    pub(super) fn is_worth_compressing(&self) -> bool {
        self.plain_length() >= MIN_COMPRESSED
    }

    /// How many bytes [`Self::to_vec`] makes.
    pub(super) fn original_length(&self) -> usize {
        self.frames.original_length() + self.plain_length()
    }

    pub(super) fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// Length of the body as it passed, recorded or not.
    pub(super) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    fn plain_length(&self) -> usize {
        self.blocks.iter().map(Vec::len).sum()
    }

    fn compress_blocks(&mut self) -> usize {
        let Some(saved) = self.frames.push(&self.blocks.concat()) else {
            return 0;
        };
        self.blocks.clear();
        saved
    }

    /// Fills the last block, or a new one; returns the bytes that did not fit.
    fn fill_block<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        if self.blocks.last().is_none_or(|block| room(block) == 0) {
            let grown = usize::try_from(self.kept_bytes / 2).unwrap_or(MAX_BLOCK_SIZE);
            let size = bytes.len().max(grown);
            let size = size.clamp(MIN_BLOCK_SIZE, MAX_BLOCK_SIZE);
            self.blocks.push(Vec::with_capacity(size));
        }
        let Some(block) = self.blocks.last_mut() else {
            return &[];
        };
        let (now, later) = bytes.split_at(room(block).min(bytes.len()));
        block.extend_from_slice(now);
        later
    }
}

fn room(block: &Vec<u8>) -> usize {
    block.capacity() - block.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records chunks of these lengths; returns the body, what was sent, and how many bytes were
    /// saved on the way.
    fn recorded(chunks: &[usize]) -> (RecordedBody, Vec<u8>, usize) {
        let mut body = RecordedBody::default();
        let mut sent = Vec::new();
        let mut saved = 0;
        for (length, at_us) in chunks.iter().zip(0..) {
            let text = at_us.to_string().repeat(*length);
            let chunk = text.as_bytes().get(..*length).unwrap();
            saved += body.push(chunk, at_us, true);
            sent.extend_from_slice(chunk);
        }
        (body, sent, saved)
    }

    /// Most streams are open for a long time and carry little.
    #[test]
    fn a_body_takes_little_more_than_it_has() {
        for chunks in [vec![1], vec![2343], vec![2343, 200], vec![300; 40]] {
            let (body, sent, saved) = recorded(&chunks);
            let length = sent.len();
            let taken: usize = body.blocks.iter().map(Vec::capacity).sum();
            assert_eq!((body.to_vec(), saved), (sent, 0));
            let most = (length + length / 2)
                .min(length + MAX_BLOCK_SIZE)
                .max(MIN_BLOCK_SIZE);
            assert!(taken <= most, "{length} take {taken}");
        }
    }

    #[test]
    fn a_long_body_is_compressed_while_it_arrives() {
        for chunks in [vec![300; 4000], vec![1_000_000, 7, 500_000]] {
            let (mut body, sent, saved) = recorded(&chunks);
            let plain = body.plain_length();
            assert!(plain <= 2 * MAX_BLOCK_SIZE, "{plain} are not compressed");
            assert_eq!(body.frames.length() + plain + saved, sent.len());
            assert!(saved > sent.len() / 2, "{saved} of {}", sent.len());
            assert_eq!(body.original_length(), sent.len());
            assert_eq!(body.to_vec(), sent);
            body.compress();
            assert!(body.plain_length() < MIN_COMPRESSED);
            assert_eq!(body.to_vec(), sent);
        }
    }
}
