//! Which messages the request has, and what stands in each: a provider may want
//! its system text in one place, user messages joined, or an answer after tool
//! results.
//!
//! An item's message depends on what stands before it alone, so that the
//! messages of a history do not change when it grows.

use std::sync::Arc;

use registry::{SystemPlace, SystemRole};

use super::ids::Ids;
use super::results::push_output;
use crate::chat::content::{Content, Part};
use crate::chat::encode::{Options, format};
use crate::chat::group::{Group, group, output_has_parts};
use crate::fault::Fault;
use crate::json;
use crate::notes::Notes;
use crate::plan::{Answer, Plan, Repair, Step};
use crate::text::Text;
use crate::turn::{Item, Turn};

/// One message.
#[derive(Debug)]
pub(super) enum Message<'a> {
    System(Vec<Piece<'a>>),
    User(Vec<Piece<'a>>),
    Assistant(Said<'a>),
    /// Stands between a tool result and a user message.
    Bridge,
    Tool(usize),
    /// A tool message for a call that has no result.
    Interrupted(usize),
}

/// What one item says in a system or user message.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    pub(super) source: Source,
    pub(super) content: Content<'a>,
    /// Whether it is system text in a user message, which a line has to say.
    pub(super) headed: bool,
}

/// Where a piece is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Item(usize),
    Instructions,
    /// The form of the answer, in words.
    Format,
    /// What was left out, in words.
    Omitted,
}

/// What the assistant said and called.
#[derive(Debug)]
pub(super) struct Said<'a> {
    pub(super) answer: Answer,
    /// The texts that are not empty.
    pub(super) texts: Vec<(usize, Content<'a>)>,
}

/// The messages for the instructions and all kept items.
pub(super) fn lay_out<'a>(
    turn: &Turn<'a>,
    plan: &Plan,
    options: &Options<'_>,
    ids: &Ids,
    notes: &mut Notes,
) -> Result<Vec<Message<'a>>, Fault> {
    let mut layout = Layout {
        turn,
        plan,
        ids,
        options,
        notes,
        head: Vec::new(),
        messages: Vec::new(),
    };
    let instructions = match &plan.instructions {
        Some(shown) => Some(Text::Owned(Arc::clone(shown))),
        None => turn.instructions.clone(),
    };
    if let Some(text) = instructions.filter(|text| !text.is_empty()) {
        layout.system(Source::Instructions, Content::of(text));
    }
    for group in group(turn, plan, options.takes(), layout.notes)? {
        match group {
            Group::System(index) => {
                let content = layout.system_content(index)?;
                layout.system(Source::Item(index), content);
            }
            Group::User(index) => layout.user(index)?,
            Group::Assistant(answer) => layout.assistant(answer.clone())?,
            Group::Tool(index) => layout.messages.push(Message::Tool(index)),
            Group::Interrupted(call) => layout.messages.push(Message::Interrupted(call)),
            Group::Stray(index) => layout.stray(index)?,
            Group::Omitted(text) => layout.omitted(text),
            Group::Media(indices) => layout.media(&indices)?,
        }
    }
    if let Some(text) = format::instruction(&turn.controls.format, options.quirks()) {
        layout.form(Content::of(text.into()));
    }
    Ok(layout.done())
}

struct Layout<'l, 'a> {
    turn: &'l Turn<'a>,
    plan: &'l Plan,
    ids: &'l Ids,
    options: &'l Options<'l>,
    notes: &'l mut Notes,
    /// What stands in the one system message, where there is only one.
    head: Vec<Piece<'a>>,
    messages: Vec<Message<'a>>,
}

impl<'a> Layout<'_, 'a> {
    fn content(&mut self, index: usize) -> Result<Content<'a>, Fault> {
        if let Some(text) = self.plan.shown(index) {
            return Ok(Content::of(text.into()));
        }
        let item = self.turn.items.get(index);
        let content = match item.and_then(Item::plain_text) {
            Some(text) => Content::of(text.clone()),
            None => Content::read(item.and_then(Item::content), index, self.notes)?,
        };
        Ok(content.without_blanks(self.notes))
    }

    fn empty(&mut self, index: usize) {
        self.notes
            .add("empty_message_dropped", format!("input[{index}]"));
    }

    /// System text is text alone.
    fn system_content(&mut self, index: usize) -> Result<Content<'a>, Fault> {
        let mut content = self.content(index)?;
        if content.has_media() {
            self.notes
                .add("content_skipped", "what is no text in a system message");
            content.parts.retain(|part| matches!(part, Part::Text(_)));
        }
        if content.is_empty() {
            self.empty(index);
        }
        Ok(content)
    }

    fn system(&mut self, source: Source, content: Content<'a>) {
        if content.is_empty() {
            return;
        }
        let quirks = self.options.quirks();
        let as_user = quirks.system_role == SystemRole::User;
        let is_late = match quirks.system_place {
            SystemPlace::First if self.messages.is_empty() => {
                self.head.push(Piece {
                    source,
                    content,
                    headed: false,
                });
                return;
            }
            SystemPlace::First => true,
            SystemPlace::Anywhere => false,
        };
        let headed = as_user || is_late;
        let piece = Piece {
            source,
            content,
            headed,
        };
        if headed {
            self.as_user();
            self.messages.push(Message::User(vec![piece]));
        } else {
            self.messages.push(Message::System(vec![piece]));
        }
    }

    fn as_user(&mut self) {
        self.notes.add(
            "system_as_user",
            "a system message is sent as a user message that says so",
        );
    }

    /// The wanted form of the answer. In the one system message it stays where
    /// it is while the history grows, and so does all that precedes it.
    fn form(&mut self, content: Content<'a>) {
        match self.options.quirks().system_place {
            SystemPlace::First => self.head.push(Piece {
                source: Source::Format,
                content,
                headed: false,
            }),
            SystemPlace::Anywhere => self.system(Source::Format, content),
        }
    }

    fn user(&mut self, index: usize) -> Result<(), Fault> {
        let content = self.content(index)?;
        if content.is_empty() {
            self.empty(index);
            return Ok(());
        }
        let content = content.fitted(self.options.takes(), self.notes);
        self.messages.push(Message::User(vec![Piece {
            source: Source::Item(index),
            content,
            headed: false,
        }]));
        Ok(())
    }

    fn omitted(&mut self, text: &str) {
        self.messages.push(Message::User(vec![Piece {
            source: Source::Omitted,
            content: Content::of(text.into()),
            headed: false,
        }]));
    }

    fn media(&mut self, indices: &[usize]) -> Result<(), Fault> {
        let mut pieces = Vec::with_capacity(indices.len());
        for &index in indices {
            let Some(item) = self.turn.items.get(index) else {
                continue;
            };
            let content = Content::read(item.output(), index, self.notes)?;
            let mut content = content.told(self.options.takes(), self.notes);
            content.parts.retain(|part| !matches!(part, Part::Text(_)));
            let caption = format!("Output of the tool call {}:", self.wire_id(index));
            content.parts.insert(0, Part::Text(caption.into()));
            pieces.push(Piece {
                source: Source::Item(index),
                content,
                headed: false,
            });
        }
        self.notes.add(
            "image_moved",
            "from tool results into a user message behind them",
        );
        self.messages.push(Message::User(pieces));
        Ok(())
    }

    fn wire_id(&self, index: usize) -> String {
        let id = self.plan.call_id(self.turn, index);
        self.ids.wire(&id).to_owned()
    }

    /// A user message for a result without a call, or a call's second one.
    fn stray(&mut self, index: usize) -> Result<(), Fault> {
        let Some(item) = self.turn.items.get(index) else {
            return Ok(());
        };
        let id = self.wire_id(index);
        let is_second = matches!(
            self.plan.steps.get(index),
            Some(Step::Repair(repairs)) if repairs.contains(&Repair::Repeated)
        );
        let caption = if is_second {
            format!("Another result of the earlier tool call {id}:")
        } else if id.is_empty() {
            "Result of an earlier tool call that is no longer in the history:".to_owned()
        } else {
            format!("Result of the earlier tool call {id}, which is no longer in the history:")
        };
        let mut text = vec![b'"'];
        text.extend_from_slice(json::escape(&caption).as_bytes());
        text.extend_from_slice(b"\\n");
        let takes = self.options.takes();
        let shown = self.plan.shown(index);
        push_output(&mut text, item, (index, shown), takes, self.notes)?;
        text.push(b'"');
        let text: String = serde_json::from_slice(&text).unwrap_or(caption);
        let output = item.output().filter(|_| !self.plan.is_cut(index));
        let parts =
            output.filter(|output| output.get().starts_with('[') && output_has_parts(item.kind));
        let mut content = Content::read(parts, index, self.notes)?.told(takes, self.notes);
        content.parts.retain(|part| !matches!(part, Part::Text(_)));
        content.parts.insert(0, Part::Text(text.into()));
        self.messages.push(Message::User(vec![Piece {
            source: Source::Item(index),
            content,
            headed: false,
        }]));
        Ok(())
    }

    /// A message that says and calls nothing is refused by many providers.
    fn assistant(&mut self, answer: Answer) -> Result<(), Fault> {
        let mut texts = Vec::with_capacity(answer.text.len());
        for &index in &answer.text {
            let content = self.content(index)?;
            if content.is_empty() {
                self.empty(index);
            } else {
                texts.push((index, content));
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
        self.messages
            .push(Message::Assistant(Said { answer, texts }));
        Ok(())
    }

    fn done(mut self) -> Vec<Message<'a>> {
        let quirks = self.options.quirks();
        let mut head = std::mem::take(&mut self.head);
        let mut done = Vec::with_capacity(self.messages.len() + 1);
        if let Some(first) = head.first_mut() {
            if quirks.system_role == SystemRole::User {
                first.headed = true;
                self.as_user();
                done.push(Message::User(head));
            } else {
                done.push(Message::System(head));
            }
        }
        // Messages are not joined only to be cut again.
        let joins = quirks.merge_user && quirks.message_limit.is_none();
        for message in self.messages {
            match (done.last_mut(), message) {
                (Some(Message::User(before)), Message::User(pieces)) if joins => {
                    self.notes
                        .add("user_messages_joined", "the provider wants them in turns");
                    before.extend(pieces);
                }
                (Some(Message::Tool(_) | Message::Interrupted(_)), message @ Message::User(_))
                    if quirks.answer_after_tool =>
                {
                    self.notes.add(
                        "answer_inserted",
                        "between a tool result and a user message",
                    );
                    done.push(Message::Bridge);
                    done.push(message);
                }
                (_, message) => done.push(message),
            }
        }
        done
    }
}
