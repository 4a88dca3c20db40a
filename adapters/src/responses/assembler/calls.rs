//! The calls of an answer that are not closed yet, in the order in which they
//! began. Only the first is open to the client; the others gather arguments.

use std::collections::VecDeque;

use super::super::frames::Frames;
use super::call::Call;
use super::writer::Writer;
use crate::event::Fragment;
use crate::notes::Notes;

#[derive(Debug, Default)]
pub(super) struct Calls {
    queue: VecDeque<Call>,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds a call.
    pub(super) fn start(&mut self, call: Call) {
        self.queue.push_back(call);
    }

    /// Adds arguments; false when the call is closed already.
    pub(super) fn arguments(
        &mut self,
        slot: u32,
        fragment: &Fragment<'_>,
        writer: &mut Writer,
        frames: &mut Frames,
    ) -> bool {
        let Some(position) = self.queue.iter().position(|call| call.slot == slot) else {
            return false;
        };
        if let Some(call) = self.queue.get_mut(position) {
            call.push(fragment);
            if position == 0 {
                call.advance(writer, frames);
            }
        }
        true
    }

    /// Closes calls from the front as long as their arguments are whole: all
    /// of them, or (`all` is false) all but the last, which may go on.
    pub(super) fn settle(
        &mut self,
        writer: &mut Writer,
        notes: &mut Notes,
        frames: &mut Frames,
        all: bool,
    ) {
        let keep = usize::from(!all);
        while self.queue.len() > keep && self.queue.front().is_some_and(Call::is_whole) {
            if let Some(call) = self.queue.pop_front() {
                call.close("completed", writer, notes, frames);
            }
        }
        if let Some(front) = self.queue.front_mut() {
            front.advance(writer, frames);
        }
    }

    /// Closes all calls: the answer is over. When it was cut (`whole` is
    /// false), a call without its last arguments is incomplete.
    pub(super) fn finish(
        &mut self,
        whole: bool,
        writer: &mut Writer,
        notes: &mut Notes,
        frames: &mut Frames,
    ) {
        for call in self.queue.drain(..) {
            if whole || call.is_whole() {
                call.close("completed", writer, notes, frames);
            } else {
                call.give_up(writer, notes, frames);
            }
        }
    }

    /// Closes what is open: the answer broke off, so that no call is known to
    /// be whole. Calls that the client has not seen stay unseen.
    pub(super) fn fail(&mut self, writer: &mut Writer, notes: &mut Notes, frames: &mut Frames) {
        for call in self.queue.drain(..) {
            if call.is_open() {
                call.give_up(writer, notes, frames);
            }
        }
    }
}
