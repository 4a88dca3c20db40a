//! Changes a turn for its purpose, and replaces the part of a history that a summary
//! covers.

use std::ops::Range;
use std::sync::Arc;

use super::SUMMARY_PROMPT;
use crate::compaction_blob::CompactionBlob;
use crate::purpose::{Purpose, SummaryMode};
use crate::tools::{ToolChoice, Toolbox};
use crate::turn::{Item, ItemKind, TextFormat, Turn};

/// Changes a turn that was parsed from the client's request into what its purpose asks
/// for.
pub(crate) fn apply_purpose(turn: &mut Turn<'_>, purpose: &Purpose) {
    turn.purpose = purpose.clone();
    match purpose {
        Purpose::Answer => {}
        Purpose::Summary { mode, prompted, .. } => {
            turn.items
                .retain(|item| item.kind != ItemKind::CompactionTrigger);
            if !prompted {
                turn.items.push(Item::user(SUMMARY_PROMPT.into()));
            }
            turn.tool_choice = ToolChoice::None;
            turn.withheld_tools.clear();
            if *mode == SummaryMode::FitWindow {
                turn.tools = Toolbox::default();
            }
            let controls = &mut turn.controls;
            controls.format = TextFormat::Text;
            controls.max_output_tokens = None;
            controls.top_logprobs = None;
            controls.logprobs = false;
        }
        Purpose::Compacted { blob, from } => {
            let end = turn.items.len();
            replace_history(turn, Item::compaction(blob), *from..end);
        }
    }
}

/// Replaces the items that the newest complete summary covers by that summary: a client
/// may send its whole history again, summary included. A summary is complete if it says
/// how many items it does not cover ([`CompactionBlob::retained_items`]).
pub(crate) fn replace_covered_history(turn: &mut Turn<'_>) {
    let summaries = turn.items.iter().enumerate().rev();
    let found = summaries
        .filter(|(_, item)| item.kind == ItemKind::Compaction)
        .find_map(|(at, item)| {
            let blob = item.encrypted_content()?;
            let retained = CompactionBlob::open(&blob)?.retained_items?;
            Some((at, retained, Arc::from(blob.as_ref())))
        });
    let Some((at, retained, blob)) = found else {
        return;
    };
    let items = turn.items.iter().enumerate().take(at).rev();
    let counted = items.filter(|(_, item)| is_coverable(item)).take(retained);
    let from = counted.last().map_or(at, |(index, _)| index);
    replace_history(turn, Item::compaction(&blob), from..at);
}

/// The value of [`CompactionBlob::retained_items`] for a summary that covers the items
/// before `from`.
pub fn count_retained_items(turn: &Turn<'_>, from: usize) -> usize {
    let retained = turn.items.iter().skip(from);
    retained.filter(|item| is_coverable(item)).count()
}

/// Whether a summary can cover an item. System messages always stay. Items that the proxy put into
/// the history are not counted, because the client's next request does not have them.
fn is_coverable(item: &Item<'_>) -> bool {
    !item.is_system() && item.kind != ItemKind::Compaction && !item.is_hidden()
}

/// Replaces the items before `retained` by the summary, and drops all summaries before
/// the end of `retained`. System messages stay before the summary, the retained items
/// come after it.
fn replace_history<'a>(turn: &mut Turn<'a>, summary: Item<'a>, retained: Range<usize>) {
    let items = std::mem::take(&mut turn.items);
    let mut after = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let is_older_summary = item.kind == ItemKind::Compaction && index <= retained.end;
        if is_older_summary || (index < retained.start && !item.is_system()) {
            turn.replaced_items.push(item);
        } else if index < retained.start {
            turn.items.push(item);
        } else {
            after.push(item);
        }
    }
    turn.items.push(summary);
    turn.items.append(&mut after);
}
