//! Levels of reasoning effort: what a client asks for, and what a model has.

use std::cmp::Reverse;

use registry::Model;

use crate::notes::Notes;
use crate::quirk_patch::EFFORT_LEVELS;

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
