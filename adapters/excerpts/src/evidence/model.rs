//! How often words, numbers and their pairs occur in a text, in tables of a fixed size, and how
//! surprising one of them is.
//!
//! What follows a word is surprising only if what follows that word is seldom new: a new name
//! after `fn` says nothing, a new value after `status:` does. So the surprise of something that
//! occurs once is estimated by the share of such things in its context, as Good and Turing
//! estimate the unseen. Digits, identifiers and random names need no masks of their own.

use super::NEW_COUNT;
use super::tokens::{SIGNS_SHIFT, TextToken, TokenKind, VALUE_SHIFT, mix};

/// Bits of information, in sixteenths.
pub(crate) type Bits = u32;

pub(crate) const BIT: Bits = 16;

/// A context that occurred less often says nothing about what follows it.
const MIN_CONTEXT: u32 = 10;

/// Names of contexts that are no words.
pub(super) const LINE_START: u64 = 0x243f_6a88_85a3_08d3;
const NUMBER_CONTEXT: u64 = 0x1319_8a2e_0370_7344;
const SIGNS_CONTEXT: u64 = 0x4528_21e6_38d0_1377;
const SHORT_CONTEXT: u64 = 0x082e_fa98_ec4e_6c89;
const VALUE_CONTEXT: u64 = 0xc0ac_29b7_c97c_50dd;
const CELL_CONTEXT: u64 = 0xa409_3822_299f_31d0;

/// A word, or another context: how often it occurred, and how many of its successors once.
#[derive(Clone, Copy, Default)]
struct WordCount {
    count: u32,
    /// With [`MARKED`] if it may be a word that is looked for.
    singles: u32,
}

const MARKED: u32 = 1 << 31;

/// The bits of a pair: how often it occurred, and whether its token may be a word that is looked
/// for.
const PAIR_COUNT: u8 = 0x7f;
const PAIR_MARKED: u8 = 0x80;

/// After this many occurrences of a pair, those of its words are counted a few at a time: most
/// words of a long text are in such pairs.
const FREQUENT: u8 = 88;
const AT_A_TIME: u8 = 32;

impl WordCount {
    fn singles(self) -> u32 {
        self.singles & !MARKED
    }
}

/// The counts of one text.
pub(super) struct RarityModel {
    words: Vec<WordCount>,
    pairs: Vec<u8>,
    /// Names of numbers in their places whose pairs are not counted any more, by hash.
    steady: Vec<u64>,
    word_shift: u32,
    pair_shift: u32,
    steady_shift: u32,
    /// All words, and how many of them occurred once.
    total: u32,
    singles: u32,
}

/// What precedes a token: a word, or the place of a number or a cell.
#[derive(Clone, Copy)]
pub(super) struct Context(u64);

impl Context {
    /// The start of a line that begins with these signs.
    #[inline]
    pub(super) fn line_start(signs: u64) -> Self {
        Self(mix(LINE_START, signs))
    }

    /// A cell of a table.
    #[inline]
    pub(super) fn cell(column: u64) -> Self {
        Self(mix(CELL_CONTEXT, column))
    }

    /// The signs around a number, whatever precedes them.
    #[inline]
    fn signs(number: &TextToken) -> Self {
        Self(mix(SIGNS_CONTEXT, number.hash >> SIGNS_SHIFT))
    }

    /// A name that is too short to say anything.
    #[inline]
    pub(super) fn short() -> Self {
        Self(SHORT_CONTEXT)
    }

    /// The place of a number whose value is counted, and that value as a token.
    #[inline]
    fn value(self, number: &TextToken) -> Option<(Self, TextToken)> {
        let value = number.hash >> VALUE_SHIFT & 0xffff;
        (number.kind == TokenKind::Number && value > 0).then(|| {
            let token = TextToken {
                kind: TokenKind::Word,
                hash: mix(VALUE_CONTEXT, value),
                ..*number
            };
            (Self(mix(self.0, VALUE_CONTEXT)), token)
        })
    }

    /// The context of what follows `token`.
    #[inline]
    pub(super) fn after(self, token: &TextToken) -> Self {
        match token.kind {
            TokenKind::Word | TokenKind::Character => Self(token.hash),
            TokenKind::Number | TokenKind::Id => Self(mix(self.0, NUMBER_CONTEXT)),
        }
    }

    /// The name of a token in this context.
    #[inline]
    pub(super) fn pair(self, token: &TextToken) -> u64 {
        mix(self.0, token_name(token))
    }
}

#[inline]
fn token_name(token: &TextToken) -> u64 {
    if token.kind == TokenKind::Number {
        mix(NUMBER_CONTEXT, token.hash & !(u64::MAX << VALUE_SHIFT))
    } else {
        token.hash
    }
}

/// What was found out about a token as it was counted.
#[derive(Clone, Copy)]
pub(super) struct Counted {
    /// How often the token occurred before.
    pub(super) before: u32,
    pub(super) may_be_marked: bool,
    pub(super) is_new: bool,
}

impl RarityModel {
    /// Empty tables for a text of `bytes` bytes.
    pub(super) fn new(bytes: usize) -> Self {
        let word_bits = (bytes / 12).max(1).ilog2().clamp(8, 14);
        let pair_bits = (bytes.max(1).ilog2() + 1).clamp(10, 18);
        let steady_bits = (bytes / 256).max(1).ilog2().clamp(4, 11);
        Self {
            words: vec![WordCount::default(); 1 << word_bits],
            pairs: vec![0; 1 << pair_bits],
            steady: vec![0; 1 << steady_bits],
            word_shift: 64 - word_bits,
            pair_shift: 64 - pair_bits,
            steady_shift: 64 - steady_bits,
            total: 0,
            singles: 0,
        }
    }

    #[inline]
    fn slot(name: u64, shift: u32) -> usize {
        usize::try_from(name >> shift).unwrap_or_default()
    }

    #[inline]
    fn word(&self, name: u64) -> WordCount {
        let slot = Self::slot(name, self.word_shift);
        self.words.get(slot).copied().unwrap_or_default()
    }

    #[inline]
    fn pair_count(&self, name: u64) -> u8 {
        let slot = Self::slot(name, self.pair_shift);
        self.pairs.get(slot).copied().unwrap_or_default() & PAIR_COUNT
    }

    /// Counts the place where a line or a cell begins.
    #[inline]
    pub(super) fn count_context(&mut self, context: Context) {
        if let Some(word) = self.words.get_mut(Self::slot(context.0, self.word_shift)) {
            word.count += 1;
        }
    }

    /// Notes a word that is looked for.
    pub(super) fn mark(&mut self, name: u64) {
        if let Some(word) = self.words.get_mut(Self::slot(name, self.word_shift)) {
            word.singles |= MARKED;
        }
    }

    /// Counts a word that is not new behind `context`, and says whether it may be one that is
    /// looked for. `None` if the token is to be counted as a rare one.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "it is called for each word of an output"
    )]
    pub(super) fn count_known(&mut self, context: Context, word: u64) -> Option<bool> {
        let slot = Self::slot(mix(context.0, word), self.pair_shift);
        let pair = self.pairs.get_mut(slot)?;
        let count = *pair & PAIR_COUNT;
        let may_be_marked = *pair & PAIR_MARKED != 0;
        if count.wrapping_sub(FREQUENT) < AT_A_TIME - 1 {
            *pair += 1;
        } else if count < FREQUENT {
            // Most of the others are known words that are not looked for.
            let slot = Self::slot(word, self.word_shift);
            let known = self.words.get_mut(slot)?;
            if count < 2 || known.count < NEW_COUNT || known.singles >= MARKED {
                return None;
            }
            *pair += 1;
            known.count += 1;
            self.total += 1;
            return Some(false);
        } else {
            *pair -= AT_A_TIME - 1;
            self.add_frequent(word);
        }
        Some(may_be_marked)
    }

    /// Counts a number of whose pairs none is counted any more; false if they are.
    #[inline]
    pub(super) fn count_steady(&mut self, context: Context, number: &TextToken) -> bool {
        let steady = mix(context.0, number.hash);
        let is_steady = self.steady.get(Self::slot(steady, self.steady_shift)) == Some(&steady);
        if is_steady {
            self.count_context(Context::signs(number));
        }
        is_steady
    }

    /// Counts a number that is not steady, or an identifier, and says whether it was a surprise so
    /// far, as [`Self::count`] does.
    #[inline]
    pub(super) fn count_place(&mut self, context: Context, token: &TextToken, least: u32) -> bool {
        match token.kind {
            TokenKind::Number => self.count_number(context, token, least),
            _ => self.count_pair(context, token, least),
        }
    }

    /// Counts a word that is not frequent behind `context`. The result says, among others, whether
    /// it was a surprise so far: it is new where only one in `least` words is.
    #[inline]
    pub(super) fn count(&mut self, context: Context, token: &TextToken, least: u32) -> Counted {
        let next = context.after(token);
        let mut is_new = self.count_pair(context, token, least);
        let mut before = WordCount::default();
        if let Some(word) = self.words.get_mut(Self::slot(next.0, self.word_shift)) {
            before = *word;
            word.count += 1;
        }
        let slot = Self::slot(context.pair(token), self.pair_shift);
        if before.singles >= MARKED
            && let Some(pair) = self.pairs.get_mut(slot)
        {
            *pair |= PAIR_MARKED;
        }
        self.total += 1;
        if before.count == 0 {
            self.singles += 1;
            is_new |= self.singles.saturating_mul(least) <= self.total || self.total < 64;
        } else if before.count == 1 {
            self.singles = self.singles.saturating_sub(1);
        }
        Counted {
            before: before.count,
            may_be_marked: before.singles >= MARKED,
            is_new,
        }
    }

    /// Counts a number behind its context, among the values in its place, and between its signs.
    #[inline]
    fn count_number(&mut self, context: Context, number: &TextToken, least: u32) -> bool {
        let signs = Context::signs(number);
        let name = token_name(number);
        let place = context.value(number);
        let here = self.add_pair(mix(context.0, name));
        let value = match &place {
            Some((place, value)) => self.add_pair(place.pair(value)),
            None => FREQUENT,
        };
        let between = self.add_pair(mix(signs.0, name));
        let least_count = here.min(value).min(between);
        if least_count >= FREQUENT {
            let steady = mix(context.0, number.hash);
            let slot = Self::slot(steady, self.steady_shift);
            if let Some(entry) = self.steady.get_mut(slot) {
                *entry = steady;
            }
        }
        let mut is_new = false;
        if least_count <= 1 {
            if here <= 1 {
                is_new |= self.count_single(context, context, here == 0, least);
            }
            if let Some((place, _)) = place.filter(|_| value <= 1) {
                is_new |= self.count_single(place, context, value == 0, least);
            }
            if between <= 1 {
                is_new |= self.count_single(signs, signs, between == 0, least);
            }
        }
        self.count_context(signs);
        is_new
    }

    /// Counts a word that occurred a few times more in a frequent pair.
    #[cold]
    fn add_frequent(&mut self, name: u64) {
        let count = u32::from(AT_A_TIME);
        if let Some(word) = self.words.get_mut(Self::slot(name, self.word_shift)) {
            word.count += count;
        }
        self.total += count;
    }

    /// Counts a token behind a context, and returns whether it is new there and little else was.
    #[inline]
    fn count_pair(&mut self, context: Context, token: &TextToken, least: u32) -> bool {
        let count = self.add_pair(context.pair(token));
        count <= 1 && self.count_single(context, context, count == 0, least)
    }

    /// Counts a pair, and returns how often it occurred before.
    #[inline]
    fn add_pair(&mut self, name: u64) -> u8 {
        let slot = Self::slot(name, self.pair_shift);
        let Some(pair) = self.pairs.get_mut(slot) else {
            return FREQUENT;
        };
        let count = *pair & PAIR_COUNT;
        *pair += u8::from(count < FREQUENT);
        count
    }

    /// Counts what was new behind a context, or is not single any more. `counted` is the context
    /// whose occurrences count.
    #[cold]
    fn count_single(
        &mut self,
        context: Context,
        counted: Context,
        is_new: bool,
        least: u32,
    ) -> bool {
        let occurred = self.word(counted.0).count;
        let Some(word) = self.words.get_mut(Self::slot(context.0, self.word_shift)) else {
            return false;
        };
        let before = word.singles();
        if !is_new {
            word.singles -= u32::from(before > 0);
            return false;
        }
        word.singles += 1;
        occurred >= MIN_CONTEXT && before.saturating_mul(least) <= occurred
    }

    /// How surprising a token is that was counted behind `context`, and the context of the next.
    #[inline]
    pub(super) fn surprise(&self, context: Context, token: &TextToken) -> (Context, Bits) {
        let next = context.after(token);
        let bits = match token.kind {
            TokenKind::Id => 0,
            TokenKind::Number => {
                let magnitude = self.behind(context, context, token).unwrap_or_default();
                let value = context.value(token);
                let value = value.and_then(|(place, it)| self.behind(place, context, &it));
                let signs = Context::signs(token);
                let alone = self.behind(signs, signs, token).unwrap_or_default();
                // A line has one odd number, but many words if they are odd.
                (magnitude * 2)
                    .max(alone * 3 / 2)
                    .max(value.unwrap_or_default())
            }
            TokenKind::Word | TokenKind::Character => {
                let alone = || match self.word(token.hash).count {
                    0 | 1 => ratio(self.total, self.singles.max(1)),
                    _ => 0,
                };
                match self.behind(context, context, token) {
                    Some(0) => 0,
                    Some(bits) => bits + alone() / 4,
                    None => alone(),
                }
            }
        };
        (next, bits)
    }

    /// How surprising a token is behind a context; `None` if that is too rare to know.
    #[inline]
    fn behind(&self, context: Context, counted: Context, token: &TextToken) -> Option<Bits> {
        let occurred = self.word(counted.0).count;
        if occurred < MIN_CONTEXT {
            return None;
        }
        if self.pair_count(context.pair(token)) > 1 {
            return Some(0);
        }
        let bits = ratio(occurred, self.word(context.0).singles().max(1));
        // A number of nearly the same magnitude makes this one less surprising.
        let is_near = token.kind == TokenKind::Number
            && [-2_i64, -1, 1, 2].iter().any(|distance| {
                let hash = token.hash.saturating_add_signed(*distance);
                self.pair_count(context.pair(&TextToken { hash, ..*token })) > 1
            });
        Some(if is_near { bits / 4 } else { bits })
    }

    /// How often a word occurred.
    pub(super) fn occurrences(&self, name: u64) -> u32 {
        self.word(name).count
    }

    /// How rare a word is among all words.
    pub(super) fn rarity(&self, name: u64) -> Bits {
        ratio(self.total.max(1), self.word(name).count.max(1))
    }
}

/// The binary logarithm of `whole / part`.
#[inline]
pub(super) fn ratio(whole: u32, part: u32) -> Bits {
    log2(whole).saturating_sub(log2(part))
}

/// A binary logarithm of integers, the same on every machine.
#[inline]
fn log2(value: u32) -> Bits {
    let value = u64::from(value.max(1)) << 4;
    let power = value.ilog2();
    let fraction = (value >> (power - 4)) & 15;
    (power - 4) * BIT + u32::try_from(fraction).unwrap_or_default()
}
