//! Writes the units that an excerpt shows between the first and the last lines.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::ExcerptSource;
use super::body::ShownUnit;
use super::line_cut::FirstAndLast;
use super::overview::{self, HitCounts, Overview};

const LABEL: &str = "Between them, what differs from the rest or was asked for:\n";
const HITS_LABEL: &str =
    "Hits that differ from the rest or were asked for, by file, the oddest first:\n";

impl ExcerptSource<'_> {
    /// The units between two bytes. They come in their order, each with its line number or its
    /// place, and with the number of lines between them; hits of a search come by file.
    pub(super) fn render(
        &self,
        units: &[ShownUnit],
        between: (usize, usize),
        ends: &FirstAndLast,
    ) -> String {
        if units.is_empty() {
            return String::new();
        }
        let written = self.written(units, ends);
        match &self.overview {
            Overview::Hits(hits) => by_file(units, &written, hits),
            _ => self.in_order(units, &written, between),
        }
    }

    /// Each unit behind its line number or its place. The last one of those that differ in numbers
    /// only says how many more there are.
    fn written(&self, units: &[ShownUnit], ends: &FirstAndLast) -> Vec<(String, String)> {
        let mut last: HashMap<u64, (usize, usize)> = HashMap::new();
        for (index, unit) in units.iter().enumerate() {
            if let Some(pattern) = unit.pattern {
                let (place, shown) = last.entry(pattern).or_default();
                (*place, *shown) = (index, *shown + 1);
            }
        }
        let bytes = self.text.as_bytes();
        let (mut at, mut number) = (0, self.lines_above + 1);
        let mut written = Vec::new();
        for (index, unit) in units.iter().enumerate() {
            number += self.line_ends(at, unit.start);
            at = unit.start;
            let before = unit.start.checked_sub(1).and_then(|at| bytes.get(at));
            let place = if before.is_none_or(|before| *before == b'\n') {
                number.to_string()
            } else {
                format!("byte {}", self.bytes_above + unit.start)
            };
            let mut text = unit.text.clone();
            // A line with an odd number is like no other.
            let pattern = unit
                .pattern
                .filter(|_| !self.has_odd_number(unit.start, unit.end));
            let shown = pattern.and_then(|pattern| {
                let (place, shown) = last.get(&pattern)?;
                (*place == index).then_some(shown + ends.alike(pattern))
            });
            let alike = usize::try_from(unit.alike).unwrap_or(usize::MAX);
            match shown.map_or(0, |shown| alike.saturating_sub(shown)) {
                0 => {}
                1 => text.push_str(" … 1 more line like this"),
                more => {
                    let _ = write!(text, " … {more} more lines like this");
                }
            }
            written.push((place, text));
        }
        written
    }

    /// How many line ends are between two bytes.
    fn line_ends(&self, from: usize, to: usize) -> usize {
        let range = self.text.as_bytes().get(from..to).unwrap_or_default();
        memchr::memchr_iter(b'\n', range).count()
    }

    fn in_order(
        &self,
        units: &[ShownUnit],
        written: &[(String, String)],
        between: (usize, usize),
    ) -> String {
        let mut text = String::from(LABEL);
        let mut shown_to = between.0;
        for (unit, (place, line)) in units.iter().zip(written) {
            // The line end of the unit before belongs to that.
            let ended = usize::from(shown_to > between.0);
            let left_out = self.line_ends(shown_to, unit.start).saturating_sub(ended);
            if left_out > 0 {
                let _ = writeln!(text, "… {left_out} lines");
            }
            shown_to = unit.end;
            let _ = writeln!(text, "{place}: {line}");
        }
        let left_out = self.line_ends(shown_to, between.1).saturating_sub(1);
        if left_out > 0 {
            let _ = writeln!(text, "… {left_out} lines");
        }
        text
    }
}

/// The hits below their files, with the numbers of their lines in the output and in the file.
fn by_file(units: &[ShownUnit], written: &[(String, String)], counts: &HitCounts) -> String {
    let mut files: Vec<(&str, usize, Vec<String>)> = Vec::new();
    for (unit, (place, line)) in units.iter().zip(written) {
        let (path, line) = match overview::hit(line) {
            Some(hit) => (hit.path, hit.rest),
            None => ("", line.as_str()),
        };
        let line = format!("{place}: {line}");
        match files.iter_mut().find(|(known, ..)| *known == path) {
            Some((_, rank, lines)) => {
                *rank = (*rank).min(unit.rank);
                lines.push(line);
            }
            None => files.push((path, unit.rank, vec![line])),
        }
    }
    files.sort_by_key(|(_, rank, _)| *rank);
    let mut text = String::from(HITS_LABEL);
    for (path, _, lines) in files {
        match counts.of_file(path) {
            Some(1) => {
                let _ = writeln!(text, "{path} (its only hit)");
            }
            Some(all) => {
                let _ = writeln!(text, "{path} ({} of {all} hits)", lines.len());
            }
            None if path.is_empty() => text.push_str("other lines\n"),
            None => {
                let _ = writeln!(text, "{path}");
            }
        }
        for line in lines {
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}
