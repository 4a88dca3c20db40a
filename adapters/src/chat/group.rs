//! Which items make one chat message.
//!
//! An answer of the model is several items in the Responses API and one
//! message here: its reasoning, its text, its calls.

use super::content::Content;
use crate::fault::Fault;
use crate::notes::Notes;
use crate::plan::{Plan, Step};
use crate::turn::{Item, ItemKind, Turn};

/// A chat message by the indices of its items.
#[derive(Debug)]
pub(super) enum Group {
    /// A developer or system message.
    System(usize),
    User(usize),
    Assistant(Answer),
    Tool(usize),
    /// Images of tool results: a tool message cannot hold them, and nothing
    /// may stand between the results of one answer.
    Media(Vec<usize>),
}

#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) reasoning: Vec<usize>,
    pub(super) text: Vec<usize>,
    pub(super) calls: Vec<usize>,
}

#[derive(Default)]
struct Groups {
    done: Vec<Group>,
    answer: Option<Answer>,
    media: Vec<usize>,
}

impl Groups {
    /// Ends the open answer.
    fn end_answer(&mut self) {
        self.done.extend(self.answer.take().map(Group::Assistant));
    }

    /// Ends the open answer and the run of tool results.
    fn end_round(&mut self) {
        self.end_answer();
        if !self.media.is_empty() {
            self.done
                .push(Group::Media(std::mem::take(&mut self.media)));
        }
    }

    /// The answer for a piece of reasoning or text: a text without calls is
    /// complete once something else than a call follows it.
    fn answer(&mut self) -> &mut Answer {
        if self
            .answer
            .as_ref()
            .is_some_and(|a| a.calls.is_empty() && !a.text.is_empty())
        {
            self.end_answer();
        }
        if self.answer.is_none() {
            self.end_round();
        }
        self.answer.get_or_insert_default()
    }

    fn call(&mut self) -> &mut Answer {
        if self.answer.is_none() {
            self.end_round();
        }
        self.answer.get_or_insert_default()
    }
}

/// Groups the kept items in their order.
pub(super) fn group(turn: &Turn<'_>, plan: &Plan, notes: &mut Notes) -> Result<Vec<Group>, Fault> {
    let mut groups = Groups::default();
    for (index, item) in turn.items.iter().enumerate() {
        if let Some(Step::Drop(reason)) = plan.steps.get(index) {
            if matches!(
                item.kind,
                ItemKind::Unknown
                    | ItemKind::Hosted
                    | ItemKind::Compaction
                    | ItemKind::ItemReference
            ) {
                notes.add("item_skipped", format!("{}: {reason}", item.type_name()));
            }
            continue;
        }
        match role(item, index)? {
            Role::System => {
                groups.end_round();
                groups.done.push(Group::System(index));
            }
            Role::User => {
                groups.end_round();
                groups.done.push(Group::User(index));
            }
            Role::Reasoning => groups.answer().reasoning.push(index),
            Role::Text => groups.answer().text.push(index),
            Role::Call => groups.call().calls.push(index),
            Role::Output => {
                groups.end_answer();
                groups.done.push(Group::Tool(index));
                if has_media(item, index)? {
                    groups.media.push(index);
                }
            }
            Role::None => {}
        }
    }
    groups.end_round();
    Ok(groups.done)
}

enum Role {
    System,
    User,
    Reasoning,
    Text,
    Call,
    Output,
    /// It was carried out while reading the request.
    None,
}

fn role(item: &Item<'_>, index: usize) -> Result<Role, Fault> {
    Ok(match item.kind {
        ItemKind::Message => match item.role().as_ref() {
            "assistant" => Role::Text,
            "system" | "developer" => Role::System,
            _ => Role::User,
        },
        ItemKind::AgentMessage => Role::User,
        ItemKind::Reasoning => Role::Reasoning,
        ItemKind::FunctionCall
        | ItemKind::CustomToolCall
        | ItemKind::ToolSearchCall
        | ItemKind::LocalShellCall
        | ItemKind::ShellCall
        | ItemKind::ApplyPatchCall => Role::Call,
        ItemKind::FunctionCallOutput
        | ItemKind::CustomToolCallOutput
        | ItemKind::ToolSearchOutput
        | ItemKind::LocalShellCallOutput
        | ItemKind::ShellCallOutput
        | ItemKind::ApplyPatchCallOutput => Role::Output,
        ItemKind::ItemReference => {
            return Err(Fault::invalid(
                format!("input[{index}]"),
                format!(
                    "Item '{}' is not stored here (any more): send the item itself instead of a reference.",
                    item.id().unwrap_or_default()
                ),
            )
            .with_code("item_not_found"));
        }
        ItemKind::CompactionTrigger => {
            return Err(Fault::invalid(format!("input[{index}]"), "Remote compaction ('compaction_trigger') is not available here. In Codex, give the provider another name than \"OpenAI\": it then compacts by itself.")
                .with_code("unsupported_item"));
        }
        ItemKind::AdditionalTools
        | ItemKind::ConfigurationUpdate
        | ItemKind::WebSearchCall
        | ItemKind::Compaction
        | ItemKind::Hosted
        | ItemKind::Unknown => Role::None,
    })
}

/// Whether a tool result holds more than text.
fn has_media(item: &Item<'_>, index: usize) -> Result<bool, Fault> {
    let Some(output) = item.output().filter(|output| output.get().starts_with('[')) else {
        return Ok(false);
    };
    if !output_has_parts(item.kind) {
        return Ok(false);
    }
    Ok(Content::read(Some(output), index, &mut Notes::default())?.has_media())
}

/// Whether a list in this item's output is a list of content parts.
pub(super) fn output_has_parts(kind: ItemKind) -> bool {
    matches!(
        kind,
        ItemKind::FunctionCallOutput | ItemKind::CustomToolCallOutput
    )
}
