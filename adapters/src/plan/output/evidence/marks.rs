//! The words that are looked for in a text: signs of trouble, and what the call and the user
//! asked for.

use std::sync::LazyLock;

use super::model::{BIT, Bits, RarityModel, ratio};
use super::tokens::{TextToken, TokenKind, Tokens, fold_case, load, mix};
use super::{signs, signs_hash};

/// What a line with a word gets at most.
const TROUBLE_BITS: Bits = 11 * BIT;
const WARNING_BITS: Bits = 12 * BIT;
const ORDER_BITS: Bits = 6 * BIT;
const ARGUMENT_BITS: Bits = 10 * BIT;
const MESSAGE_BITS: Bits = 8 * BIT;
/// What a word gets in addition that stands out from its line.
const STANDING_OUT_BITS: Bits = 5 * BIT;
/// What the only line with a sign gets in addition.
const ONLY_BITS: Bits = 4 * BIT;
/// A name such as `retry_limit` or `HttpClient`, which only somebody writes who means it.
const NAME_BITS: Bits = 14 * BIT;

/// The entries of the table that finds a word by its hash.
const TABLE: usize = 4_096;

/// A word that is looked for.
#[derive(Clone)]
struct Mark {
    name: u64,
    /// The hash of its last token.
    last: u64,
    /// The most that it is worth.
    bits: Bits,
    /// The word as it is shown, for signs.
    word: &'static str,
    /// The number of lines with it.
    lines: u32,
    /// The last line that was counted.
    last_line: u32,
}

/// The words that are looked for in one text.
#[derive(Clone)]
pub(super) struct Marks {
    /// Positions in `marks` plus one, by hash; a collision takes the next free entry.
    table: Vec<u16>,
    marks: Vec<Mark>,
}

/// A word that was found.
#[derive(Clone, Copy)]
pub(super) struct MarkId(u16);

static SIGNS: LazyLock<Marks> = LazyLock::new(|| {
    let mut marks = Marks {
        table: vec![0; TABLE],
        marks: Vec::new(),
    };
    for (words, bits) in [
        (signs::TROUBLE, TROUBLE_BITS),
        (signs::WARNING, WARNING_BITS),
        (signs::ORDER, ORDER_BITS),
    ] {
        for word in words.split_ascii_whitespace() {
            let (name, last) = sign_name(word);
            marks.add((name, last), bits, word);
        }
    }
    for mark in signs::CONFLICT {
        let name = signs_hash(mark.as_bytes());
        marks.add((name, name), TROUBLE_BITS, mark.trim());
    }
    marks
});

/// The hash of a sign, which is a word, a character, or two characters, and that of its last token.
fn sign_name(word: &str) -> (u64, u64) {
    let mut tokens = Tokens::new(word.as_bytes());
    let first = tokens.next(0, word.len());
    let rest = first.and_then(|first| tokens.next(first.end, word.len()));
    match (first, rest) {
        (Some(first), Some(second)) => (mix(first.hash, second.hash), second.hash),
        (Some(first), None) => (first.hash, first.hash),
        (None, _) => (0, 0),
    }
}

/// Whether a word is a name of a program: with an underscore, a digit or a capital letter inside.
fn is_name(word: &str) -> bool {
    let is_sign = |byte: u8| byte == b'_' || byte.is_ascii_digit() || byte.is_ascii_uppercase();
    let has_small = word.bytes().any(|byte| byte.is_ascii_lowercase());
    has_small && word.bytes().skip(1).any(is_sign)
}

impl Marks {
    /// The signs, and the words of the arguments of a call and of a message.
    pub(super) fn new(arguments: &str, message: &str) -> Self {
        let mut marks = SIGNS.clone();
        for (text, bits) in [(arguments, ARGUMENT_BITS), (message, MESSAGE_BITS)] {
            let mut tokens = Tokens::new(text.as_bytes());
            let mut at = 0;
            while let Some(token) = tokens.next(at, text.len()) {
                at = token.end;
                let word = text.get(token.start..token.end).unwrap_or_default();
                if token.kind == TokenKind::Word && word.len() >= 4 {
                    let bits = if is_name(word) { NAME_BITS } else { bits };
                    marks.add((token.hash, token.hash), bits, "");
                }
            }
        }
        marks
    }

    fn slot(name: u64) -> usize {
        usize::try_from(name >> 52).unwrap_or_default()
    }

    fn add(&mut self, (name, last): (u64, u64), bits: Bits, word: &'static str) {
        let mut slot = Self::slot(name);
        // The table is never full.
        while let Some(&entry) = self.table.get(slot).filter(|entry| **entry > 0) {
            if self.at(entry).is_some_and(|mark| mark.name == name) {
                return;
            }
            slot = (slot + 1) % TABLE;
        }
        let Ok(id) = u16::try_from(self.marks.len() + 1) else {
            return;
        };
        if let Some(entry) = self
            .table
            .get_mut(slot)
            .filter(|_| usize::from(id) < TABLE / 2)
        {
            *entry = id;
            self.marks.push(Mark {
                name,
                last,
                bits,
                word,
                lines: 0,
                last_line: 0,
            });
        }
    }

    fn at(&self, entry: u16) -> Option<&Mark> {
        self.marks.get(usize::from(entry).checked_sub(1)?)
    }

    /// The mark with this name.
    #[inline]
    fn named(&self, name: u64) -> Option<MarkId> {
        let mut slot = Self::slot(name);
        loop {
            let entry = self.table.get(slot).copied().filter(|entry| *entry > 0)?;
            if self.at(entry)?.name == name {
                return Some(MarkId(entry));
            }
            slot = (slot + 1) % TABLE;
        }
    }

    /// The names of words and last characters by which a mark may be found.
    pub(super) fn names(&self) -> impl Iterator<Item = u64> {
        self.marks.iter().map(|mark| mark.last)
    }

    /// The mark that a token is, alone or with the character before it. `pair` is the hash of
    /// both.
    #[inline]
    pub(super) fn find(&self, bytes: &[u8], token: &TextToken, pair: u64) -> Option<MarkId> {
        match token.kind {
            TokenKind::Word => self.named(token.hash).or_else(|| self.by_end(bytes, token)),
            TokenKind::Character => self.named(pair).or_else(|| self.named(token.hash)),
            TokenKind::Number | TokenKind::Id => None,
        }
    }

    /// The mark of a compound name such as `ParseError` or `IOException`.
    #[inline]
    fn by_end(&self, bytes: &[u8], token: &TextToken) -> Option<MarkId> {
        let length = token.end - token.start;
        let end = fold_case(load(
            bytes,
            token.end.checked_sub(8).filter(|_| length > 8)?,
        ));
        let word = match &end.to_le_bytes() {
            [_, _, _, b'e', b'r', b'r', b'o', b'r'] => "error",
            b"xception" => "exception",
            [_, b'f', b'a', b'i', b'l', b'u', b'r', b'e'] => "failure",
            [_, _, b'f', b'a', b'i', b'l', b'e', b'd'] => "failed",
            [_, b'w', b'a', b'r', b'n', b'i', b'n', b'g'] => "warning",
            _ => return None,
        };
        self.named(sign_name(word).0)
    }

    /// Counts a line with a mark; returns whether lines with it are still few.
    #[inline]
    pub(super) fn count(&mut self, id: MarkId, line: u32) -> bool {
        let index = usize::from(id.0).saturating_sub(1);
        let Some(mark) = self.marks.get_mut(index) else {
            return false;
        };
        if mark.last_line != line {
            mark.last_line = line;
            mark.lines += 1;
        }
        mark.lines < 256 || mark.lines.saturating_mul(64) < line
    }

    /// What a line with this mark is worth in a text of so many lines.
    pub(super) fn bits(
        &self,
        id: MarkId,
        token: &TextToken,
        lines: u32,
        model: &RarityModel,
        stands_out: bool,
    ) -> Bits {
        let Some(mark) = self.at(id.0) else {
            return 0;
        };
        let rarity = ratio(lines.max(1), mark.lines.max(1));
        let rarity = if mark.word.is_empty() {
            rarity.min(model.rarity(token.hash)) * 3 / 2
        } else {
            rarity
        };
        let is_only = mark.lines <= 1 && !mark.word.is_empty() && mark.bits > ORDER_BITS;
        let only = if is_only { ONLY_BITS } else { 0 };
        if stands_out {
            (mark.bits + STANDING_OUT_BITS).min(rarity * 3 / 2) + only
        } else {
            mark.bits.min(rarity) + only
        }
    }

    /// The sign of trouble that most lines have, and their number.
    pub(super) fn most_common(&self) -> Option<(&'static str, u32)> {
        let signs = self.marks.iter().filter(|mark| mark.bits == TROUBLE_BITS);
        let most = signs.max_by_key(|mark| mark.lines)?;
        Some((most.word, most.lines))
    }
}
