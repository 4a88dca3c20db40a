//! Limits the user messages that a client sends besides a summary of them.
//!
//! Codex keeps the newest user messages up to a size of its own, whatever the window is;
//! the summary covers everything before it. So where these messages take more than their
//! share of the window, they are shortened, and the oldest are left out. The result
//! depends on what precedes the summary alone: it stays the same while the history grows.

use super::units::{SequenceUnit, TextLimits, UnitKind, units};
use super::{replace_by_notice, shorten_units};
use crate::fair_share::largest_fitting;
use crate::plan::{Bounds, Plan, SequenceEntry};
use crate::turn::{Item, ItemKind, Turn};

/// The messages may take the window divided by this.
const WINDOW_PARTS: usize = 4;

/// A text with fewer bytes says nothing.
const MIN_TEXT_BYTES: usize = 200;

/// How Codex begins the user message that holds a summary that it asked for itself.
const CODEX_SUMMARY: &[u8] =
    b"Another language model started to solve this problem and produced a summary";

/// In how many bytes of an item's content that is looked for.
const CODEX_SUMMARY_WITHIN: usize = 200;

/// Shortens the user messages before the newest summary.
pub(in crate::plan) fn limit_user_requests(turn: &Turn<'_>, bounds: &Bounds, plan: &mut Plan) {
    let summary = plan.sequence.iter().rposition(|entry| match entry {
        SequenceEntry::Message(index) => turn.items.get(*index).is_some_and(is_summary),
        SequenceEntry::Answer(_)
        | SequenceEntry::Result(_)
        | SequenceEntry::Interrupted(_)
        | SequenceEntry::Stray(_)
        | SequenceEntry::Omitted(_) => false,
    });
    let Some(summary) = summary else { return };
    let room = bounds.window_bytes() / WINDOW_PARTS;
    let mut limits = TextLimits::none();
    let is_user = |unit: &&SequenceUnit| unit.kind == UnitKind::User;
    let whole = units(turn, plan, bounds, limits, summary);
    let users = whole.iter().filter(is_user);
    if users.map(SequenceUnit::full_size).sum::<usize>() <= room {
        return;
    }
    limits.keeps_media_and_reasoning = false;
    let units = units(turn, plan, bounds, limits, summary);
    let notice_bytes = room / 8;
    let caps = caps(&units, room - notice_bytes);
    shorten_units(turn, plan, &units, &caps, limits);
    let is_removed = |at: usize| {
        let user = units
            .get(at)
            .is_some_and(|unit| unit.kind == UnitKind::User);
        user && caps.get(at).is_none_or(Option::is_none)
    };
    replace_by_notice(turn, plan, &units, is_removed, notice_bytes);
}

/// For each unit: the maximum bytes of its text if it is a user message that stays. The
/// newest message gets half of the room and whatever the others do not need; the others
/// share the rest evenly.
fn caps(units: &[SequenceUnit], room: usize) -> Vec<Option<usize>> {
    let mut caps = vec![None; units.len()];
    let users = units.iter().enumerate().rev();
    let mut users = users.filter(|(_, unit)| unit.kind == UnitKind::User);
    let Some((newest, unit)) = users.next() else {
        return caps;
    };
    let others: usize = users.clone().map(|(_, unit)| unit.full_size()).sum();
    let newest_cap = (room / 2).max(room.saturating_sub(others));
    let newest_cap = newest_cap.saturating_sub(unit.frame);
    if let Some(cap) = caps.get_mut(newest) {
        *cap = Some(newest_cap);
    }
    let rest = room.saturating_sub(unit.size(newest_cap));
    let mut minimum = 0;
    let stay: Vec<(usize, &SequenceUnit)> = users
        .take_while(|(_, unit)| {
            minimum += unit.size(MIN_TEXT_BYTES);
            minimum <= rest
        })
        .collect();
    let other_cap = largest_fitting(MIN_TEXT_BYTES, rest, |cap| {
        let sizes = stay.iter().map(|(_, unit)| unit.size(cap));
        sizes.sum::<usize>() <= rest
    });
    for (at, _) in stay {
        if let Some(cap) = caps.get_mut(at) {
            *cap = Some(other_cap);
        }
    }
    caps
}

/// Whether an item is a summary of what precedes it: a compaction item, or a user message
/// with a summary that Codex asked for itself.
fn is_summary(item: &Item<'_>) -> bool {
    let is_codex_summary = |content: &[u8]| {
        let start = content
            .get(..CODEX_SUMMARY_WITHIN.min(content.len()))
            .unwrap_or_default();
        start
            .windows(CODEX_SUMMARY.len())
            .any(|part| part == CODEX_SUMMARY)
    };
    match item.kind {
        ItemKind::Compaction => true,
        ItemKind::Message if item.role() == "user" => item
            .content()
            .is_some_and(|content| is_codex_summary(content.get().as_bytes())),
        _ => false,
    }
}
