//! The order of texts and calls: one item is open at a time, and a text that comes while a call is
//! open waits for its end. Reasoning that comes while a message is open follows the message.

use super::super::event_buffer::EventBuffer;
use super::message::MessageItem;
use super::reasoning::{self, ReasoningItem};
use super::{Assembler, OpenItem};
use crate::event::{Fragment, NativeText, TokenLogprob};

impl Assembler {
    pub(super) fn add_text(
        &mut self,
        kind: NativeText,
        fragment: &Fragment<'_>,
        logprobs: Option<&[TokenLogprob<'_>]>,
        events: &mut EventBuffer,
    ) {
        self.count_bytes(fragment.escaped().len());
        if !self.calls.is_empty() && self.waiting_text.is_empty() && fragment.is_blank() {
            // White space after a call is dropped unless text follows it.
            if kind == NativeText::Output {
                self.leading_blanks.push_str(fragment.escaped());
            }
            return;
        }
        if !self.calls.is_empty() {
            self.calls.close_complete(true, &mut self.writer.to(events));
        }
        if self.calls.is_empty() {
            self.flush_waiting_text(events);
            self.write_text(kind, fragment.escaped(), logprobs, events);
        } else {
            match self.waiting_text.last_mut() {
                Some((last, text)) if *last == kind => text.push_str(fragment.escaped()),
                _ => {
                    let mut text = std::mem::take(&mut self.leading_blanks);
                    if kind != NativeText::Output {
                        text.clear();
                    }
                    text.push_str(fragment.escaped());
                    self.waiting_text.push((kind, text));
                }
            }
        }
    }

    fn write_text(
        &mut self,
        kind: NativeText,
        escaped: &str,
        logprobs: Option<&[TokenLogprob<'_>]>,
        events: &mut EventBuffer,
    ) {
        if let (OpenItem::Message(message), NativeText::Summary) = (&mut self.open, kind) {
            // Some routers send reasoning and text by turns. The text stays one message.
            if !message.late_reasoning.is_empty() || !Fragment::from_escaped(escaped).is_blank() {
                message.late_reasoning.push_str(escaped);
            }
            return;
        }
        let fits = matches!(
            (&self.open, kind),
            (
                OpenItem::Message(_),
                NativeText::Output | NativeText::Refusal
            ) | (OpenItem::Reasoning(_), NativeText::Summary)
        );
        let with_blanks;
        let mut escaped = escaped;
        if !fits {
            if Fragment::from_escaped(escaped).is_blank() {
                if kind == NativeText::Output {
                    self.leading_blanks.push_str(escaped);
                }
                return;
            }
            self.close_text("completed", true, events);
            if kind == NativeText::Output && !self.leading_blanks.is_empty() {
                self.leading_blanks.push_str(escaped);
                with_blanks = std::mem::take(&mut self.leading_blanks);
                escaped = &with_blanks;
            }
            self.leading_blanks.clear();
            let out = &mut self.writer.to(events);
            self.open = if kind == NativeText::Summary {
                OpenItem::Reasoning(ReasoningItem::open(out))
            } else {
                OpenItem::Message(MessageItem::open(out))
            };
        }
        let out = &mut self.writer.to(events);
        match &mut self.open {
            OpenItem::Message(message) => {
                message.add_text(kind, escaped, logprobs, out);
                if message.accepts_annotations() {
                    for annotation in self.citations.pending.drain(..) {
                        message.add_annotation(annotation, out);
                    }
                }
            }
            OpenItem::Reasoning(reasoning) => reasoning.add_text(escaped, out),
            OpenItem::Nothing | OpenItem::Hosted(_) => {}
        }
    }

    pub(super) fn flush_waiting_text(&mut self, events: &mut EventBuffer) {
        for (kind, text) in std::mem::take(&mut self.waiting_text) {
            self.write_text(kind, &text, None, events);
        }
    }

    /// Closes the open message or reasoning item, if any. The phase of a message is
    /// `commentary` if something follows it, else `final_answer`.
    pub(super) fn close_text(
        &mut self,
        status: &'static str,
        followed: bool,
        events: &mut EventBuffer,
    ) {
        match std::mem::replace(&mut self.open, OpenItem::Nothing) {
            OpenItem::Nothing => {}
            OpenItem::Message(mut message) => {
                let late = std::mem::take(&mut message.late_reasoning);
                let phase = if followed {
                    "commentary"
                } else {
                    "final_answer"
                };
                message.close(status, phase, &mut self.writer.to(events));
                if !late.is_empty() {
                    let out = &mut self.writer.to(events);
                    let mut reasoning = ReasoningItem::open(out);
                    reasoning.add_text(&late, out);
                    self.close_reasoning(reasoning, events);
                }
            }
            OpenItem::Reasoning(reasoning) => self.close_reasoning(reasoning, events),
            OpenItem::Hosted(item) if status == "completed" => {
                item.close(None, false, &mut self.writer.to(events));
            }
            OpenItem::Hosted(item) => item.interrupt(&mut self.writer.to(events)),
        }
        // While a call is open, they wait for its end.
        if !self.reasoning_states.is_empty() && self.calls.is_empty() {
            let baggage = self.take_baggage();
            reasoning::write_baggage_item(&baggage, &mut self.writer.to(events));
        }
    }

    fn close_reasoning(&mut self, reasoning: ReasoningItem, events: &mut EventBuffer) {
        let carries_baggage =
            self.settings.params.seal_reasoning || !self.reasoning_states.is_empty();
        let baggage = carries_baggage.then(|| self.take_baggage());
        reasoning.close(baggage, &mut self.writer.to(events));
    }

    pub(super) fn add_annotation(&mut self, annotation: String, events: &mut EventBuffer) {
        match &mut self.open {
            OpenItem::Message(message) if message.accepts_annotations() => {
                message.add_annotation(annotation, &mut self.writer.to(events));
            }
            OpenItem::Message(_)
            | OpenItem::Reasoning(_)
            | OpenItem::Hosted(_)
            | OpenItem::Nothing => {
                self.citations.keep_pending(annotation);
            }
        }
    }

    /// Drops the citations for which no text came, with a note.
    pub(super) fn drop_pending_citations(&mut self) {
        let lost = self.citations.pending.len();
        if lost > 0 {
            let detail = format!("{lost} without a text that they belong to");
            self.writer.notes.add("annotation_dropped", detail);
            self.citations.pending.clear();
        }
    }
}
