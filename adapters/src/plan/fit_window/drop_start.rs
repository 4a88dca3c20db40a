//! `truncation: auto`: drops the start of a history that does not fit.

use super::budget::{self, ByteBudget};
use super::replace_by_notice;
use super::units::{SequenceUnit, UnitKind, units};
use crate::plan::{Bounds, Plan};
use crate::turn::Turn;

const NOTICE_BYTES: usize = 2_000;

/// Drops whole units from the start. System text, the newest summary and the newest user
/// message stay.
///
/// When a history does not fit, enough is dropped that the rest fills three quarters of the budget.
/// Later requests find the same start again by replaying the requests that were made: one before
/// each answer, and this one. So the start stays the same for many requests, and with it what the
/// provider has cached.
pub(super) fn drop_start(turn: &Turn<'_>, bounds: &Bounds, plan: &mut Plan) {
    let budget = ByteBudget::for_answer(turn, bounds, plan);
    let units = units(turn, plan, bounds, budget.limits, plan.sequence.len());
    let max_bytes = budget
        .bytes
        .saturating_sub(budget::instructions_len(turn) + NOTICE_BYTES);
    let mut kept = KeptUnits {
        units: &units,
        start: 0,
        bytes: 0,
        user: None,
        summary: None,
    };
    for (at, unit) in units.iter().enumerate() {
        if unit.kind == UnitKind::Answer {
            kept.fit(at, max_bytes);
        }
        kept.add(at, unit);
    }
    kept.fit(units.len(), max_bytes);
    replace_by_notice(turn, plan, &units, |at| kept.is_dropped(at), NOTICE_BYTES);
}

/// The units that are sent, while the history is replayed.
struct KeptUnits<'u> {
    units: &'u [SequenceUnit],
    /// The first unit that is not dropped because of its place.
    start: usize,
    /// Bytes of all units that stay.
    bytes: usize,
    /// The newest user message.
    user: Option<usize>,
    /// The newest summary.
    summary: Option<usize>,
}

impl KeptUnits<'_> {
    fn add(&mut self, at: usize, unit: &SequenceUnit) {
        self.bytes += unit.full_size();
        let before = match unit.kind {
            UnitKind::User => self.user.replace(at),
            UnitKind::Summary => self.summary.replace(at),
            UnitKind::System | UnitKind::Prompt | UnitKind::Answer | UnitKind::Other => None,
        };
        // A unit before the start stayed only as long as it was the newest of its kind.
        if let Some(before) = before.filter(|before| *before < self.start) {
            self.bytes -= self.full_size(before);
        }
    }

    /// Moves the start until the units before `end` fit. The last of them stays.
    fn fit(&mut self, end: usize, max_bytes: usize) {
        if self.bytes <= max_bytes {
            return;
        }
        while self.bytes > max_bytes / 4 * 3 && self.start + 1 < end {
            let at = self.start;
            self.start += 1;
            if self.is_dropped(at) {
                self.bytes -= self.full_size(at);
            }
        }
    }

    fn is_dropped(&self, at: usize) -> bool {
        let kind = self.units.get(at).map(|unit| unit.kind);
        at < self.start
            && Some(at) != self.user
            && Some(at) != self.summary
            && !matches!(kind, Some(UnitKind::System | UnitKind::Prompt))
    }

    fn full_size(&self, at: usize) -> usize {
        self.units.get(at).map_or(0, SequenceUnit::full_size)
    }
}
