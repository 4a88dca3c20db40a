//! Changes a turn for its purpose, and replaces the part of a history that a summary
//! covers.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use serde_json::json;

use super::SUMMARY_PROMPT;
use crate::compaction_blob::CompactionBlob;
use crate::purpose::{Purpose, SummaryMode};
use crate::tools::{ToolChoice, Toolbox};
use crate::turn::{Item, ItemKind, TextFormat, Turn};

/// The most bytes of the items that a summary repeats, calls without results aside.
const MAX_TAIL: usize = 16 * 1024;

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
/// how many items it does not cover ([`CompactionBlob::retained_items`]). A client that sends none
/// of these gets them back from the summary; they are kept in `tail`.
pub(crate) fn replace_covered_history<'a>(turn: &mut Turn<'a>, tail: &'a OnceLock<Vec<String>>) {
    let summaries = turn.items.iter().enumerate().rev();
    let found = summaries
        .filter(|(_, item)| item.kind == ItemKind::Compaction)
        .find_map(|(at, item)| {
            let blob = item.encrypted_content()?;
            let opened = CompactionBlob::open(&blob)?;
            let retained = opened.retained_items?;
            Some((at, retained, Arc::from(blob.as_ref()), opened.tail))
        });
    let Some((at, retained, blob, repeated)) = found else {
        return;
    };
    let items = turn.items.iter().enumerate().take(at).rev();
    let counted = items.filter(|(_, item)| is_coverable(item)).take(retained);
    let from = counted.last().map(|(index, _)| index);
    replace_history(turn, Item::compaction(&blob), from.unwrap_or(at)..at);
    if from.is_none() {
        let repeated = tail
            .get_or_init(|| repeated)
            .iter()
            .filter_map(|json| Item::hidden(json));
        let summary = turn
            .items
            .iter()
            .rposition(|item| item.kind == ItemKind::Compaction);
        let behind = summary.map_or(0, |summary| summary + 1);
        turn.items.splice(behind..behind, repeated);
    }
}

/// The value of [`CompactionBlob::retained_items`] for a summary that covers the items
/// before `from`. The client's next request also has the last `answered` items of the output.
pub fn count_retained_items(turn: &Turn<'_>, from: usize, answered: usize) -> usize {
    let retained = turn.items.iter().skip(from);
    let of_request = retained.filter(|item| is_coverable(item)).count();
    of_request + answered.min(turn.items.len().saturating_sub(from))
}

/// The value of [`CompactionBlob::tail`] for a summary that covers the items before `from`.
pub fn repeated_items(turn: &Turn<'_>, from: usize) -> Vec<String> {
    let json = |item: &Item<'_>| match (item.raw(), item.plain_text()) {
        (Some(raw), _) => Some(raw.to_owned()),
        (None, Some(text)) if item.kind == ItemKind::Message => {
            let text = text.decoded();
            Some(json!({"type": "message", "role": "user", "content": text}).to_string())
        }
        (None, _) => None,
    };
    let all: Vec<String> = turn
        .items
        .iter()
        .skip(from)
        .filter(|item| !item.is_system() && item.kind != ItemKind::Compaction)
        .filter_map(json)
        .collect();
    if all.iter().map(String::len).sum::<usize>() <= MAX_TAIL {
        return all;
    }
    let is_user = |item: &Item<'_>| item.kind == ItemKind::Message && item.role() == "user";
    let mut calls: Vec<String> = turn
        .items
        .iter()
        .rev()
        .take_while(|item| !item.kind.is_output() && !is_user(item))
        .filter(|item| item.kind.is_call())
        .filter_map(json)
        .collect();
    calls.reverse();
    calls
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
