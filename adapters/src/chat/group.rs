//! The plan's sequence as chat messages.
//!
//! It differs in one point: a tool message holds only text, so that the images
//! of a run of results follow it in a message of their own. Of what the model
//! does not take the tool message itself speaks.

use super::media::AcceptedMedia;
use crate::content::MessageContent;
use crate::fault::Fault;
use crate::notes::Notes;
use crate::plan::{Answer, Placed, Plan};
use crate::turn::{Item, ItemKind, Turn};

/// A chat message by the indices of its items.
#[derive(Debug)]
pub(super) enum MessageGroup<'p> {
    /// A developer or system message.
    System(usize),
    User(usize),
    Assistant(&'p Answer),
    Tool(usize),
    /// A tool message for a call that has no result.
    Interrupted(usize),
    /// A user message for a result that has no call.
    OrphanResult(usize),
    /// A user message about what was left out.
    Omitted(&'p str),
    /// Images of tool results: nothing may stand between the results of one
    /// answer.
    Media(Vec<usize>),
}

/// The messages in the order of sending; the notes get what the plan changed.
pub(super) fn group_messages<'p>(
    turn: &Turn<'_>,
    plan: &'p Plan,
    accepted: AcceptedMedia,
    notes: &mut Notes,
) -> Result<Vec<MessageGroup<'p>>, Fault> {
    plan.tell(turn, notes);
    let mut groups = Vec::with_capacity(plan.sequence.len());
    let mut media = Vec::new();
    for placed in &plan.sequence {
        let group = match placed {
            Placed::Result(index) => {
                if !plan.is_cut(*index) && has_media(turn, *index, accepted)? {
                    media.push(*index);
                }
                groups.push(MessageGroup::Tool(*index));
                continue;
            }
            Placed::Interrupted(call) => {
                groups.push(MessageGroup::Interrupted(*call));
                continue;
            }
            Placed::Message(index) => message(turn, *index)?,
            Placed::Answer(answer) => MessageGroup::Assistant(answer),
            Placed::Stray(index) => MessageGroup::OrphanResult(*index),
            Placed::Omitted(text) => MessageGroup::Omitted(text),
        };
        flush_media(&mut groups, &mut media);
        groups.push(group);
    }
    flush_media(&mut groups, &mut media);
    Ok(groups)
}

/// Ends a run of results.
fn flush_media(groups: &mut Vec<MessageGroup<'_>>, media: &mut Vec<usize>) {
    if !media.is_empty() {
        groups.push(MessageGroup::Media(std::mem::take(media)));
    }
}

/// A message that the model did not write. Errors name what cannot be sent.
fn message<'p>(turn: &Turn<'_>, index: usize) -> Result<MessageGroup<'p>, Fault> {
    let Some(item) = turn.items.get(index) else {
        return Ok(MessageGroup::User(index));
    };
    match item.kind {
        ItemKind::ItemReference => Err(Fault::invalid(
            format!("input[{index}]"),
            format!(
                "Item '{}' is not stored here (any more): send the item itself instead of a reference.",
                item.id().unwrap_or_default()
            ),
        )
        .with_code("item_not_found")),
        ItemKind::Message if matches!(item.role().as_ref(), "system" | "developer") => {
            Ok(MessageGroup::System(index))
        }
        ItemKind::Message
        | ItemKind::AgentMessage
        | ItemKind::Reasoning
        | ItemKind::FunctionCall
        | ItemKind::FunctionCallOutput
        | ItemKind::CustomToolCall
        | ItemKind::CustomToolCallOutput
        | ItemKind::ToolSearchCall
        | ItemKind::ToolSearchOutput
        | ItemKind::LocalShellCall
        | ItemKind::LocalShellCallOutput
        | ItemKind::ShellCall
        | ItemKind::ShellCallOutput
        | ItemKind::ApplyPatchCall
        | ItemKind::ApplyPatchCallOutput
        | ItemKind::AdditionalTools
        | ItemKind::ConfigurationUpdate
        | ItemKind::WebSearchCall
        | ItemKind::Compaction
        | ItemKind::CompactionTrigger
        | ItemKind::Hosted
        | ItemKind::Unknown => Ok(MessageGroup::User(index)),
    }
}

/// Whether a tool result holds more than text that the model takes.
fn has_media(turn: &Turn<'_>, index: usize, accepted: AcceptedMedia) -> Result<bool, Fault> {
    let Some(item) = turn.items.get(index) else {
        return Ok(false);
    };
    let Some(output) = Item::output(item).filter(|output| output.get().starts_with('[')) else {
        return Ok(false);
    };
    if !output_has_parts(item.kind) {
        return Ok(false);
    }
    let ignored = &mut Notes::default();
    let content = MessageContent::read(Some(output), index, ignored)?;
    Ok(content.replace_unsupported(accepted, ignored).has_media())
}

/// Whether a list in this item's output is a list of content parts.
pub(super) fn output_has_parts(kind: ItemKind) -> bool {
    matches!(
        kind,
        ItemKind::FunctionCallOutput | ItemKind::CustomToolCallOutput
    )
}
