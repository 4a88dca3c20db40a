//! What a model is told of what it does not see.

use std::fmt::Write as _;
use std::sync::Arc;

use super::shorten::{Inside, shorten};
use super::units::{Kind, Role, Unit, text};
use crate::json;
use crate::plan::Plan;
use crate::turn::Turn;

const HEADING: &str = "[A part of this conversation is left out here: not all of it fits.]";
const SAID: &str = "What the user said in it, shortened:";

/// At most so many messages of the user, and so many characters of each.
const MESSAGES: usize = 12;
const CHARS: usize = 500;

/// The notice about the units without a cap, and where it goes in what is left of
/// the sequence: behind the last of them. At most `most` bytes.
pub(super) fn of(
    turn: &Turn<'_>,
    plan: &Plan,
    units: &[Unit],
    caps: &[Option<usize>],
    most: usize,
) -> Option<(usize, Arc<str>)> {
    let omitted = || {
        let units = units.iter().zip(caps);
        units.filter(|(_, cap)| cap.is_none()).map(|(unit, _)| unit)
    };
    let last = omitted().last()?.placed.end;
    let before = units
        .iter()
        .zip(caps)
        .filter(|(unit, cap)| cap.is_some() && unit.placed.end <= last);
    let place = before.map(|(unit, _)| unit.messages()).sum();
    let (messages, bytes) = sizes(omitted());
    let asked = units.iter().filter(|unit| unit.kind != Kind::Prompt);
    let (all, all_bytes) = sizes(asked);
    let mut notice = format!(
        "{HEADING}\noriginal_messages={all} omitted_messages={messages} original_bytes={all_bytes} omitted_bytes={bytes}"
    );
    quote(turn, plan, omitted(), most, &mut notice);
    Some((place, notice.into()))
}

/// The notice for a history without its start, which says nothing of what is behind:
/// it stays the same while the history grows.
pub(super) fn of_start(turn: &Turn<'_>, plan: &Plan, start: &[&Unit], most: usize) -> Arc<str> {
    let (messages, bytes) = sizes(start.iter().copied());
    let mut notice = format!("{HEADING}\nomitted_messages={messages} omitted_bytes={bytes}");
    quote(turn, plan, start.iter().copied(), most, &mut notice);
    notice.into()
}

fn sizes<'u>(units: impl Iterator<Item = &'u Unit>) -> (usize, usize) {
    units.fold((0, 0), |(messages, bytes), unit| {
        (messages + unit.messages(), bytes + unit.whole())
    })
}

/// Adds the first and the newest messages of the user.
fn quote<'u>(
    turn: &Turn<'_>,
    plan: &Plan,
    omitted: impl Iterator<Item = &'u Unit>,
    most: usize,
    notice: &mut String,
) {
    let mut users: Vec<&Unit> = omitted.filter(|unit| unit.kind == Kind::User).collect();
    if users.len() > MESSAGES {
        users.drain(1..=users.len() - MESSAGES);
    }
    let around = json::escaped_len(notice) + SAID.len() + 4 * users.len() + 2;
    let each = most.saturating_sub(around) / users.len().max(1);
    if users.is_empty() || each < 80 {
        return;
    }
    let _ = write!(notice, "\n{SAID}");
    for unit in users {
        for piece in &unit.pieces {
            let said = text(turn, plan, piece.item, Role::Message);
            let said = shorten(&said, each, CHARS, Inside::Text);
            let _ = write!(notice, "\n- {said}");
        }
    }
}
