//! Turns the plan's sequence into chat messages.
//!
//! The result differs from the plan in one point: a tool message holds only text,
//! so the images of consecutive results follow them in a user message. For media
//! that the model does not accept, the tool message itself contains a line of text.

use crate::fault::Fault;
use crate::media::AcceptedMedia;
use crate::notes::Notes;
use crate::plan::{AnswerItems, Plan, SequenceEntry};
use crate::turn::{ItemKind, Turn};

/// A chat message; items are named by their index in the turn.
#[derive(Debug)]
pub(super) enum MessageGroup<'p> {
    /// A developer or system message.
    System(usize),
    User(usize),
    Assistant(&'p AnswerItems),
    Tool(usize),
    /// A tool message for a call that has no result.
    Interrupted(usize),
    /// A user message for a result that has no call.
    OrphanResult(usize),
    /// A user message that says what was left out.
    Omitted(&'p str),
    /// A user message with the images of these tool results. It comes after the last result,
    /// because nothing may come between the results of one answer.
    Media(Vec<usize>),
}

/// The messages in the order of sending. The changes that the plan makes are added
/// to the notes.
pub(super) fn group_messages<'p>(
    turn: &Turn<'_>,
    plan: &'p Plan,
    accepted: AcceptedMedia<'_>,
    notes: &mut Notes,
) -> Result<Vec<MessageGroup<'p>>, Fault> {
    plan.add_notes(turn, notes);
    let mut groups = Vec::with_capacity(plan.sequence.len());
    let mut media = Vec::new();
    for placed in &plan.sequence {
        let group = match placed {
            SequenceEntry::Result(index) => {
                if has_media(turn, plan, *index, accepted)? {
                    media.push(*index);
                }
                groups.push(MessageGroup::Tool(*index));
                continue;
            }
            SequenceEntry::Interrupted(call) => {
                groups.push(MessageGroup::Interrupted(*call));
                continue;
            }
            SequenceEntry::Message(index) => message(turn, *index)?,
            SequenceEntry::Answer(answer) => MessageGroup::Assistant(answer),
            SequenceEntry::Stray(index) => MessageGroup::OrphanResult(*index),
            SequenceEntry::Omitted(text) => MessageGroup::Omitted(text),
        };
        flush_media(&mut groups, &mut media);
        groups.push(group);
    }
    flush_media(&mut groups, &mut media);
    Ok(groups)
}

/// Ends a run of consecutive results.
fn flush_media(groups: &mut Vec<MessageGroup<'_>>, media: &mut Vec<usize>) {
    if !media.is_empty() {
        groups.push(MessageGroup::Media(std::mem::take(media)));
    }
}

/// A message that is not the model's. Fails on an item that cannot be sent.
fn message<'p>(turn: &Turn<'_>, index: usize) -> Result<MessageGroup<'p>, Fault> {
    let Some(item) = turn.items.get(index) else {
        return Ok(MessageGroup::User(index));
    };
    if item.kind == ItemKind::ItemReference {
        return Err(item.unresolved_reference(index));
    }
    Ok(if item.is_system() {
        MessageGroup::System(index)
    } else {
        MessageGroup::User(index)
    })
}

/// Whether a tool result has media that the model accepts, and that are sent.
fn has_media(
    turn: &Turn<'_>,
    plan: &Plan,
    index: usize,
    accepted: AcceptedMedia<'_>,
) -> Result<bool, Fault> {
    let Some(item) = turn.items.get(index) else {
        return Ok(false);
    };
    let content = plan.result_media(item, index, accepted)?;
    Ok(content.has_media())
}
