//! The requests of a session once more, in numbers: what each of them showed of the
//! outputs that it had.
//!
//! A request was made wherever an answer begins, and at the end. What it showed is
//! decided there, by what precedes it, and stays so until an epoch: the same
//! history has the same bytes however it goes on. An epoch moves a cursor that
//! never goes back, so that the whole replay is linear.

use super::entry::{Entry, Form};
use super::limits::Limits;
use super::share;

/// The session so far.
#[derive(Debug)]
pub(super) struct Replay<'l> {
    limits: &'l Limits,
    /// In the order of sending.
    pub(super) entries: Vec<Entry>,
    /// Where the current round begins: the outputs since the last answer.
    round: usize,
    /// Before it are notices, and outputs that are no longer than these.
    cursor: usize,
    /// Bytes behind the cursor.
    visible: usize,
    /// Bytes before the cursor.
    passed: usize,
    /// Bytes of everything else.
    others: usize,
    pub(super) epochs: u32,
}

impl<'l> Replay<'l> {
    /// A session that has `others` bytes before its first item.
    pub(super) fn new(limits: &'l Limits, others: usize) -> Self {
        Self {
            limits,
            entries: Vec::new(),
            round: 0,
            cursor: 0,
            visible: 0,
            passed: 0,
            others,
            epochs: 0,
        }
    }

    /// Something that is no output, of so many bytes.
    pub(super) fn other(&mut self, bytes: usize) {
        self.others += bytes;
    }

    /// The next output of the current round.
    pub(super) fn output(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// An answer of the model, of so many bytes.
    pub(super) fn answer(&mut self, bytes: usize) {
        self.request();
        self.round = self.entries.len();
        self.others += bytes;
    }

    /// Decides what the request showed that was made here.
    ///
    /// An epoch makes room where the outputs have outgrown their share. Where it is
    /// the rest that fills the window, the new outputs make do with excerpts, so that
    /// the client compacts next; an epoch would put that off, again and again.
    pub(super) fn request(&mut self) {
        let new = self.entries.get_mut(self.round..).unwrap_or_default();
        turn_pages(new, self.limits);
        self.visible += weight(new);
        let allowed = self.limits.beside(self.others);
        if self.total() > self.limits.visible
            || self.total() > allowed && !self.excerpts_fit(allowed)
        {
            self.epoch(self.limits.after_epoch.min(allowed / 2));
        }
        let excess = self.total().saturating_sub(allowed);
        if excess > 0 {
            let new = self.entries.get_mut(self.round..).unwrap_or_default();
            let before = weight(new);
            share::tighten(new, excess, self.limits);
            self.visible -= before - weight(new).min(before);
        }
    }

    /// Whether excerpts of all new outputs would be enough.
    fn excerpts_fit(&self, allowed: usize) -> bool {
        let new = self.entries.get(self.round..).unwrap_or_default();
        let least = share::least(new, self.limits);
        self.total() - weight(new) + least <= allowed
    }

    /// What counts against the limits.
    fn total(&self) -> usize {
        self.visible + self.passed.min(self.limits.notices)
    }

    /// The oldest outputs become notices until no more than `target` bytes count,
    /// or until the current round.
    fn epoch(&mut self, target: usize) {
        let mut changed = false;
        while self.cursor < self.round && self.total() > target {
            let Some(oldest) = self.entries.get_mut(self.cursor) else {
                break;
            };
            self.visible -= oldest.weight();
            changed |= oldest.demote();
            self.passed += oldest.weight();
            self.cursor += 1;
        }
        self.epochs += u32::from(changed);
    }
}

/// What was read back in one round stays as it is while it fits; else the longest
/// become pages.
fn turn_pages(round: &mut [Entry], limits: &Limits) {
    let read = round.iter().filter(|entry| entry.is_read_back);
    let weights: Vec<usize> = read.map(Entry::weight).collect();
    let level = share::level(weights, limits.read_back);
    for entry in round.iter_mut().filter(|entry| entry.is_read_back) {
        if entry.weight() > level {
            entry.form = Form::Page(entry.part(level));
        }
    }
}

fn weight(entries: &[Entry]) -> usize {
    entries.iter().map(Entry::weight).sum()
}
