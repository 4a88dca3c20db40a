//! The message that tells a model which part of the conversation it does not get.

use std::fmt::Write as _;
use std::sync::Arc;

use super::units::{SequenceUnit, TextRole, UnitKind, text};
use crate::json;
use crate::plan::Plan;
use crate::shorten::{EscapeDepth, shorten};
use crate::turn::Turn;

const HEADING: &str = "[A part of this conversation is left out here: not all of it fits.]";
const QUOTES_HEADING: &str = "What the user said in it, shortened:";

/// How many user messages are quoted at most, and how many characters of each.
const MAX_QUOTES: usize = 12;
const MAX_QUOTE_CHARS: usize = 500;

/// The notice about the units without a cap, with at most `max_bytes` bytes, and its
/// place in the sequence after they are removed, which is where the last of them was.
pub(super) fn for_summary(
    turn: &Turn<'_>,
    plan: &Plan,
    units: &[SequenceUnit],
    caps: &[Option<usize>],
    max_bytes: usize,
) -> Option<(usize, Arc<str>)> {
    let omitted = || {
        let units = units.iter().zip(caps);
        units.filter(|(_, cap)| cap.is_none()).map(|(unit, _)| unit)
    };
    let last = omitted().next_back()?.entries.end;
    let before = units
        .iter()
        .zip(caps)
        .filter(|(unit, cap)| cap.is_some() && unit.entries.end <= last);
    let position = before.map(|(unit, _)| unit.message_count()).sum();
    let (messages, bytes) = count(omitted());
    let history = units.iter().filter(|unit| unit.kind != UnitKind::Prompt);
    let (all, all_bytes) = count(history);
    let mut notice = format!(
        "{HEADING}\noriginal_messages={all} omitted_messages={messages} original_bytes={all_bytes} omitted_bytes={bytes}"
    );
    quote_user(turn, plan, omitted(), max_bytes, &mut notice);
    Some((position, notice.into()))
}

/// The notice about units that were dropped from the start, with at most `max_bytes`
/// bytes. It depends on these units alone, so that it stays the same while the history
/// grows.
pub(super) fn for_dropped_start(
    turn: &Turn<'_>,
    plan: &Plan,
    dropped: &[&SequenceUnit],
    max_bytes: usize,
) -> Arc<str> {
    let (messages, bytes) = count(dropped.iter().copied());
    let mut notice = format!("{HEADING}\nomitted_messages={messages} omitted_bytes={bytes}");
    quote_user(turn, plan, dropped.iter().copied(), max_bytes, &mut notice);
    notice.into()
}

/// The number of messages in these units, and their bytes.
fn count<'u>(units: impl Iterator<Item = &'u SequenceUnit>) -> (usize, usize) {
    units.fold((0, 0), |(messages, bytes), unit| {
        (messages + unit.message_count(), bytes + unit.full_size())
    })
}

/// Adds the first and the newest of the user messages among the omitted units.
fn quote_user<'u>(
    turn: &Turn<'_>,
    plan: &Plan,
    omitted: impl Iterator<Item = &'u SequenceUnit>,
    max_bytes: usize,
    notice: &mut String,
) {
    let mut users: Vec<&SequenceUnit> =
        omitted.filter(|unit| unit.kind == UnitKind::User).collect();
    if users.len() > MAX_QUOTES {
        users.drain(1..=users.len() - MAX_QUOTES);
    }
    let frame = json::escaped_len(notice) + QUOTES_HEADING.len() + 4 * users.len() + 2;
    let each = max_bytes.saturating_sub(frame) / users.len().max(1);
    if users.is_empty() || each < 80 {
        return;
    }
    let _ = write!(notice, "\n{QUOTES_HEADING}");
    for unit in users {
        for piece in &unit.texts {
            let quote = text(turn, plan, piece.item, TextRole::Message);
            let quote = shorten(&quote, each, MAX_QUOTE_CHARS, EscapeDepth::Once);
            let _ = write!(notice, "\n- {quote}");
        }
    }
}
