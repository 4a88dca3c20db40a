//! The tool calls of an answer. Assigns each piece to its call, even if the server
//! leaves out ids, indices or names.
//!
//! A name may arrive in pieces, and some servers repeat it whole in each chunk. A piece that equals
//! the name so far is taken for a repetition, and any other one continues the name. Nobody says
//! where it ends, so the start of a call is held until something else follows: its first argument,
//! another call, text, or the end of the answer.

use std::borrow::Cow;
use std::collections::HashMap;

use registry::{ChatQuirks, ExtraContentReplay, ProviderSearch};
use serde_json::value::RawValue;

use super::chunk::{CallDelta, MAX_CALLS, scalar};
use crate::arguments::ArgumentsScan;
use crate::chat::{provider_search, reasoning_state};
use crate::event::{Event, Fragment, ReasoningState};
use crate::fault::{Fault, Kind};
use crate::json;
use crate::tools::ProxyTool;

/// The most bytes of arguments that are held for a call without a name.
const MAX_NAMELESS_ARGUMENTS: usize = 1 << 20;
/// A name of so many bytes is not continued.
const LONG_NAME: usize = 1 << 10;

#[derive(Debug, Default)]
pub(super) struct StreamedCalls {
    /// The position of a call is its slot in [`Event::CallStart`].
    list: Vec<StreamedCall>,
    /// The last call with each index.
    by_index: HashMap<u64, usize>,
    /// The last call with each id.
    by_id: HashMap<String, usize>,
    /// The call that has a name, and whose start is held.
    held: Option<usize>,
    emit_extra: bool,
    /// Whether the provider's search is a call.
    has_echoed_search: bool,
}

#[derive(Debug, Default)]
struct StreamedCall {
    index: Option<u64>,
    id: String,
    /// Empty until it arrives.
    name: String,
    /// [`Event::CallStart`] was emitted.
    is_started: bool,
    /// All arguments so far, escaped.
    arguments: String,
    scan: ArgumentsScan,
    extra: ExtraContent,
}

#[derive(Debug, Default, PartialEq)]
enum ExtraContent {
    #[default]
    None,
    /// Held until the call starts.
    Pending(String),
    Emitted,
}

impl StreamedCalls {
    /// The calls of an answer that has not begun.
    pub(super) fn new(quirks: &ChatQuirks) -> Self {
        Self {
            emit_extra: quirks.call_extra != ExtraContentReplay::None,
            has_echoed_search: quirks.web_search == ProviderSearch::EchoedCall,
            ..Self::default()
        }
    }

    /// Frees the arguments of the calls, which have ended: they may be large, and nothing here
    /// reads them any more.
    pub(super) fn forget_arguments(&mut self) {
        for call in &mut self.list {
            call.arguments = String::new();
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
        let slot = match known {
            Some(slot) => slot,
            None => self.add(StreamedCall {
                index,
                ..StreamedCall::default()
            })?,
        };
        if self.held != Some(slot) {
            self.start_held(emit);
        }
        let Some(call) = self.list.get_mut(slot) else {
            return Ok(());
        };
        if call.id.is_empty() && !id.is_empty() {
            call.id = id.into_owned();
            let last = self.by_id.entry(call.id.clone()).or_default();
            *last = slot.max(*last);
        }
        if let Some(extra) = delta.extra_content.filter(|_| self.emit_extra) {
            call.extra(extra, emit);
        }
        call.add_name(&name);
        let name_is_whole = is_whole || more || call.name.len() >= LONG_NAME;
        if !call.is_started && !call.name.is_empty() {
            self.held = Some(slot);
            if name_is_whole {
                self.start_held(emit);
            }
        }
        let (Some(fragment), Some(call)) = (arguments, self.list.get_mut(slot)) else {
            return Ok(());
        };
        call.arguments.push_str(fragment.escaped());
        if call.name.is_empty() {
            if call.arguments.len() > MAX_NAMELESS_ARGUMENTS {
                return Err(Fault::nameless_call());
            }
        } else if call.is_started && !fragment.is_empty() {
            emit(Event::CallArguments(slot_number(slot), fragment));
        }
        Ok(())
    }

    /// Starts the call whose name may have gone on: what follows is something else.
    pub(super) fn start_held<'a>(&mut self, emit: &mut impl FnMut(Event<'a>)) {
        let Some(slot) = self.held.take() else {
            return;
        };
        if let Some(call) = self.list.get_mut(slot) {
            let is_echoed = self.has_echoed_search && call.name == provider_search::ECHOED;
            let name = if is_echoed {
                ProxyTool::ECHOED_SEARCH.into()
            } else {
                call.name.clone().into()
            };
            call.emit_start(slot_number(slot), name, emit);
        }
    }

    /// Adds a complete call without an id, which was found in the text.
    pub(super) fn push_complete<'a>(
        &mut self,
        name: String,
        arguments: String,
        emit: &mut impl FnMut(Event<'a>),
    ) -> Result<(), Fault> {
        self.start_held(emit);
        let slot = self.add(StreamedCall {
            arguments,
            name: name.clone(),
            ..StreamedCall::default()
        })?;
        if let Some(call) = self.list.get_mut(slot) {
            call.emit_start(slot_number(slot), name.into(), emit);
        }
        Ok(())
    }

    /// Adds a call and returns its place. Fails if there are too many.
    fn add(&mut self, call: StreamedCall) -> Result<usize, Fault> {
        let slot = self.list.len();
        if slot >= MAX_CALLS {
            let predicate = format!("has more than {MAX_CALLS} tool calls.");
            return Err(Fault::of_answer(Kind::BadReply, predicate));
        }
        if let Some(index) = call.index {
            self.by_index.insert(index, slot);
        }
        self.list.push(call);
        Ok(slot)
    }

    /// Ends the answer and notes the calls that never got a name. Returns whether one of them is
    /// lost: some servers send an empty one beside others, which is not.
    pub(super) fn finish<'a>(&self, emit: &mut impl FnMut(Event<'a>)) -> bool {
        let is_only = self.list.iter().all(|call| call.name.is_empty());
        let mut is_lost = false;
        for call in self.list.iter().filter(|call| call.name.is_empty()) {
            let detail = format!("{} bytes of arguments", call.arguments.len());
            emit(Event::Note("call_without_name", detail));
            is_lost |= is_only || !matches!(call.arguments.trim(), "" | "{}");
        }
        is_lost
    }

    /// Whether each call has either no arguments or one complete JSON value.
    pub(super) fn are_complete(&mut self) -> bool {
        self.list
            .iter_mut()
            .all(|call| call.is_blank() || call.is_complete())
    }

    /// The call that a piece belongs to; `None` if the piece begins a new call. It
    /// does so
    ///
    /// - with a new id at a known index;
    /// - without an id, with a name and more arguments (`more`) after a call that
    ///   is complete;
    /// - without id and index, with a name.
    fn find_slot(&mut self, index: Option<u64>, id: &str, name: &str, more: bool) -> Option<usize> {
        let last = self.list.len().checked_sub(1)?;
        match index {
            Some(index) => {
                let slot = match self.list.get(last) {
                    Some(call) if call.index == Some(index) => last,
                    _ => *self.by_index.get(&index)?,
                };
                let call = self.list.get_mut(slot)?;
                let is_same = if id.is_empty() {
                    !(more && !name.is_empty() && call.is_complete())
                } else {
                    // An id may arrive late, but not together with a second name.
                    let is_late = call.id.is_empty() && (name.is_empty() || call.name.is_empty());
                    call.id == id || is_late
                };
                is_same.then_some(slot)
            }
            None if id.is_empty() && name.is_empty() => Some(last),
            // The name may be repeated while the arguments continue.
            None if id.is_empty() => {
                let call = self.list.get_mut(last)?;
                let goes_on = call.name == name && !call.is_blank() && !call.is_complete();
                goes_on.then_some(last)
            }
            None => self.by_id.get(id).copied(),
        }
    }
}

impl StreamedCall {
    /// Adds a piece to the name of a call that has not started.
    fn add_name(&mut self, piece: &str) {
        if !self.is_started && !piece.trim().is_empty() && self.name != piece {
            self.name.push_str(piece);
        }
    }

    /// Emits the start of the call, and what arrived before it.
    fn emit_start<'a>(&mut self, slot: u32, name: Cow<'a, str>, emit: &mut impl FnMut(Event<'a>)) {
        self.is_started = true;
        if let ExtraContent::Pending(extra) = std::mem::replace(&mut self.extra, ExtraContent::None)
        {
            self.extra = ExtraContent::Emitted;
            emit(Event::ReasoningState(ReasoningState {
                slot: Some(slot),
                form: reasoning_state::EXTRA_CONTENT,
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
        if self.is_started {
            self.extra = ExtraContent::Emitted;
            let detail = format!("{}: it came after the call had begun", self.name);
            emit(Event::Note("call_extra_dropped", detail));
        } else {
            self.extra = ExtraContent::Pending(raw.get().to_owned());
        }
    }

    /// Whether the arguments are one complete object.
    fn is_complete(&mut self) -> bool {
        self.scan.is_whole(&self.arguments) && self.scan.is_object()
    }

    fn is_blank(&mut self) -> bool {
        self.scan.is_blank(&self.arguments)
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

fn slot_number(slot: usize) -> u32 {
    u32::try_from(slot).unwrap_or(u32::MAX)
}
