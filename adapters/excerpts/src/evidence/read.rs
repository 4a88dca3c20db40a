//! Reads the tokens of a unit, each with its context.

use super::model::Context;
use super::tokens::{FoundToken, TextToken, TokenKind, Tokens, first_bytes, load, mix};
use super::units::{Form, Separators};
use crate::{elements, markup};

/// What is done with the tokens of a unit.
pub(super) trait TokenSink {
    /// Takes the next token and its context. `begins` says whether a line or a cell begins there.
    /// Returns the context of the token behind it.
    fn take(&mut self, context: Context, token: TextToken, begins: bool) -> Context;
}

impl<F: FnMut(Context, &TextToken, bool) -> Context> TokenSink for F {
    #[inline]
    fn take(&mut self, context: Context, token: TextToken, begins: bool) -> Context {
        self(context, &token, begins)
    }
}

/// Passes the tokens of a unit on.
#[inline]
pub(super) fn read<'t>(
    bytes: &'t [u8],
    tokens: &mut Tokens<'t>,
    form: Form,
    unit: (usize, usize),
    sink: &mut impl TokenSink,
) {
    let context = Context::line_start(0);
    let mut reader = Reader {
        bytes,
        tokens,
        sink,
        context,
    };
    let least_word = form.least_word();
    match form {
        Form::Table(separator) => reader.read_row(separator, unit),
        // The tag between a key and its value says less than the key.
        Form::Xml if bytes.get(unit.0..).is_some_and(elements::is_key) => {
            markup::for_each_text(bytes, unit, |start, end| {
                reader.read_words((start, end), least_word);
            });
        }
        Form::Page => {
            let mut is_first = true;
            markup::for_each_text(bytes, unit, |start, end| {
                let at = if is_first {
                    reader.read_first((start, end), least_word)
                } else {
                    start
                };
                is_first = false;
                reader.read_words((at, end), least_word);
            });
        }
        Form::Lines | Form::Minified | Form::Xml => {
            let at = reader.read_first(unit, least_word);
            reader.read_words((at, unit.1), least_word);
        }
    }
}

struct Reader<'r, 't, S> {
    bytes: &'t [u8],
    tokens: &'r mut Tokens<'t>,
    sink: &'r mut S,
    /// The context of the next token.
    context: Context,
}

impl<S: TokenSink> Reader<'_, '_, S> {
    /// Passes the first token of a line on, and returns where it ends.
    #[inline]
    fn read_first(&mut self, (start, end): (usize, usize), least_word: usize) -> usize {
        let found = self.tokens.next(start, end);
        let word = found.map_or(end, |found| found.start);
        // The first word is found again behind the signs before it.
        let Some(found) = signs(self.bytes, start, word).or(found) else {
            return end;
        };
        let is_short = found.end - found.start < least_word;
        self.context = if is_short && found.kind == TokenKind::Word {
            Context::short()
        } else {
            self.sink.take(self.context, found, true)
        };
        found.end
    }

    /// Passes the further tokens of a line on.
    #[inline]
    fn read_words(&mut self, (mut at, end): (usize, usize), least_word: usize) {
        let mut context = self.context;
        // Each arm calls the sink itself, so that the kind of the token is known to the compiler
        // there.
        while let Some(found) = self.tokens.find(at, end) {
            match found {
                FoundToken::Word(token) => {
                    at = token.end;
                    context = if token.end - token.start < least_word {
                        Context::short()
                    } else {
                        self.sink.take(context, token, false)
                    };
                }
                FoundToken::Character(mut token) => loop {
                    at = token.end;
                    context = self.sink.take(context, token, false);
                    // Most are next to each other.
                    let Some(next) = self.tokens.character_at(at, end) else {
                        break;
                    };
                    token = next;
                },
                FoundToken::Number(token) => {
                    at = token.end;
                    context = self.sink.take(context, token, false);
                }
                FoundToken::Name(token) => {
                    at = token.end;
                    let is_short = token.end - token.start < least_word;
                    context = if is_short && token.kind == TokenKind::Word {
                        Context::short()
                    } else {
                        self.sink.take(context, token, false)
                    };
                }
            }
        }
        self.context = context;
    }

    /// Passes the tokens of a row of a table on.
    #[expect(
        clippy::match_same_arms,
        reason = "in each arm another kind of token is known"
    )]
    fn read_row(&mut self, separator: u8, (start, end): (usize, usize)) {
        let row = self.bytes.get(start..end).unwrap_or_default();
        let mut cells = Cells::new(row, start, separator);
        let found = self.tokens.next(start, end);
        let word = found.map_or(end, |found| found.start);
        cells.go_to(word);
        let Some(found) = signs(self.bytes, start, word).or(found) else {
            return;
        };
        self.context = self.sink.take(self.context, found, true);
        let mut at = found.end;
        while let Some(found) = self.tokens.find(at, end) {
            at = match found {
                FoundToken::Word(token) => self.take_in_row(&mut cells, token),
                FoundToken::Character(token) => self.take_in_row(&mut cells, token),
                FoundToken::Number(token) => self.take_in_row(&mut cells, token),
                FoundToken::Name(token) => self.take_in_row(&mut cells, token),
            }
        }
    }

    /// Passes a token of a row on, and returns where it ends.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "it is called for each word of an output, where the kind of the word is known"
    )]
    fn take_in_row(&mut self, cells: &mut Cells<'_>, token: TextToken) -> usize {
        let begins = cells.go_to(token.start);
        if begins {
            self.context = Context::cell(cells.column);
        }
        let end = token.end;
        self.context = self.sink.take(self.context, token, begins);
        end
    }
}

/// A place in a row of a table.
struct Cells<'t> {
    separators: Separators<'t>,
    /// Where the row begins, and where the next separator is.
    start: usize,
    next: usize,
    column: u64,
}

impl<'t> Cells<'t> {
    fn new(row: &'t [u8], start: usize, separator: u8) -> Self {
        let mut cells = Self {
            separators: Separators::new(row, separator),
            start,
            next: 0,
            column: 0,
        };
        cells.find_next();
        cells
    }

    #[inline]
    fn find_next(&mut self) {
        let next = self.separators.next();
        self.next = next.map_or(usize::MAX, |next| self.start + next);
    }

    /// Goes on to a word, and returns whether a cell begins before it.
    #[inline]
    fn go_to(&mut self, word: usize) -> bool {
        let begins = self.next < word;
        while self.next < word {
            self.column += 1;
            self.find_next();
        }
        begins
    }
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
        hash: signs_hash(gap),
    })
}

/// The hash of the signs before the first word of a line, up to eight bytes.
#[inline]
pub(super) fn signs_hash(signs: &[u8]) -> u64 {
    mix(2, first_bytes(load(signs, 0), signs.len()))
}
