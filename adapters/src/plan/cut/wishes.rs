//! User messages that a client keeps beside a summary of them.
//!
//! Codex keeps the newest of them up to a size of its own, whatever the window; a
//! summary tells of all that is before it. So where they are more than their share
//! of the window they are shortened, and the oldest left out. That rests on what is
//! before the summary alone: it stays the same while the history grows.

use super::level::highest;
use super::units::{Kind, Limits, Unit, units};
use super::{cut_piece, leave_out, notice};
use crate::plan::{Bounds, Placed, Plan};
use crate::turn::{Item, ItemKind, Turn};

/// Of the window.
const SHARE: usize = 4;

/// A text that is cut to less says nothing.
const LEAST: usize = 200;

/// How Codex begins the user message that holds a summary of its own making.
const CODEX: &[u8] = b"Another language model started to solve this problem and produced a summary";

/// Where in an item's content that is looked for.
const WITHIN: usize = 200;

/// Shortens the user messages before the newest summary.
pub(in crate::plan) fn bound(turn: &Turn<'_>, bounds: &Bounds, plan: &mut Plan) {
    let place = plan.sequence.iter().rposition(|placed| match placed {
        Placed::Message(index) => turn.items.get(*index).is_some_and(is_summary),
        Placed::Answer(_)
        | Placed::Result(_)
        | Placed::Interrupted(_)
        | Placed::Stray(_)
        | Placed::Omitted(_) => false,
    });
    let Some(place) = place else { return };
    let room = bounds.window_bytes() / SHARE;
    let mut limits = Limits {
        text: usize::MAX,
        arguments: usize::MAX,
        whole: true,
    };
    let is_user = |unit: &&Unit| unit.kind == Kind::User;
    let whole = units(turn, plan, bounds, limits, place);
    if whole.iter().filter(is_user).map(Unit::whole).sum::<usize>() <= room {
        return;
    }
    limits.whole = false;
    let units = units(turn, plan, bounds, limits, place);
    let most = room / 8;
    let caps = caps(&units, room - most);
    for (unit, cap) in units.iter().zip(&caps) {
        let Some(cap) = *cap else { continue };
        for piece in &unit.pieces {
            if piece.bytes > cap || piece.media > 0 {
                cut_piece(turn, plan, piece, cap, limits);
            }
        }
    }
    let goes = |at: usize| {
        let user = units.get(at).is_some_and(|unit| unit.kind == Kind::User);
        user && caps.get(at).is_none_or(Option::is_none)
    };
    let gone = units.iter().enumerate().filter(|(at, _)| goes(*at));
    let gone: Vec<&Unit> = gone.map(|(_, unit)| unit).collect();
    let Some(first) = gone.first() else { return };
    let at = first.placed.start;
    let notice = notice::of_start(turn, plan, &gone, most);
    leave_out(plan, &units, goes);
    plan.sequence.insert(at, Placed::Omitted(notice));
}

/// By unit: the bytes that its text may take, if it stays. The newest gets half of
/// the room and what the others do not need, they get the same each.
fn caps(units: &[Unit], room: usize) -> Vec<Option<usize>> {
    let mut caps = vec![None; units.len()];
    let users = units.iter().enumerate().rev();
    let mut users = users.filter(|(_, unit)| unit.kind == Kind::User);
    let Some((newest, unit)) = users.next() else {
        return caps;
    };
    let others: usize = users.clone().map(|(_, unit)| unit.whole()).sum();
    let most = (room / 2).max(room.saturating_sub(others));
    let most = most.saturating_sub(unit.frame);
    if let Some(cap) = caps.get_mut(newest) {
        *cap = Some(most);
    }
    let rest = room.saturating_sub(unit.cost(most));
    let mut least = 0;
    let stay: Vec<(usize, &Unit)> = users
        .take_while(|(_, unit)| {
            least += unit.cost(LEAST);
            least <= rest
        })
        .collect();
    let level = highest(LEAST, rest, |cap| {
        let costs = stay.iter().map(|(_, unit)| unit.cost(cap));
        costs.sum::<usize>() <= rest
    });
    for (at, _) in stay {
        if let Some(cap) = caps.get_mut(at) {
            *cap = Some(level);
        }
    }
    caps
}

/// Whether an item stands for what was before it.
fn is_summary(item: &Item<'_>) -> bool {
    let begins = |content: &[u8]| {
        let head = content.get(..WITHIN.min(content.len())).unwrap_or_default();
        head.windows(CODEX.len()).any(|part| part == CODEX)
    };
    match item.kind {
        ItemKind::Compaction => true,
        ItemKind::Message if item.role() == "user" => item
            .content()
            .is_some_and(|content| begins(content.get().as_bytes())),
        _ => false,
    }
}
