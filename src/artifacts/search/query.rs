//! What is searched for: a text or a regular expression, within limits of size and cost.

use std::ops::Range;

use regex_automata::Input;
use regex_automata::meta::{self, Regex};
use regex_automata::util::syntax;
use regex_syntax::hir::{Class, Hir, HirKind};

/// The maximum number of context lines on each side of a match.
pub const MAX_CONTEXT_LINES: usize = 20;

/// The maximum bytes of a pattern.
const MAX_PATTERN: usize = 2_000;

/// The maximum bytes of a compiled expression.
const MAX_COMPILED: usize = 512 << 10;

/// The bytes of the cache with which an expression runs. If it is full too often, the search
/// continues without it, several hundred times slower.
const CACHE_SIZE: usize = 1 << 20;

/// The maximum width of a regular expression; see [`width`].
const MAX_WIDTH: u64 = 1_500;

/// The steps of one search within a long line: bytes times width. This many take a tenth of a
/// second at worst, and between two of them a search can be stopped.
const STEPS_AT_ONCE: u64 = 12 << 20;

/// The fewest and the most bytes of a long line that are searched at once.
const WINDOW: Range<u64> = 8 << 10..64 << 10;

/// The maximum width of a text that is found quickly in any text when case is ignored.
const MAX_QUICK_WIDTH: u64 = 300;

/// A search for a text or a regular expression.
#[derive(Clone, Debug)]
pub struct SearchQuery {
    finder: Regex,
    /// How many bytes of a long line are searched at once.
    window: usize,
    /// The bytes that the longest possible match has; `None` if there is no limit.
    longest_match: Option<usize>,
    quick: bool,
    /// Lines to show before and after each match, at most [`MAX_CONTEXT_LINES`].
    pub context: usize,
    /// How much to show.
    pub limits: SearchLimits,
    /// Matches that begin before this byte are skipped.
    pub from_byte: u64,
}

/// The limits of what a search shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchLimits {
    /// The maximum number of matches.
    pub matches: usize,
    /// The maximum bytes of all lines together. The first match is shown even if it is longer.
    pub bytes: usize,
}

/// A pattern that cannot be searched for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQuery {
    /// The pattern is empty.
    #[error("the text to search for is empty")]
    Empty,
    /// The pattern is too long.
    #[error("the text to search for is longer than {MAX_PATTERN} bytes")]
    TooLong,
    /// The pattern is not a regular expression; contains the reason.
    #[error("this is not a regular expression: {0}")]
    Syntax(String),
    /// The expression would take too much memory, or too long.
    #[error("this regular expression is too large; use smaller repetitions")]
    TooLarge,
}

impl SearchQuery {
    /// A query for a literal text, or for a regular expression in the syntax of the
    /// `regex` crate, whose searches take time linear in the text. It has default limits.
    pub fn new(pattern: &str, regex: bool, ignore_case: bool) -> Result<Self, InvalidQuery> {
        if pattern.is_empty() {
            return Err(InvalidQuery::Empty);
        }
        if pattern.len() > MAX_PATTERN {
            return Err(InvalidQuery::TooLong);
        }
        let escaped;
        let expression = if regex {
            pattern
        } else {
            escaped = regex_syntax::escape(pattern);
            &escaped
        };
        let syntax = syntax::Config::new().case_insensitive(ignore_case);
        let expression = syntax::parse_with(expression, &syntax).map_err(|error| {
            // The last line is the reason; the lines above it quote the expression.
            InvalidQuery::Syntax(
                error
                    .to_string()
                    .lines()
                    .last()
                    .unwrap_or_default()
                    .trim_start_matches("error: ")
                    .to_owned(),
            )
        })?;
        let width = width(&expression);
        if regex && width > MAX_WIDTH {
            return Err(InvalidQuery::TooLarge);
        }
        let config = meta::Config::new()
            .nfa_size_limit(Some(if regex { MAX_COMPILED } else { CACHE_SIZE }))
            .hybrid_cache_capacity(CACHE_SIZE);
        let finder = Regex::builder()
            .configure(config)
            .build_from_hir(&expression)
            .map_err(|_| InvalidQuery::TooLarge)?;
        let window = (STEPS_AT_ONCE / width.max(1)).clamp(WINDOW.start, WINDOW.end);
        Ok(Self {
            finder,
            window: usize::try_from(window).unwrap_or(usize::MAX),
            longest_match: expression.properties().maximum_len(),
            quick: !regex && (!ignore_case || width <= MAX_QUICK_WIDTH),
            context: 0,
            limits: SearchLimits {
                matches: 50,
                bytes: 20_000,
            },
            from_byte: 0,
        })
    }

    /// Whether it is searched for quickly in any text.
    pub fn is_quick(&self) -> bool {
        self.quick
    }

    /// The first match in a range of a line. Whatever surrounds the range is looked at by `^`,
    /// `$` and `\b` only.
    pub(super) fn find(&self, line: &str, range: Range<usize>) -> Option<Range<usize>> {
        let found = self.finder.find(Input::new(line).range(range));
        found.map(|found| found.range())
    }

    /// How many bytes of a long line are searched at once.
    pub(super) fn window(&self) -> usize {
        self.window
    }

    /// How many bytes of a window are searched again with the next one. A match that begins in a
    /// window is found if it has at most this many bytes.
    pub(super) fn overlap(&self) -> usize {
        self.window / 4
    }

    /// Whether a match can have more bytes than [`overlap`](Self::overlap).
    pub(super) fn can_exceed_overlap(&self) -> bool {
        self.longest_match
            .is_none_or(|longest| longest > self.overlap())
    }
}

/// How many characters and classes of an expression can be in question at a byte of the text, if
/// all repetitions are written out. A class beyond ASCII is several steps of the search.
fn width(expression: &Hir) -> u64 {
    match expression.kind() {
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(Class::Unicode(class)) if !class.is_ascii() => {
            1 + class.ranges().len().min(4) as u64
        }
        HirKind::Empty | HirKind::Look(_) | HirKind::Class(_) => 1,
        HirKind::Capture(capture) => width(&capture.sub),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            width(&repetition.sub).saturating_mul(u64::from(times))
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(width).fold(0, u64::saturating_add)
        }
    }
}
