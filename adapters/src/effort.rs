//! Levels of reasoning effort: what a client asks for, and what a model has.

use std::cmp::Reverse;

use registry::Model;
use serde::{Deserialize, Serialize};

use crate::notes::Notes;

/// Every effort level that a client or a model may name, from the weakest.
const EFFORT_LEVELS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// A set of reasoning effort levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct EffortLevels(u8);

impl EffortLevels {
    /// The levels among these names; `None` if there is none.
    pub fn from_names(words: &[&str]) -> Option<Self> {
        let bits = EFFORT_LEVELS
            .iter()
            .enumerate()
            .filter(|(_, level)| words.contains(level))
            .fold(0, |bits, (index, _)| bits | 1 << index);
        (bits != 0).then_some(Self(bits))
    }

    /// The names, from the weakest level.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        EFFORT_LEVELS
            .into_iter()
            .enumerate()
            .filter(move |(index, _)| self.0 & 1 << index != 0)
            .map(|(_, level)| level)
    }
}

/// The model's level that is nearest to the wanted one; of two that are equally
/// near, the higher.
pub(crate) fn nearest<'t>(wanted: &'t str, model: &'t Model, notes: &mut Notes) -> &'t str {
    if has_level(model, wanted) {
        return wanted;
    }
    let rank = |level: &str| EFFORT_LEVELS.iter().position(|known| *known == level);
    let Some(target) = rank(wanted) else {
        return wanted;
    };
    let nearest = model
        .reasoning
        .iter()
        .filter_map(|level| Some((rank(level)?, level)))
        .min_by_key(|(rank, _)| (rank.abs_diff(target), Reverse(*rank)));
    match nearest {
        Some((_, level)) => {
            notes.add("effort_mapped", format!("{wanted} to {level}"));
            level
        }
        None => wanted,
    }
}

/// Whether the model has this level.
pub(crate) fn has_level(model: &Model, wanted: &str) -> bool {
    model.reasoning.iter().any(|level| level == wanted)
}
