//! Compares two turns and names the fields that differ.
//!
//! Attempts are numbered from 1, as in the file; items, steps and events from 0, as
//! in JSON and in `sequence_number`.
//!
//! - `comparison`: what is compared of two turns, in the order of the report.
//! - `bodies`: compares bodies, which are JSON documents or streams of events.
//! - `values`: compares JSON values field by field.
//! - `excerpt`: short quotes of long values.

mod bodies;
mod comparison;
mod excerpt;
#[cfg(test)]
mod tests;
mod values;

use std::fmt;

use self::comparison::Comparison;
use super::BundleTurn;
use crate::log::SafeText;

/// Which differences count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything that a replay must reproduce: plan, upstream requests, how the attempts ended,
    /// the response to the client, notes, outcome and token counts.
    Replay,
    /// Everything that distinguishes two turns, causes before consequences. Differences
    /// that any two turns have do not count: corresponding ids, times, and how texts are
    /// cut into events.
    Diff,
}

/// One field in which two turns differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The field: `attempt 2 request: messages[14].content`.
    pub location: String,
    /// The value in the left turn, or `absent`. Long values are cut around the first
    /// character that differs. Both values are empty if the location alone says everything.
    pub left: String,
    /// The value in the right turn, likewise.
    pub right: String,
}

/// All differences of two turns: at most twenty for each part, followed by the number
/// of further ones.
pub fn compare(left: &BundleTurn, right: &BundleTurn, what: Scope) -> Vec<Difference> {
    let mut found = Vec::new();
    if what == Scope::Replay && !left.is_complete() {
        let parts = left.omitted.iter();
        let parts: Vec<String> = parts
            .map(|part| format!("{} has {} of {} bytes", part.what, part.kept, part.total))
            .collect();
        let location = format!("not replayable: {}", parts.join(", "));
        found.push(Difference::remark(location));
    }
    let mut comparison = Comparison::new(what, found);
    comparison.turns([left, right]);
    comparison.found
}

/// The most differences of one part that are kept; further ones are counted.
const MAX_KEPT: usize = 1000;

/// The differences of one part of a turn.
#[derive(Default)]
struct Differences {
    kept: Vec<Difference>,
    /// How many more there are.
    more: usize,
}

impl Differences {
    fn add(&mut self, difference: impl FnOnce() -> Difference) {
        if self.kept.len() < MAX_KEPT {
            self.kept.push(difference());
        } else {
            self.more += 1;
        }
    }

    fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    fn append(&mut self, mut other: Self) {
        let room = MAX_KEPT.saturating_sub(self.kept.len());
        self.more += other.more + other.kept.len().saturating_sub(room);
        other.kept.truncate(room);
        self.kept.append(&mut other.kept);
    }
}

impl From<Difference> for Differences {
    fn from(difference: Difference) -> Self {
        Self {
            kept: vec![difference],
            more: 0,
        }
    }
}

impl Difference {
    fn new(location: impl Into<String>, (left, right): (String, String)) -> Self {
        let mut location = location.into();
        location.truncate(location.trim_end_matches([':', ' ']).len());
        Self {
            location,
            left,
            right,
        }
    }

    /// Only the left turn has a value.
    fn left(location: impl Into<String>, left: String) -> Self {
        Self::new(location, (left, excerpt::ABSENT.to_owned()))
    }

    /// Only the right turn has a value.
    fn right(location: impl Into<String>, right: String) -> Self {
        Self::new(location, (excerpt::ABSENT.to_owned(), right))
    }

    /// A difference that its location describes completely.
    fn remark(location: impl Into<String>) -> Self {
        Self::new(location, (String::new(), String::new()))
    }
}

impl fmt::Display for Difference {
    /// One line, or two if the values are long; without a final line break.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            location,
            left,
            right,
        } = self;
        let (location, left, right) = (
            SafeText::new(location),
            SafeText::new(left),
            SafeText::new(right),
        );
        if self.left.is_empty() && self.right.is_empty() {
            return write!(f, "{location}");
        }
        let length = [&self.location, &self.left, &self.right]
            .iter()
            .map(|text| text.chars().count())
            .sum::<usize>();
        let gap = if length > 110 { "\n    " } else { " " };
        write!(f, "{location}: {left}{gap}-> {right}")
    }
}
