//! What goes where not all of a history fits.
//!
//! A request for a summary that is cut ([`compact::Form::Cut`]) keeps its system text,
//! its prompt and the newest user message; of the rest the newest come first, long
//! texts with their middle left out, and a notice says what is missing. A request
//! with `truncation: auto` loses whole units from its start and nothing else.
//!
//! All is reckoned in bytes as they are sent, in time linear in the history.

use std::sync::Arc;

use self::choice::{Choice, choose};
use self::room::Room;
use self::shorten::{Inside, shorten_arguments};
use self::units::{LEFT_OUT, Limits, Piece, Role, Unit, units};
use super::{Bounds, Form, Placed, Plan, Shown, Step};
use crate::compact;
use crate::turn::Turn;

mod choice;
mod level;
mod notice;
mod room;
mod shorten;
mod start;
#[cfg(test)]
mod tests;
mod units;
mod wishes;

pub(crate) use level::level;
pub(crate) use shorten::{Inside as Within, shorten};
pub(super) use wishes::bound as bound_wishes;

/// Why an item is not sent.
pub(super) const NO_ROOM: &str = "the window has no room for it";
pub(super) const THOUGHTS: &str = "a summary is made without it";

/// Cuts what the request's purpose or its `truncation` says, if the history does not
/// fit.
pub(super) fn cut(turn: &Turn<'_>, bounds: &Bounds, plan: &mut Plan) {
    match turn.purpose.form() {
        Some(compact::Form::Cut) => squeeze(turn, bounds, plan),
        Some(compact::Form::NextTurn) | None if turn.may_truncate => {
            start::drop(turn, bounds, plan);
        }
        Some(compact::Form::NextTurn) | None => {}
    }
}

fn squeeze(turn: &Turn<'_>, bounds: &Bounds, plan: &mut Plan) {
    drop_thoughts(plan);
    let room = Room::of(turn, bounds);
    let units = units(turn, plan, bounds, room.limits, plan.sequence.len());
    let instructions = room::instructions_len(turn);
    let all: usize = units.iter().map(Unit::whole).sum();
    let choice = if all + instructions <= room.bytes {
        Choice::everything(units.len())
    } else {
        choose(&units, instructions, &room)
    };
    if choice.instructions < instructions
        && let Some(text) = &turn.instructions
    {
        let text = text.decoded();
        let text = shorten(&text, choice.instructions, usize::MAX, Inside::Text);
        plan.instructions = Some(text.as_ref().into());
    }
    for (unit, cap) in units.iter().zip(&choice.caps) {
        let Some(cap) = *cap else { continue };
        for piece in &unit.pieces {
            if piece.over || piece.bytes > cap || piece.media > 0 {
                cut_piece(turn, plan, piece, cap, room.limits);
            }
        }
    }
    let notice = notice::of(turn, plan, &units, &choice.caps, room.notice);
    leave_out(plan, &units, |at| {
        choice.caps.get(at).is_none_or(Option::is_none)
    });
    if let Some((place, text)) = notice {
        let place = place.min(plan.sequence.len());
        plan.sequence.insert(place, Placed::Omitted(text));
    }
}

/// Whoever made the thoughts wants them for its next answer, not for a summary.
fn drop_thoughts(plan: &mut Plan) {
    let mut thoughts = Vec::new();
    for placed in &mut plan.sequence {
        if let Placed::Answer(answer) = placed {
            thoughts.append(&mut answer.reasoning);
        }
    }
    for index in thoughts {
        plan.drop(index, THOUGHTS);
    }
}

/// Shows a piece with at most `cap` bytes of its text, and words for its images.
fn cut_piece(turn: &Turn<'_>, plan: &mut Plan, piece: &Piece, cap: usize, limits: Limits) {
    let text = units::text(turn, plan, piece.item, piece.role);
    let bytes = piece.bytes.min(cap);
    let text: Arc<str> = match piece.role {
        Role::Arguments => shorten_arguments(&text, bytes).into(),
        Role::Message | Role::Output => {
            let chars = if piece.over { limits.text } else { usize::MAX };
            let text = shorten(&text, bytes, chars, Inside::Text);
            if piece.media > 0 && text.is_empty() {
                LEFT_OUT.trim_start().into()
            } else if piece.media > 0 {
                format!("{text}{LEFT_OUT}").into()
            } else {
                text.as_ref().into()
            }
        }
    };
    let before = plan.shown.remove(&piece.item);
    let shown = Shown {
        form: Form::Cut,
        text,
        artifact: before.and_then(|shown| shown.artifact),
    };
    plan.shown.insert(piece.item, shown);
}

/// Takes some of these units, which the sequence begins with, out of it.
fn leave_out(plan: &mut Plan, units: &[Unit], goes: impl Fn(usize) -> bool) {
    let sequence = std::mem::take(&mut plan.sequence);
    let mut placed = sequence.into_iter();
    for (at, unit) in units.iter().enumerate() {
        let places = placed.by_ref().take(unit.placed.len());
        if !goes(at) {
            plan.sequence.extend(places);
            continue;
        }
        for place in places.collect::<Vec<_>>() {
            match place {
                Placed::Message(index) | Placed::Result(index) | Placed::Stray(index) => {
                    plan.drop(index, NO_ROOM);
                }
                Placed::Answer(answer) => {
                    let parts = [answer.reasoning, answer.text, answer.calls];
                    for index in parts.into_iter().flatten() {
                        plan.drop(index, NO_ROOM);
                    }
                }
                Placed::Interrupted(_) | Placed::Omitted(_) => {}
            }
        }
    }
    plan.sequence.extend(placed);
}

impl Plan {
    /// Whether an item is shown cut: as text alone, images and all.
    pub(crate) fn is_cut(&self, index: usize) -> bool {
        let shown = self.shown.get(&index);
        shown.is_some_and(|shown| shown.form == Form::Cut)
    }

    /// How many items there was no room for.
    pub(super) fn left_out(&self) -> usize {
        let dropped = |step: &&Step| matches!(step, Step::Drop(reason) if *reason == NO_ROOM);
        self.steps.iter().filter(dropped).count()
    }
}
