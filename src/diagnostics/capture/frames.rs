//! Compressed bytes of a recording.

/// Fewer bytes stay as they are: compressing them would cost more time than their memory is worth.
pub(super) const MIN_COMPRESSED: usize = 16 << 10;
/// zstd's fastest regular level. The bodies are JSON, which shrinks well at any level.
const LEVEL: i32 = 1;

/// Bytes as zstd frames. Each frame can be read alone.
#[derive(Default)]
pub(super) struct Frames {
    compressed: Vec<Box<[u8]>>,
    length: usize,
    original_length: usize,
}

impl Frames {
    /// Appends bytes; returns how many fewer they take now. `None` if they cannot be compressed.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Option<usize> {
        let frame = zstd::bulk::compress(bytes, LEVEL).ok()?.into_boxed_slice();
        let saved = bytes.len().saturating_sub(frame.len());
        self.length += frame.len();
        self.original_length += bytes.len();
        self.compressed.push(frame);
        Some(saved)
    }

    /// How many bytes are held in memory.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// How many bytes [`Self::append_to`] appends.
    pub(super) fn original_length(&self) -> usize {
        self.original_length
    }

    /// Appends the original bytes to `bytes`.
    pub(super) fn append_to(&self, bytes: &mut Vec<u8>) {
        for frame in &self.compressed {
            // This cannot fail: the frame was made by this process.
            let original = zstd::decode_all(&**frame).unwrap_or_default();
            bytes.extend_from_slice(&original);
        }
    }
}
