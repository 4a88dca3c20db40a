//! The part that an item plays in a conversation.

use crate::turn::{Item, ItemKind};

pub(super) enum ItemRole {
    /// A message that the model did not write. Also an item that the encoder refuses.
    Message,
    Reasoning,
    /// Text that the model wrote.
    Text,
    Call,
    Result,
    /// A call with its result.
    AnsweredCall,
    /// What a tool on a server did, told in a message.
    Told,
    /// The item is not sent, for this reason.
    Dropped(&'static str),
}

pub(super) fn of(item: &Item<'_>) -> ItemRole {
    match item.kind {
        _ if item.is_told_elsewhere => ItemRole::Dropped("the calls behind it are sent"),
        ItemKind::Message if item.role() == "assistant" => ItemRole::Text,
        ItemKind::ItemReference if item.id().is_some_and(|id| id.starts_with("rs_")) => {
            ItemRole::Dropped("reasoning that is only referred to is not stored here")
        }
        ItemKind::Message
        | ItemKind::AgentMessage
        | ItemKind::ItemReference
        | ItemKind::Compaction => ItemRole::Message,
        ItemKind::Reasoning => ItemRole::Reasoning,
        ItemKind::FunctionCall
        | ItemKind::CustomToolCall
        | ItemKind::ToolSearchCall
        | ItemKind::LocalShellCall
        | ItemKind::ShellCall
        | ItemKind::ApplyPatchCall
        | ItemKind::McpApprovalRequest => ItemRole::Call,
        ItemKind::FunctionCallOutput
        | ItemKind::CustomToolCallOutput
        | ItemKind::ToolSearchOutput
        | ItemKind::LocalShellCallOutput
        | ItemKind::ShellCallOutput
        | ItemKind::ApplyPatchCallOutput
        | ItemKind::ApprovedMcpCall
        | ItemKind::McpDenial => ItemRole::Result,
        ItemKind::McpApproval => ItemRole::Dropped("the result of the approved call is sent"),
        ItemKind::AdditionalTools | ItemKind::ServerToolSearch => {
            ItemRole::Dropped("its tools are offered with the others")
        }
        ItemKind::ConfigurationUpdate => ItemRole::Dropped("its settings are in the request"),
        ItemKind::McpCall => ItemRole::AnsweredCall,
        ItemKind::McpListTools => ItemRole::Dropped("its tools ran on another server"),
        ItemKind::WebSearchCall | ItemKind::Hosted => match item.output() {
            Some(_) => ItemRole::Told,
            None => ItemRole::Dropped("it tells nothing"),
        },
        ItemKind::CompactionTrigger => {
            ItemRole::Dropped("it asks for a summary and says nothing itself")
        }
        ItemKind::Unknown => ItemRole::Dropped("its type is not known"),
    }
}

/// Whether a call of this kind has a tool name. The other kinds of call imply their tool.
pub(super) fn names_its_tool(kind: ItemKind) -> bool {
    matches!(kind, ItemKind::FunctionCall | ItemKind::CustomToolCall)
}
