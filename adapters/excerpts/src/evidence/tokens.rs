//! The words and numbers of a text, found in 64 bytes at a time.
//!
//! A word is a run of letters, digits and underscores; letters of any alphabet with two bytes
//! count. In scripts that write no spaces each character is a token of its own. Upper and lower
//! case are the same, and so are words that differ in their digits only.

use std::hint::cold_path;
use std::num::NonZeroU64;

use super::byte_classes::BytesAhead;
use crate::places::WINDOW;

/// What a token is. It has the size of a machine word: with a smaller one, a token has unused
/// bytes, and copying it around them takes a third of the time of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum TokenKind {
    Word,
    /// A character of three or four bytes: a sign, or one of a script without spaces.
    Character,
    /// A number. Its hash is its magnitude, above [`VALUE_SHIFT`] the number itself and one, if it
    /// is small, and above [`SIGNS_SHIFT`] the signs around it.
    Number,
    /// An identifier, such as a hexadecimal one. Only its place matters.
    Id,
}

/// A token between two bytes of the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextToken {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) kind: TokenKind,
    pub(super) hash: u64,
}

impl TextToken {
    /// Whether its words are told apart, and not only its place.
    #[inline]
    pub(super) fn is_word(&self) -> bool {
        matches!(self.kind, TokenKind::Word | TokenKind::Character)
    }
}

/// A token, by the branch in which it was found: a `match` on it has code of its own for each kind.
#[derive(Clone, Copy)]
pub(super) enum FoundToken {
    /// A word of letters.
    Word(TextToken),
    Character(TextToken),
    Number(TextToken),
    /// A word with digits, or an identifier.
    Name(TextToken),
}

const ONES: u64 = 0x0101_0101_0101_0101;
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of every [`TokenKind::Id`].
pub(super) const ID_HASH: u64 = 0x5bd1_e995_6a09_e667;

/// Where the hash of a number has its value, and a hash of the signs around it.
pub(super) const VALUE_SHIFT: u32 = 32;
pub(super) const SIGNS_SHIFT: u32 = 48;

/// A number with more digits has no value of its own.
const MAX_VALUE_DIGITS: usize = 4;

/// The most letters of the unit of a number.
const MAX_UNIT_LETTERS: usize = 3;

/// How often letters and digits may follow each other in a word.
const MAX_CHANGES: u32 = 3;

/// A run of at least this many hexadecimal digits with a decimal one is no word.
const MIN_HEX_BYTES: usize = 6;

/// Combines two hashes; their order matters.
#[inline]
pub(crate) fn mix(first: u64, second: u64) -> u64 {
    let mixed = (first.rotate_left(23) ^ second).wrapping_mul(FACTOR);
    mixed ^ (mixed >> 29)
}

/// Eight bytes from `at` on, with zeros behind the end.
#[inline]
pub(crate) fn load(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => load_end(bytes, at),
    }
}

#[cold]
fn load_end(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..).unwrap_or_default().iter().rev();
    bytes.fold(0, |chunk, byte| chunk << 8 | u64::from(*byte))
}

/// The first `count` bytes of a chunk, up to eight.
#[inline]
pub(super) fn first_bytes(chunk: u64, count: usize) -> u64 {
    if count >= 8 {
        return chunk;
    }
    chunk & !(u64::MAX << (count * 8))
}

/// The last bytes of a word: one to eight of a chunk, in small letters, moved to its end.
#[inline]
fn last_bytes(chunk: u64, count: usize) -> u64 {
    fold_case(chunk) << (64 - count * 8)
}

/// Letters of a chunk in small letters. Other bytes change too, but not digits.
#[inline]
pub(super) fn fold_case(chunk: u64) -> u64 {
    chunk | ONES << 5
}

/// Reads the tokens of a text.
pub(super) struct Tokens<'t> {
    bytes: &'t [u8],
    /// Where the window begins.
    base: usize,
    window: BytesAhead,
}

impl<'t> Tokens<'t> {
    pub(super) fn new(bytes: &'t [u8]) -> Self {
        Self {
            bytes,
            base: 0,
            window: BytesAhead::at(bytes, 0),
        }
    }

    #[inline]
    fn move_to(&mut self, at: usize) {
        self.base = at;
        self.window = BytesAhead::at(self.bytes, at);
    }

    /// The next token from `at` on that begins before `end`.
    pub(super) fn next(&mut self, at: usize, end: usize) -> Option<TextToken> {
        self.find(at, end).map(|found| match found {
            FoundToken::Word(token)
            | FoundToken::Character(token)
            | FoundToken::Number(token)
            | FoundToken::Name(token) => token,
        })
    }

    /// The same, by how it was found.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "it is called for each word of an output"
    )]
    pub(super) fn find(&mut self, at: usize, end: usize) -> Option<FoundToken> {
        if at.wrapping_sub(self.base) >= WINDOW {
            if at >= end {
                return None;
            }
            self.move_to(at);
        }
        let mut offset = at - self.base;
        loop {
            if let Some(found) = NonZeroU64::new(self.window.word >> offset) {
                offset += found.trailing_zeros() as usize;
                break;
            }
            if self.base + WINDOW >= end {
                return None;
            }
            self.move_to(self.base + WINDOW);
            offset = 0;
        }
        let start = self.base + offset;
        if start >= end {
            return None;
        }
        let mut stop = self.window.stop >> offset;
        if stop & 1 != 0 {
            return Some(FoundToken::Character(self.character(start, end)));
        }
        if stop == 0 {
            if offset > 0 {
                self.move_to(start);
                offset = 0;
                stop = self.window.stop;
            }
            if stop == 0 {
                return Some(FoundToken::Name(self.long_run(start, end)));
            }
        }
        let length = stop.trailing_zeros() as usize;
        let at = (start + length).min(end);
        // Of the bits below the lowest one of `stop`.
        let digits = self.window.digit >> offset & !stop & (stop - 1);
        if digits == 0 {
            return Some(FoundToken::Word(TextToken {
                start,
                end: at,
                kind: TokenKind::Word,
                hash: self.word_hash(start, length),
            }));
        }
        let length = at - start;
        let mut leading = digits.trailing_ones() as usize;
        if leading < length {
            // A number may have a unit.
            let has_unit = length - leading <= MAX_UNIT_LETTERS && digits >> leading == 0;
            if leading == 0 || !has_unit {
                return Some(FoundToken::Name(self.name(start, digits, at)));
            }
        } else {
            leading = length;
        }
        Some(FoundToken::Number(self.number(start, leading, at, end)))
    }

    /// The character of three or four bytes at `at`, if there is one before `end` and it is known
    /// without a look at further bytes.
    #[inline]
    pub(super) fn character_at(&self, at: usize, end: usize) -> Option<TextToken> {
        let offset = at.wrapping_sub(self.base);
        let is_wide = offset < WINDOW && at < end && self.window.wide >> offset & 1 != 0;
        is_wide.then(|| self.character(at, end))
    }

    #[inline]
    fn character(&self, start: usize, end: usize) -> TextToken {
        let chunk = load(self.bytes, start);
        let character = |length: usize| TextToken {
            start,
            end: (start + length).min(end),
            kind: TokenKind::Character,
            hash: mix(1, first_bytes(chunk, length)),
        };
        if chunk & 0xff >= 0xf0 {
            // A branch: where the next character begins is foreseen before this one is read.
            cold_path();
            return character(4);
        }
        character(3)
    }

    /// The hash of a run of letters.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "it is called for each word of an output"
    )]
    fn word_hash(&self, start: usize, length: usize) -> u64 {
        let rest = self.bytes.get(start..);
        if length <= 16
            && let Some(block) = rest.and_then(<[u8]>::first_chunk::<16>)
            && let ([first, second], _) = block.as_chunks::<8>()
        {
            let (first, second) = (u64::from_le_bytes(*first), u64::from_le_bytes(*second));
            // Without a branch, since the length of a word is unpredictable.
            let is_long = length > 8;
            let long = u64::from(is_long).wrapping_neg();
            let last = first ^ (first ^ second) & long;
            let hash = mix(0, fold_case(first)) & long;
            return mix(hash, last_bytes(last, length - 8 * usize::from(is_long)));
        }
        let mut hash = 0;
        let (mut from, mut left) = (start, length);
        while left > 8 {
            hash = mix(hash, fold_case(load(self.bytes, from)));
            (from, left) = (from + 8, left - 8);
        }
        mix(hash, last_bytes(load(self.bytes, from), left))
    }

    /// A run that fills the window at `start`, which goes on and is an identifier.
    #[cold]
    fn long_run(&mut self, start: usize, end: usize) -> TextToken {
        let mut at = (start + WINDOW).min(end);
        while at < end {
            self.move_to(at);
            let length = self.window.stop.trailing_zeros() as usize;
            at += length;
            if length < WINDOW {
                break;
            }
        }
        TextToken {
            start,
            end: at.min(end),
            kind: TokenKind::Id,
            hash: ID_HASH,
        }
    }

    /// A number with `digits` digits before its unit or its fraction.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "it is called for each number of an output"
    )]
    fn number(&self, start: usize, digits: usize, at: usize, end: usize) -> TextToken {
        let chunk = load(self.bytes, start);
        let zeros = ((chunk ^ ZEROS).trailing_zeros() as usize / 8).min(digits);
        let mut magnitude = ZERO;
        let mut value = 0;
        if zeros < digits && zeros < 8 {
            let lead = chunk >> (zeros * 8) & 15;
            let power = (digits - zeros).min(MAX_POWER) as u64;
            magnitude += power * 9 + lead;
        }
        if digits <= MAX_VALUE_DIGITS {
            value = small_number(chunk, digits) + 1;
        }
        let mut token = TextToken {
            start,
            end: at,
            kind: TokenKind::Number,
            hash: 0,
        };
        if self.byte(at) == b'.' && at == start + digits {
            token.end = self.fraction(at, end, &mut magnitude);
            value = if token.end > at { 0 } else { value };
        }
        let before = start.checked_sub(1).map_or(b'\n', |at| self.byte(at));
        // Of a word behind it the start counts.
        let behind = load(self.bytes, token.end);
        let behind = first_bytes(behind, if behind & 0xff == 0x20 { 3 } else { 1 });
        let signs = mix(u64::from(before), behind) >> SIGNS_SHIFT;
        if before == b'-' {
            let before = start.checked_sub(2).map_or(b' ', |at| self.byte(at));
            let joins = before.is_ascii_alphanumeric() || matches!(before, b'-' | b'_' | b'.');
            magnitude += if joins { 0 } else { NEGATIVE };
        }
        token.hash = magnitude | value << VALUE_SHIFT | signs << SIGNS_SHIFT;
        token
    }

    /// Where the fraction of a number ends; the fraction of a number below one tells its magnitude.
    #[inline(never)]
    fn fraction(&self, at: usize, end: usize, magnitude: &mut u64) -> usize {
        let rest = self.bytes.get(at + 1..end).unwrap_or_default();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return at;
        }
        let zeros = rest.iter().take_while(|byte| **byte == b'0').count();
        if *magnitude == ZERO
            && let Some(lead) = rest.get(zeros).filter(|_| zeros < digits)
        {
            let power = (zeros + 1).min(MAX_POWER) as u64;
            *magnitude = ZERO - power * 9 + u64::from(lead - b'0');
        }
        at + 1 + digits
    }

    /// A run of letters and digits that is no number.
    #[inline(never)]
    fn name(&self, start: usize, digits: u64, at: usize) -> TextToken {
        let run = self.bytes.get(start..at).unwrap_or_default();
        let changes = (digits ^ digits << 1) & !(u64::MAX << run.len());
        let is_hex = || run.len() >= MIN_HEX_BYTES && run.iter().all(u8::is_ascii_hexdigit);
        let is_id = digits & 1 != 0 || changes.count_ones() > MAX_CHANGES || is_hex();
        let (kind, hash) = if is_id {
            (TokenKind::Id, ID_HASH)
        } else {
            // Most names have their digits at the end only, where no letter follows.
            let hashed = if changes.is_power_of_two() {
                changes.trailing_zeros() as usize
            } else {
                run.len()
            };
            let bytes = run.get(..hashed).unwrap_or(run).iter().enumerate();
            let hash = bytes.fold(3, |hash, (at, byte)| {
                // Not a branch, since it would be unpredictable.
                let letter = (digits >> at & 1).wrapping_sub(1);
                hash & !letter | mix(hash, u64::from(byte | 0x20)) & letter
            });
            (TokenKind::Word, hash)
        };
        TextToken {
            start,
            end: at,
            kind,
            hash,
        }
    }

    #[inline]
    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or_default()
    }
}

/// The number that the first digits of a chunk make, one to four of them: summed up two by two, and
/// without a loop.
#[inline]
fn small_number(chunk: u64, digits: usize) -> u64 {
    let digits = (chunk << ((MAX_VALUE_DIGITS - digits) * 8)) & 0x0f0f_0f0f;
    let pairs = ((digits * 0x0a01) >> 8) & 0x00ff_00ff;
    ((pairs * 0x0064_0001) >> 16) & 0xffff
}

/// The magnitude of zero. Larger numbers have larger magnitudes, nine for each power of ten;
/// those of negative numbers are above [`NEGATIVE`].
const ZERO: u64 = 100;
const NEGATIVE: u64 = 1_000;

/// Larger powers of ten are not told apart.
const MAX_POWER: usize = 10;

/// Eight digits zero.
const ZEROS: u64 = ONES * 0x30;
