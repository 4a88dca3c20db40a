//! Decides what will be sent of each item. Encode carries it out; logs,
//! replay and tests read the same value.

use crate::turn::{Item, ItemKind, Turn};

/// One decision an item.
#[derive(Debug)]
pub struct Plan {
    /// In the order of the turn's items.
    pub steps: Vec<Step>,
}

/// What happens to an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is sent as it is.
    Keep,
    /// It is not sent, for this reason.
    Drop(&'static str),
}

/// Decides for every item of the turn. Pure: the same turn has the same plan.
pub fn plan(turn: &Turn<'_>) -> Plan {
    Plan {
        steps: turn.items.iter().map(step).collect(),
    }
}

fn step(item: &Item<'_>) -> Step {
    match item.kind {
        ItemKind::ItemReference if item.id().is_some_and(|id| id.starts_with("rs_")) => {
            Step::Drop("reasoning that is only referred to is not stored here")
        }
        ItemKind::Message
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
        | ItemKind::AgentMessage
        | ItemKind::ItemReference
        | ItemKind::CompactionTrigger => Step::Keep,
        ItemKind::AdditionalTools => Step::Drop("its tools are offered with the others"),
        ItemKind::ConfigurationUpdate => Step::Drop("its settings are in the request"),
        ItemKind::WebSearchCall => Step::Drop("its results are in the text that follows"),
        ItemKind::Compaction => Step::Drop("its content was sealed by another server"),
        ItemKind::Hosted => Step::Drop("a hosted tool's item has no counterpart"),
        ItemKind::Unknown => Step::Drop("its type is not known"),
    }
}
