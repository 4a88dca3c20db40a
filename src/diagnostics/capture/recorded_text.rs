//! The recorded body of a client's request.

use std::sync::Arc;

use super::frames::{Frames, MIN_COMPRESSED};

/// The body of a request: shared with the turn while that runs, later compressed.
pub(super) enum RecordedText {
    Shared(Arc<String>),
    Compressed(Frames),
}

impl Default for RecordedText {
    fn default() -> Self {
        Self::Compressed(Frames::default())
    }
}

impl RecordedText {
    /// Compresses the text if that is worth it; returns how many bytes that saves.
    pub(super) fn compress(&mut self) -> usize {
        if let Self::Shared(text) = self
            && text.len() >= MIN_COMPRESSED
        {
            let mut frames = Frames::default();
            if let Some(saved) = frames.push(text.as_bytes()) {
                *self = Self::Compressed(frames);
                return saved;
            }
        }
        0
    }

    /// Whether the text is long and not compressed yet.
    pub(super) fn is_worth_compressing(&self) -> bool {
        matches!(self, Self::Shared(text) if text.len() >= MIN_COMPRESSED)
    }

    /// The text as it was recorded, in UTF-8.
    pub(super) fn to_vec(&self) -> Vec<u8> {
        match self {
            Self::Shared(text) => text.as_bytes().to_vec(),
            Self::Compressed(frames) => {
                let mut bytes = Vec::with_capacity(frames.original_length());
                frames.append_to(&mut bytes);
                bytes
            }
        }
    }

    /// How many bytes are held in memory: of a compressed text, its compressed length.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Shared(text) => text.len(),
            Self::Compressed(frames) => frames.length(),
        }
    }

    /// How many bytes [`Self::to_vec`] makes.
    pub(super) fn original_length(&self) -> usize {
        match self {
            Self::Shared(text) => text.len(),
            Self::Compressed(frames) => frames.original_length(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_compressed_and_read_back() {
        let numbers: Vec<String> = (0..20_000).map(|n: u64| (n * n).to_string()).collect();
        let text = numbers.join(",");
        let mut recorded = RecordedText::Shared(Arc::new(text.clone()));
        assert!(recorded.is_worth_compressing());
        let saved = recorded.compress();
        assert_eq!(recorded.length() + saved, text.len());
        assert!(saved > text.len() / 4, "{saved} of {}", text.len());
        assert!(!recorded.is_worth_compressing());
        assert_eq!(recorded.compress(), 0);
        assert_eq!(recorded.to_vec(), text.as_bytes());
        assert_eq!(recorded.original_length(), text.len());
    }

    #[test]
    fn a_short_text_stays_as_it_is() {
        let mut recorded = RecordedText::Shared(Arc::new("short".to_owned()));
        assert!(!recorded.is_worth_compressing());
        assert_eq!(recorded.compress(), 0);
        assert_eq!(recorded.to_vec(), b"short");
    }
}
