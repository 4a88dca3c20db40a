//! The calls of an answer that are not closed yet, in the order in which they began. Only the
//! first one is written to the client; the others collect their arguments.

use std::collections::VecDeque;

use super::super::event_buffer::EventBuffer;
use super::call::CallItem;
use super::writer::ItemWriter;
use crate::event::Fragment;
use crate::notes::Notes;

#[derive(Debug, Default)]
pub(super) struct CallQueue {
    queue: VecDeque<CallItem>,
}

impl CallQueue {
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
            if position == 0 {
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
        while self.queue.len() > keep && self.queue.front().is_some_and(CallItem::is_complete) {
            if let Some(call) = self.queue.pop_front() {
                call.close("completed", writer, notes, events);
            }
        }
        if let Some(front) = self.queue.front_mut() {
            front.advance(writer, events);
        }
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
            if complete || call.is_complete() {
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
