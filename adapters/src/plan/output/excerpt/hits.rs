//! Lines of the middle of a text that tell more than others: spread over all of it,
//! each only once.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::cut::{chars, one_line};

/// The text is looked at in so many stretches, so that no one fills the room.
const STRETCHES: usize = 32;

/// Lines that are kept of a stretch: of the telling ones, of the others.
const KEPT: [usize; 2] = [4, 2];

/// Characters of a line that are shown.
const SHOWN: usize = 200;

/// Lines, by their place in a text.
pub(super) struct Hits<'t> {
    text: &'t str,
    lines: Vec<Hit<'t>>,
    known: HashMap<u64, usize>,
    /// Whether lines that differ in numbers only are alike.
    numbers: bool,
    counts: [[usize; 2]; STRETCHES],
    /// All lines that were found.
    pub(super) found: usize,
}

struct Hit<'t> {
    at: usize,
    line: &'t str,
    strong: bool,
    times: usize,
}

impl<'t> Hits<'t> {
    pub(super) fn new(text: &'t str, numbers: bool) -> Self {
        Self {
            text,
            lines: Vec::new(),
            known: HashMap::new(),
            numbers,
            counts: [[0; 2]; STRETCHES],
            found: 0,
        }
    }

    /// Adds the line that begins at this byte.
    pub(super) fn add(&mut self, at: usize, line: &'t str, strong: bool) {
        self.found += 1;
        let print = print(line, self.numbers);
        if let Some(hit) = self
            .known
            .get(&print)
            .and_then(|hit| self.lines.get_mut(*hit))
        {
            hit.times += 1;
            return;
        }
        let stretch = at * STRETCHES / self.text.len().max(1);
        let class = usize::from(!strong);
        let (Some(count), Some(most)) = (
            self.counts
                .get_mut(stretch)
                .and_then(|counts| counts.get_mut(class)),
            KEPT.get(class),
        ) else {
            return;
        };
        if *count >= *most {
            return;
        }
        *count += 1;
        self.known.insert(print, self.lines.len());
        self.lines.push(Hit {
            at,
            line,
            strong,
            times: 1,
        });
    }

    /// The lines between these bytes that fit into `room` characters, with their
    /// numbers; `above` lines stand above the text. How many characters and lines of
    /// the text they are comes with them.
    pub(super) fn show(
        &self,
        (from, to): (usize, usize),
        above: usize,
        room: usize,
    ) -> (String, usize, usize) {
        let mut hits: Vec<&Hit<'_>> = self
            .lines
            .iter()
            .filter(|hit| hit.at >= from && hit.at < to)
            .collect();
        hits.sort_by_key(|hit| hit.at);
        let (strong, weak): (Vec<_>, Vec<_>) = hits.into_iter().partition(|hit| hit.strong);
        let mut left = room;
        let mut chosen: Vec<(usize, String)> = Vec::new();
        for hit in spread(&strong).chain(spread(&weak)) {
            let mut line = one_line(hit.line.trim_end(), SHOWN);
            if hit.times > 1 {
                let _ = write!(line, " ({} alike)", hit.times);
            }
            // The number, the colon, the blank and the line end.
            let cost = chars(&line) + 10;
            if cost <= left {
                left -= cost;
                chosen.push((hit.at, line));
            }
        }
        chosen.sort_by_key(|(at, _)| *at);
        let mut shown = String::new();
        let mut held = 0;
        let (mut behind, mut number) = (0, above + 1);
        for (at, line) in &chosen {
            let between = self.text.as_bytes().get(behind..*at).unwrap_or_default();
            number += memchr::memchr_iter(b'\n', between).count();
            behind = *at;
            let _ = writeln!(shown, "{number}: {line}");
            held += chars(line) + 1;
        }
        (shown, held, chosen.len())
    }
}

/// The elements so that any number of first ones is spread over all.
fn spread<'a, T>(all: &'a [&'a T]) -> impl Iterator<Item = &'a T> {
    let bits = usize::BITS - all.len().saturating_sub(1).leading_zeros();
    (0..1_usize << bits).filter_map(move |place| {
        let turned = if bits == 0 {
            0
        } else {
            place.reverse_bits() >> (usize::BITS - bits)
        };
        all.get(turned).copied()
    })
}

/// Lines that are alike have one print.
fn print(line: &str, numbers: bool) -> u64 {
    let mut print = 0xcbf2_9ce4_8422_2325_u64;
    let mut digit = false;
    for &byte in line.as_bytes().iter().take(160) {
        if numbers && byte.is_ascii_digit() {
            if digit {
                continue;
            }
            digit = true;
        } else {
            digit = false;
        }
        let byte = if digit { b'0' } else { byte };
        print = (print ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    print
}
