//! The classes of 64 bytes at once, as bits.

use wide::u8x16;

use crate::places::{WINDOW, padded};

/// The classes of the 64 bytes from a place of a text on, the first one in the lowest bit.
#[derive(Clone, Copy, Default)]
pub(super) struct BytesAhead {
    /// Letters, digits, underscores and all that is not ASCII.
    pub(super) word: u64,
    /// Where a run of such bytes ends: all others, and the first bytes of wide characters.
    pub(super) stop: u64,
    pub(super) digit: u64,
    /// Bytes that begin a character of three or four bytes.
    pub(super) wide: u64,
}

impl BytesAhead {
    /// The bytes from `at` on. Those behind the end of the text have no class.
    #[inline]
    pub(super) fn at(bytes: &[u8], at: usize) -> Self {
        match bytes.get(at..).and_then(<[u8]>::first_chunk) {
            Some(block) => Self::of(block),
            None => Self::of(&padded(bytes.get(at..).unwrap_or_default())),
        }
    }

    #[inline]
    fn of(block: &[u8; WINDOW]) -> Self {
        let mut ahead = Self::default();
        for (index, part) in block.as_chunks::<16>().0.iter().enumerate() {
            let bytes = u8x16::new(*part);
            let letter = is_between(bytes | u8x16::splat(0x20), b'a', b'z');
            let digit = is_between(bytes, b'0', b'9');
            let underscore = bytes.simd_eq(u8x16::splat(b'_'));
            // The highest bit of each byte counts, which is set in all that is not ASCII.
            let word = letter | digit | underscore | bytes;
            let wide = bytes.max(u8x16::splat(0xe0)).simd_eq(bytes);
            let shift = index * 16;
            ahead.word |= u64::from(word.to_bitmask()) << shift;
            ahead.digit |= u64::from(digit.to_bitmask()) << shift;
            ahead.wide |= u64::from(wide.to_bitmask()) << shift;
        }
        ahead.stop = !ahead.word | ahead.wide;
        ahead
    }
}

/// All bits of the bytes from `first` to `last`.
#[inline]
fn is_between(bytes: u8x16, first: u8, last: u8) -> u8x16 {
    let above = bytes - u8x16::splat(first);
    above.min(u8x16::splat(last - first)).simd_eq(above)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_class() {
        for first in 0..=u8::MAX {
            let mut block = [0; WINDOW];
            for (at, byte) in block.iter_mut().enumerate() {
                *byte = first.wrapping_add(u8::try_from(at * 37 % 256).unwrap());
            }
            let ahead = BytesAhead::of(&block);
            for (at, byte) in block.iter().enumerate() {
                let is_word = byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
                let classes = [ahead.word, ahead.digit, ahead.wide].map(|it| it >> at & 1 != 0);
                let expected = [is_word, byte.is_ascii_digit(), *byte >= 0xe0];
                assert_eq!(classes, expected, "{byte:#x}");
            }
        }
    }

    #[test]
    fn behind_the_end_of_a_text_no_byte_has_a_class() {
        let ahead = BytesAhead::at("a1é中".as_bytes(), 1);
        assert_eq!(
            [ahead.word, ahead.digit, ahead.wide],
            [0b11_1111, 0b1, 0b1000]
        );
    }
}
