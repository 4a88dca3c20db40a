//! The messages of a request before they are written.

use std::collections::HashMap;

use crate::content::MessageContent;
use crate::plan::AnswerItems;

/// One chat message. Items are named by their index in the turn.
#[derive(Debug)]
pub(super) enum ChatMessage<'a> {
    System(Vec<MessageSection<'a>>),
    User(Vec<MessageSection<'a>>),
    Assistant(AssistantMessage<'a>),
    /// An assistant message with a constant text between a tool result and a user
    /// message, for providers that do not accept one after the other.
    Bridge,
    /// The result of a tool call.
    Tool(usize),
    /// A tool message for a call that has no result.
    Interrupted(usize),
}

impl ChatMessage<'_> {
    /// Whether it is system text, in whatever role.
    pub(super) fn is_system(&self) -> bool {
        match self {
            Self::User(_) => !self.is_user(),
            Self::System(_) => true,
            Self::Assistant(_) | Self::Bridge | Self::Tool(_) | Self::Interrupted(_) => false,
        }
    }

    /// Whether the model answers it: a message of the user, or a result.
    pub(super) fn is_user(&self) -> bool {
        match self {
            Self::User(sections) => sections.iter().any(|section| !section.needs_heading),
            Self::Tool(_) | Self::Interrupted(_) => true,
            Self::System(_) | Self::Assistant(_) | Self::Bridge => false,
        }
    }
}

/// The content that one item contributes to a system or user message.
#[derive(Debug)]
pub(super) struct MessageSection<'a> {
    pub(super) source: SectionSource,
    pub(super) content: MessageContent<'a>,
    /// Whether this is system text in a user message, which a heading has to
    /// say.
    pub(super) needs_heading: bool,
}

impl<'a> MessageSection<'a> {
    pub(super) fn new(source: SectionSource, content: MessageContent<'a>) -> Self {
        Self {
            source,
            content,
            needs_heading: false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SectionSource {
    Item(usize),
    Instructions,
    /// The instruction that describes the format of the answer.
    Format,
    /// The notice about items that were left out.
    Omitted,
}

/// The texts, reasoning and calls of one earlier answer of the model.
#[derive(Debug)]
pub(super) struct AssistantMessage<'a> {
    pub(super) answer: AnswerItems,
    /// The texts that are not empty, with the indices of their items.
    pub(super) texts: Vec<(Option<usize>, MessageContent<'a>)>,
}

/// The reasoning of one assistant message that is sent back to the provider. Collected when the
/// message is written.
#[derive(Debug, Default)]
pub(super) struct ReplayedReasoning<'a> {
    /// The texts that are not empty, with the indices of their items; texts of
    /// known baggage belong to no item.
    pub(super) texts: Vec<(Option<usize>, MessageContent<'a>)>,
    /// The elements of `reasoning_details`, without the brackets.
    pub(super) details: String,
    /// The `extra_content` of calls, with the indices of the calls.
    pub(super) extras: HashMap<usize, String>,
}
