//! The calls of an answer: which piece belongs to which, whatever the server
//! leaves out.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::chunk::{CallDelta, word};
use crate::event::{Event, Fragment};
use crate::fault::{Fault, Kind};
use crate::json;

/// The most bytes of arguments that wait for the name of their call.
const EARLY_LIMIT: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Calls {
    /// The slot of a call is its position.
    list: Vec<Call>,
    /// Whether `extra_content` is told.
    keep_extra: bool,
}

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    /// Empty until it was told.
    name: String,
    /// All arguments so far, escaped.
    arguments: String,
    extra: Extra,
}

/// The `extra_content` of a call.
#[derive(Debug, Default, PartialEq)]
enum Extra {
    #[default]
    None,
    /// It waits for the name.
    Early(String),
    Told,
}

impl Calls {
    /// The calls of an answer that has not begun.
    pub(super) fn new(keep_extra: bool) -> Self {
        Self {
            list: Vec::new(),
            keep_extra,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes a piece of a call, or a call of a whole answer, which has no pieces.
    pub(super) fn take<'a>(
        &mut self,
        delta: CallDelta<'a>,
        is_whole: bool,
        emit: &mut impl FnMut(Event<'a>),
    ) -> Result<(), Fault> {
        let id = word(delta.id);
        let index = word(delta.index).parse().ok();
        let function = delta.function.unwrap_or_default();
        let name = word(function.name);
        let arguments = function.arguments.map(arguments_text);
        let more = arguments
            .as_ref()
            .is_some_and(|arguments| !arguments.is_blank());
        let known = self.slot(index, &id, &name, more).filter(|_| !is_whole);
        let slot = known.unwrap_or_else(|| {
            self.list.push(Call {
                index,
                ..Call::default()
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
        if let Some(extra) = delta.extra_content.filter(|_| self.keep_extra) {
            call.extra(extra, emit);
        }
        if call.name.is_empty() && !name.is_empty() {
            call.start(slot, name, emit);
        }
        let Some(fragment) = arguments else {
            return Ok(());
        };
        call.arguments.push_str(fragment.escaped());
        if call.name.is_empty() {
            if call.arguments.len() > EARLY_LIMIT {
                let message = "The provider sent a tool call without a name.";
                return Err(Fault::new(Kind::BadReply, message));
            }
        } else if !fragment.is_empty() {
            emit(Event::CallArguments(slot, fragment));
        }
        Ok(())
    }

    /// Takes a call that came whole, without an id: out of a text.
    pub(super) fn whole<'a>(
        &mut self,
        name: String,
        arguments: String,
        emit: &mut impl FnMut(Event<'a>),
    ) {
        let slot = slot_number(self.list.len());
        let mut call = Call {
            arguments,
            ..Call::default()
        };
        call.start(slot, name.into(), emit);
        self.list.push(call);
    }

    /// The answer is over: tells what was never named.
    pub(super) fn end<'a>(&self, emit: &mut impl FnMut(Event<'a>)) {
        for call in self.list.iter().filter(|call| call.name.is_empty()) {
            let detail = format!("{} bytes of arguments", call.arguments.len());
            emit(Event::Note("call_without_name", detail));
        }
    }

    /// Whether the arguments of all calls are nothing or one JSON object.
    pub(super) fn are_whole(&self) -> bool {
        self.list
            .iter()
            .all(|call| blank(&call.arguments) || call.is_whole())
    }

    /// The call that a piece belongs to; `None` when it begins a new one: with
    /// a new id on a known index, or, without an id, with a name and `more`
    /// arguments behind a call that is whole, or, without id and index, with a
    /// name.
    fn slot(&self, index: Option<u64>, id: &str, name: &str, more: bool) -> Option<usize> {
        // An id may come late, but not together with a second name.
        let late = |call: &Call| call.id.is_empty() && (name.is_empty() || call.name.is_empty());
        let another = |call: &Call| more && !name.is_empty() && call.is_whole();
        let same = |call: &Call| match id {
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
            // The name may be repeated while the arguments go on.
            None if id.is_empty() => last.filter(|slot| {
                self.list.get(*slot).is_some_and(|call| {
                    call.name == name && !blank(&call.arguments) && !call.is_whole()
                })
            }),
            None => self.list.iter().rposition(|call| call.id == id),
        }
    }
}

impl Call {
    /// Tells the call, and what came before its name.
    fn start<'a>(&mut self, slot: u32, name: Cow<'a, str>, emit: &mut impl FnMut(Event<'a>)) {
        self.name = name.clone().into_owned();
        if let Extra::Early(extra) = std::mem::replace(&mut self.extra, Extra::None) {
            self.extra = Extra::Told;
            emit(Event::CallExtraContent(extra.into()));
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
        if matches!(raw.get(), "{}" | "[]" | "\"\"") || self.extra == Extra::Told {
            return;
        }
        if self.name.is_empty() {
            self.extra = Extra::Early(raw.get().to_owned());
        } else {
            self.extra = Extra::Told;
            let detail = format!("{}: it came after the call had begun", self.name);
            emit(Event::Note("call_extra_dropped", detail));
        }
    }

    fn is_whole(&self) -> bool {
        // Most pieces end elsewhere, and the whole is read for few.
        let end = self.arguments.trim_end_matches([' ', '\\', 'n', 'r', 't']);
        if !end.ends_with('}') {
            return false;
        }
        serde_json::from_str::<IgnoredAny>(&json::unescape(&self.arguments)).is_ok()
    }
}

/// Arguments as the inside of a JSON string. They may be an object instead of
/// a string; null says nothing.
pub(super) fn arguments_text(raw: &RawValue) -> Fragment<'_> {
    Fragment::from_raw(raw).unwrap_or_else(|| {
        let mut text = Vec::new();
        if raw.get() != "null" {
            json::escape_json_text(&mut text, raw.get());
        }
        Fragment::from_escaped(String::from_utf8(text).unwrap_or_default())
    })
}

fn blank(escaped: &str) -> bool {
    Fragment::from_escaped(escaped).is_blank()
}

fn slot_number(slot: usize) -> u32 {
    u32::try_from(slot).unwrap_or(u32::MAX)
}
