//! Which units stay, and how long their texts may be.

use super::level::{highest, level};
use super::room::Room;
use super::units::{Kind, Unit};

/// A text that is cut to less says nothing.
const LEAST: usize = 200;

/// What stands around the instructions.
const FRAME: usize = 192;

/// What stays.
pub(super) struct Choice {
    /// The bytes that the instructions may take.
    pub(super) instructions: usize,
    /// By unit: the bytes that each of its texts may take, if it stays.
    pub(super) caps: Vec<Option<usize>>,
}

impl Choice {
    pub(super) fn everything(units: usize) -> Self {
        Self {
            instructions: usize::MAX,
            caps: vec![Some(usize::MAX); units],
        }
    }
}

/// Half of the room is for the system text at most, half of the rest for the newest
/// user message at first, a quarter of that for the newest summary. The other units
/// come from the newest on, with a sixteenth for each text; what is left then makes
/// the longest texts longer, the newest user message first.
pub(super) fn choose(units: &[Unit], instructions: usize, room: &Room) -> Choice {
    let mut caps: Vec<Option<usize>> = vec![None; units.len()];
    let prompt = units.iter().filter(|unit| unit.kind == Kind::Prompt);
    let prompt: usize = prompt.map(Unit::whole).sum();
    let left = room.bytes.saturating_sub(prompt + room.notice);

    let system = || units.iter().filter(|unit| unit.kind == Kind::System);
    let frames = FRAME + system().map(|unit| unit.frame).sum::<usize>();
    let texts = system().flat_map(|unit| unit.pieces.iter().map(|piece| piece.bytes));
    let texts = texts.chain([instructions]);
    let system_cap = level(texts.clone(), (left / 2).saturating_sub(frames));
    let system: usize = texts.map(|text| text.min(system_cap)).sum();
    let left = left.saturating_sub(frames + system);

    for (unit, cap) in units.iter().zip(&mut caps) {
        match unit.kind {
            Kind::Prompt => *cap = Some(usize::MAX),
            Kind::System => *cap = Some(system_cap),
            Kind::User | Kind::Summary | Kind::Answer | Kind::Other => {}
        }
    }
    choose_others(units, left, &mut caps);
    Choice {
        instructions: system_cap,
        caps,
    }
}

fn choose_others(units: &[Unit], left: usize, caps: &mut [Option<usize>]) {
    let newest = |kind| units.iter().rposition(|unit| unit.kind == kind);
    let (user, summary) = (newest(Kind::User), newest(Kind::Summary));
    let share = |at: Option<usize>, room: usize| {
        let unit = at.and_then(|at| units.get(at));
        unit.map_or(0, |unit| room.saturating_sub(unit.frame))
    };
    let (user_share, summary_share) = (share(user, left / 2), share(summary, left / 8));
    let base = if left / 16 < LEAST {
        LEAST.min(left / 8)
    } else {
        left / 16
    };

    // What the texts of a unit may take when those of most take `cap`.
    let mut tight: Option<(usize, usize)> = None;
    let fair = |at: usize, cap: usize, tight: Option<(usize, usize)>| match tight {
        Some((of, tight)) if of == at => tight,
        Some(_) | None if Some(at) == user => user_share.max(cap.saturating_mul(4)),
        Some(_) | None if Some(at) == summary => summary_share.max(cap),
        Some(_) | None => cap,
    };
    let cost = |at: usize, cap: usize, tight| {
        let unit = units.get(at);
        unit.map_or(0, |unit| unit.cost(fair(at, cap, tight)))
    };

    let mut chosen: Vec<usize> = user.into_iter().chain(summary).collect();
    let taken: usize = chosen.iter().map(|at| cost(*at, base, None)).sum();
    let mut free = left.saturating_sub(taken);
    for (at, unit) in units.iter().enumerate().rev() {
        let stays = caps.get(at).is_none_or(Option::is_some);
        if stays || Some(at) == user || Some(at) == summary {
            continue;
        }
        let wanted = unit.cost(base);
        if wanted > free {
            let texts = unit.pieces.iter().map(|piece| piece.bytes);
            let cap = level(texts, free.saturating_sub(unit.frame));
            if unit.frame < free && cap >= LEAST {
                tight = Some((at, cap));
                chosen.push(at);
            }
            break;
        }
        free -= wanted;
        chosen.push(at);
    }

    let all = |cap: usize| chosen.iter().map(|at| cost(*at, cap, tight)).sum::<usize>();
    let cap = highest(base, left, |cap| all(cap) <= left);
    for at in chosen {
        if let Some(slot) = caps.get_mut(at) {
            *slot = Some(fair(at, cap, tight));
        }
    }
}
