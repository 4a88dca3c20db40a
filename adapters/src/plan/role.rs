//! What an item is in a conversation.

use crate::turn::{Item, ItemKind};

pub(super) enum Role {
    /// A message that the model did not write, or what encode refuses.
    Message,
    Reasoning,
    Text,
    Call,
    Result,
    /// Nothing, for this reason.
    Drop(&'static str),
}

pub(super) fn of(item: &Item<'_>) -> Role {
    match item.kind {
        ItemKind::Message if item.role() == "assistant" => Role::Text,
        ItemKind::ItemReference if item.id().is_some_and(|id| id.starts_with("rs_")) => {
            Role::Drop("reasoning that is only referred to is not stored here")
        }
        ItemKind::Message
        | ItemKind::AgentMessage
        | ItemKind::ItemReference
        | ItemKind::Compaction => Role::Message,
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
        | ItemKind::ApplyPatchCallOutput => Role::Result,
        ItemKind::AdditionalTools => Role::Drop("its tools are offered with the others"),
        ItemKind::ConfigurationUpdate => Role::Drop("its settings are in the request"),
        ItemKind::WebSearchCall => Role::Drop("its results are in the text that follows"),
        ItemKind::CompactionTrigger => Role::Drop("it asks for a summary and says nothing itself"),
        ItemKind::Hosted => Role::Drop("a hosted tool's item has no counterpart"),
        ItemKind::Unknown => Role::Drop("its type is not known"),
    }
}

/// Whether a call of this kind names its tool.
pub(super) fn has_name(kind: ItemKind) -> bool {
    matches!(kind, ItemKind::FunctionCall | ItemKind::CustomToolCall)
}
