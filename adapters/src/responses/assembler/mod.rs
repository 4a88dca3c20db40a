//! The assembler turns upstream events into the events of the Responses API. Nothing else
//! writes them.
//!
//! It assigns ids, `output_index` and `sequence_number`, opens and closes items and their
//! parts, and writes the final response object. Items are strictly sequential: one is closed
//! before the next is opened. If an upstream interleaves text and calls, the later item is
//! held back until the earlier one is complete.
//!
//! | module | contents |
//! |---|---|
//! | `writer` | sequence numbers, item ids, the finished items |
//! | `message`, `reasoning` | the items of text |
//! | `call_queue`, `call` | the items of tool calls |
//! | `custom_input` | the text input of custom tools, taken out of JSON arguments |
//! | `native` | items of an upstream that speaks the Responses API itself |
//! | `hosted` | the items of tools that run here |
//! | `rounds` | several upstream answers in one response |
//! | `citations` | annotations that wait for the text they belong to |

mod call;
mod call_queue;
mod citations;
mod custom_input;
mod hosted;
mod message;
mod native;
mod reasoning;
mod rounds;
mod writer;

pub use super::response_object::ResponseStatus;

use std::collections::HashSet;

pub use self::call::WithheldCall;
pub use self::hosted::HostedItem;
pub use self::rounds::RoundItem;

use self::call::CallItem;
use self::call_queue::CallQueue;
use self::citations::Citations;
use self::hosted::OpenHostedItem;
use self::message::MessageItem;
use self::native::NativeItems;
use self::reasoning::ReasoningItem;
use self::rounds::RoundState;
use self::writer::ItemWriter;
use super::event_buffer::EventBuffer;
use super::response_object::{IncompleteReason, ResponseError, ResponseObject};
use crate::baggage::Baggage;
use crate::event::{
    Event, Finish, Fragment, ReasoningState, ReasoningStateForm, TokenLogprob, Usage,
};
use crate::fault::{Fault, Kind};
use crate::json;
use crate::notes::Notes;
use crate::tools::{ToolKind, ToolNames, ToolTarget};

/// The properties of a turn that an [`Assembler`] depends on. Built by the engine before the first
/// upstream request.
#[derive(Debug)]
pub struct AssemblerSettings {
    /// Maps wire names in calls to the client's tools.
    pub tool_names: ToolNames,
    /// The names of the functions that run here: the client does not see their calls.
    pub withheld_tools: HashSet<String>,
    /// The call ids of the history; a new call gets a different one.
    pub known_call_ids: HashSet<String>,
    /// Whether the client is Codex. Codex treats every `response.output_item.done` as
    /// complete: it runs a call at once and keeps a text for its next attempt. Therefore
    /// calls are held back until they are complete, and an item that is open when the
    /// answer breaks off gets no `done`. Codex ignores refusals, so that they are written as
    /// ordinary text.
    pub caller_is_codex: bool,
    /// The parameters that depend on the provider.
    pub params: AnswerParams,
    /// Upper bound of the answer in bytes, as received; a larger one fails.
    pub max_bytes: usize,
}

/// The parameters of an answer that depend on the provider and model. They change when
/// another route takes over, before any content was written.
#[derive(Clone, Debug)]
pub struct AnswerParams {
    /// Whether reasoning items carry sealed [`Baggage`], because the provider wants its
    /// reasoning back or the client asked for `reasoning.encrypted_content`.
    pub seal_reasoning: bool,
    /// The provider and model as `provider/model`, for the baggage.
    pub origin: String,
    /// An estimate of the input tokens, for a provider that reports no usage.
    pub estimated_input_tokens: u64,
    /// Bytes of text per token, to estimate the output tokens in the same case.
    pub bytes_per_token: f32,
}

/// Writes the Responses events of one answer, whatever number of upstream answers (rounds) it is
/// made of.
///
/// Made with the answer. It accepts upstream events until the terminal event is written (by
/// [`Event::Finish`] or [`Assembler::fail`]) and ignores calls after that. If the model called
/// tools that run here, [`Event::Finish`] ends the round only, see [`Assembler::awaits_tools`].
#[derive(Debug)]
pub struct Assembler {
    settings: AssemblerSettings,
    writer: ItemWriter,
    open: OpenItem,
    calls: CallQueue,
    native: NativeItems,
    /// The `reasoning_details` that no item carries yet: JSON objects, separated by
    /// commas.
    reasoning_details: String,
    /// The slot of the next call, and its `extra_content` as JSON.
    extra_content: Option<(Option<u32>, String)>,
    citations: Citations,
    /// Text and reasoning that arrived while a call was still open, escaped.
    waiting_text: Vec<(TextKind, String)>,
    /// White space that becomes the beginning of the next text, if text follows.
    leading_blanks: String,
    /// The token counts of this round.
    usage: Option<Usage>,
    round: RoundState,
    notes: Notes,
    received_bytes: usize,
}

#[derive(Debug)]
enum OpenItem {
    Nothing,
    Message(MessageItem),
    Reasoning(ReasoningItem),
    Hosted(Box<OpenHostedItem>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextKind {
    Output,
    Refusal,
    Reasoning,
}

impl Assembler {
    /// An assembler that has written no event. `response` is the response at its beginning.
    pub fn new(response: ResponseObject, settings: AssemblerSettings) -> Self {
        Self {
            writer: ItemWriter::new(response),
            settings,
            open: OpenItem::Nothing,
            calls: CallQueue::default(),
            native: NativeItems::default(),
            reasoning_details: String::new(),
            extra_content: None,
            citations: Citations::default(),
            waiting_text: Vec::new(),
            leading_blanks: String::new(),
            usage: None,
            round: RoundState::default(),
            notes: Notes::default(),
            received_bytes: 0,
        }
    }

    /// Writes `response.created` and `response.in_progress`.
    pub fn begin(&mut self, events: &mut EventBuffer) {
        self.writer.response_event("response.created", events);
        self.writer.response_event("response.in_progress", events);
    }

    /// Replaces the parameters because another provider answers. Only valid before the
    /// first content event of a round.
    pub fn switch_provider(&mut self, params: AnswerParams) {
        self.settings.params = params;
    }

    /// Writes `response.in_progress` with the output so far, so that a silent connection
    /// does not look dead.
    pub fn heartbeat(&mut self, events: &mut EventBuffer) {
        if self.final_status().is_none() {
            self.writer.response_event("response.in_progress", events);
        }
    }

    /// Handles one upstream event. `now` is in Unix seconds. An error is the upstream's
    /// fault or means that the answer cannot be passed on; the caller writes it with
    /// [`Assembler::fail`] or tries again.
    pub fn event(
        &mut self,
        event: Event<'_>,
        now: u64,
        events: &mut EventBuffer,
    ) -> Result<(), Fault> {
        if self.final_status().is_some() || self.round.awaits_tools {
            return Ok(());
        }
        match event {
            Event::Started => {}
            Event::Text(fragment, logprobs) => {
                self.add_text(TextKind::Output, &fragment, logprobs.as_deref(), events);
            }
            Event::Refusal(fragment) => {
                let kind = if self.settings.caller_is_codex {
                    TextKind::Output
                } else {
                    TextKind::Refusal
                };
                self.add_text(kind, &fragment, None, events);
            }
            Event::Reasoning(fragment) => {
                self.add_text(TextKind::Reasoning, &fragment, None, events);
            }
            Event::CallStart { slot, id, name } => self.start_call(slot, &id, &name, events),
            Event::CallArguments(slot, fragment) => {
                self.count_bytes(fragment.escaped().len());
                let taken = self
                    .calls
                    .push_arguments(slot, &fragment, &mut self.writer, events);
                if !taken && !fragment.is_blank() {
                    self.notes
                        .add("arguments_after_end", format!("call {slot}"));
                }
            }
            Event::ReasoningState(state) => self.keep_reasoning_state(state),
            Event::Citation(citation) => {
                let annotation = self.citations.annotation(&citation);
                self.count_bytes(annotation.len());
                self.add_annotation(annotation, events);
            }
            Event::Source { url, title } => {
                if let Some(annotation) = self.citations.source_annotation(&url, &title) {
                    self.count_bytes(annotation.len());
                    self.add_annotation(annotation, events);
                }
            }
            Event::Native(event) => self.native_event(event, events),
            Event::Usage(update) => {
                self.usage = Some(update.applied_to(self.usage.unwrap_or_default()));
            }
            Event::Note(code, detail) => self.notes.add(code, detail),
            Event::Finish(Finish::ContentFilter) if self.settings.caller_is_codex => {
                // Codex mistakes a response that is incomplete for this reason for a
                // broken connection and repeats the request again and again.
                let message = "The provider's content filter cut the answer off.";
                return Err(Fault::new(Kind::ContentFilter, message));
            }
            Event::Finish(finish) => self.finish(finish, now, events),
            Event::Failed(fault) => return Err(fault),
        }
        if self.received_bytes > self.settings.max_bytes && self.final_status().is_none() {
            let message = format!(
                "The provider's answer is larger than {} bytes.",
                self.settings.max_bytes
            );
            return Err(Fault::new(Kind::BadReply, message));
        }
        Ok(())
    }

    /// Writes a compaction item with this `encrypted_content`. No item may be open. Like
    /// OpenAI's compaction items it has an id and no status.
    pub fn write_compaction(&mut self, blob: &str, events: &mut EventBuffer) {
        if self.final_status().is_some() {
            return;
        }
        let position = self.writer.next_position("cmp");
        let mut item = vec![b'{'];
        json::field(&mut item, "id", &position.id);
        json::field(&mut item, "type", "compaction");
        json::field(&mut item, "encrypted_content", blob);
        item.push(b'}');
        self.writer.item_added(&position, &item, events);
        self.writer.item_done(&position, &item, events);
    }

    /// Ends the answer with `response.failed`. Open items are closed as incomplete; for
    /// Codex they stay open (see [`AssemblerSettings::caller_is_codex`]).
    pub fn fail(&mut self, fault: &Fault, events: &mut EventBuffer) {
        if self.final_status().is_some() {
            return;
        }
        if self.settings.caller_is_codex {
            self.open = OpenItem::Nothing;
            self.waiting_text.clear();
            self.reasoning_details.clear();
        }
        self.fail_native(events);
        self.close_text("incomplete", true, events);
        self.calls.fail(&mut self.writer, &mut self.notes, events);
        self.flush_waiting_text(events);
        self.close_text("incomplete", true, events);
        self.drop_pending_citations();
        self.ensure_usage();
        self.writer.response.error = Some(ResponseError {
            code: fault.response_code(),
            message: fault.response_message().into_owned(),
        });
        self.end(ResponseStatus::Failed, events);
    }

    /// The final status, once the terminal event is written.
    pub fn final_status(&self) -> Option<ResponseStatus> {
        self.writer.response.status
    }

    /// The response as it is so far; final after the terminal event.
    pub fn response(&self) -> &ResponseObject {
        &self.writer.response
    }

    /// The finished items: item id and JSON.
    pub fn items(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.writer.response.output.iter()
    }

    /// The token counts that the provider sent for this round; after the end of the round an
    /// estimate if it sent none.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// The repairs and omissions in the answer.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Keeps the state for the baggage of the next item that can carry it.
    fn keep_reasoning_state(&mut self, state: ReasoningState<'_>) {
        self.count_bytes(state.blob.len());
        match state.form {
            ReasoningStateForm::ReasoningDetails => {
                if !self.reasoning_details.is_empty() {
                    self.reasoning_details.push(',');
                }
                self.reasoning_details.push_str(&state.blob);
            }
            ReasoningStateForm::ExtraContent => {
                self.extra_content = Some((state.slot, state.blob.into_owned()));
            }
        }
    }

    fn count_bytes(&mut self, bytes: usize) {
        self.received_bytes += bytes;
    }

    fn add_text(
        &mut self,
        kind: TextKind,
        fragment: &Fragment<'_>,
        logprobs: Option<&[TokenLogprob<'_>]>,
        events: &mut EventBuffer,
    ) {
        self.count_bytes(fragment.escaped().len());
        if !self.calls.is_empty() && self.waiting_text.is_empty() && fragment.is_blank() {
            // White space after a call is dropped unless text follows it.
            if kind == TextKind::Output {
                self.leading_blanks.push_str(fragment.escaped());
            }
            return;
        }
        if !self.calls.is_empty() {
            self.calls
                .close_complete(&mut self.writer, &mut self.notes, events, true);
        }
        if self.calls.is_empty() {
            self.flush_waiting_text(events);
            self.write_text(kind, fragment.escaped(), logprobs, events);
        } else {
            match self.waiting_text.last_mut() {
                Some((last, text)) if *last == kind => text.push_str(fragment.escaped()),
                _ => {
                    let mut text = std::mem::take(&mut self.leading_blanks);
                    if kind != TextKind::Output {
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
        kind: TextKind,
        escaped: &str,
        logprobs: Option<&[TokenLogprob<'_>]>,
        events: &mut EventBuffer,
    ) {
        let fits = match (&self.open, kind) {
            (OpenItem::Message(_), TextKind::Output | TextKind::Refusal)
            | (OpenItem::Reasoning(_), TextKind::Reasoning) => true,
            (
                OpenItem::Nothing
                | OpenItem::Message(_)
                | OpenItem::Reasoning(_)
                | OpenItem::Hosted(_),
                _,
            ) => false,
        };
        let with_blanks;
        let mut escaped = escaped;
        if !fits {
            if Fragment::from_escaped(escaped).is_blank() {
                if kind == TextKind::Output {
                    self.leading_blanks.push_str(escaped);
                }
                return;
            }
            self.close_text("completed", true, events);
            if kind == TextKind::Output && !self.leading_blanks.is_empty() {
                self.leading_blanks.push_str(escaped);
                with_blanks = std::mem::take(&mut self.leading_blanks);
                escaped = &with_blanks;
            }
            self.leading_blanks.clear();
            self.open = match kind {
                TextKind::Output | TextKind::Refusal => {
                    OpenItem::Message(MessageItem::open(&mut self.writer, events))
                }
                TextKind::Reasoning => {
                    OpenItem::Reasoning(ReasoningItem::open(&mut self.writer, events))
                }
            };
        }
        match &mut self.open {
            OpenItem::Message(message) => {
                message.add_text(
                    kind == TextKind::Refusal,
                    escaped,
                    logprobs,
                    &mut self.writer,
                    events,
                );
                if message.accepts_annotations() {
                    for annotation in self.citations.pending.drain(..) {
                        message.add_annotation(annotation, &mut self.writer, events);
                    }
                }
            }
            OpenItem::Reasoning(reasoning) => reasoning.add_text(escaped, &mut self.writer, events),
            OpenItem::Nothing | OpenItem::Hosted(_) => {}
        }
    }

    fn flush_waiting_text(&mut self, events: &mut EventBuffer) {
        for (kind, text) in std::mem::take(&mut self.waiting_text) {
            self.write_text(kind, &text, None, events);
        }
    }

    /// Closes the open message or reasoning item, if any. The phase of a message is
    /// `commentary` if something follows it, else `final_answer`.
    fn close_text(&mut self, status: &'static str, followed: bool, events: &mut EventBuffer) {
        match std::mem::replace(&mut self.open, OpenItem::Nothing) {
            OpenItem::Nothing => {}
            OpenItem::Message(message) => {
                let phase = if followed {
                    "commentary"
                } else {
                    "final_answer"
                };
                message.close(status, phase, &mut self.writer, events);
            }
            OpenItem::Reasoning(reasoning) => {
                let carries_baggage =
                    self.settings.params.seal_reasoning || !self.reasoning_details.is_empty();
                let baggage = carries_baggage.then(|| self.take_baggage());
                reasoning.close(status, baggage, &mut self.writer, events);
            }
            OpenItem::Hosted(item) => {
                item.close(None, status != "completed", &mut self.writer, events);
            }
        }
        // While a call is open, they wait for its end.
        if !self.reasoning_details.is_empty() && self.calls.is_empty() {
            let baggage = self.take_baggage();
            reasoning::write_baggage_item(status, &baggage, &mut self.writer, events);
        }
    }

    /// Takes the collected `reasoning_details` as the baggage of a reasoning item.
    fn take_baggage(&mut self) -> Baggage {
        let details = std::mem::take(&mut self.reasoning_details);
        Baggage {
            origin: self.settings.params.origin.clone(),
            reasoning_details: if details.is_empty() {
                details
            } else {
                format!("[{details}]")
            },
            ..Baggage::default()
        }
    }

    fn add_annotation(&mut self, annotation: String, events: &mut EventBuffer) {
        match &mut self.open {
            OpenItem::Message(message) if message.accepts_annotations() => {
                message.add_annotation(annotation, &mut self.writer, events);
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
    fn drop_pending_citations(&mut self) {
        let lost = self.citations.pending.len();
        if lost > 0 {
            let detail = format!("{lost} without a text that they belong to");
            self.notes.add("annotation_dropped", detail);
            self.citations.pending.clear();
        }
    }

    fn start_call(&mut self, slot: u32, id: &str, name: &str, events: &mut EventBuffer) {
        self.leading_blanks.clear();
        if self.calls.is_empty() {
            self.close_text("completed", true, events);
        }
        self.count_bytes(id.len() + name.len());
        let resolved = self.settings.tool_names.resolve(name);
        if resolved.name_repaired {
            self.notes.add(
                "tool_name_repaired",
                format!("{name} to {}", resolved.target.name),
            );
        }
        let call_id = self.unique_call_id(id, name, slot);
        let of_call = self.extra_content.take_if(|(of, _)| *of == Some(slot));
        let baggage = of_call.map(|(_, call_extra)| Baggage {
            origin: self.settings.params.origin.clone(),
            extra_content: call_extra,
            ..Baggage::default()
        });
        let hold_back = self.settings.caller_is_codex;
        let is_withheld = self.runs_here(&resolved.target);
        self.round.has_client_calls |= !is_withheld;
        let call = CallItem::new(slot, call_id, resolved.target, hold_back, baggage);
        self.calls
            .push_back(if is_withheld { call.withheld() } else { call });
        self.calls
            .close_complete(&mut self.writer, &mut self.notes, events, false);
    }

    fn runs_here(&self, target: &ToolTarget) -> bool {
        target.kind == ToolKind::Function
            && target.namespace.is_none()
            && self.settings.withheld_tools.contains(&target.name)
    }

    /// The upstream's call id if it is valid and not in use, else one derived from the
    /// call, so that a replay of the answer produces the same id.
    fn unique_call_id(&mut self, id: &str, name: &str, slot: u32) -> String {
        if (1..=64).contains(&id.len()) && self.settings.known_call_ids.insert(id.to_owned()) {
            return id.to_owned();
        }
        self.notes.add(
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
                return minted;
            }
            count += 1;
        }
    }

    fn finish(&mut self, finish: Finish, now: u64, events: &mut EventBuffer) {
        let complete = finish == Finish::Stop;
        self.finish_native(complete, events);
        if complete && self.end_round(events) {
            return;
        }
        let had_calls = !self.calls.is_empty();
        let status = if complete { "completed" } else { "incomplete" };
        self.calls
            .finish(complete, &mut self.writer, &mut self.notes, events);
        if had_calls {
            self.flush_waiting_text(events);
        }
        self.close_text(status, false, events);
        self.drop_pending_citations();
        self.ensure_usage();
        self.end_normally(finish, now, events);
    }

    /// Writes the terminal event of an answer that did not fail.
    fn end_normally(&mut self, finish: Finish, now: u64, events: &mut EventBuffer) {
        let response = &mut self.writer.response;
        let status = match finish {
            Finish::Stop => {
                response.completed_at = Some(now);
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
    fn end(&mut self, status: ResponseStatus, events: &mut EventBuffer) {
        self.writer.response.usage = self.reported_usage();
        self.writer.response.status = Some(status);
        self.writer.response_event(status.event_name(), events);
    }

    /// Sets estimated token counts if the provider sent none.
    fn ensure_usage(&mut self) {
        if self.usage.is_none() {
            self.notes
                .add("usage_estimated", "the provider sent no token counts");
            self.usage = Some(self.estimated_usage());
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an estimate"
    )]
    fn estimated_usage(&self) -> Usage {
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
