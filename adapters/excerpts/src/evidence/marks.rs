//! The words that are looked for in a text: signs of trouble, and what the call and the user
//! asked for.

use std::sync::LazyLock;

use super::model::{BIT, Bits, RarityModel, ratio};
use super::tokens::{TextToken, TokenKind, Tokens, fold_case, load, mix};
use super::{signs, signs_hash};

/// The most that a word adds to the score of its line, by why it is looked for.
const TROUBLE_BITS: Bits = 11 * BIT;
const WARNING_BITS: Bits = 12 * BIT;
const ORDER_BITS: Bits = 6 * BIT;
const ARGUMENT_BITS: Bits = 10 * BIT;
const MESSAGE_BITS: Bits = 8 * BIT;
/// The bonus of a word that is set off from its line.
const STANDING_OUT_BITS: Bits = 5 * BIT;
/// What the only line with a sign gets in addition.
const ONLY_BITS: Bits = 4 * BIT;
/// A name such as `retry_limit` or `HttpClient`, which is only written on purpose.
const NAME_BITS: Bits = 14 * BIT;

/// A sign counts only if at most one line in sixteen has it.
const LEAST_SIGN_BITS: Bits = 4 * BIT;

/// A word that was asked for is searched for only if it is at least this rare.
const ASKED_QUERY_BITS: Bits = 4 * BIT;

/// The entries of the table that finds a word by its hash.
const TABLE: usize = 4_096;

/// The digits of the shortest number that is looked for, and the bytes of the longest number or
/// identifier.
const MIN_DIGITS: usize = 3;
const MAX_EXACT: usize = 48;

/// The names of numbers and identifiers that are compared byte by byte.
const EXACT: u64 = 0x0801_f2e2_858e_fc16;

/// Why a word is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkKind {
    /// A sign that something has gone wrong.
    Trouble,
    Warning,
    Order,
    /// The call or the user asked for it.
    Asked,
}

/// A word that is looked for.
#[derive(Clone)]
struct Mark {
    name: u64,
    /// The hash of its last token.
    last: u64,
    /// The most that it is worth.
    bits: Bits,
    kind: MarkKind,
    /// Its bytes.
    length: u32,
    /// The number of lines with it.
    lines: u32,
    /// The last line that was counted.
    last_line: u32,
    /// Its first occurrence: its start and its end.
    first: (usize, usize),
}

/// The words that are looked for in one text.
#[derive(Clone)]
pub(super) struct Marks {
    /// Positions in `words` plus one, by hash; a collision takes the next free entry.
    table: Vec<u16>,
    words: Vec<Mark>,
    /// Whether numbers or identifiers are looked for.
    has_exact: bool,
}

/// A word that was looked for, and its first occurrence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundMark {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The lines that have it, ignoring case.
    pub(crate) lines: usize,
}

/// A word that was found.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct MarkId(u16);

static SIGNS: LazyLock<Marks> = LazyLock::new(|| {
    let mut marks = Marks::none();
    for (words, bits, kind) in [
        (signs::TROUBLE, TROUBLE_BITS, MarkKind::Trouble),
        (signs::WARNING, WARNING_BITS, MarkKind::Warning),
        (signs::ORDER, ORDER_BITS, MarkKind::Order),
    ] {
        for word in words.split_ascii_whitespace() {
            marks.add(sign_name(word), bits, kind, word.len());
        }
    }
    for mark in signs::CONFLICT {
        let name = signs_hash(mark.as_bytes());
        marks.add(
            (name, name),
            TROUBLE_BITS,
            MarkKind::Trouble,
            mark.trim().len(),
        );
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

/// Whether a word is a name of a program: with an underscore, a digit or a capital letter inside,
/// or all in capital letters.
fn is_name(word: &str) -> bool {
    let is_sign = |byte: u8| byte == b'_' || byte.is_ascii_digit() || byte.is_ascii_uppercase();
    let has_letter = word.bytes().any(|byte| byte.is_ascii_alphabetic());
    has_letter && word.len() > 1 && word.bytes().skip(1).any(is_sign)
}

/// Whether a word of a request is looked for: a name, a longer word, or a short one in quotes.
fn is_looked_for(text: &str, token: &TextToken, word: &str) -> bool {
    let before = token
        .start
        .checked_sub(1)
        .and_then(|at| text.as_bytes().get(at));
    let is_quoted = before.is_some_and(|before| matches!(before, b'`' | b'"' | b'\''))
        && text.as_bytes().get(token.end) == before;
    word.len() >= 4 || is_name(word) || is_quoted && word.len() >= 2
}

/// Whether a character separates words, as `，` does and most hiragana do.
fn is_filler(character: &str) -> bool {
    let character = character.chars().next().unwrap_or_default();
    !character.is_alphanumeric() || matches!(character, '\u{3040}'..='\u{309f}')
}

/// The hash of a number or an identifier as it is written, without the zeros before a number and
/// without its unit.
fn exact_name(bytes: &[u8], token: &TextToken) -> Option<u64> {
    let written = bytes.get(token.start..token.end).unwrap_or_default();
    let is_number = token.kind == TokenKind::Number;
    // A number with a fraction, or a part of an address, is another one.
    if is_number && written.contains(&b'.') {
        return None;
    }
    let written = if is_number {
        let digits = written.iter().take_while(|byte| byte.is_ascii_digit());
        let digits = written.get(..digits.count()).unwrap_or_default();
        let zeros = digits.iter().take_while(|byte| **byte == b'0').count();
        digits.get(zeros..).unwrap_or_default()
    } else {
        written
    };
    let least = if token.kind == TokenKind::Word {
        2
    } else {
        MIN_DIGITS
    };
    if !(least..=MAX_EXACT).contains(&written.len()) {
        return None;
    }
    let chunks = written.chunks(8).map(|chunk| load(chunk, 0));
    Some(chunks.fold(EXACT, |name, chunk| mix(name, fold_case(chunk))))
}

impl Marks {
    fn none() -> Self {
        Self {
            table: vec![0; TABLE],
            words: Vec::new(),
            has_exact: false,
        }
    }

    /// The words of a request alone.
    pub(super) fn of_request(request: &str) -> Self {
        let mut marks = Self::none();
        marks.ask_for(request, MESSAGE_BITS);
        marks
    }

    /// The signs, and the words of the arguments of a call and of a message.
    pub(super) fn new(arguments: &str, message: &str) -> Self {
        let mut marks = SIGNS.clone();
        for (text, bits) in [(arguments, ARGUMENT_BITS), (message, MESSAGE_BITS)] {
            marks.ask_for(text, bits);
        }
        marks
    }

    /// Looks for the words of a text: long ones, names, numbers and identifiers as they are
    /// written, and characters of scripts without spaces in pairs.
    fn ask_for(&mut self, text: &str, bits: Bits) {
        let bytes = text.as_bytes();
        let mut tokens = Tokens::new(bytes);
        let mut before: Option<TextToken> = None;
        let mut at = 0;
        while let Some(token) = tokens.next(at, text.len()) {
            at = token.end;
            let word = text.get(token.start..token.end).unwrap_or_default();
            match token.kind {
                TokenKind::Word => {
                    let name = (token.hash, token.hash);
                    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
                    if let Some(exact) = exact_name(bytes, &token).filter(|_| has_digit) {
                        // Its letters alone are worth nothing.
                        self.add(name, 0, MarkKind::Asked, word.len());
                        self.add((exact, token.hash), NAME_BITS, MarkKind::Asked, word.len());
                    } else if is_name(word) {
                        self.add(name, NAME_BITS, MarkKind::Asked, word.len());
                    } else if is_looked_for(text, &token, word) {
                        self.add(name, bits, MarkKind::Asked, word.len());
                    }
                }
                TokenKind::Number | TokenKind::Id => {
                    if let Some(name) = exact_name(bytes, &token) {
                        self.has_exact = true;
                        self.add((name, name), NAME_BITS, MarkKind::Asked, word.len());
                    }
                }
                TokenKind::Character => {
                    let first = before.filter(|first| first.end == token.start);
                    let pair = first.and_then(|first| text.get(first.start..first.end));
                    if let (Some(first), Some(written)) = (first, pair)
                        && !is_filler(written)
                        && !is_filler(word)
                    {
                        let name = (mix(first.hash, token.hash), token.hash);
                        self.add(name, bits, MarkKind::Asked, written.len() + word.len());
                    }
                }
            }
            before = Some(token).filter(|token| token.kind == TokenKind::Character);
        }
    }

    fn slot(name: u64) -> usize {
        usize::try_from(name >> 52).unwrap_or_default()
    }

    fn add(&mut self, (name, last): (u64, u64), bits: Bits, kind: MarkKind, length: usize) {
        let mut slot = Self::slot(name);
        // The table is never full.
        while let Some(&entry) = self.table.get(slot).filter(|entry| **entry > 0) {
            if self.at(entry).is_some_and(|mark| mark.name == name) {
                return;
            }
            slot = (slot + 1) % TABLE;
        }
        let Ok(id) = u16::try_from(self.words.len() + 1) else {
            return;
        };
        if let Some(entry) = self
            .table
            .get_mut(slot)
            .filter(|_| usize::from(id) < TABLE / 2)
        {
            *entry = id;
            self.words.push(Mark {
                name,
                last,
                bits,
                kind,
                length: u32::try_from(length).unwrap_or(u32::MAX),
                lines: 0,
                last_line: 0,
                first: (0, 0),
            });
        }
    }

    fn at(&self, entry: u16) -> Option<&Mark> {
        self.words.get(usize::from(entry).checked_sub(1)?)
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
        self.words.iter().map(|mark| mark.last)
    }

    /// The mark that a token is, alone or with the character before it. `pair` is the hash of
    /// both.
    #[inline]
    pub(super) fn find(&self, bytes: &[u8], token: &TextToken, pair: u64) -> Option<MarkId> {
        match token.kind {
            TokenKind::Word => {
                let found = self.named(token.hash);
                match found.and_then(|id| self.at(id.0)) {
                    Some(mark) if mark.bits == 0 => self.named(exact_name(bytes, token)?),
                    Some(_) => found,
                    None => self.by_end(bytes, token),
                }
            }
            TokenKind::Character => self.named(pair).or_else(|| self.named(token.hash)),
            TokenKind::Number | TokenKind::Id if self.has_exact => {
                self.named(exact_name(bytes, token)?)
            }
            TokenKind::Number | TokenKind::Id => None,
        }
    }

    /// Whether numbers and identifiers are looked for.
    #[inline]
    pub(super) fn has_exact(&self) -> bool {
        self.has_exact
    }

    /// Whether the call or the user asked for a word.
    #[inline]
    pub(super) fn is_asked(&self, id: MarkId) -> bool {
        self.at(id.0)
            .is_some_and(|mark| mark.kind == MarkKind::Asked)
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

    /// Whether the call or the user asked for any word.
    pub(super) fn has_asked(&self) -> bool {
        self.words.len() > SIGNS.words.len()
    }

    /// Counts a line with a mark; returns whether lines with it are still few.
    #[inline]
    pub(super) fn count(&mut self, id: MarkId, token: &TextToken, line: u32) -> bool {
        let index = usize::from(id.0).saturating_sub(1);
        let Some(mark) = self.words.get_mut(index) else {
            return false;
        };
        if mark.lines == 0 {
            let start = match token.kind {
                // A number is found with other zeros and units, too.
                TokenKind::Number | TokenKind::Id => token.start,
                // The mark may be two characters, or the end of a compound name.
                TokenKind::Word | TokenKind::Character => {
                    let length = usize::try_from(mark.length).unwrap_or_default();
                    token.end.saturating_sub(length)
                }
            };
            mark.first = (start, token.end);
        }
        if mark.last_line != line {
            mark.last_line = line;
            mark.lines += 1;
        }
        mark.lines < 256 || mark.lines.saturating_mul(64) < line
    }

    /// What a line with this mark is worth in a text of `lines` lines.
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
        // The lines with a compound name are counted by that.
        let with_name = if mark.last == token.hash || token.kind != TokenKind::Word {
            0
        } else {
            model.occurrences(token.hash)
        };
        let rarity = ratio(lines.max(1), mark.lines.max(with_name).max(1));
        let is_asked = mark.kind == MarkKind::Asked;
        let is_word = token.kind == TokenKind::Word && mark.name == mark.last;
        let rarity = match (is_asked, is_word) {
            (true, true) => rarity.min(model.rarity(token.hash)) * 3 / 2,
            (true, false) => rarity * 3 / 2,
            // A sign that many lines have says nothing.
            (false, _) if rarity < LEAST_SIGN_BITS => return 0,
            (false, _) => rarity,
        };
        let is_only = mark.lines <= 1 && !is_asked && mark.bits > ORDER_BITS;
        let only = if is_only { ONLY_BITS } else { 0 };
        if stands_out {
            (mark.bits + STANDING_OUT_BITS).min(rarity * 3 / 2) + only
        } else {
            mark.bits.min(rarity) + only
        }
    }

    /// Of each kind the word that is worth most in all lines that have it: first what was asked
    /// for, then trouble, then warnings. Words of a request that many of the lines have say
    /// nothing.
    pub(super) fn common(&self, lines: u32) -> Vec<FoundMark> {
        let worth = |mark: &&Mark| {
            let bits = mark.bits.min(ratio(lines, mark.lines));
            (
                u64::from(bits) * u64::from(mark.lines),
                std::cmp::Reverse(mark.name),
            )
        };
        let kinds = [MarkKind::Asked, MarkKind::Trouble, MarkKind::Warning];
        let best = kinds.into_iter().filter_map(|kind| {
            let marks = self.words.iter();
            let found = marks.filter(|mark| {
                // A word of a request that many lines have is no name of anything in them.
                let says_something =
                    kind != MarkKind::Asked || ratio(lines, mark.lines) >= ASKED_QUERY_BITS;
                mark.kind == kind && mark.bits > 0 && mark.lines > 0 && says_something
            });
            let best = found.max_by_key(worth)?;
            Some(FoundMark {
                start: best.first.0,
                end: best.first.1,
                lines: usize::try_from(best.lines).unwrap_or(usize::MAX),
            })
        });
        best.collect()
    }
}
