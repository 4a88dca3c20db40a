//! Selects which units of a request for a summary stay, and how long their texts may be.

use super::budget::ByteBudget;
use super::units::{SequenceUnit, UnitKind};
use crate::fair_share::{fair_share, largest_fitting};

/// A text with fewer bytes says nothing.
const MIN_TEXT_BYTES: usize = 200;

/// The JSON around the instructions.
const INSTRUCTIONS_FRAME: usize = 192;

/// The maximum lengths of the parts that stay, in bytes.
pub(super) struct UnitCaps {
    /// The maximum length of the instructions.
    pub(super) instructions: usize,
    /// For each unit: the maximum length of each of its texts; `None` if the unit is left
    /// out.
    pub(super) units: Vec<Option<usize>>,
}

impl UnitCaps {
    pub(super) fn unlimited(units: usize) -> Self {
        Self {
            instructions: usize::MAX,
            units: vec![Some(usize::MAX); units],
        }
    }
}

/// Divides the budget. The system text gets at most half of it, the newest user message
/// at first half of the rest, and the newest summary a quarter of that. The other units
/// are added from the newest on, with a sixteenth of the rest for each of their texts.
/// Bytes that are left over then make the longest texts longer, the newest user message
/// first.
pub(super) fn select(units: &[SequenceUnit], instructions: usize, budget: &ByteBudget) -> UnitCaps {
    let mut caps: Vec<Option<usize>> = vec![None; units.len()];
    let prompt = units.iter().filter(|unit| unit.kind == UnitKind::Prompt);
    let prompt: usize = prompt.map(SequenceUnit::full_size).sum();
    let left = budget.bytes.saturating_sub(prompt + budget.notice);

    let system = || units.iter().filter(|unit| unit.kind == UnitKind::System);
    let frames = INSTRUCTIONS_FRAME + system().map(|unit| unit.frame).sum::<usize>();
    let texts = system().flat_map(|unit| unit.texts.iter().map(|text| text.bytes));
    let texts = texts.chain([instructions]);
    let system_cap = fair_share(&texts, (left / 2).saturating_sub(frames));
    let system: usize = texts.map(|text| text.min(system_cap)).sum();
    let left = left.saturating_sub(frames + system);

    for (unit, cap) in units.iter().zip(&mut caps) {
        match unit.kind {
            UnitKind::Prompt => *cap = Some(usize::MAX),
            UnitKind::System => *cap = Some(system_cap),
            UnitKind::User | UnitKind::Summary | UnitKind::Answer | UnitKind::Other => {}
        }
    }
    select_others(units, left, &mut caps);
    UnitCaps {
        instructions: system_cap,
        units: caps,
    }
}

fn select_others(units: &[SequenceUnit], left: usize, caps: &mut [Option<usize>]) {
    let newest = |kind| units.iter().rposition(|unit| unit.kind == kind);
    let (user, summary) = (newest(UnitKind::User), newest(UnitKind::Summary));
    let share = |at: Option<usize>, room: usize| {
        let unit = at.and_then(|at| units.get(at));
        unit.map_or(0, |unit| room.saturating_sub(unit.frame))
    };
    let (user_share, summary_share) = (share(user, left / 2), share(summary, left / 8));
    let base = if left / 16 < MIN_TEXT_BYTES {
        MIN_TEXT_BYTES.min(left / 8)
    } else {
        left / 16
    };

    // The oldest selected unit, if it gets less than the common cap, with its own cap.
    let mut partial: Option<(usize, usize)> = None;
    // The cap of a unit's texts where the common cap is `cap`.
    let unit_cap = |at: usize, cap: usize, partial: Option<(usize, usize)>| match partial {
        Some((of, partial)) if of == at => partial,
        Some(_) | None if Some(at) == user => user_share.max(cap.saturating_mul(4)),
        Some(_) | None if Some(at) == summary => summary_share.max(cap),
        Some(_) | None => cap,
    };
    let unit_size = |at: usize, cap: usize, partial| {
        let unit = units.get(at);
        unit.map_or(0, |unit| unit.size(unit_cap(at, cap, partial)))
    };

    let mut selected: Vec<usize> = user.into_iter().chain(summary).collect();
    let taken: usize = selected.iter().map(|at| unit_size(*at, base, None)).sum();
    let mut free = left.saturating_sub(taken);
    for (at, unit) in units.iter().enumerate().rev() {
        let stays = caps.get(at).is_none_or(Option::is_some);
        if stays || Some(at) == user || Some(at) == summary {
            continue;
        }
        let wanted = unit.size(base);
        if wanted > free {
            let texts = unit.texts.iter().map(|text| text.bytes);
            let cap = fair_share(&texts, free.saturating_sub(unit.frame));
            if unit.frame < free && cap >= MIN_TEXT_BYTES {
                partial = Some((at, cap));
                selected.push(at);
            }
            break;
        }
        free -= wanted;
        selected.push(at);
    }

    let all = |cap: usize| {
        let sizes = selected.iter().map(|at| unit_size(*at, cap, partial));
        sizes.sum::<usize>()
    };
    let cap = largest_fitting(base, left, |cap| all(cap) <= left);
    for at in selected {
        if let Some(slot) = caps.get_mut(at) {
            *slot = Some(unit_cap(at, cap, partial));
        }
    }
}
