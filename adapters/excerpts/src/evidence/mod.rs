//! Finds the parts of a text that an excerpt must show, whatever its kind and language.
//!
//! One pass counts the words and numbers of all units (`units`) in tables of a fixed size
//! (`model`) and keeps those units as candidates that held something new, or a word that is
//! looked for (`marks`). Then the candidates alone are read again and scored by the final counts.

use std::collections::HashMap;

mod byte_classes;
mod fitness;
mod hunk;
mod marks;
mod model;
mod patterns;
mod read;
mod signs;
mod tokens;
mod units;

use marks::{MarkId, Marks};
use model::{Context, RarityModel, ratio};
use patterns::PatternCounts;
use read::{TokenSink, read, signs_hash};
use tokens::{TextToken, TokenKind, Tokens};

pub use fitness::fitness_of_parts;
pub(super) use hunk::Hunk;
pub(super) use marks::FoundMark;
pub(super) use model::{BIT, Bits};
pub(super) use tokens::{load, mix};
pub(super) use units::{Form, MAX_UNIT, Separators, for_each_line_part};

/// The most candidates that are kept at once. With one more they are scored, and the best quarter
/// stays.
const MAX_CANDIDATES: usize = 4_096;

/// A unit with a lower score is not worth showing.
pub(super) const MIN_SCORE: Bits = 7 * BIT;

/// The most surprising words of a unit that count.
const COUNTED_WORDS: usize = 5;

/// A word of up to this many bits counts as it is. A more surprising one counts more than several
/// others together, up to a limit.
const USUAL_WORD: Bits = 12 * BIT;
const MAX_WORD: Bits = 24 * BIT;

/// The fewest words of a sentence, and what one is worth in a minified text.
const LEAST_WORDS: u32 = 4;
const SENTENCE_BITS: Bits = 8 * BIT;

/// Compound names are looked at this many times.
const NEW_COUNT: u32 = 16;

/// How many bytes are read between two looks at a stop flag.
const STOP_BYTES: usize = 64 * 1024;

/// In the first bytes of a text, up to this many, the counts say little, and more units are
/// candidates.
const FIRST_BYTES: usize = 48 * 1024;

/// If the words of the best units are about equally surprising, words count less than what is
/// looked for: this many units are compared, and the last of them gets this many bits.
const USUAL_UNITS: usize = 8;
const MAX_USUAL: Bits = 12 * BIT;

/// The number of units that get all that their sign is worth.
const MARKED_UNITS: u32 = 4;

/// What is looked for in the output of a call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'t> {
    /// The tool and its arguments.
    pub arguments: &'t str,
    /// The newest message of the user before the output.
    pub message: &'t str,
}

/// A unit that is worth showing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Where its most telling word begins.
    pub(super) focus: usize,
    pub(super) score: Bits,
    /// How many units differ from it in numbers only, itself included.
    pub(super) alike: u32,
    /// The same for all these units.
    pub(super) pattern: u64,
}

/// What a text holds.
pub(super) struct Findings {
    /// The best first.
    pub(super) evidence: Vec<Evidence>,
    /// Of each kind the most telling word that was looked for and found.
    pub(super) marks: Vec<FoundMark>,
}

/// A place that the form of a text makes worth showing, whatever its words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) focus: usize,
    pub(super) score: Bits,
}

impl Findings {
    /// Adds places that were found in another way. They need not be in order.
    pub(super) fn add(&mut self, spots: &[Spot]) {
        if spots.is_empty() {
            return;
        }
        self.evidence.sort_unstable_by_key(|unit| unit.start);
        let mut more = Vec::new();
        for spot in spots {
            let next = self
                .evidence
                .partition_point(|unit| unit.start <= spot.focus);
            let around = next.checked_sub(1).and_then(|at| self.evidence.get_mut(at));
            match around.filter(|unit| spot.focus < unit.end) {
                Some(unit) => {
                    if spot.score > unit.score {
                        unit.focus = spot.focus;
                    }
                    unit.score += spot.score;
                }
                None => more.push(Evidence {
                    start: spot.start,
                    end: spot.end,
                    focus: spot.focus,
                    score: spot.score,
                    alike: 1,
                    pattern: mix(SPOT_PATTERN, spot.start as u64),
                }),
            }
        }
        self.evidence.extend(more);
        self.evidence
            .sort_unstable_by_key(|unit| (std::cmp::Reverse(unit.score), unit.start));
    }
}

/// The pattern of an unchanged line is its own.
const UNCHANGED_PATTERN: u64 = 0x9216_d5d9_8979_fb1b;

/// The pattern of a [`Spot`] is its own.
const SPOT_PATTERN: u64 = 0x3f84_d5b5_b547_0917;

/// A unit with something that was new when it was read.
#[derive(Clone, Copy)]
struct Candidate {
    start: usize,
    end: usize,
    pattern: u64,
    /// How surprising its words are, and what else it is worth.
    words: Bits,
    marked: Bits,
    focus: usize,
    /// The mark that is worth most of those in it.
    mark: Option<MarkId>,
    /// Whether a change left it as it was: then only words count that were asked for.
    is_unchanged: bool,
}

impl Candidate {
    fn score(&self) -> Bits {
        self.words + self.marked
    }

    /// The best is the least.
    fn rank(&self) -> (std::cmp::Reverse<Bits>, usize) {
        (std::cmp::Reverse(self.score()), self.start)
    }
}

/// How surprising the words of the last of the best units are.
fn usual_surprise(candidates: &[Candidate]) -> Bits {
    let mut best = [0; USUAL_UNITS];
    for candidate in candidates {
        insert(&mut best, candidate.words);
    }
    best.last().copied().unwrap_or_default()
}

struct Finder<'t> {
    bytes: &'t [u8],
    tokens: Tokens<'t>,
    form: Form,
    model: RarityModel,
    marks: Marks,
    hunk: Hunk,
    candidates: Vec<Candidate>,
    /// A token is new in a place where only one in this many is. Where that holds for many units,
    /// the number grows.
    least: u32,
    patterns: PatternCounts,
    units: u32,
    block: StopBlock<'t>,
}

/// The part of a text that is read before the next look at a stop flag.
struct StopBlock<'t> {
    end: usize,
    is_stopped: &'t dyn Fn() -> bool,
}

impl StopBlock<'_> {
    /// Whether what begins at `start` is not to be read any more.
    #[inline]
    fn is_stopped_at(&mut self, start: usize) -> bool {
        if start < self.end {
            return false;
        }
        let is_stopped = (self.is_stopped)();
        if !is_stopped {
            self.end = start + STOP_BYTES;
        }
        is_stopped
    }
}

/// Finds the units that differ most from the others, or hold what is looked for. `is_stopped` is
/// asked for each block of the text; once it is true, what is returned is of no use.
pub(super) fn find(
    text: &str,
    form: Form,
    wanted: Wanted<'_>,
    is_stopped: &dyn Fn() -> bool,
) -> Findings {
    search(text, form, wanted, is_stopped).findings()
}

fn search<'t>(
    text: &'t str,
    form: Form,
    wanted: Wanted<'_>,
    is_stopped: &'t dyn Fn() -> bool,
) -> Finder<'t> {
    let bytes = text.as_bytes();
    let marks = Marks::new(wanted.arguments, wanted.message);
    let mut model = RarityModel::new(bytes.len());
    marks.names().for_each(|name| model.mark(name));
    let mut finder = Finder {
        bytes,
        tokens: Tokens::new(bytes),
        form,
        model,
        marks,
        hunk: Hunk::default(),
        candidates: Vec::new(),
        least: 16,
        patterns: PatternCounts::new(bytes.len()),
        units: 0,
        block: StopBlock { end: 0, is_stopped },
    };
    form.for_each_unit(bytes, |start, end| finder.add(start, end));
    finder
}

/// Counts the tokens of a unit.
struct Counter<'f> {
    bytes: &'f [u8],
    model: &'f mut RarityModel,
    marks: &'f mut Marks,
    unit: u32,
    least: u32,
    /// The hash of its words.
    pattern: u64,
    /// Whether the unit holds something new, or a word that is looked for.
    is_candidate: bool,
}

impl TokenSink for Counter<'_> {
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "it is called for each word of an output, where the kind of the word is known"
    )]
    fn take(&mut self, context: Context, token: TextToken, begins: bool) -> Context {
        if begins {
            self.model.count_context(context);
        }
        match token.kind {
            TokenKind::Word | TokenKind::Character => {
                self.pattern = mix(self.pattern, token.hash);
                match self.model.count_known(context, token.hash) {
                    Some(false) => {}
                    Some(true) => self.count_mark(context, token),
                    None => self.count_rare(context, token),
                }
                context.after(&token)
            }
            TokenKind::Number | TokenKind::Id => {
                self.pattern = mix(self.pattern, 0);
                let is_steady =
                    token.kind == TokenKind::Number && self.model.count_steady(context, &token);
                if !is_steady {
                    self.count_place(context, token);
                }
                if self.marks.has_exact() {
                    self.count_mark(context, token);
                }
                let next = context.after(&token);
                self.model.count_context(next);
                next
            }
        }
    }
}

impl Counter<'_> {
    #[inline(never)]
    fn count_rare(&mut self, context: Context, token: TextToken) {
        let counted = self.model.count(context, &token, self.least);
        self.is_candidate |= counted.is_new;
        if counted.may_be_marked || counted.before < NEW_COUNT {
            self.count_mark(context, token);
        }
    }

    #[inline(never)]
    fn count_place(&mut self, context: Context, token: TextToken) {
        self.is_candidate |= self.model.count_place(context, &token, self.least);
    }

    #[inline(never)]
    fn count_mark(&mut self, context: Context, token: TextToken) {
        if let Some(id) = self.marks.find(self.bytes, &token, context.pair(&token)) {
            self.is_candidate |= self.marks.count(id, &token, self.unit);
        }
    }
}

impl<'t> Finder<'t> {
    /// Counts a unit, and keeps it if it holds something new.
    #[inline]
    fn add(&mut self, start: usize, end: usize) {
        if self.block.is_stopped_at(start) {
            return;
        }
        self.units += 1;
        let line = self.bytes.get(start..end).unwrap_or_default();
        if self.hunk.is_unchanged(line) {
            self.add_unchanged(start, end);
            return;
        }
        let mut counter = Counter {
            bytes: self.bytes,
            model: &mut self.model,
            marks: &mut self.marks,
            unit: self.units,
            least: if start < FIRST_BYTES { 3 } else { self.least },
            pattern: 0,
            is_candidate: false,
        };
        let range = (start, end);
        read(self.bytes, &mut self.tokens, self.form, range, &mut counter);
        let (pattern, is_candidate) = (counter.pattern, counter.is_candidate);
        self.patterns.count(pattern);
        if is_candidate {
            self.keep((start, end), pattern, false);
        }
    }

    /// Looks in a line that a change left as it was for what was asked for.
    fn add_unchanged(&mut self, start: usize, end: usize) {
        if !self.marks.has_asked() {
            return;
        }
        let (bytes, units, marks) = (self.bytes, self.units, &mut self.marks);
        let mut is_candidate = false;
        let mut search = |context: Context, token: &TextToken, _: bool| {
            if let Some(id) = marks.find(bytes, token, context.pair(token))
                && marks.is_asked(id)
            {
                is_candidate |= marks.count(id, token, units);
            }
            context.after(token)
        };
        let range = (start, end);
        read(bytes, &mut self.tokens, self.form, range, &mut search);
        if is_candidate {
            self.keep((start, end), UNCHANGED_PATTERN, true);
        }
    }

    fn keep(&mut self, (start, end): (usize, usize), pattern: u64, is_unchanged: bool) {
        if self.candidates.len() >= MAX_CANDIDATES {
            self.keep_best(MAX_CANDIDATES / 4);
            self.least = self.least.saturating_mul(2);
        }
        self.candidates.push(Candidate {
            start,
            end,
            pattern: if is_unchanged {
                mix(pattern, start as u64)
            } else {
                pattern
            },
            words: 0,
            marked: 0,
            focus: start,
            mark: None,
            is_unchanged,
        });
    }

    /// Scores the candidates by the counts so far, and keeps the best of them.
    fn keep_best(&mut self, count: usize) {
        let mut candidates = std::mem::take(&mut self.candidates);
        let mut tokens = Tokens::new(self.bytes);
        let singles = self.patterns.singles().max(1);
        for candidate in &mut candidates {
            self.score(&mut tokens, candidate, singles);
        }
        let usual = usual_surprise(&candidates).max(MAX_USUAL);
        for candidate in &mut candidates {
            candidate.words = candidate.words * MAX_USUAL / usual;
        }
        if candidates.len() > count {
            candidates.select_nth_unstable_by_key(count, Candidate::rank);
            candidates.truncate(count);
        }
        self.candidates = candidates;
    }

    fn score(&self, tokens: &mut Tokens<'t>, candidate: &mut Candidate, singles: u32) {
        let range = (candidate.start, candidate.end);
        let mut best = [0; COUNTED_WORDS];
        let mut marked: Bits = 0;
        let mut mark = (0, None);
        let mut focus = (0, candidate.start);
        let mut sentence = Sentence::default();
        let is_table = self.form.separator().is_some();
        read(
            self.bytes,
            tokens,
            self.form,
            range,
            &mut |context: Context, token: &TextToken, is_first: bool| {
                let (next, mut bits) = self.model.surprise(context, token);
                if is_table && is_first {
                    // In most columns it is the whole value.
                    bits = bits * 3 / 2;
                }
                let pair = context.pair(token);
                let id = self.marks.find(self.bytes, token, pair);
                let id = id.filter(|id| !candidate.is_unchanged || self.marks.is_asked(*id));
                bits = (bits * bits / USUAL_WORD).min(MAX_WORD);
                if candidate.is_unchanged {
                    bits = 0;
                }
                insert(&mut best, bits);
                if let Some(id) = id {
                    let stands_out = stands_out(self.bytes, token);
                    let worth = self
                        .marks
                        .bits(id, token, self.units, &self.model, stands_out);
                    if worth > mark.0 {
                        mark = (worth, Some(id));
                    }
                    marked = marked.max(worth) + marked.min(worth) / 4;
                    bits += worth;
                }
                if self.form == Form::Minified {
                    bits += sentence.add(self.bytes, token);
                }
                if bits > focus.0 {
                    focus = (bits, token.start);
                }
                next
            },
        );
        let pattern = match self.patterns.of(candidate.pattern) {
            Some(1) => ratio(self.units, singles) / 2,
            Some(_) | None => 0,
        };
        candidate.words = best.iter().sum::<Bits>();
        candidate.marked = marked + pattern + sentence.bits();
        candidate.focus = focus.1;
        candidate.mark = mark.1;
    }

    /// A sign says less with each further unit that has it; those that are alike count once.
    fn count_marks(&mut self) {
        let mut seen: HashMap<MarkId, (u32, u64)> = HashMap::new();
        for candidate in &mut self.candidates {
            let Some(mark) = candidate.mark.filter(|mark| !self.marks.is_asked(*mark)) else {
                continue;
            };
            let (count, last) = seen.entry(mark).or_insert((0, 0));
            *count += u32::from(candidate.pattern != *last);
            *last = candidate.pattern;
            candidate.marked = candidate.marked * MARKED_UNITS / (*count).max(MARKED_UNITS);
        }
        self.candidates.sort_unstable_by_key(Candidate::rank);
    }

    fn findings(mut self) -> Findings {
        self.keep_best(usize::MAX);
        self.candidates.sort_unstable_by_key(Candidate::rank);
        self.count_marks();
        let evidence = self.candidates.iter().map(|it| Evidence {
            start: it.start,
            end: it.end,
            focus: it.focus,
            score: it.score(),
            alike: self.patterns.of(it.pattern).unwrap_or(1),
            pattern: it.pattern,
        });
        Findings {
            evidence: evidence.collect(),
            marks: self.marks.common(self.units),
        }
    }
}

/// Words with one space between them, which are text for people in the middle of a minified script.
#[derive(Default)]
struct Sentence {
    end: usize,
    words: u32,
    longest: u32,
}

impl Sentence {
    /// Adds the next word; returns its bits if it makes a sentence.
    fn add(&mut self, bytes: &[u8], token: &TextToken) -> Bits {
        let gap = bytes.get(self.end..token.start).unwrap_or_default();
        // A word of a letter or two may be between them.
        let goes_on = gap.len() <= 4 && gap.first() == Some(&b' ') && gap.last() == Some(&b' ');
        self.words = if goes_on { self.words + 1 } else { 1 };
        self.end = token.end;
        self.longest = self.longest.max(self.words);
        if self.words == LEAST_WORDS {
            SENTENCE_BITS
        } else {
            0
        }
    }

    fn bits(&self) -> Bits {
        if self.longest >= LEAST_WORDS {
            SENTENCE_BITS
        } else {
            0
        }
    }
}

/// The pattern of a line, which is the same for all lines that differ in numbers only.
pub(super) fn pattern_of(text: &str, form: Form, line: (usize, usize)) -> u64 {
    let bytes = text.as_bytes();
    let mut pattern = 0;
    let mut tokens = Tokens::new(bytes);
    let mut add = |context: Context, token: &TextToken, _: bool| {
        pattern = mix(pattern, if token.is_word() { token.hash } else { 0 });
        context.after(token)
    };
    read(bytes, &mut tokens, form, line, &mut add);
    pattern
}

/// Keeps the largest numbers.
#[inline]
fn insert(best: &mut [Bits], mut bits: Bits) {
    for place in best {
        if bits > *place {
            std::mem::swap(place, &mut bits);
        }
    }
}

/// Whether a word is set off: in capital letters, behind a bracket, or before a colon.
fn stands_out(bytes: &[u8], token: &TextToken) -> bool {
    let word = bytes.get(token.start..token.end).unwrap_or_default();
    let before = token.start.checked_sub(1).and_then(|at| bytes.get(at));
    let behind = bytes.get(token.end);
    token.kind == TokenKind::Word
        && (matches!(before, Some(b'[' | b'*'))
            || matches!(behind, Some(b':' | b'!' | b']'))
            || word.len() > 2 && word.iter().all(u8::is_ascii_uppercase))
}

#[cfg(test)]
mod tests;
