//! The calls of a round that are not closed yet, in the order in which they began. Only the first
//! one is written to the client; the others collect their arguments.
//!
//! Calls that run here are taken aside when they are complete. From then on the client's calls
//! wait until [`CallQueue::release`]: Codex runs a call as soon as it sees its end, and after that
//! the answer must not fail any more.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use super::super::event_buffer::EventBuffer;
use super::call::{CallItem, WithheldCall};
use super::writer::ItemWriter;
use crate::event::Fragment;
use crate::notes::Notes;

#[derive(Debug, Default)]
pub(super) struct CallQueue {
    queue: VecDeque<CallItem>,
    /// The complete calls of this round that run here.
    withheld: Vec<PlacedCall>,
}

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
        !self.withheld.is_empty() || self.queue.iter().any(CallItem::is_withheld)
    }

    pub(super) fn clear_withheld(&mut self) {
        self.withheld.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn push_back(&mut self, call: CallItem) {
        self.queue.push_back(call);
    }

    /// Adds arguments to the call in `slot`; false if that call is closed already.
    pub(super) fn push_arguments(
        &mut self,
        slot: u32,
        fragment: &Fragment<'_>,
        writer: &mut ItemWriter,
        events: &mut EventBuffer,
    ) -> bool {
        let Some(position) = self.queue.iter().position(|call| call.slot == slot) else {
            return false;
        };
        if let Some(call) = self.queue.get_mut(position) {
            call.push(fragment);
            if position == 0 && self.withheld.is_empty() {
                call.advance(writer, events);
            }
        }
        true
    }

    /// Closes calls from the front as long as their arguments are complete. The last call
    /// of the queue may still receive arguments and is closed only if `all` is true.
    pub(super) fn close_complete(
        &mut self,
        writer: &mut ItemWriter,
        notes: &mut Notes,
        events: &mut EventBuffer,
        all: bool,
    ) {
        let keep = usize::from(!all);
        while self.queue.len() > keep
            && self.queue.front().is_some_and(|call| {
                (call.is_withheld() || self.withheld.is_empty()) && call.is_complete()
            })
        {
            if let Some(call) = self.queue.pop_front() {
                if call.is_withheld() {
                    self.withhold(call, writer.item_count(), 0);
                } else {
                    call.close("completed", writer, notes, events);
                }
            }
        }
        if let Some(front) = self.queue.front_mut()
            && self.withheld.is_empty()
        {
            front.advance(writer, events);
        }
    }

    fn withhold(&mut self, call: CallItem, finished_before: usize, held_before: usize) {
        self.withheld.push(PlacedCall {
            slot: call.slot,
            call: call.into_withheld(),
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

    /// Takes aside the calls that run here, at the end of a complete round. The client's calls
    /// behind the first of them stay in the queue.
    pub(super) fn withhold_rest(
        &mut self,
        writer: &mut ItemWriter,
        notes: &mut Notes,
        events: &mut EventBuffer,
    ) {
        let mut held = VecDeque::new();
        for call in std::mem::take(&mut self.queue) {
            if call.is_withheld() {
                self.withhold(call, writer.item_count(), held.len());
            } else if self.withheld.is_empty() {
                call.close("completed", writer, notes, events);
            } else {
                held.push_back(call);
            }
        }
        self.queue = held;
    }

    /// Closes the client's calls that were held back. Returns the items that each became: the
    /// call, and the reasoning state before it.
    pub(super) fn release(
        &mut self,
        writer: &mut ItemWriter,
        notes: &mut Notes,
        events: &mut EventBuffer,
    ) -> Vec<Range<usize>> {
        let mut released = Vec::new();
        for call in self.queue.drain(..) {
            let start = writer.item_count();
            call.close("completed", writer, notes, events);
            released.push(start..writer.item_count());
        }
        released
    }

    /// Closes all calls at the end of the answer. If the answer was cut off (`complete` is
    /// false), calls with incomplete arguments are marked as incomplete.
    pub(super) fn finish(
        &mut self,
        complete: bool,
        writer: &mut ItemWriter,
        notes: &mut Notes,
        events: &mut EventBuffer,
    ) {
        for call in self.queue.drain(..) {
            if call.is_withheld() {
                // The answer ends here, so nobody would read the result.
                notes.add("call_not_run", "the answer was cut off");
            } else if complete || call.is_complete() {
                call.close("completed", writer, notes, events);
            } else {
                call.close_incomplete(writer, notes, events);
            }
        }
    }

    /// Ends all calls because the answer broke off, so that none is known to be complete.
    /// Calls that the client has not seen are dropped.
    pub(super) fn fail(
        &mut self,
        writer: &mut ItemWriter,
        notes: &mut Notes,
        events: &mut EventBuffer,
    ) {
        for call in self.queue.drain(..) {
            if call.is_started() {
                call.close_incomplete(writer, notes, events);
            }
        }
    }
}
