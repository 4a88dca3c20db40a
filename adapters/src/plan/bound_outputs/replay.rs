//! Replays the requests of a session in sizes: what each of them sent of the outputs that
//! it had.
//!
//! A request was made wherever an answer begins, and one is made at the end. What it sends
//! of the outputs since the last answer is decided there, from what precedes it, and
//! stays the same until an epoch. So the same history has the same bytes whatever follows
//! it. An epoch moves a cursor forward that never moves back: the whole replay is linear.

use super::bounded_output::{BoundedOutput, OutputForm};
use super::limits::{NOTICE_BYTES, OutputLimits};
use super::savings::{RequestSizes, Savings};
use super::tighten;
use crate::fair_share::fair_share;

/// The session so far.
#[derive(Debug)]
pub(super) struct Replay<'l> {
    limits: &'l OutputLimits,
    /// In the order of sending.
    pub(super) outputs: Vec<BoundedOutput>,
    /// Where the current round begins: the outputs since the last answer.
    round: usize,
    /// Outputs before the cursor are notices, or no longer than a notice.
    cursor: usize,
    /// Bytes of the outputs from the cursor on.
    visible: usize,
    /// Bytes of the outputs before the cursor.
    noticed: usize,
    /// Bytes of everything that is not an output.
    others: usize,
    /// How many of them precede each output.
    others_before: Vec<usize>,
    /// Bytes of all outputs, whole.
    whole: usize,
    /// Bytes of the request that was decided last.
    sent_before: usize,
    savings: Savings,
    /// The savings do not pay for an epoch while fewer outputs are visible.
    unpaid_below: usize,
    pub(super) epochs: u32,
}

impl<'l> Replay<'l> {
    /// A session that has `others` bytes before its first item.
    pub(super) fn new(limits: &'l OutputLimits, others: usize, savings: Savings) -> Self {
        Self {
            limits,
            outputs: Vec::new(),
            round: 0,
            cursor: 0,
            visible: 0,
            noticed: 0,
            others,
            others_before: Vec::new(),
            whole: 0,
            sent_before: 0,
            savings,
            unpaid_below: 0,
            epochs: 0,
        }
    }

    /// Decides later requests by these limits.
    pub(super) fn set_limits(&mut self, limits: &'l OutputLimits) {
        self.limits = limits;
    }

    /// Adds the bytes of something that is not an output.
    pub(super) fn add_other(&mut self, bytes: usize) {
        self.others += bytes;
    }

    /// Adds an output to the current round.
    pub(super) fn add_output(&mut self, output: BoundedOutput) {
        self.others_before.push(self.others);
        self.whole += output.whole_size();
        self.outputs.push(output);
    }

    /// Adds an answer of the model with `bytes` bytes, and decides the request that it answered.
    pub(super) fn add_answer(&mut self, bytes: usize) {
        self.decide_request();
        self.round = self.outputs.len();
        self.others += bytes;
    }

    /// Decides what the request that was made at this point sent.
    ///
    /// An epoch makes room where the outputs have outgrown their share. Where prices are known, it
    /// is made when repeating the older outputs has cost as much as it costs itself: the
    /// provider has to read again what follows. Where other input fills the window, the new outputs
    /// are shortened to excerpts instead, so that the client compacts next; epochs would only put
    /// that off, again and again.
    pub(super) fn decide_request(&mut self) {
        let new = self.outputs.get_mut(self.round..).unwrap_or_default();
        page_read_backs(new, self.limits);
        self.visible += total_size(new);
        let mut available = self.limits.available_beside(self.others);
        let room = self.limits.room_beside(self.others);
        let mut target = self.limits.after_epoch.min(available / 2);
        let mut reused = self.sent_before;
        let is_forced = self.counted() > room && !self.excerpts_fit(room);
        let is_wanted = if self.savings.are_known() {
            let noticed = self.counted() - self.visible;
            target = target.min(self.limits.recent.saturating_add(noticed));
            self.is_paid(target)
        } else {
            self.counted() > self.limits.all_outputs
        };
        if is_forced || is_wanted {
            reused = self.after_epoch(target).reused;
            self.epoch(target);
            self.savings.begin_again();
            self.unpaid_below = 0;
        } else {
            available = room;
        }
        let excess = self.counted().saturating_sub(available);
        if excess > 0 {
            let new = self.outputs.get_mut(self.round..).unwrap_or_default();
            let before = total_size(new);
            tighten::tighten(new, excess, self.limits);
            self.visible -= before - total_size(new).min(before);
        }
        let sizes = RequestSizes {
            reused,
            ..self.sizes()
        };
        self.savings.add(sizes);
        self.sent_before = sizes.sent;
    }

    /// Whether an epoch that leaves `target` bytes is worth it. To look at all outputs in
    /// every round would take a time that grows with their square, so after a refusal the outputs
    /// have to grow before they are looked at again.
    fn is_paid(&mut self, target: usize) -> bool {
        let recent = self.limits.recent;
        self.savings.repeat(self.visible.saturating_sub(recent));
        let least = recent.saturating_mul(2).max(self.unpaid_below);
        if self.visible < least || !self.savings.may_pay_for(recent) {
            return false;
        }
        let new = self.outputs.get(self.round..).map_or(0, total_size);
        let is_paid = self.savings.pay_for(self.after_epoch(target), new);
        if !is_paid {
            self.unpaid_below = self.visible + self.visible / 32;
        }
        is_paid
    }

    /// The sizes of the current request.
    fn sizes(&self) -> RequestSizes {
        RequestSizes {
            sent: self.others + self.visible + self.noticed,
            reused: self.sent_before,
            whole: self.others + self.whole,
        }
    }

    /// What the sizes of the current request would be after an epoch: the provider's cache knows it
    /// up to the first output that becomes a notice.
    fn after_epoch(&self, target: usize) -> RequestSizes {
        let mut sizes = self.sizes();
        let (mut counted, mut before) = (self.counted(), self.noticed);
        let mut first = None;
        let outputs = self.outputs.iter().zip(&self.others_before);
        for (output, others) in outputs.take(self.round).skip(self.cursor) {
            if counted <= target {
                break;
            }
            let size = output.size();
            let freed = size.saturating_sub(NOTICE_BYTES);
            if freed > 0 && first.is_none() {
                first = Some(others + before);
            }
            before += size - freed;
            sizes.sent -= freed;
            counted = counted.saturating_sub(freed);
        }
        sizes.reused = first.map_or(sizes.reused, |first| first.min(sizes.reused));
        sizes
    }

    /// Whether it would be enough to send all outputs of the round as excerpts.
    fn excerpts_fit(&self, available: usize) -> bool {
        let new = self.outputs.get(self.round..).unwrap_or_default();
        let as_excerpts = tighten::size_as_excerpts(new, self.limits);
        self.counted() - total_size(new) + as_excerpts <= available
    }

    /// The bytes that count against the limits.
    fn counted(&self) -> usize {
        self.visible + self.noticed.min(self.limits.notices)
    }

    /// Reduces the oldest outputs to notices until no more than `target` bytes count. The
    /// current round is left alone.
    fn epoch(&mut self, target: usize) {
        let mut changed = false;
        while self.cursor < self.round && self.counted() > target {
            let Some(oldest) = self.outputs.get_mut(self.cursor) else {
                break;
            };
            self.visible -= oldest.size();
            changed |= oldest.demote();
            self.noticed += oldest.size();
            self.cursor += 1;
        }
        self.epochs += u32::from(changed);
    }
}

/// Leaves the texts that were read back in a round whole while they fit together;
/// otherwise the longest of them are cut to a first page.
fn page_read_backs(round: &mut [BoundedOutput], limits: &OutputLimits) {
    let read_back = round.iter().filter(|output| output.is_read_back);
    let share = fair_share(&read_back.map(BoundedOutput::size), limits.read_back);
    for output in round.iter_mut().filter(|output| output.is_read_back) {
        if output.size() > share {
            output.form = OutputForm::Page(output.cap_for_bytes(share));
        }
    }
}

fn total_size(outputs: &[BoundedOutput]) -> usize {
    outputs.iter().map(BoundedOutput::size).sum()
}
