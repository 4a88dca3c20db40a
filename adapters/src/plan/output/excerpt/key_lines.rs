//! Collects the lines of a text that say more than others, spread over all of it, and each
//! only once.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::line_cut::one_line;

/// The text is divided into so many sections, so that none of them fills the room.
const SECTIONS: usize = 32;

/// The maximum number of lines from a section: of strong lines and of weak ones.
const MAX_LINES: [usize; 2] = [4, 2];

const MAX_LINE_CHARS: usize = 200;

/// How many bytes of two lines are compared.
const KEY_BYTES: usize = 160;

/// The lines that were found so far.
pub(super) struct KeyLines<'t> {
    text: &'t str,
    lines: Vec<KeyLine<'t>>,
    /// Indices into `lines`, by [`line_key`].
    by_key: HashMap<Vec<u8>, usize>,
    /// Whether lines that differ in numbers only count as the same line.
    ignores_numbers: bool,
    /// The number of strong and weak lines in each section.
    counts: [[usize; 2]; SECTIONS],
    /// How many lines were added, including those that are not kept.
    pub(super) found: usize,
}

struct KeyLine<'t> {
    /// The byte at which it begins.
    at: usize,
    line: &'t str,
    /// Strong lines come before weak ones where there is not enough room.
    is_strong: bool,
    /// How many lines of the text are the same.
    count: usize,
}

impl<'t> KeyLines<'t> {
    pub(super) fn new(text: &'t str, ignores_numbers: bool) -> Self {
        Self {
            text,
            lines: Vec::new(),
            by_key: HashMap::new(),
            ignores_numbers,
            counts: [[0; 2]; SECTIONS],
            found: 0,
        }
    }

    /// Adds the line that begins at this byte, unless its section has enough lines.
    pub(super) fn add(&mut self, at: usize, line: &'t str, is_strong: bool) {
        self.found += 1;
        let key = line_key(line, self.ignores_numbers);
        if let Some(same) = self
            .by_key
            .get(&key)
            .and_then(|index| self.lines.get_mut(*index))
        {
            same.count += 1;
            return;
        }
        let section = at * SECTIONS / self.text.len().max(1);
        let class = usize::from(!is_strong);
        let (Some(count), Some(limit)) = (
            self.counts
                .get_mut(section)
                .and_then(|counts| counts.get_mut(class)),
            MAX_LINES.get(class),
        ) else {
            return;
        };
        if *count >= *limit {
            return;
        }
        *count += 1;
        self.by_key.insert(key, self.lines.len());
        self.lines.push(KeyLine {
            at,
            line,
            is_strong,
            count: 1,
        });
    }

    /// Those of the lines between these bytes that fit into `room` characters, with their
    /// line numbers. `lines_above` is the number of lines above the text. Also returns how
    /// many characters and lines of the text these are.
    pub(super) fn render(
        &self,
        (from, to): (usize, usize),
        lines_above: usize,
        room: usize,
    ) -> (String, usize, usize) {
        let mut lines: Vec<&KeyLine<'_>> = self
            .lines
            .iter()
            .filter(|line| line.at >= from && line.at < to)
            .collect();
        lines.sort_by_key(|line| line.at);
        let (strong, weak): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.is_strong);
        let mut left = room;
        let mut chosen: Vec<(usize, String)> = Vec::new();
        for key_line in spread(&strong).chain(spread(&weak)) {
            let mut line = one_line(key_line.line.trim_end(), MAX_LINE_CHARS);
            if key_line.count > 1 {
                let _ = write!(line, " ({} alike)", key_line.count);
            }
            // With the line number, the colon, the space and the line end.
            let cost = line.chars().count() + 10;
            if cost <= left {
                left -= cost;
                chosen.push((key_line.at, line));
            }
        }
        chosen.sort_by_key(|(at, _)| *at);
        let mut text = String::new();
        let mut text_chars = 0;
        let (mut counted_to, mut number) = (0, lines_above + 1);
        for (at, line) in &chosen {
            let between = self
                .text
                .as_bytes()
                .get(counted_to..*at)
                .unwrap_or_default();
            number += memchr::memchr_iter(b'\n', between).count();
            counted_to = *at;
            let _ = writeln!(text, "{number}: {line}");
            text_chars += line.chars().count() + 1;
        }
        (text, text_chars, chosen.len())
    }
}

/// All elements in such an order that the first few of them, however many, are spread
/// over the whole list: by the reversed bits of their indices.
fn spread<'a, T>(all: &'a [&'a T]) -> impl Iterator<Item = &'a T> {
    let bits = usize::BITS - all.len().saturating_sub(1).leading_zeros();
    (0..1_usize << bits).filter_map(move |index| {
        let reversed = if bits == 0 {
            0
        } else {
            index.reverse_bits() >> (usize::BITS - bits)
        };
        all.get(reversed).copied()
    })
}

/// The start of a line, which is the same for lines that count as one. With `ignores_numbers` every
/// run of digits is one zero.
fn line_key(line: &str, ignores_numbers: bool) -> Vec<u8> {
    let mut key = Vec::with_capacity(KEY_BYTES);
    for &byte in line.as_bytes().iter().take(KEY_BYTES) {
        if !ignores_numbers || !byte.is_ascii_digit() {
            key.push(byte);
        } else if key.last() != Some(&b'0') {
            key.push(b'0');
        }
    }
    key
}
