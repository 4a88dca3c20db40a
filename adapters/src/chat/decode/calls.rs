//! The tool calls of an answer. Assigns each piece to its call, even if the server
//! leaves out ids, indices or names.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::chunk::{CallDelta, scalar};
use crate::event::{Event, Fragment, ReasoningState, ReasoningStateForm};
use crate::fault::{Fault, Kind};
use crate::json;

/// The most bytes of arguments that are held for a call without a name.
const MAX_NAMELESS_ARGUMENTS: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct StreamedCalls {
    /// The position of a call is its slot in [`Event::CallStart`].
    list: Vec<StreamedCall>,
    emit_extra: bool,
}

#[derive(Debug, Default)]
struct StreamedCall {
    index: Option<u64>,
    id: String,
    /// Empty until it arrives.
    name: String,
    /// All arguments so far, escaped.
    arguments: String,
    extra: ExtraContent,
}

#[derive(Debug, Default, PartialEq)]
enum ExtraContent {
    #[default]
    None,
    /// Held until the name arrives.
    Pending(String),
    Emitted,
}

impl StreamedCalls {
    /// The calls of an answer that has not begun.
    pub(super) fn new(emit_extra: bool) -> Self {
        Self {
            list: Vec::new(),
            emit_extra,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Reads a piece of a call, or a call of a whole answer, which comes in one
    /// piece.
    pub(super) fn push<'a>(
        &mut self,
        delta: CallDelta<'a>,
        is_whole: bool,
        emit: &mut impl FnMut(Event<'a>),
    ) -> Result<(), Fault> {
        let id = scalar(delta.id);
        let index = scalar(delta.index).parse().ok();
        let function = delta.function.unwrap_or_default();
        let name = scalar(function.name);
        let arguments = function.arguments.map(arguments_text);
        let more = arguments
            .as_ref()
            .is_some_and(|arguments| !arguments.is_blank());
        let known = self
            .find_slot(index, &id, &name, more)
            .filter(|_| !is_whole);
        let slot = known.unwrap_or_else(|| {
            self.list.push(StreamedCall {
                index,
                ..StreamedCall::default()
            });
            self.list.len() - 1
        });
        let Some(call) = self.list.get_mut(slot) else {
            return Ok(());
        };
        let slot = slot_number(slot);
        if call.id.is_empty() {
            call.id = id.into_owned();
        }
        if let Some(extra) = delta.extra_content.filter(|_| self.emit_extra) {
            call.extra(extra, emit);
        }
        if call.name.is_empty() && !name.is_empty() {
            call.emit_start(slot, name, emit);
        }
        let Some(fragment) = arguments else {
            return Ok(());
        };
        call.arguments.push_str(fragment.escaped());
        if call.name.is_empty() {
            if call.arguments.len() > MAX_NAMELESS_ARGUMENTS {
                let message = "The provider sent a tool call without a name.";
                return Err(Fault::new(Kind::BadReply, message));
            }
        } else if !fragment.is_empty() {
            emit(Event::CallArguments(slot, fragment));
        }
        Ok(())
    }

    /// Adds a complete call without an id, which was found in the text.
    pub(super) fn push_complete<'a>(
        &mut self,
        name: String,
        arguments: String,
        emit: &mut impl FnMut(Event<'a>),
    ) {
        let slot = slot_number(self.list.len());
        let mut call = StreamedCall {
            arguments,
            ..StreamedCall::default()
        };
        call.emit_start(slot, name.into(), emit);
        self.list.push(call);
    }

    /// Ends the answer and notes the calls that never got a name.
    pub(super) fn finish<'a>(&self, emit: &mut impl FnMut(Event<'a>)) {
        for call in self.list.iter().filter(|call| call.name.is_empty()) {
            let detail = format!("{} bytes of arguments", call.arguments.len());
            emit(Event::Note("call_without_name", detail));
        }
    }

    /// Whether each call has either no arguments or one complete JSON value.
    pub(super) fn are_complete(&self) -> bool {
        self.list
            .iter()
            .all(|call| is_blank(&call.arguments) || call.is_complete())
    }

    /// The call that a piece belongs to; `None` if the piece begins a new call. It
    /// does so
    ///
    /// - with a new id at a known index;
    /// - without an id, with a name and more arguments (`more`) after a call that
    ///   is complete;
    /// - without id and index, with a name.
    fn find_slot(&self, index: Option<u64>, id: &str, name: &str, more: bool) -> Option<usize> {
        // An id may arrive late, but not together with a second name.
        let late =
            |call: &StreamedCall| call.id.is_empty() && (name.is_empty() || call.name.is_empty());
        let another = |call: &StreamedCall| more && !name.is_empty() && call.is_complete();
        let same = |call: &StreamedCall| match id {
            "" => !another(call),
            id => call.id == id || late(call),
        };
        let last = self.list.len().checked_sub(1);
        match index {
            Some(_) => self
                .list
                .iter()
                .rposition(|call| call.index == index)
                .filter(|slot| self.list.get(*slot).is_some_and(same)),
            None if id.is_empty() && name.is_empty() => last,
            // The name may be repeated while the arguments continue.
            None if id.is_empty() => last.filter(|slot| {
                self.list.get(*slot).is_some_and(|call| {
                    call.name == name && !is_blank(&call.arguments) && !call.is_complete()
                })
            }),
            None => self.list.iter().rposition(|call| call.id == id),
        }
    }
}

impl StreamedCall {
    /// Emits the start of the call, and what arrived before its name.
    fn emit_start<'a>(&mut self, slot: u32, name: Cow<'a, str>, emit: &mut impl FnMut(Event<'a>)) {
        self.name = name.clone().into_owned();
        if let ExtraContent::Pending(extra) = std::mem::replace(&mut self.extra, ExtraContent::None)
        {
            self.extra = ExtraContent::Emitted;
            emit(Event::ReasoningState(ReasoningState {
                slot: Some(slot),
                form: ReasoningStateForm::ExtraContent,
                blob: extra.into(),
            }));
        }
        emit(Event::CallStart {
            slot,
            id: Cow::Owned(self.id.clone()),
            name,
        });
        if !self.arguments.is_empty() {
            let early = Fragment::from_escaped(self.arguments.clone());
            emit(Event::CallArguments(slot, early));
        }
    }

    fn extra<'a>(&mut self, raw: &'a RawValue, emit: &mut impl FnMut(Event<'a>)) {
        if matches!(raw.get(), "{}" | "[]" | "\"\"") || self.extra == ExtraContent::Emitted {
            return;
        }
        if self.name.is_empty() {
            self.extra = ExtraContent::Pending(raw.get().to_owned());
        } else {
            self.extra = ExtraContent::Emitted;
            let detail = format!("{}: it came after the call had begun", self.name);
            emit(Event::Note("call_extra_dropped", detail));
        }
    }

    fn is_complete(&self) -> bool {
        // Most pieces do not end like an object, so the arguments are parsed only
        // rarely.
        let end = self.arguments.trim_end_matches([' ', '\\', 'n', 'r', 't']);
        if !end.ends_with('}') {
            return false;
        }
        serde_json::from_str::<IgnoredAny>(&json::unescape(&self.arguments)).is_ok()
    }
}

/// Arguments as the inside of a JSON string. A server may send an object instead of
/// a string; null means no arguments.
pub(super) fn arguments_text(raw: &RawValue) -> Fragment<'_> {
    Fragment::from_raw(raw).unwrap_or_else(|| {
        let mut text = Vec::new();
        if raw.get() != "null" {
            json::escape_json_text(&mut text, raw.get());
        }
        Fragment::from_escaped(String::from_utf8(text).unwrap_or_default())
    })
}

fn is_blank(escaped: &str) -> bool {
    Fragment::from_escaped(escaped).is_blank()
}

fn slot_number(slot: usize) -> u32 {
    u32::try_from(slot).unwrap_or(u32::MAX)
}
