//! The calls of a round that are not closed yet, in the order in which they began. Only the first
//! one is written to the client; the others collect their arguments.
//!
//! Calls that run here are taken aside when they are complete. From then on the client's calls
//! wait until [`CallQueue::release`]: Codex runs a call as soon as it sees its end, and after that
//! the answer must not fail any more.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use super::super::event_buffer::EventBuffer;
use super::Assembler;
use super::call::{CallHolding, CallItem, WithheldCall};
use super::writer::ItemOutput;
use crate::baggage::Baggage;
use crate::event::Fragment;
use crate::tools::{ToolKind, ToolTarget};

#[derive(Debug, Default)]
pub(super) struct CallQueue {
    queue: VecDeque<CallItem>,
    /// How many calls left the front of the queue.
    left: usize,
    /// How many calls had entered the queue before the call of each slot.
    entered: HashMap<u32, usize>,
    /// How many calls of the queue run here.
    running_here: usize,
    /// The complete calls of this round that run here.
    withheld: Vec<PlacedCall>,
}

/// The name of the tool of a call that can never be completed, and what its arguments are.
pub(super) type CallDefect = (String, &'static str);

/// A withheld call and its place among the items that the client sees.
#[derive(Debug)]
pub(super) struct PlacedCall {
    pub(super) call: WithheldCall,
    slot: u32,
    pub(super) place: WithheldPlace,
}

/// The place of a withheld call among the items that the client sees.
#[derive(Clone, Copy, Debug)]
pub(super) struct WithheldPlace {
    /// How many items of the answer were finished before it.
    pub(super) finished_before: usize,
    /// How many items that are still held back come before it.
    pub(super) held_before: usize,
}

impl CallQueue {
    /// The complete calls of this round that run here.
    pub(super) fn withheld(&self) -> &[PlacedCall] {
        &self.withheld
    }

    /// Whether the round has calls that run here, complete or not.
    pub(super) fn has_withheld(&self) -> bool {
        !self.withheld.is_empty() || self.running_here > 0
    }

    pub(super) fn clear_withheld(&mut self) {
        self.withheld.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn push_back(&mut self, call: CallItem) {
        self.entered.insert(call.slot, self.left + self.queue.len());
        self.running_here += usize::from(call.is_withheld());
        self.queue.push_back(call);
    }

    fn pop_front(&mut self) -> Option<CallItem> {
        let call = self.queue.pop_front()?;
        self.left += 1;
        self.entered.remove(&call.slot);
        self.running_here -= usize::from(call.is_withheld());
        Some(call)
    }

    /// Empties the queue.
    fn take(&mut self) -> VecDeque<CallItem> {
        self.entered.clear();
        self.running_here = 0;
        std::mem::take(&mut self.queue)
    }

    /// The place of a call in the queue.
    fn place_of(&self, slot: u32) -> Option<usize> {
        if self.queue.front().is_some_and(|call| call.slot == slot) {
            return Some(0);
        }
        self.entered.get(&slot)?.checked_sub(self.left)
    }

    /// Replaces the arguments of the call in `slot`, see [`CallItem::replace_arguments`].
    pub(super) fn replace_arguments(&mut self, slot: u32, whole: String) {
        let place = self.place_of(slot);
        if let Some(call) = place.and_then(|place| self.queue.get_mut(place)) {
            call.replace_arguments(whole);
        }
    }

    /// Adds arguments to the call in `slot`; false if that call is closed already.
    pub(super) fn push_arguments(
        &mut self,
        slot: u32,
        fragment: &Fragment<'_>,
        out: &mut ItemOutput<'_>,
    ) -> bool {
        let Some(position) = self.place_of(slot) else {
            return false;
        };
        if let Some(call) = self.queue.get_mut(position) {
            call.push(fragment);
            if position == 0 && self.withheld.is_empty() {
                call.advance(out);
            }
        }
        true
    }

    /// Closes calls from the front as long as their arguments are complete. The last call
    /// of the queue may still receive arguments and is closed only if `all` is true.
    pub(super) fn close_complete(&mut self, all: bool, out: &mut ItemOutput<'_>) {
        let keep = usize::from(!all);
        while self.queue.len() > keep
            && self.queue.front_mut().is_some_and(|call| {
                (call.is_withheld() || self.withheld.is_empty()) && call.is_complete()
            })
        {
            if let Some(call) = self.pop_front() {
                if call.is_withheld() {
                    self.withhold(call, out.item_count(), 0, out);
                } else {
                    call.close("completed", out);
                }
            }
        }
        if let Some(front) = self.queue.front_mut()
            && self.withheld.is_empty()
        {
            front.advance(out);
        }
    }

    fn withhold(
        &mut self,
        call: CallItem,
        finished_before: usize,
        held_before: usize,
        out: &mut ItemOutput<'_>,
    ) {
        self.withheld.push(PlacedCall {
            slot: call.slot,
            call: call.into_withheld(out),
            place: WithheldPlace {
                finished_before,
                held_before,
            },
        });
    }

    /// Moves the withheld calls in these slots to their places among native items, which wait in
    /// a queue of their own.
    pub(super) fn place(&mut self, places: &HashMap<u32, WithheldPlace>) {
        for placed in &mut self.withheld {
            if let Some(place) = places.get(&placed.slot) {
                placed.place = *place;
            }
        }
    }

    /// The first call that can never be completed, and why.
    pub(super) fn defect(&mut self) -> Option<CallDefect> {
        let mut calls = self.queue.iter_mut();
        calls.find_map(|call| {
            let what = call.defect()?;
            Some((call.name().to_owned(), what))
        })
    }

    /// Takes aside the calls that run here, at the end of a complete round. The client's calls
    /// behind the first of them stay in the queue.
    pub(super) fn withhold_rest(&mut self, out: &mut ItemOutput<'_>) {
        for call in self.take() {
            if call.is_withheld() {
                self.withhold(call, out.item_count(), self.queue.len(), out);
            } else if self.withheld.is_empty() {
                call.close("completed", out);
            } else {
                self.push_back(call);
            }
        }
    }

    /// Closes the client's calls that were held back. Returns the items that each became: the
    /// call, and the reasoning state before it.
    pub(super) fn release(&mut self, out: &mut ItemOutput<'_>) -> Vec<Range<usize>> {
        let mut released = Vec::new();
        for call in self.take() {
            let start = out.item_count();
            call.close("completed", out);
            released.push(start..out.item_count());
        }
        released
    }

    /// Closes all calls at the end of the answer. If the answer was cut off (`complete` is
    /// false), calls with incomplete arguments are marked as incomplete.
    pub(super) fn finish(&mut self, complete: bool, out: &mut ItemOutput<'_>) {
        for mut call in self.take() {
            if call.is_withheld() {
                // The answer ends here, so the result would not be read.
                out.note("call_not_run", "the answer was cut off");
            } else if complete || call.is_complete() {
                call.close("completed", out);
            } else {
                call.close_incomplete(out);
            }
        }
    }

    /// Ends all calls because the answer broke off, so that none is known to be complete.
    /// Calls that the client has not seen are dropped.
    pub(super) fn fail(&mut self, out: &mut ItemOutput<'_>) {
        for call in self.take() {
            if call.is_started() {
                call.close_incomplete(out);
            }
        }
    }
}

impl Assembler {
    pub(super) fn start_call(&mut self, slot: u32, id: &str, name: &str, events: &mut EventBuffer) {
        self.leading_blanks.clear();
        if self.calls.is_empty() {
            self.close_text("completed", true, events);
        }
        self.count_bytes(id.len() + name.len());
        let resolved = self.settings.tool_names.resolve(name);
        if resolved.name_repaired {
            self.note_repaired_name(name, &resolved.target);
        }
        let call_id = self.unique_call_id(id, name, slot);
        let of_call = self.call_states.take_if(|(of, _)| *of == slot);
        let baggage = of_call.map(|(_, states)| Baggage {
            origin: self.settings.params.origin.clone(),
            states,
            ..Baggage::default()
        });
        let holding = self.call_holding();
        let is_withheld = self.runs_here(&resolved.target);
        self.round.has_client_calls |= !is_withheld;
        let call = CallItem::new(slot, call_id, resolved.target, holding, baggage);
        self.calls
            .push_back(if is_withheld { call.withheld() } else { call });
        self.calls
            .close_complete(false, &mut self.writer.to(events));
    }

    pub(super) fn runs_here(&self, target: &ToolTarget) -> bool {
        let settings = &self.settings;
        let name = &target.name;
        let is_of_server = || {
            let mut prefixes = settings.withheld_prefixes.iter();
            prefixes.any(|prefix| name.starts_with(prefix))
                && !settings.tool_names.has_function(name)
        };
        target.kind == ToolKind::Function
            && target.namespace.is_none()
            && (settings.withholds_functions
                || settings.withheld_tools.contains(name)
                || is_of_server())
    }

    /// Notes that the model called this tool by another name.
    pub(super) fn note_repaired_name(&mut self, name: &str, target: &ToolTarget) {
        let detail = format!("{name} to {}", target.name);
        self.writer.notes.add("tool_name_repaired", detail);
    }

    pub(super) fn call_holding(&self) -> CallHolding {
        let is_codex = self.settings.caller_is_codex;
        CallHolding {
            held_back: is_codex || self.holds.all,
            needs_whole: is_codex,
        }
    }

    /// The upstream's call id if it is valid and not in use, else one derived from the
    /// call, so that a replay of the answer produces the same id.
    pub(super) fn unique_call_id(&mut self, id: &str, name: &str, slot: u32) -> String {
        if (1..=64).contains(&id.len()) && self.settings.known_call_ids.insert(id.to_owned()) {
            self.round.call_ids.push(id.to_owned());
            return id.to_owned();
        }
        self.writer.notes.add(
            "call_id_minted",
            format!(
                "{name}: the provider's id was {}",
                if id.is_empty() { "empty" } else { "not usable" }
            ),
        );
        let mut count = self.settings.known_call_ids.len();
        loop {
            let seed = format!("{id}\0{name}\0{slot}\0{count}");
            let minted = format!("call_{:08x}{:08x}", crc32fast::hash(seed.as_bytes()), count);
            if self.settings.known_call_ids.insert(minted.clone()) {
                self.round.call_ids.push(minted.clone());
                return minted;
            }
            count += 1;
        }
    }
}
