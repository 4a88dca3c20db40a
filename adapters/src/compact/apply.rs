//! A request becomes what its purpose wants.

use std::ops::Range;
use std::sync::Arc;

use super::{Blob, Form, PROMPT, Purpose};
use crate::tools::{ToolChoice, Toolbox};
use crate::turn::{Item, ItemKind, TextFormat, Turn};

/// Changes a turn that was read for its own sake.
pub(crate) fn apply(turn: &mut Turn<'_>, purpose: &Purpose) {
    turn.purpose = purpose.clone();
    match purpose {
        Purpose::Answer => {}
        Purpose::Summary { form, prompted, .. } => {
            turn.items
                .retain(|item| item.kind != ItemKind::CompactionTrigger);
            if !prompted {
                turn.items.push(Item::user(PROMPT.into()));
            }
            turn.tool_choice = ToolChoice::None;
            if *form == Form::Cut {
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
            replace(turn, Item::compaction(blob), *from..end);
        }
    }
}

/// Puts the newest summary that replaces all that is before it in the place of that:
/// a client may send its whole history again.
pub(crate) fn settle(turn: &mut Turn<'_>) {
    let summaries = turn.items.iter().enumerate().rev();
    let found = summaries
        .filter(|(_, item)| item.kind == ItemKind::Compaction)
        .find_map(|(at, item)| {
            let blob = item.encrypted_content()?;
            Some((at, Blob::open(&blob)?.late?, Arc::from(blob.as_ref())))
        });
    let Some((at, late, blob)) = found else {
        return;
    };
    let items = turn.items.iter().enumerate().take(at).rev();
    let counted = items.filter(|(_, item)| is_replaced(item)).take(late);
    let from = counted.last().map_or(at, |(index, _)| index);
    replace(turn, Item::compaction(&blob), from..at);
}

/// [`Blob::late`] of a summary that stands for the items before `from`.
pub fn late(turn: &Turn<'_>, from: usize) -> usize {
    let late = turn.items.iter().skip(from);
    late.filter(|item| is_replaced(item)).count()
}

/// What a summary can stand for.
fn is_replaced(item: &Item<'_>) -> bool {
    !item.is_system() && item.kind != ItemKind::Compaction
}

/// A summary replaces the items before `late`, which are behind it from now on, and
/// all summaries before the end of `late`.
fn replace<'a>(turn: &mut Turn<'a>, summary: Item<'a>, late: Range<usize>) {
    let items = std::mem::take(&mut turn.items);
    let mut behind = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let older = item.kind == ItemKind::Compaction && index <= late.end;
        if older || (index < late.start && !item.is_system()) {
            turn.replaced_items.push(item);
        } else if index < late.start {
            turn.items.push(item);
        } else {
            behind.push(item);
        }
    }
    turn.items.push(summary);
    turn.items.append(&mut behind);
}
