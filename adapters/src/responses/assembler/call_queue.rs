//! The calls of an answer that are not closed yet, in the order in which they
//! began. Only the first is open to the client; the others gather arguments.

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

    /// Adds a call.
    pub(super) fn push_back(&mut self, call: CallItem) {
        self.queue.push_back(call);
    }

    /// Adds arguments; false when the call is closed already.
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

    /// Closes calls from the front as long as their arguments are whole: all
    /// of them, or (`all` is false) all but the last, which may go on.
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

    /// Closes all calls: the answer is over. When it was cut (`whole` is
    /// false), a call without its last arguments is incomplete.
    pub(super) fn finish(
        &mut self,
        whole: bool,
        writer: &mut ItemWriter,
        notes: &mut Notes,
        events: &mut EventBuffer,
    ) {
        for call in self.queue.drain(..) {
            if whole || call.is_complete() {
                call.close("completed", writer, notes, events);
            } else {
                call.close_incomplete(writer, notes, events);
            }
        }
    }

    /// Closes what is open: the answer broke off, so that no call is known to
    /// be whole. Calls that the client has not seen stay unseen.
    pub(super) fn fail(
        &mut self,
        writer: &mut ItemWriter,
        notes: &mut Notes,
        events: &mut EventBuffer,
    ) {
        for call in self.queue.drain(..) {
            if call.is_open() {
                call.close_incomplete(writer, notes, events);
            }
        }
    }
}
