//! The plan's sequence as chat messages.
//!
//! It differs in one point: a tool message holds only text, so that the images
//! of a run of results follow it in a message of their own. Of what the model
//! does not take the tool message itself speaks.

use crate::content::{Content, Takes};
use crate::fault::Fault;
use crate::notes::Notes;
use crate::plan::{Answer, Placed, Plan};
use crate::turn::{Item, ItemKind, Turn};

/// A chat message by the indices of its items.
#[derive(Debug)]
pub(super) enum Group<'p> {
    /// A developer or system message.
    System(usize),
    User(usize),
    Assistant(&'p Answer),
    Tool(usize),
    /// A tool message for a call that has no result.
    Interrupted(usize),
    /// A user message for a result that has no call.
    Stray(usize),
    /// A user message about what was left out.
    Omitted(&'p str),
    /// Images of tool results: nothing may stand between the results of one
    /// answer.
    Media(Vec<usize>),
}

/// The messages in the order of sending; the notes get what the plan changed.
pub(super) fn group<'p>(
    turn: &Turn<'_>,
    plan: &'p Plan,
    takes: Takes,
    notes: &mut Notes,
) -> Result<Vec<Group<'p>>, Fault> {
    plan.tell(turn, notes);
    let mut groups = Vec::with_capacity(plan.sequence.len());
    let mut media = Vec::new();
    for placed in &plan.sequence {
        let group = match placed {
            Placed::Result(index) => {
                if !plan.is_cut(*index) && has_media(turn, *index, takes)? {
                    media.push(*index);
                }
                groups.push(Group::Tool(*index));
                continue;
            }
            Placed::Interrupted(call) => {
                groups.push(Group::Interrupted(*call));
                continue;
            }
            Placed::Message(index) => message(turn, *index)?,
            Placed::Answer(answer) => Group::Assistant(answer),
            Placed::Stray(index) => Group::Stray(*index),
            Placed::Omitted(text) => Group::Omitted(text),
        };
        end_round(&mut groups, &mut media);
        groups.push(group);
    }
    end_round(&mut groups, &mut media);
    Ok(groups)
}

/// Ends a run of results.
fn end_round(groups: &mut Vec<Group<'_>>, media: &mut Vec<usize>) {
    if !media.is_empty() {
        groups.push(Group::Media(std::mem::take(media)));
    }
}

/// A message that the model did not write. Errors name what cannot be sent.
fn message<'p>(turn: &Turn<'_>, index: usize) -> Result<Group<'p>, Fault> {
    let Some(item) = turn.items.get(index) else {
        return Ok(Group::User(index));
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
            Ok(Group::System(index))
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
        | ItemKind::Unknown => Ok(Group::User(index)),
    }
}

/// Whether a tool result holds more than text that the model takes.
fn has_media(turn: &Turn<'_>, index: usize, takes: Takes) -> Result<bool, Fault> {
    let Some(item) = turn.items.get(index) else {
        return Ok(false);
    };
    let Some(output) = Item::output(item).filter(|output| output.get().starts_with('[')) else {
        return Ok(false);
    };
    if !output_has_parts(item.kind) {
        return Ok(false);
    }
    let unheard = &mut Notes::default();
    let content = Content::read(Some(output), index, unheard)?;
    Ok(content.told(takes, unheard).has_media())
}

/// Whether a list in this item's output is a list of content parts.
pub(super) fn output_has_parts(kind: ItemKind) -> bool {
    matches!(
        kind,
        ItemKind::FunctionCallOutput | ItemKind::CustomToolCallOutput
    )
}
