//! Writes the messages, each item's bytes in one piece, so that spans can
//! name them.
//!
//! [`layout`] decides which messages there are, [`said`], [`answer`] and
//! [`results`] write one kind each.

mod answer;
mod arguments;
mod ids;
mod layout;
mod reasoning;
mod results;
mod said;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;

use registry::SystemRole;

use self::ids::Ids;
use self::layout::{Message, Piece, Source, lay_out};
use super::encode::Options;
use super::encode::limit::Media;
use crate::encoded::Span;
use crate::fault::Fault;
use crate::json;
use crate::notes::Notes;
use crate::plan::Plan;
use crate::turn::Turn;

/// What an assistant says between a tool result and a user message, where these
/// may not follow one another.
const BRIDGE: &str = "Done.";

/// The mark behind which a provider's cache ends.
const CACHE_MARK: &[u8] = br#","cache_control":{"type":"ephemeral"}"#;

/// Writes `[message, …]` for the instructions and all kept items.
pub(super) fn push_messages(
    out: &mut Vec<u8>,
    turn: &Turn<'_>,
    plan: &Plan,
    options: &Options<'_>,
    media: &mut Media,
    notes: &mut Notes,
) -> Result<Messages, Fault> {
    let quirks = options.quirks();
    let ids = Ids::new(turn, plan, quirks.call_ids);
    if ids.differ() {
        notes.add("call_ids_changed", "to the form that the provider takes");
    }
    let messages = lay_out(turn, plan, options, &ids, notes)?;
    let marks = if quirks.cache_control {
        marks(&messages)
    } else {
        [None, None]
    };
    let names = if quirks.tool_names {
        ids::tool_names(turn, plan, |item| answer::tool_name(turn, item))
    } else {
        HashMap::new()
    };
    let mut writer = Writer {
        out,
        turn,
        plan,
        options,
        ids: &ids,
        names,
        media,
        written: Messages {
            spans: Vec::with_capacity(turn.items.len()),
            ..Messages::default()
        },
        notes,
    };
    writer.out.push(b'[');
    for (position, message) in messages.iter().enumerate() {
        let marked = marks.contains(&Some(position));
        match message {
            Message::System(pieces) => writer.said("system", pieces, marked),
            Message::User(pieces) => writer.said("user", pieces, marked),
            Message::Assistant(said) => writer.assistant(said, marked)?,
            Message::Bridge => writer.bridge(),
            Message::Tool(index) => writer.tool(*index, marked)?,
            Message::Interrupted(call) => writer.interrupted(*call, marked),
        }
    }
    writer.out.push(b']');
    Ok(writer.written)
}

/// What was written where.
#[derive(Default)]
pub(super) struct Messages {
    pub(super) spans: Vec<Span>,
    /// Where the instructions end; 0 if there are none.
    pub(super) instructions: usize,
    /// What is there only because of the marks.
    pub(super) marks: Vec<Range<usize>>,
}

/// The messages whose ends are marked for the cache: the system text and the
/// history.
fn marks(messages: &[Message<'_>]) -> [Option<usize>; 2] {
    let is_system = |piece: &Piece<'_>| piece.headed;
    let system = messages.iter().take_while(|message| match message {
        Message::System(_) => true,
        Message::User(pieces) => pieces.iter().any(is_system),
        Message::Assistant(_) | Message::Bridge | Message::Tool(_) | Message::Interrupted(_) => {
            false
        }
    });
    // The wanted form of the answer is no part of the history.
    let history = messages.iter().rposition(|message| match message {
        Message::System(pieces) | Message::User(pieces) => {
            pieces.iter().any(|piece| piece.source != Source::Format)
        }
        Message::Assistant(said) => !said.texts.is_empty(),
        Message::Bridge => false,
        Message::Tool(_) | Message::Interrupted(_) => true,
    });
    [system.count().checked_sub(1), history]
}

struct Writer<'w, 'a> {
    out: &'w mut Vec<u8>,
    turn: &'w Turn<'a>,
    plan: &'w Plan,
    options: &'w Options<'w>,
    ids: &'w Ids,
    /// Tools by the plan's call ids, where results name them.
    names: HashMap<String, String>,
    media: &'w mut Media,
    written: Messages,
    notes: &'w mut Notes,
}

impl Writer<'_, '_> {
    /// Begins a message; `system` becomes the role that the provider wants.
    fn open(&mut self, role: &str) {
        if self.out.last() != Some(&b'[') {
            self.out.push(b',');
        }
        self.out.push(b'{');
        let role = match (role, self.options.quirks().system_role) {
            ("system", SystemRole::Developer) => "developer",
            (role, SystemRole::System | SystemRole::Developer | SystemRole::User) => role,
        };
        json::field(self.out, "role", role);
    }

    fn span(&mut self, item: usize, start: usize) {
        self.written.spans.push(Span {
            item,
            bytes: start..self.out.len(),
        });
    }

    fn bridge(&mut self) {
        self.open("assistant");
        json::field(self.out, "content", BRIDGE);
        self.out.push(b'}');
    }

    /// Begins the one text of a message, as a string or, if it is marked for the
    /// cache, as the one part of a list.
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

    /// Ends a list of parts, the last of which may be marked for the cache.
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
