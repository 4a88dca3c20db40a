//! The end of an answer: its terminal event, and its token counts.

use super::super::event_buffer::EventBuffer;
use super::super::response_object::{IncompleteReason, ResponseError, ResponseStatus};
use super::call_queue::CallDefect;
use super::{Assembler, OpenItem};
use crate::event::{Finish, Usage};
use crate::fault::{Fault, Kind};

impl Assembler {
    /// Ends the answer with `response.failed`. Open items are closed as incomplete; for
    /// Codex they stay open (see [`AssemblerSettings::caller_is_codex`]).
    pub fn fail(&mut self, fault: &Fault, events: &mut EventBuffer) {
        if self.final_status().is_some() {
            return;
        }
        self.break_off(events);
        self.writer.response.error = Some(ResponseError {
            code: fault.response_code(self.settings.caller_is_codex),
            message: fault.client_message().into_owned(),
        });
        self.end(ResponseStatus::Failed, events);
    }

    /// Ends the answer because the client cancelled it. Open items are closed as incomplete.
    pub fn cancel(&mut self, events: &mut EventBuffer) {
        if self.final_status().is_none() {
            self.break_off(events);
            self.end(ResponseStatus::Cancelled, events);
        }
    }

    /// Completes an answer that has no output because no model was asked.
    pub fn end_empty(&mut self, now: u64, events: &mut EventBuffer) {
        self.usage.get_or_insert_default();
        self.end_normally(Finish::Stop, now, events);
    }

    /// Closes what is open as incomplete, and settles the token counts.
    fn break_off(&mut self, events: &mut EventBuffer) {
        if self.settings.caller_is_codex {
            self.open = OpenItem::Nothing;
            self.waiting_text.clear();
            self.reasoning_states.clear();
        }
        self.fail_native(events);
        self.close_text("incomplete", true, events);
        self.calls.fail(&mut self.writer.to(events));
        self.flush_waiting_text(events);
        self.close_text("incomplete", true, events);
        self.drop_pending_citations();
        if self.received_bytes == 0 {
            // A request that was not answered at all is taken to have cost nothing.
            self.usage.get_or_insert_default();
        }
        self.ensure_usage();
    }

    pub(super) fn finish(&mut self, mut finish: Finish, now: u64, events: &mut EventBuffer) {
        let mut complete = finish == Finish::Stop;
        self.finish_native(complete, events);
        if self.writer.fault.is_some() {
            return;
        }
        if complete && let Some(fault) = self.lost_call() {
            self.writer.fault = Some(Box::new(fault));
            return;
        }
        if complete && let Some((name, what)) = self.defect() {
            if !self.has_shown() {
                let predicate = format!("has a call of '{name}' whose arguments {what}.");
                self.writer.fault = Some(Box::new(Fault::of_answer(Kind::BadReply, predicate)));
                return;
            }
            // What was shown cannot be taken back. The answer was cut off, whatever its reason
            // says.
            complete = false;
            finish = Finish::Length;
            self.finish_native(complete, events);
        }
        if complete && self.end_round(events) {
            return;
        }
        let had_calls = !self.calls.is_empty();
        let status = if complete { "completed" } else { "incomplete" };
        self.calls.finish(complete, &mut self.writer.to(events));
        if had_calls {
            self.flush_waiting_text(events);
        }
        self.close_text(status, false, events);
        self.show_search(events);
        self.drop_pending_citations();
        self.ensure_usage();
        if self.holds.early_end || (complete && self.holds.end) {
            self.round.awaits_end = Some(finish);
            return;
        }
        self.end_normally(finish, now, events);
    }

    /// A call of this round that can never be completed.
    fn defect(&mut self) -> Option<CallDefect> {
        self.round.defect.take().or_else(|| self.calls.defect())
    }

    /// Writes the terminal event of an answer that did not fail.
    pub(super) fn end_normally(&mut self, finish: Finish, now: u64, events: &mut EventBuffer) {
        let response = &mut self.writer.response;
        let status = match finish {
            Finish::Stop => {
                // The clock may have been set back meanwhile.
                response.completed_at = Some(now.max(response.created_at));
                ResponseStatus::Completed
            }
            Finish::Length => {
                response.incomplete_details = Some(IncompleteReason::MaxOutputTokens);
                ResponseStatus::Incomplete
            }
            Finish::ContentFilter => {
                response.incomplete_details = Some(IncompleteReason::ContentFilter);
                ResponseStatus::Incomplete
            }
        };
        self.end(status, events);
    }

    /// Writes the terminal event.
    pub(super) fn end(&mut self, status: ResponseStatus, events: &mut EventBuffer) {
        self.writer.response.usage = self.reported_usage();
        self.writer.response.status = Some(status);
        self.writer.response.is_queued = false;
        self.writer.to(events).response_event(status.event_name());
    }

    /// Sets estimated token counts if the provider sent none.
    pub(super) fn ensure_usage(&mut self) {
        if self.usage.is_none() {
            self.writer
                .notes
                .add("usage_estimated", "the provider sent no token counts");
            self.usage = Some(self.estimated_usage());
            self.usage_is_estimated = true;
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an estimate"
    )]
    pub(super) fn estimated_usage(&self) -> Usage {
        let received = self.received_bytes - self.round.received_before;
        let output =
            (received as f32 / self.settings.params.bytes_per_token.max(0.1)).ceil() as u64;
        Usage {
            input: self.settings.params.estimated_input_tokens,
            output,
            ..Usage::default()
        }
    }
}
