//! Decides which messages the request has, and what each contains. A provider may
//! require its system text in one place, user messages joined, or an answer after
//! tool results.
//!
//! The message of an item depends only on what precedes it, so the messages of a
//! history do not change when it grows.

use registry::{SystemPlace, SystemRole};

use super::ids::WireCallIds;
use super::message::{AssistantMessage, ChatMessage, MessageSection, SectionSource};
use crate::chat::group::{MessageGroup, group_messages};
use crate::chat::options::ChatOptions;
use crate::content::{MessageContent, MessagePart};
use crate::empty_input::{EMPTY_MESSAGE, GO_ON, nothing_to_send};
use crate::fault::Fault;
use crate::format_instruction::format_instruction;
use crate::json;
use crate::notes::Notes;
use crate::plan::{AnswerItems, Plan};
use crate::result_text::push_output;
use crate::turn::Turn;

/// The messages for the instructions and all kept items.
pub(super) fn lay_out<'a>(
    turn: &'a Turn<'a>,
    plan: &Plan,
    options: &ChatOptions<'_>,
    ids: &WireCallIds,
    notes: &mut Notes,
) -> Result<Vec<ChatMessage<'a>>, Fault> {
    let mut layout = Layout {
        turn,
        plan,
        ids,
        options,
        notes,
        first_system: Vec::new(),
        messages: Vec::new(),
        empty_user: None,
    };
    if let Some(text) = plan.instructions(turn) {
        layout.system(SectionSource::Instructions, MessageContent::from_text(text));
    }
    if let Some(text) = options.tool_notice {
        let text = MessageContent::from_text(text.into());
        layout.system(SectionSource::Instructions, text);
    }
    for group in group_messages(turn, plan, options.accepted_media(), layout.notes)? {
        turn.stop.check()?;
        match group {
            MessageGroup::System(index) => {
                let content = layout.system_content(index)?;
                layout.system(SectionSource::Item(index), content);
            }
            MessageGroup::User(index) => layout.user(index)?,
            MessageGroup::Assistant(answer) => layout.assistant(answer.clone())?,
            MessageGroup::Tool(index) => layout.push(ChatMessage::Tool(index)),
            MessageGroup::Interrupted(call) => layout.push(ChatMessage::Interrupted(call)),
            MessageGroup::OrphanResult(index) => layout.orphan_result(index)?,
            MessageGroup::Omitted(text) => layout.omitted(text),
            MessageGroup::Media(indices) => layout.media(&indices)?,
        }
    }
    layout.close()?;
    if let Some(text) = format_instruction(&turn.controls.format, options.quirks.response_format) {
        layout.format(MessageContent::from_text(text.into()));
    }
    Ok(layout.finish())
}

struct Layout<'l, 'a> {
    turn: &'a Turn<'a>,
    plan: &'l Plan,
    ids: &'l WireCallIds,
    options: &'l ChatOptions<'l>,
    notes: &'l mut Notes,
    /// The sections of the only system message, where there may be only one.
    first_system: Vec<MessageSection<'a>>,
    messages: Vec<ChatMessage<'a>>,
    /// An empty message of the user, which is sent if no other message of the user is next to it.
    empty_user: Option<usize>,
}

impl<'a> Layout<'_, 'a> {
    fn content(&mut self, index: usize) -> Result<MessageContent<'a>, Fault> {
        self.plan.message_content(self.turn, index, self.notes)
    }

    fn note_empty(&mut self, index: usize) {
        self.notes
            .add("empty_message_dropped", format!("input[{index}]"));
    }

    /// The content of a message, with a line of text for each part that cannot be sent.
    fn sendable_content(&mut self, index: usize) -> Result<MessageContent<'a>, Fault> {
        let accepted = self.options.accepted_media();
        let content = self.content(index)?;
        Ok(content.replace_unsupported(accepted, self.notes))
    }

    /// The content of a system message, which can only be text.
    fn system_content(&mut self, index: usize) -> Result<MessageContent<'a>, Fault> {
        let mut content = self.sendable_content(index)?;
        if content.has_media() {
            self.notes
                .add("content_skipped", "what is not text in a system message");
            content
                .parts
                .retain(|part| matches!(part, MessagePart::Text(_)));
        }
        if content.is_empty() {
            self.note_empty(index);
        }
        Ok(content)
    }

    fn system(&mut self, source: SectionSource, content: MessageContent<'a>) {
        if content.is_empty() {
            return;
        }
        let quirks = self.options.quirks;
        let is_user_role = quirks.system_role == SystemRole::User;
        let is_late = match quirks.system_place {
            SystemPlace::First if self.messages.is_empty() => {
                self.first_system.push(MessageSection::new(source, content));
                return;
            }
            SystemPlace::First => true,
            SystemPlace::Anywhere => false,
        };
        let needs_heading = is_user_role || is_late;
        let section = MessageSection {
            source,
            content,
            needs_heading,
        };
        if needs_heading {
            self.note_system_as_user();
            self.push(ChatMessage::User(vec![section]));
        } else {
            self.push(ChatMessage::System(vec![section]));
        }
    }

    fn note_system_as_user(&mut self) {
        self.notes.add(
            "system_as_user",
            "a system message is sent as a user message that says so",
        );
    }

    /// Adds the instruction about the answer's format. In the only system message
    /// its place does not change while the history grows, nor does what precedes
    /// it.
    fn format(&mut self, content: MessageContent<'a>) {
        match self.options.quirks.system_place {
            SystemPlace::First => self
                .first_system
                .push(MessageSection::new(SectionSource::Format, content)),
            SystemPlace::Anywhere => self.system(SectionSource::Format, content),
        }
    }

    fn user(&mut self, index: usize) -> Result<(), Fault> {
        let content = self.content(index)?;
        if content.is_empty() {
            let other = if self.ends_with_user() {
                Some(index)
            } else {
                self.empty_user.replace(index)
            };
            if let Some(other) = other {
                self.note_empty(other);
            }
            return Ok(());
        }
        let content = content.fit_message(self.options.accepted_media(), self.notes);
        self.push(ChatMessage::User(vec![MessageSection::new(
            SectionSource::Item(index),
            content,
        )]));
        Ok(())
    }

    fn omitted(&mut self, text: &str) {
        self.push(ChatMessage::User(vec![MessageSection::new(
            SectionSource::Omitted,
            MessageContent::from_text(text.into()),
        )]));
    }

    /// Adds a message. An empty one of the user before it gets a text if the model answered it.
    fn push(&mut self, message: ChatMessage<'a>) {
        match &message {
            ChatMessage::Assistant(_) => self.fill_empty_user(),
            _ if message.is_user() => {
                if let Some(index) = self.empty_user.take() {
                    self.note_empty(index);
                }
            }
            _ => {}
        }
        self.messages.push(message);
    }

    fn ends_with_user(&self) -> bool {
        let mut before = self.messages.iter().rev();
        let last = before.find(|message| !message.is_system());
        last.is_some_and(ChatMessage::is_user)
    }

    fn fill_empty_user(&mut self) {
        if let Some(index) = self.empty_user.take() {
            self.notes
                .add("empty_message_filled", format!("input[{index}]"));
            self.omitted(EMPTY_MESSAGE);
        }
    }

    /// Ends the history with something that the provider can answer.
    fn close(&mut self) -> Result<(), Fault> {
        self.fill_empty_user();
        if let Some(ChatMessage::Assistant(message)) = self.messages.last_mut()
            && message.answer.calls.is_empty()
        {
            // Anthropic refuses blanks at the end.
            while let Some((_, content)) = message.texts.last_mut() {
                content.trim_end();
                if !content.parts.is_empty() {
                    break;
                }
                message.texts.pop();
            }
            if message.texts.is_empty() {
                self.messages.pop();
            } else if self.options.quirks.ends_with_user {
                self.notes
                    .add("user_message_added", "behind the last answer");
                self.omitted(GO_ON);
            }
        }
        if self.messages.iter().all(ChatMessage::is_system) {
            if self.messages.is_empty() && self.first_system.is_empty() {
                return Err(nothing_to_send(self.notes));
            }
            self.notes
                .add("user_message_added", "behind the instructions");
            self.omitted(EMPTY_MESSAGE);
        }
        Ok(())
    }

    fn media(&mut self, indices: &[usize]) -> Result<(), Fault> {
        let mut sections = Vec::with_capacity(indices.len());
        for &index in indices {
            let Some(item) = self.turn.items.get(index) else {
                continue;
            };
            let accepted = self.options.accepted_media();
            let mut content = self.plan.result_media(item, index, accepted)?;
            let caption = format!("Output of the tool call {}:", self.wire_id(index));
            content.parts.insert(0, MessagePart::Text(caption.into()));
            sections.push(MessageSection::new(SectionSource::Item(index), content));
        }
        self.notes.add(
            "image_moved",
            "from tool results into a user message behind them",
        );
        self.push(ChatMessage::User(sections));
        Ok(())
    }

    fn wire_id(&self, index: usize) -> String {
        let id = self.plan.call_id(self.turn, index);
        self.ids.wire_id(&id).to_owned()
    }

    /// A user message for a result without a call, or for a second result of a
    /// call.
    fn orphan_result(&mut self, index: usize) -> Result<(), Fault> {
        let Some(item) = self.turn.items.get(index) else {
            return Ok(());
        };
        let id = self.wire_id(index);
        let caption = self.plan.stray_caption(item, index, &id);
        let mut text = vec![b'"'];
        text.extend_from_slice(json::escape(&caption).as_bytes());
        text.extend_from_slice(b"\\n");
        let accepted = self.options.accepted_media();
        let shown = self.plan.replacement_text(index);
        push_output(&mut text, item, (index, shown), accepted, self.notes)?;
        text.push(b'"');
        let text: String = serde_json::from_slice(&text).unwrap_or(caption);
        let mut content = self.plan.result_media(item, index, accepted)?;
        content.parts.insert(0, MessagePart::Text(text.into()));
        self.push(ChatMessage::User(vec![MessageSection::new(
            SectionSource::Item(index),
            content,
        )]));
        Ok(())
    }

    /// An assistant message. One without text and calls is left out, because many
    /// providers refuse it.
    fn assistant(&mut self, answer: AnswerItems) -> Result<(), Fault> {
        let mut texts = Vec::with_capacity(answer.text.len());
        for &index in &answer.text {
            let content = self.sendable_content(index)?;
            if content.is_empty() {
                self.note_empty(index);
            } else {
                texts.push((Some(index), content));
            }
        }
        if texts.is_empty() && answer.calls.is_empty() {
            for index in answer.reasoning {
                self.notes.add(
                    "reasoning_skipped",
                    format!("input[{index}]: no answer follows it"),
                );
            }
            return Ok(());
        }
        self.push(ChatMessage::Assistant(AssistantMessage { answer, texts }));
        Ok(())
    }

    fn finish(mut self) -> Vec<ChatMessage<'a>> {
        let quirks = self.options.quirks;
        let mut first_system = std::mem::take(&mut self.first_system);
        let mut done = Vec::with_capacity(self.messages.len() + 1);
        if let Some(first) = first_system.first_mut() {
            if quirks.system_role == SystemRole::User {
                first.needs_heading = true;
                self.note_system_as_user();
                done.push(ChatMessage::User(first_system));
            } else {
                done.push(ChatMessage::System(first_system));
            }
        }
        // Joining messages that would be split again is pointless.
        let joins = quirks.merge_user && quirks.message_limit.is_none();
        for message in self.messages {
            match (done.last_mut(), message) {
                (Some(ChatMessage::User(before)), ChatMessage::User(sections)) if joins => {
                    self.notes.add(
                        "user_messages_joined",
                        "the provider wants user and assistant to alternate",
                    );
                    before.extend(sections);
                }
                (
                    Some(ChatMessage::Tool(_) | ChatMessage::Interrupted(_)),
                    message @ ChatMessage::User(_),
                ) if quirks.answer_after_tool => {
                    self.notes.add(
                        "answer_inserted",
                        "between a tool result and a user message",
                    );
                    done.push(ChatMessage::Bridge);
                    done.push(message);
                }
                (_, message) => done.push(message),
            }
        }
        done
    }
}
