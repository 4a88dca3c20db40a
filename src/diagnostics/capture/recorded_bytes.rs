//! Bytes of a recording: a body as it was sent or received, later compressed.

use std::io::{self, Write};
use std::sync::Arc;

/// A shorter body stays as it is: compressing it would cost more time than its memory is worth.
const MIN_COMPRESSED: usize = 16 << 10;
/// zstd's fastest regular level. The bodies are JSON, which shrinks well at any level.
const LEVEL: i32 = 1;

/// The bytes of a request or of a response. Shared with the turn, or filled in blocks, while the
/// turn runs.
pub(super) enum RecordedBytes {
    Shared(Arc<String>),
    Blocks(Vec<Vec<u8>>),
    /// A zstd frame of `length` bytes, made by [`RecordedBytes::compress`].
    Compressed {
        frame: Box<[u8]>,
        length: usize,
    },
}

impl Default for RecordedBytes {
    fn default() -> Self {
        Self::Blocks(Vec::new())
    }
}

impl RecordedBytes {
    /// Compresses the bytes if that is worth it and makes them fewer; returns how many it saves.
    pub(super) fn compress(&mut self) -> usize {
        if !self.is_worth_compressing() {
            return 0;
        }
        let length = self.length();
        let Ok(compressed) = self.compressed() else {
            return 0;
        };
        let saved = length.saturating_sub(compressed.len());
        if saved > 0 {
            let frame = compressed.into_boxed_slice();
            *self = Self::Compressed { frame, length };
        }
        saved
    }

    /// Whether the bytes are many and not compressed yet.
    pub(super) fn is_worth_compressing(&self) -> bool {
        !matches!(self, Self::Compressed { .. }) && self.length() >= MIN_COMPRESSED
    }

    /// The bytes as they were recorded.
    pub(super) fn to_vec(&self) -> Vec<u8> {
        match self {
            Self::Shared(text) => text.as_bytes().to_vec(),
            Self::Blocks(blocks) => blocks.concat(),
            // This cannot fail: the frame was made by this process.
            Self::Compressed { frame, .. } => zstd::decode_all(&**frame).unwrap_or_default(),
        }
    }

    /// How many bytes are held in memory: of compressed ones, their compressed length.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Shared(text) => text.len(),
            Self::Blocks(blocks) => blocks.iter().map(Vec::len).sum(),
            Self::Compressed { frame, .. } => frame.len(),
        }
    }

    /// How many bytes [`Self::to_vec`] makes.
    pub(super) fn original_length(&self) -> usize {
        match self {
            Self::Compressed { length, .. } => *length,
            Self::Shared(_) | Self::Blocks(_) => self.length(),
        }
    }

    fn compressed(&self) -> io::Result<Vec<u8>> {
        let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
        match self {
            Self::Shared(text) => encoder.write_all(text.as_bytes())?,
            Self::Blocks(blocks) => blocks
                .iter()
                .try_for_each(|block| encoder.write_all(block))?,
            Self::Compressed { frame, .. } => encoder.write_all(frame)?,
        }
        encoder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(length: usize) -> String {
        (0..length)
            .map(|n| (n * n).to_string())
            .collect::<Vec<_>>()
            .join(",")
    }

    #[test]
    fn long_bytes_are_compressed_and_read_back() {
        let text = numbers(20_000);
        let blocks = text.as_bytes().chunks(5_000).map(<[u8]>::to_vec).collect();
        for mut bytes in [
            RecordedBytes::Shared(Arc::new(text.clone())),
            RecordedBytes::Blocks(blocks),
        ] {
            assert!(bytes.is_worth_compressing());
            let saved = bytes.compress();
            assert_eq!(bytes.length() + saved, text.len());
            assert!(saved > text.len() / 4, "{saved} of {}", text.len());
            assert!(!bytes.is_worth_compressing());
            assert_eq!(bytes.compress(), 0);
            assert_eq!(bytes.to_vec(), text.as_bytes());
            assert_eq!(bytes.original_length(), text.len());
        }
    }

    #[test]
    fn short_bytes_stay_as_they_are() {
        let mut bytes = RecordedBytes::Shared(Arc::new("short".to_owned()));
        assert!(!bytes.is_worth_compressing());
        assert_eq!(bytes.compress(), 0);
        assert_eq!(bytes.to_vec(), b"short");
    }
}
