//! Cuts a request that does not fit the model's window: a limit on one request, unlike
//! [`super::bound_outputs`], which limits outputs in every request and runs before it.
//!
//! [`fit`] has two ways, each for requests that ask for it:
//! - A request for a summary with [`SummaryMode::FitWindow`] keeps its system text, its
//!   prompt and the newest user message. Of the rest the newest comes first; long texts
//!   lose their middle, and a notice says what is missing ([`mod@select`],
//!   [`omission_notice`]).
//! - A request with `truncation: auto` loses whole units from its start and nothing else
//!   ([`drop_start`]).
//!
//! [`limit_user_requests`] is a third use of the same measures, for every request: it
//! runs before the outputs are bounded and limits the user messages that a client sends
//! besides a summary of them ([`user_requests`]).
//!
//! All sizes are bytes as they are sent. Everything is linear in the length of the
//! history.

use std::sync::Arc;

use self::budget::ByteBudget;
use self::select::{UnitCaps, select};
use self::units::{MEDIA_PLACEHOLDER, SequenceUnit, TextLimits, TextRole, UnitText, units};
use super::{Bounds, ItemAction, Plan, Replacement, ReplacementKind, SequenceEntry, bound_outputs};
use crate::item_text;
use crate::purpose::SummaryMode;
use crate::shorten::{EscapeDepth, shorten, shorten_arguments};
use crate::turn::Turn;

mod budget;
mod drop_start;
mod omission_notice;
mod select;
#[cfg(test)]
mod tests;
mod units;
mod user_requests;

pub(super) use user_requests::limit_user_requests;

/// Why an item is not sent. The notes count these items.
pub(super) const REASON_NO_ROOM: &str = "the window has no room for it";
pub(super) const REASON_REASONING: &str = "a summary is made without it";

/// Replacement text for instructions that do not fit.
const LEFT_OUT_INSTRUCTIONS: &str = "[Instructions were left out here: they are too long. Read them \
    again in full, in parts if need be.]";

/// Cuts the request as its purpose or its `truncation` says, if it does not fit.
pub(super) fn fit(turn: &Turn<'_>, bounds: &Bounds, plan: &mut Plan) {
    match turn.purpose.summary_mode() {
        Some(SummaryMode::FitWindow) => fit_summary_request(turn, bounds, plan),
        Some(SummaryMode::NextTurn) | None if turn.may_truncate => {
            drop_start::drop_start(turn, bounds, plan);
        }
        Some(SummaryMode::NextTurn) | None => {}
    }
}

fn fit_summary_request(turn: &Turn<'_>, bounds: &Bounds, plan: &mut Plan) {
    drop_reasoning(plan);
    let budget = ByteBudget::for_summary(turn, bounds, plan);
    let units = units(turn, plan, bounds, budget.limits, plan.sequence.len());
    let instructions = budget::instructions_len(turn);
    let all: usize = units.iter().map(SequenceUnit::full_size).sum();
    let caps = if all + instructions <= budget.bytes {
        UnitCaps::unlimited(units.len())
    } else {
        select(&units, instructions, &budget)
    };
    if caps.instructions < instructions
        && let Some(text) = &turn.instructions
    {
        let text = text.decoded();
        let text = shorten(&text, caps.instructions, usize::MAX, EscapeDepth::Once);
        plan.instructions = Some(text.as_ref().into());
    }
    shorten_units(turn, plan, &units, &caps.units, budget.limits);
    let notice = omission_notice::for_summary(turn, plan, &units, &caps.units, budget.notice);
    remove_units(plan, &units, |at| {
        caps.units.get(at).is_none_or(Option::is_none)
    });
    if let Some((position, text)) = notice {
        let position = position.min(plan.sequence.len());
        plan.sequence.insert(position, SequenceEntry::Omitted(text));
    }
}

/// Reasoning is sent so that the model can continue it in its next answer. A summary does
/// not need it.
fn drop_reasoning(plan: &mut Plan) {
    let mut reasoning = Vec::new();
    for entry in &mut plan.sequence {
        if let SequenceEntry::Answer(answer) = entry {
            reasoning.append(&mut answer.reasoning);
        }
    }
    for index in reasoning {
        plan.drop_item(index, REASON_REASONING);
    }
}

/// Shortens the texts of the units that stay, each to the cap of its unit.
fn shorten_units(
    turn: &Turn<'_>,
    plan: &mut Plan,
    units: &[SequenceUnit],
    caps: &[Option<usize>],
    limits: TextLimits,
) {
    for (unit, cap) in units.iter().zip(caps) {
        if turn.stop.is_raised() {
            return;
        }
        let Some(cap) = *cap else { continue };
        for text in &unit.texts {
            if text.exceeds_limits || text.bytes > cap || text.media > 0 {
                shorten_text(turn, plan, text, cap, limits);
            }
        }
    }
}

/// Removes units from the sequence, and puts a notice of at most `max_bytes` where the first of
/// them was.
fn replace_by_notice(
    turn: &Turn<'_>,
    plan: &mut Plan,
    units: &[SequenceUnit],
    is_removed: impl Fn(usize) -> bool,
    max_bytes: usize,
) {
    let removed = units.iter().enumerate().filter(|(at, _)| is_removed(*at));
    let removed: Vec<&SequenceUnit> = removed.map(|(_, unit)| unit).collect();
    let Some(first) = removed.first() else { return };
    let position = first.entries.start;
    let notice = omission_notice::for_dropped_start(turn, plan, &removed, max_bytes);
    remove_units(plan, units, is_removed);
    let position = position.min(plan.sequence.len());
    plan.sequence
        .insert(position, SequenceEntry::Omitted(notice));
}

/// Replaces a text by at most `cap` bytes of it, and its images by a placeholder.
fn shorten_text(
    turn: &Turn<'_>,
    plan: &mut Plan,
    piece: &UnitText,
    cap: usize,
    limits: TextLimits,
) {
    let text = units::text(turn, plan, piece.item, piece.role);
    let bytes = piece.bytes.min(cap);
    let is_cut = piece.exceeds_limits || piece.bytes > cap;
    let text = if is_cut && is_instructions(turn, piece, &text) {
        LEFT_OUT_INSTRUCTIONS.to_owned()
    } else {
        text
    };
    let text: Arc<str> = match piece.role {
        TextRole::Arguments => shorten_arguments(&text, bytes).into(),
        TextRole::Message | TextRole::Output => {
            let chars = if piece.exceeds_limits {
                limits.text_chars
            } else {
                usize::MAX
            };
            let text = shorten(&text, bytes, chars, EscapeDepth::Once);
            if piece.media > 0 && text.is_empty() {
                MEDIA_PLACEHOLDER.trim_start().into()
            } else if piece.media > 0 {
                format!("{text}{MEDIA_PLACEHOLDER}").into()
            } else {
                text.as_ref().into()
            }
        }
    };
    let before = plan.replacements.remove(&piece.item);
    let replacement = Replacement {
        kind: ReplacementKind::Shortened,
        text,
        artifact: before.and_then(|before| before.artifact),
    };
    plan.replacements.insert(piece.item, replacement);
}

/// Whether a text instructs an agent: a part of it would mislead.
fn is_instructions(turn: &Turn<'_>, piece: &UnitText, text: &str) -> bool {
    match piece.role {
        TextRole::Message => item_text::is_project_instructions(text),
        TextRole::Output => piece
            .call
            .is_some_and(|call| bound_outputs::reads_instructions(turn, call)),
        TextRole::Arguments => false,
    }
}

/// Removes the units for which `is_removed` holds from the sequence, which begins with
/// all these units.
fn remove_units(plan: &mut Plan, units: &[SequenceUnit], is_removed: impl Fn(usize) -> bool) {
    let sequence = std::mem::take(&mut plan.sequence);
    let mut entries = sequence.into_iter();
    for (at, unit) in units.iter().enumerate() {
        let unit_entries = entries.by_ref().take(unit.entries.len());
        if !is_removed(at) {
            plan.sequence.extend(unit_entries);
            continue;
        }
        for entry in unit_entries.collect::<Vec<_>>() {
            match entry {
                SequenceEntry::Message(index)
                | SequenceEntry::Result(index)
                | SequenceEntry::Stray(index) => plan.drop_item(index, REASON_NO_ROOM),
                SequenceEntry::Answer(answer) => {
                    let items = [answer.reasoning, answer.text, answer.calls];
                    for index in items.into_iter().flatten() {
                        plan.drop_item(index, REASON_NO_ROOM);
                    }
                }
                SequenceEntry::Interrupted(_) | SequenceEntry::Omitted(_) => {}
            }
        }
    }
    plan.sequence.extend(entries);
}

impl Plan {
    /// Whether an item was shortened to fit the window. It is then sent as text alone,
    /// without its images.
    pub(crate) fn is_shortened_to_fit(&self, index: usize) -> bool {
        let replacement = self.replacements.get(&index);
        replacement.is_some_and(|found| found.kind == ReplacementKind::Shortened)
    }

    /// How many items are not sent because the window has no room for them.
    pub(super) fn count_left_out(&self) -> usize {
        let is_left_out = |action: &&ItemAction| matches!(action, ItemAction::Drop(reason) if *reason == REASON_NO_ROOM);
        self.actions.iter().filter(is_left_out).count()
    }
}
