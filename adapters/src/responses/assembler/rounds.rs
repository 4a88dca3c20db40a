//! Several upstream answers in one response: a round ends when the model called tools that run
//! here, and a further round brings the model's answer to their results.

use std::ops::Range;

use super::super::event_buffer::EventBuffer;
use super::call_queue::{CallDefect, CallQueue, PlacedCall};
use super::citations::Citations;
use super::found_pages::FoundPages;
use super::hosted::{HostedItem, OpenHostedItem};
use super::native::item_types::ItemType;
use super::writer::WriterMark;
use super::{Assembler, OpenItem, WithheldCall};
use crate::cited_source::CitedSource;
use crate::event::{Finish, Usage};
use crate::members::Members;
use crate::turn::ApprovalCall;

/// What an [`Assembler`] knows about its rounds.
#[derive(Debug, Default)]
pub(super) struct RoundState {
    /// The round is over, and the calls that run here have no results yet.
    pub(super) awaits_tools: bool,
    /// The answer has ended in this way, and its terminal event is held back.
    pub(super) awaits_end: Option<Finish>,
    /// The model called a tool of the client.
    pub(super) has_client_calls: bool,
    /// How many items were finished before this round.
    items_before: usize,
    /// Where its attempts begin.
    begin: WriterMark,
    /// The call ids that were given away in it.
    pub(super) call_ids: Vec<String>,
    /// The first call of it that is closed although it can never be completed.
    pub(super) defect: Option<CallDefect>,
    /// How many items were finished when the model's output ended, if tools run after it.
    items_at_end: Option<usize>,
    /// The items that each held back call of the client became.
    released: Vec<Range<usize>>,
    /// The bytes that were received before this round.
    pub(super) received_before: usize,
    /// The output tokens of earlier rounds.
    earlier_output: u64,
    /// How many of them were reasoning.
    earlier_reasoning: u64,
}

/// An item of the model's output in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundItem<'a> {
    /// An item that the client got, as JSON.
    Shown(&'a str),
    /// A call that runs here.
    Withheld(&'a WithheldCall),
}

impl<'a> RoundItem<'a> {
    /// The items of a history that represent it, as JSON.
    pub fn to_items(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let (shown, withheld) = match *self {
            Self::Shown(json) => (Some(json), &[][..]),
            Self::Withheld(call) => (None, call.items.as_slice()),
        };
        let withheld = withheld.iter().map(String::as_str);
        shown.into_iter().chain(withheld)
    }
}

impl Assembler {
    /// Whether a round is over in which the model called tools that run here. The answer goes on
    /// with [`Assembler::begin_round`], or ends with [`Assembler::finish_with_client_calls`] if the
    /// client has calls to run as well.
    pub fn awaits_tools(&self) -> bool {
        self.round.awaits_tools
    }

    /// Whether the answer is complete and waits for [`Assembler::end_held`].
    pub fn awaits_end(&self) -> bool {
        self.round.awaits_end.is_some()
    }

    /// Ends an answer whose terminal event was held back. `now` is in Unix seconds.
    pub fn end_held(&mut self, now: u64, events: &mut EventBuffer) {
        if let Some(finish) = self.round.awaits_end.take() {
            self.end_normally(finish, now, events);
        }
    }

    /// Whether the model called tools of the client in this round.
    pub fn has_client_calls(&self) -> bool {
        self.round.has_client_calls
    }

    /// Whether the client has a whole call of this round: it may have begun to run it.
    pub fn has_released_calls(&self) -> bool {
        let is_call = |item: &RoundItem<'_>| match item {
            RoundItem::Shown(json) => {
                let members = Members::read(json).unwrap_or_default();
                ItemType::of(&members.text("type").unwrap_or_default()).is_call()
            }
            RoundItem::Withheld(_) => false,
        };
        !self.holds.all && self.round_items().iter().any(is_call)
    }

    /// The calls of this round that run here, in the model's order.
    pub fn withheld_calls(&self) -> impl Iterator<Item = &WithheldCall> {
        self.calls.withheld().iter().map(|placed| &placed.call)
    }

    /// The model's output in this round, in its order. Items that were opened with
    /// [`Assembler::open_item`] are no part of it.
    pub fn round_items(&self) -> Vec<RoundItem<'_>> {
        let finished: Vec<&str> = self
            .items()
            .map(|(_, json)| std::str::from_utf8(json).unwrap_or_default())
            .collect();
        let shown = |range: Range<usize>| {
            let items = finished.get(range).unwrap_or_default().iter();
            items.map(|json| RoundItem::Shown(json))
        };
        let round = &self.round;
        let end = round.items_at_end.unwrap_or(finished.len());
        let mut withheld = self.calls.withheld().iter().peekable();
        let mut items = Vec::new();
        for index in round.items_before..end {
            let comes_before = |placed: &&PlacedCall| {
                placed.place.held_before == 0 && placed.place.finished_before <= index
            };
            while let Some(placed) = withheld.next_if(comes_before) {
                items.push(RoundItem::Withheld(&placed.call));
            }
            items.extend(shown(index..index + 1));
        }
        for (number, range) in round.released.iter().enumerate() {
            while let Some(placed) = withheld.next_if(|placed| placed.place.held_before <= number) {
                items.push(RoundItem::Withheld(&placed.call));
            }
            items.extend(shown(range.clone()));
        }
        items.extend(withheld.map(|placed| RoundItem::Withheld(&placed.call)));
        items
    }

    /// Begins the next round, once the results of the withheld calls are there.
    pub fn begin_round(&mut self) {
        let usage = self.usage.take().unwrap_or_default();
        self.calls.clear_withheld();
        self.begin_native_round();
        self.leading_blanks.clear();
        self.call_states = None;
        self.round = RoundState {
            items_before: self.writer.item_count(),
            begin: self.writer.mark(),
            received_before: self.received_bytes,
            earlier_output: self.round.earlier_output.saturating_add(usage.output),
            earlier_reasoning: self.round.earlier_reasoning.saturating_add(usage.reasoning),
            ..RoundState::default()
        };
    }

    /// Begins an attempt to get the answer of this round, and forgets what came of the one before,
    /// if there was one (`is_again`). The client must have seen nothing of it
    /// ([`Assembler::has_shown`]).
    pub fn begin_attempt(&mut self, is_again: bool) {
        for id in std::mem::take(&mut self.round.call_ids) {
            self.settings.known_call_ids.remove(&id);
        }
        self.calls = CallQueue::default();
        self.forget_native();
        self.leading_blanks.clear();
        self.waiting_text.clear();
        self.reasoning_states.clear();
        self.call_states = None;
        self.found = FoundPages::default();
        if !self.citations.pending.is_empty() {
            self.citations = Citations::default();
        }
        self.usage = None;
        self.received_bytes = self.round.received_before;
        self.round.has_client_calls = false;
        self.round.defect = None;
        if is_again && self.holds.all {
            self.open = OpenItem::Nothing;
            self.writer.rewind(&self.round.begin);
        } else {
            self.round.begin = self.writer.mark();
        }
    }

    /// Whether the client may have seen anything of the model's output in this round.
    pub fn has_shown(&self) -> bool {
        !self.holds.all && self.writer.has_opened_since(&self.round.begin)
    }

    /// Ends the answer with the client's calls of a round in which tools ran here. Their events
    /// are held back until this moment. `now` is in Unix seconds.
    pub fn finish_with_client_calls(&mut self, now: u64, events: &mut EventBuffer) {
        if !std::mem::take(&mut self.round.awaits_tools) {
            return;
        }
        self.round.released = self.calls.release(&mut self.writer.to(events));
        let native = self.release_native(events);
        self.round.released.extend(native);
        self.flush_waiting_text(events);
        self.close_text("completed", false, events);
        self.end_normally(Finish::Stop, now, events);
    }

    /// The texts that follow may cite these pages.
    pub fn add_sources(&mut self, sources: impl IntoIterator<Item = CitedSource>) {
        self.writer.sources.extend(sources);
    }

    /// Opens the item of a tool that runs here and writes its events up to the moment at which the
    /// tool runs. Another open item is closed.
    pub fn open_item(&mut self, item: HostedItem, events: &mut EventBuffer) {
        if self.final_status().is_none() {
            self.close_text("completed", true, events);
            let open = OpenHostedItem::open(item, &mut self.writer.to(events));
            self.open = OpenItem::Hosted(Box::new(open));
        }
    }

    /// Closes the item that [`Assembler::open_item`] opened, with its result. Without a result it
    /// ends as it began.
    pub fn close_item(
        &mut self,
        result: Option<HostedItem>,
        failed: bool,
        events: &mut EventBuffer,
    ) {
        match std::mem::replace(&mut self.open, OpenItem::Nothing) {
            OpenItem::Hosted(item) => item.close(result, failed, &mut self.writer.to(events)),
            other @ (OpenItem::Nothing | OpenItem::Message(_) | OpenItem::Reasoning(_)) => {
                self.open = other;
            }
        }
    }

    /// Takes out the calls that a person is asked to approve, since the last time.
    pub fn take_approval_requests(&mut self) -> Vec<ApprovalCall> {
        std::mem::take(&mut self.writer.asked)
    }

    /// The items of these MCP servers come first in the answer.
    pub fn set_servers(&mut self, servers: Vec<HostedItem>) {
        self.servers = servers;
    }

    /// Writes the items of MCP servers, before the model's output. They are no part of its rounds,
    /// so an attempt may still be made again.
    pub(super) fn show_servers(&mut self, events: &mut EventBuffer) {
        if self.servers.is_empty() {
            return;
        }
        for item in std::mem::take(&mut self.servers) {
            let failed = item.is_failure();
            self.open_item(item, events);
            self.close_item(None, failed, events);
        }
        self.round.items_before = self.writer.item_count();
        self.round.begin = self.writer.mark();
    }

    /// Ends a complete round in which the model called tools that run here. False if it called
    /// none: then the answer is complete as well.
    pub(super) fn end_round(&mut self, events: &mut EventBuffer) -> bool {
        if !self.calls.has_withheld() {
            return false;
        }
        self.calls.withhold_rest(&mut self.writer.to(events));
        let places = self.native_places();
        self.calls.place(&places);
        if self.calls.is_empty() {
            self.flush_waiting_text(events);
            self.close_text("completed", true, events);
        }
        if self.calls.is_empty() {
            self.show_search(events);
        }
        self.drop_pending_citations();
        self.ensure_usage();
        self.round.items_at_end = Some(self.writer.item_count());
        self.round.awaits_tools = true;
        true
    }

    /// The token counts of the response: the input of the last round, because clients take it for
    /// the size of their history, and the output of all rounds.
    pub(super) fn reported_usage(&self) -> Option<Usage> {
        let round = &self.round;
        self.usage.map(|usage| Usage {
            output: usage.output.saturating_add(round.earlier_output),
            reasoning: usage.reasoning.saturating_add(round.earlier_reasoning),
            ..usage
        })
    }
}
