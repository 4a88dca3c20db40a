//! `truncation: auto`: the start of a history that does not fit is dropped.

use super::room::{self, Room};
use super::units::{Kind, Unit, units};
use super::{leave_out, notice};
use crate::plan::{Bounds, Placed, Plan};
use crate::turn::Turn;

/// Room for the notice.
const NOTICE: usize = 2_000;

/// Drops whole units from the start. System text, the newest summary and the newest
/// user message stay.
///
/// Where a history once did not fit so much goes that three quarters are left, and
/// this is found again by replaying the requests that were made: one at each place
/// where an answer begins, and this one. So the start stays the same for many
/// requests, and with it what the provider has cached.
pub(super) fn drop(turn: &Turn<'_>, bounds: &Bounds, plan: &mut Plan) {
    let room = Room::of_answer(turn, bounds);
    let units = units(turn, plan, bounds, room.limits, plan.sequence.len());
    let most = room
        .bytes
        .saturating_sub(room::instructions_len(turn) + NOTICE);
    let mut window = Window {
        units: &units,
        start: 0,
        bytes: 0,
        user: None,
        summary: None,
    };
    for (at, unit) in units.iter().enumerate() {
        if unit.kind == Kind::Answer {
            window.fit(at, most);
        }
        window.add(at, unit);
    }
    window.fit(units.len(), most);
    let goes = |at: usize| window.goes(at);
    let gone: Vec<&Unit> = units
        .iter()
        .enumerate()
        .filter_map(|(at, unit)| goes(at).then_some(unit))
        .collect();
    let Some(first) = gone.first() else {
        return;
    };
    let place = first.placed.start;
    let notice = notice::of_start(turn, plan, &gone, NOTICE);
    leave_out(plan, &units, goes);
    let place = place.min(plan.sequence.len());
    plan.sequence.insert(place, Placed::Omitted(notice));
}

/// What of a history is sent.
struct Window<'u> {
    units: &'u [Unit],
    /// The first unit that stays for its place.
    start: usize,
    /// Bytes of all that stays.
    bytes: usize,
    user: Option<usize>,
    summary: Option<usize>,
}

impl Window<'_> {
    fn add(&mut self, at: usize, unit: &Unit) {
        self.bytes += unit.whole();
        let before = match unit.kind {
            Kind::User => self.user.replace(at),
            Kind::Summary => self.summary.replace(at),
            Kind::System | Kind::Prompt | Kind::Answer | Kind::Other => None,
        };
        // It stayed only as the newest.
        if let Some(before) = before.filter(|before| *before < self.start) {
            self.bytes -= self.whole(before);
        }
    }

    /// Moves the start until the units before `end` fit. The last of them stays.
    fn fit(&mut self, end: usize, most: usize) {
        if self.bytes <= most {
            return;
        }
        while self.bytes > most / 4 * 3 && self.start + 1 < end {
            let at = self.start;
            self.start += 1;
            if self.goes(at) {
                self.bytes -= self.whole(at);
            }
        }
    }

    fn goes(&self, at: usize) -> bool {
        let kind = self.units.get(at).map(|unit| unit.kind);
        at < self.start
            && Some(at) != self.user
            && Some(at) != self.summary
            && !matches!(kind, Some(Kind::System | Kind::Prompt))
    }

    fn whole(&self, at: usize) -> usize {
        self.units.get(at).map_or(0, Unit::whole)
    }
}
