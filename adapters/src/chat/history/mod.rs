//! Writes the messages of a request. The bytes of each item are contiguous, so that
//! a span can name them.
//!
//! | module | contents |
//! |---|---|
//! | [`message`] | the messages before they are written |
//! | [`layout`] | which messages there are, and in which order |
//! | [`text_messages`], [`assistant`], [`results`] | writing each kind of message |
//! | [`reasoning`] | reasoning that goes back to the provider |
//! | [`arguments`] | arguments of calls |
//! | [`ids`] | call ids in the form that the provider accepts |

mod arguments;
mod assistant;
mod ids;
mod layout;
mod message;
mod reasoning;
mod results;
#[cfg(test)]
mod tests;
mod text_messages;

use std::collections::HashMap;
use std::ops::Range;

use registry::{ContentForm, ReasoningRequired, SystemRole};

use self::ids::WireCallIds;
use self::layout::lay_out;
use self::message::{ChatMessage, MessageSection, SectionSource};
use super::options::ChatOptions;
use crate::encoded::ItemSpan;
use crate::fault::Fault;
use crate::json;
use crate::media::MediaEstimate;
use crate::notes::Notes;
use crate::plan::Plan;
use crate::turn::Turn;

/// The text of an assistant message between a tool result and a user message, where
/// the provider does not accept one after the other.
const BRIDGE: &str = "Done.";

/// The cache breakpoint: the provider caches the prefix that ends here.
const CACHE_MARK: &[u8] = br#","cache_control":{"type":"ephemeral"}"#;

/// Writes `[message, …]` for the instructions and all kept items.
pub(super) fn push_messages(
    out: &mut Vec<u8>,
    turn: &Turn<'_>,
    plan: &Plan,
    options: &ChatOptions<'_>,
    media: &mut MediaEstimate,
    notes: &mut Notes,
) -> Result<WrittenMessages, Fault> {
    let quirks = options.quirks;
    let ids = WireCallIds::new(turn, plan, quirks.call_ids);
    if ids.any_changed() {
        notes.add("call_ids_changed", "to the form that the provider takes");
    }
    let messages = lay_out(turn, plan, options, &ids, notes)?;
    let marks = if quirks.cache_control && quirks.content_form == ContentForm::Parts {
        cache_mark_positions(&messages)
    } else {
        [None, None]
    };
    let names = if quirks.tool_names {
        ids::tool_names(turn, plan, |item| turn.tools.called_name(item))
    } else {
        HashMap::new()
    };
    let mut writer = MessageWriter {
        out,
        turn,
        plan,
        options,
        ids: &ids,
        names,
        media,
        written: WrittenMessages {
            spans: Vec::with_capacity(turn.items.len()),
            ..WrittenMessages::default()
        },
        notes,
    };
    writer.out.push(b'[');
    for (position, message) in messages.iter().enumerate() {
        turn.stop.check()?;
        let marked = marks.contains(&Some(position));
        match message {
            ChatMessage::System(sections) => writer.push_text_message("system", sections, marked),
            ChatMessage::User(sections) => writer.push_text_message("user", sections, marked),
            ChatMessage::Assistant(message) => writer.push_assistant(message, marked)?,
            ChatMessage::Bridge => writer.push_bridge(),
            ChatMessage::Tool(index) => writer.push_tool_result(*index, marked)?,
            ChatMessage::Interrupted(call) => writer.push_interrupted(*call, marked),
        }
    }
    writer.out.push(b']');
    Ok(writer.written)
}

/// Where the messages were written.
#[derive(Default)]
pub(super) struct WrittenMessages {
    pub(super) spans: Vec<ItemSpan>,
    /// Where the instructions end; 0 if there are none.
    pub(super) instructions: usize,
    /// Bytes that exist only because of the cache breakpoints.
    pub(super) marks: Vec<Range<usize>>,
}

/// The indices of the messages that get a cache breakpoint: the last of the system
/// text, and the last of the history.
fn cache_mark_positions(messages: &[ChatMessage<'_>]) -> [Option<usize>; 2] {
    let is_system = |section: &MessageSection<'_>| section.needs_heading;
    let system = messages.iter().take_while(|message| match message {
        ChatMessage::System(_) => true,
        ChatMessage::User(sections) => sections.iter().any(is_system),
        ChatMessage::Assistant(_)
        | ChatMessage::Bridge
        | ChatMessage::Tool(_)
        | ChatMessage::Interrupted(_) => false,
    });
    // The instruction about the answer's format is not part of the history.
    let history = messages.iter().rposition(|message| match message {
        ChatMessage::System(sections) | ChatMessage::User(sections) => sections
            .iter()
            .any(|section| section.source != SectionSource::Format),
        ChatMessage::Assistant(message) => !message.texts.is_empty(),
        ChatMessage::Bridge => false,
        ChatMessage::Tool(_) | ChatMessage::Interrupted(_) => true,
    });
    [system.count().checked_sub(1), history]
}

struct MessageWriter<'w, 'a> {
    out: &'w mut Vec<u8>,
    turn: &'w Turn<'a>,
    plan: &'w Plan,
    options: &'w ChatOptions<'w>,
    ids: &'w WireCallIds,
    /// Tool names by the plan's call ids; empty unless results have to name their
    /// tool.
    names: HashMap<String, String>,
    media: &'w mut MediaEstimate,
    written: WrittenMessages,
    notes: &'w mut Notes,
}

impl MessageWriter<'_, '_> {
    /// Begins a message. The role `system` becomes the one that the provider has
    /// for it.
    fn open_message(&mut self, role: &str) {
        json::separate(self.out);
        self.out.push(b'{');
        let role = match (role, self.options.quirks.system_role) {
            ("system", SystemRole::Developer) => "developer",
            (role, SystemRole::System | SystemRole::Developer | SystemRole::User) => role,
        };
        json::field(self.out, "role", role);
    }

    fn add_span(&mut self, item: usize, start: usize) {
        self.written.spans.push(ItemSpan {
            item,
            bytes: start..self.out.len(),
        });
    }

    fn push_bridge(&mut self) {
        self.open_message("assistant");
        json::field(self.out, "content", BRIDGE);
        let quirks = self.options.quirks;
        // No note is made of the placeholder, because the message never had any reasoning.
        if let Some(field) = reasoning::text_field(quirks.reasoning_replay)
            && quirks.reasoning_required == ReasoningRequired::Always
        {
            json::field(self.out, field, reasoning::REASONING_PLACEHOLDER);
        }
        self.out.push(b'}');
    }

    /// Begins the text of a message that has one text: a string or, with a cache
    /// breakpoint, a list of one part.
    fn open_text(&mut self, marked: bool) {
        if marked {
            let start = self.out.len();
            self.out.extend_from_slice(b"[{\"type\":\"text\",\"text\":");
            self.written.marks.push(start..self.out.len());
        }
        self.out.push(b'"');
    }

    fn close_text(&mut self, marked: bool) {
        self.out.push(b'"');
        if marked {
            let start = self.out.len();
            self.out.extend_from_slice(CACHE_MARK);
            self.out.extend_from_slice(b"}]");
            self.written.marks.push(start..self.out.len());
        }
    }

    /// Ends a list of parts; the last part may get a cache breakpoint.
    fn close_parts(&mut self, marked: bool) {
        if marked && self.out.last() == Some(&b'}') {
            self.out.pop();
            let start = self.out.len();
            self.out.extend_from_slice(CACHE_MARK);
            self.written.marks.push(start..self.out.len());
            self.out.push(b'}');
        }
        self.out.push(b']');
    }
}
