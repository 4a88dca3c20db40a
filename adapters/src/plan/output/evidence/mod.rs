//! Finds the parts of a text that an excerpt must show, whatever its kind and language.
//!
//! One pass counts the words and numbers of all units (`units`) in tables of a fixed size
//! (`model`) and keeps those units as candidates that held something new, or a word that is
//! looked for (`marks`). Then the candidates alone are read again and scored by the final counts.

mod marks;
mod model;
mod signs;
mod tokens;
mod units;

use marks::Marks;
use model::{BIT, Bits, Context, RarityModel, ratio};
use tokens::{TextToken, TokenKind, Tokens, first_bytes, load, mix};

pub(super) use units::{Form, MAX_UNIT, for_each_line_part};

/// So many candidates are kept at once. With one more they are scored, and the best quarter stays.
const MAX_CANDIDATES: usize = 8_192;

/// A unit with a lower score is not worth showing.
pub(super) const MIN_SCORE: Bits = 7 * BIT;

/// The most surprising words of a unit that count.
const COUNTED_WORDS: usize = 5;

/// Compound names are looked at so many times.
const NEW_COUNT: u32 = 16;

/// In so many first bytes the counts say little, and more units are candidates.
const FIRST_BYTES: usize = 48 * 1024;

/// The most bits of the hash of a pattern.
const MAX_PATTERN_BITS: u32 = 14;

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
    pub(super) pattern: usize,
}

/// What a text holds.
pub(super) struct Findings {
    /// The best first.
    pub(super) evidence: Vec<Evidence>,
    /// The sign of trouble that most units have, and their number.
    pub(super) common_sign: Option<(&'static str, u32)>,
}

/// A unit with something that was new when it was read.
#[derive(Clone, Copy)]
struct Candidate {
    start: usize,
    end: usize,
    pattern: usize,
    score: Bits,
    focus: usize,
}

struct Finder<'t> {
    bytes: &'t [u8],
    tokens: Tokens<'t>,
    form: Form,
    model: RarityModel,
    marks: Marks,
    candidates: Vec<Candidate>,
    /// How many units have a pattern, by its hash.
    patterns: Vec<u32>,
    pattern_shift: u32,
    units: u32,
}

/// Finds the units that differ most from the others, or hold what is looked for.
pub(super) fn find(text: &str, form: Form, wanted: Wanted<'_>) -> Findings {
    let bytes = text.as_bytes();
    let pattern_bits = (bytes.len() / 32).max(1).ilog2().clamp(6, MAX_PATTERN_BITS);
    let marks = Marks::new(wanted.arguments, wanted.message);
    let mut model = RarityModel::new(bytes.len());
    marks.names().for_each(|name| model.mark(name));
    let mut finder = Finder {
        bytes,
        tokens: Tokens::new(bytes),
        form,
        model,
        marks,
        candidates: Vec::new(),
        patterns: vec![0; 1 << pattern_bits],
        pattern_shift: 64 - pattern_bits,
        units: 0,
    };
    form.for_each_unit(bytes, |start, end| finder.add(start, end));
    finder.findings()
}

impl Finder<'_> {
    /// Counts a unit, and keeps it if it holds something new.
    #[inline]
    fn add(&mut self, start: usize, end: usize) {
        self.units += 1;
        let (bytes, form, units) = (self.bytes, self.form, self.units);
        let (model, marks) = (&mut self.model, &mut self.marks);
        let least = if start < FIRST_BYTES { 3 } else { 16 };
        let mut is_candidate = false;
        let mut pattern = 0;
        let count = |context: Context, token: &TextToken, is_first: bool| {
            if is_first {
                model.count_context(context);
            }
            let counted = model.count(context, token, least);
            let is_word = matches!(token.kind, TokenKind::Word | TokenKind::Character);
            pattern = mix(pattern, if is_word { token.hash } else { 0 });
            is_candidate |= counted.is_new;
            if counted.may_be_marked || counted.before < NEW_COUNT {
                let pair = context.pair(token);
                if let Some(id) = marks.find(bytes, token, pair) {
                    is_candidate |= marks.count(id, units);
                }
            }
            counted.next
        };
        read(bytes, &mut self.tokens, form, (start, end), count);
        let pattern = usize::try_from(pattern >> self.pattern_shift).unwrap_or_default();
        if let Some(count) = self.patterns.get_mut(pattern) {
            *count += 1;
        }
        if is_candidate {
            if self.candidates.len() >= MAX_CANDIDATES {
                self.keep_best(MAX_CANDIDATES / 4);
            }
            self.candidates.push(Candidate {
                start,
                end,
                pattern,
                score: 0,
                focus: start,
            });
        }
    }

    /// Scores the candidates by the counts so far, and keeps the best of them.
    fn keep_best(&mut self, count: usize) {
        let mut candidates = std::mem::take(&mut self.candidates);
        let mut tokens = Tokens::new(self.bytes);
        let singles = self.patterns.iter().filter(|count| **count == 1).count();
        let singles = u32::try_from(singles).unwrap_or(u32::MAX).max(1);
        for candidate in &mut candidates {
            self.score(&mut tokens, candidate, singles);
        }
        if candidates.len() > count {
            candidates
                .select_nth_unstable_by_key(count, |it| (std::cmp::Reverse(it.score), it.start));
            candidates.truncate(count);
        }
        self.candidates = candidates;
    }

    fn score(&self, tokens: &mut Tokens<'_>, candidate: &mut Candidate, singles: u32) {
        let range = (candidate.start, candidate.end);
        let mut best = [0; COUNTED_WORDS];
        let mut marked: Bits = 0;
        let mut focus = (0, candidate.start);
        read(self.bytes, tokens, self.form, range, |context, token, _| {
            let (next, mut bits) = self.model.surprise(context, token);
            let pair = context.pair(token);
            let id = self.marks.find(self.bytes, token, pair);
            insert(&mut best, bits);
            if let Some(id) = id {
                let worth = self.marks.bits(id, token, self.units, &self.model);
                marked = marked.max(worth) + marked.min(worth) / 4;
                bits += worth;
            }
            if bits > focus.0 {
                focus = (bits, token.start);
            }
            next
        });
        let count = self.patterns.get(candidate.pattern).copied().unwrap_or(1);
        let pattern = if count <= 1 {
            ratio(self.units, singles) / 2
        } else {
            0
        };
        candidate.score = best.iter().sum::<Bits>() + marked + pattern;
        candidate.focus = focus.1;
    }

    fn findings(mut self) -> Findings {
        self.keep_best(usize::MAX);
        self.candidates
            .sort_unstable_by_key(|it| (std::cmp::Reverse(it.score), it.start));
        let evidence = self.candidates.iter().map(|it| Evidence {
            start: it.start,
            end: it.end,
            focus: it.focus,
            score: it.score,
            alike: self.patterns.get(it.pattern).copied().unwrap_or(1),
            pattern: it.pattern,
        });
        Findings {
            evidence: evidence.collect(),
            common_sign: self.marks.most_common(),
        }
    }
}

/// Keeps the largest numbers.
#[inline]
fn insert(best: &mut [Bits; COUNTED_WORDS], mut bits: Bits) {
    for place in best {
        if bits > *place {
            std::mem::swap(place, &mut bits);
        }
    }
}

/// Reads the tokens of a unit. `token` gets the context of each, and whether that is the place
/// where a line or a cell begins; it returns the context of the next.
#[inline]
fn read(
    bytes: &[u8],
    tokens: &mut Tokens<'_>,
    form: Form,
    unit: (usize, usize),
    mut token: impl FnMut(Context, &TextToken, bool) -> Context,
) {
    let separator = form.separator();
    let least_word = form.least_word();
    let mut context = Context::short();
    let mut is_first = true;
    let mut column = 0;
    form.for_each_piece(bytes, unit, |start, end| {
        let mut at = start;
        // Behind the signs at the start of a line: its first word.
        let mut waiting = None;
        loop {
            let found = match waiting.take() {
                Some(found) => Some(found),
                None => tokens.next(at, end),
            };
            let mut begins = is_first;
            let found = if is_first {
                is_first = false;
                let word = found.map_or(end, |found| found.start);
                context = Context::line_start(0);
                match signs(bytes, at, word) {
                    Some(signs) => {
                        waiting = found;
                        Some(signs)
                    }
                    None => found,
                }
            } else {
                found
            };
            let Some(found) = found else {
                return;
            };
            if let Some(separator) = separator
                && !begins
            {
                let gap = bytes.get(at..found.start).unwrap_or_default();
                let mut cells = 0;
                for byte in gap {
                    cells += u64::from(*byte == separator);
                }
                if cells > 0 {
                    column += cells;
                    begins = true;
                    context = Context::cell(column);
                }
            }
            at = found.end;
            context = if found.end - found.start < least_word && found.kind == TokenKind::Word {
                Context::short()
            } else {
                token(context, &found, begins)
            };
        }
    });
}

/// The signs before the first word of a line, which are a word of their own.
#[inline]
fn signs(bytes: &[u8], start: usize, end: usize) -> Option<TextToken> {
    let gap = bytes.get(start..end).unwrap_or_default();
    let gap = gap.trim_ascii_start();
    let start = end - gap.len();
    (!gap.is_empty()).then(|| TextToken {
        start,
        end,
        kind: TokenKind::Character,
        hash: mix(2, first_bytes(load(bytes, start), gap.len())),
    })
}

#[cfg(test)]
mod tests;
