//! Two turns side by side: where they differ, by name.
//!
//! Attempts count from 1, as in the file; items, steps and events from 0, as in
//! JSON and in `sequence_number`.

mod align;
mod body;
mod excerpt;
mod json;
mod parts;
#[cfg(test)]
mod tests;

use std::fmt;

use super::BundleTurn;
use crate::diagnostics::line::Line;

/// So many differences of one part are told.
const MOST: usize = 20;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// What the replay of a turn must reproduce: plan, requests, the ends of the
    /// attempts, the answer, notes, outcome and tokens.
    Replay,
    /// All that makes one turn another than a second one, what decides before
    /// what follows. Ids that stand for each other, times and the cut of texts
    /// into events differ by nature and are not told.
    Diff,
}

/// One place where two turns differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The field: `attempt 2 request: messages[14].content`.
    pub place: String,
    /// What the left turn has there, or `absent`. Long values are cut around the
    /// first character that differs. Both sides are empty where the place says
    /// all.
    pub left: String,
    /// What the right turn has there.
    pub right: String,
}

/// Every place where the turns differ; at most twenty of one part, and then how
/// many more.
pub fn compare(left: &BundleTurn, right: &BundleTurn, what: Scope) -> Vec<Difference> {
    let mut found = parts::Parts::new(what);
    match what {
        Scope::Replay => {
            found.omitted(left);
            found.plan(left, right);
            found.attempts(left, right);
            found.answer(left, right);
            found.end(left, right);
        }
        Scope::Diff => {
            found.surroundings(left, right);
            found.request(left, right);
            found.plan(left, right);
            found.attempts(left, right);
            found.end(left, right);
            found.answer(left, right);
        }
    }
    found.all()
}

impl Difference {
    fn new(place: impl Into<String>, (left, right): (String, String)) -> Self {
        let mut place = place.into();
        place.truncate(place.trim_end_matches([':', ' ']).len());
        Self { place, left, right }
    }

    /// The left turn alone has something there.
    fn left(place: impl Into<String>, left: String) -> Self {
        Self::new(place, (left, excerpt::ABSENT.to_owned()))
    }

    /// The right turn alone has something there.
    fn right(place: impl Into<String>, right: String) -> Self {
        Self::new(place, (excerpt::ABSENT.to_owned(), right))
    }

    /// A place that says all.
    fn remark(place: impl Into<String>) -> Self {
        Self::new(place, (String::new(), String::new()))
    }
}

impl fmt::Display for Difference {
    /// One line, or two where the values are long; without an end of line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, left, right } = self;
        let (place, left, right) = (Line::new(place), Line::new(left), Line::new(right));
        if self.left.is_empty() && self.right.is_empty() {
            return write!(f, "{place}");
        }
        let length = [&self.place, &self.left, &self.right]
            .iter()
            .map(|text| text.chars().count())
            .sum::<usize>();
        let gap = if length > 110 { "\n    " } else { " " };
        write!(f, "{place}: {left}{gap}-> {right}")
    }
}
