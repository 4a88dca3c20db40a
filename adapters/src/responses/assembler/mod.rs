//! The only writer of Responses events.
//!
//! It owns ids, `output_index`, `sequence_number`, the opening and closing of
//! items and parts, and the final object. Items follow one another: one is
//! closed before the next is opened, and what an upstream interleaves waits.

mod call;
mod call_queue;
mod citations;
mod custom_input;
mod message;
mod reasoning;
mod writer;

use std::collections::HashSet;

use self::call::CallItem;
use self::call_queue::CallQueue;
use self::citations::Citations;
use self::message::MessageItem;
use self::reasoning::ReasoningItem;
use self::writer::ItemWriter;
use super::envelope::{ResponseEnvelope, ResponseState};
use super::event_buffer::EventBuffer;
use crate::baggage::Baggage;
use crate::event::{Event, Finish, Fragment, Usage};
use crate::fault::{Fault, Kind};
use crate::json;
use crate::notes::Notes;
use crate::tools::ToolNames;

/// What a turn's answer is written with.
#[derive(Debug)]
pub struct AssemblerSettings {
    /// The response object around the output.
    pub envelope: ResponseEnvelope,
    /// From the wire's tool names back to the client's.
    pub tool_names: ToolNames,
    /// Call ids that the history has already.
    pub known_call_ids: HashSet<String>,
    /// Codex takes every item that is done for whole: it runs a call at once and
    /// keeps a text for its next try. So calls are held back until they are
    /// whole, and what is open when an answer breaks off is never said to be
    /// done. It drops refusals, so they are written as text.
    pub caller_is_codex: bool,
    /// What depends on the provider.
    pub params: AnswerParams,
    /// The most bytes that an answer may have.
    pub max_bytes: usize,
}

/// What an answer's writer must know of the provider.
#[derive(Clone, Debug)]
pub struct AnswerParams {
    /// Reasoning items carry the baggage that the provider wants back.
    pub seal_reasoning: bool,
    /// Where the answer is from, for the baggage: `provider/model`.
    pub origin: String,
    /// The input's size in tokens, if the provider does not say it.
    pub estimated_input_tokens: u64,
    /// Bytes of text a token, for the same purpose.
    pub bytes_per_token: f32,
}

/// The state of one answer.
#[derive(Debug)]
pub struct Assembler {
    settings: AssemblerSettings,
    writer: ItemWriter,
    open: OpenItem,
    calls: CallQueue,
    /// The `reasoning_details` of the open reasoning, or of what was said since
    /// the last item was closed: objects, separated by commas.
    details: String,
    /// The `extra_content` of the call that begins next.
    call_extra: Option<String>,
    citations: Citations,
    /// Text or reasoning that came while a call was still open.
    waiting: Vec<(TextKind, String)>,
    /// White space that may turn out to be the beginning of a text.
    blank: String,
    usage: Option<Usage>,
    notes: Notes,
    size: usize,
    outcome: Option<ResponseStatus>,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseStatus {
    /// `response.completed`
    Completed,
    /// `response.incomplete`
    Incomplete,
    /// `response.failed`
    Failed,
}

#[derive(Debug)]
enum OpenItem {
    Nothing,
    Message(MessageItem),
    Reasoning(ReasoningItem),
}

/// The kinds of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextKind {
    Output,
    Refusal,
    Reasoning,
}

impl Assembler {
    /// An assembler that has not said anything yet.
    pub fn new(settings: AssemblerSettings) -> Self {
        Self {
            writer: ItemWriter::new(settings.envelope.id()),
            settings,
            open: OpenItem::Nothing,
            calls: CallQueue::default(),
            details: String::new(),
            call_extra: None,
            citations: Citations::default(),
            waiting: Vec::new(),
            blank: String::new(),
            usage: None,
            notes: Notes::default(),
            size: 0,
            outcome: None,
        }
    }

    /// Writes `response.created` and `response.in_progress`.
    pub fn begin(&mut self, events: &mut EventBuffer) {
        self.write_lifecycle_event("response.created", events);
        self.write_lifecycle_event("response.in_progress", events);
    }

    /// Another provider answers than was thought. Nothing of an answer was
    /// written yet.
    pub fn switch_provider(&mut self, terms: AnswerParams) {
        self.settings.params = terms;
    }

    /// Writes a sign of life with the output so far.
    pub fn heartbeat(&mut self, events: &mut EventBuffer) {
        if self.outcome.is_none() {
            self.write_lifecycle_event("response.in_progress", events);
        }
    }

    /// Takes one event of the upstream. `now` is in Unix seconds. The fault is
    /// the upstream's, or that the answer cannot be passed on; it is not
    /// written: see [`Assembler::fail`].
    pub fn event(
        &mut self,
        event: Event<'_>,
        now: u64,
        events: &mut EventBuffer,
    ) -> Result<(), Fault> {
        if self.outcome.is_some() {
            return Ok(());
        }
        match event {
            Event::Started => {}
            Event::Text(fragment, logprobs) => {
                let logprobs = logprobs.map(serde_json::value::RawValue::get);
                self.add_text(TextKind::Output, &fragment, logprobs, events);
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
                self.add_text(TextKind::Reasoning, &fragment, None, events)
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
            Event::ReasoningDetails(list) => {
                self.count_bytes(list.len());
                if !self.details.is_empty() {
                    self.details.push(',');
                }
                self.details.push_str(&list);
            }
            Event::CallExtraContent(extra) => {
                self.count_bytes(extra.len());
                self.call_extra = Some(extra.into_owned());
            }
            Event::Annotation(raw) => {
                self.count_bytes(raw.get().len());
                match self.citations.annotation(raw) {
                    Some(annotation) => self.add_annotation(annotation, events),
                    None => self
                        .notes
                        .add("annotation_dropped", "it is no url_citation"),
                }
            }
            Event::Source { url, title } => {
                if let Some(annotation) = self.citations.source(&url, &title) {
                    self.count_bytes(annotation.len());
                    self.add_annotation(annotation, events);
                }
            }
            Event::Usage(usage) => self.usage = Some(usage),
            Event::Note(code, detail) => self.notes.add(code, detail),
            Event::Finish(Finish::ContentFilter) if self.settings.caller_is_codex => {
                // Codex takes an answer that is incomplete for this reason for
                // a broken connection and asks again and again.
                let message = "The provider's content filter cut the answer off.";
                return Err(Fault::new(Kind::ContentFilter, message));
            }
            Event::Finish(finish) => self.finish(finish, now, events),
            Event::Failed(fault) => return Err(fault),
        }
        if self.size > self.settings.max_bytes && self.outcome.is_none() {
            let message = format!(
                "The provider's answer is larger than {} bytes.",
                self.settings.max_bytes
            );
            return Err(Fault::new(Kind::BadReply, message));
        }
        Ok(())
    }

    /// Writes a compaction item with this `encrypted_content`. It stands alone:
    /// nothing is open, and what follows it is another item or the end. OpenAI's own
    /// items have an id and no status.
    pub fn write_compaction(&mut self, blob: &str, events: &mut EventBuffer) {
        if self.outcome.is_some() {
            return;
        }
        let place = self.writer.next_position("cmp");
        let mut item = vec![b'{'];
        json::field(&mut item, "id", &place.id);
        json::field(&mut item, "type", "compaction");
        json::field(&mut item, "encrypted_content", blob);
        item.push(b'}');
        self.writer.item_added(&place, &item, events);
        self.writer.item_done(&place, &item, events);
    }

    /// Ends the answer with `response.failed`; open items become incomplete, but
    /// stay open for Codex.
    pub fn fail(&mut self, fault: &Fault, events: &mut EventBuffer) {
        if self.outcome.is_some() {
            return;
        }
        if self.settings.caller_is_codex {
            self.open = OpenItem::Nothing;
            self.waiting.clear();
            self.details.clear();
        }
        self.close_text("incomplete", true, events);
        self.calls.fail(&mut self.writer, &mut self.notes, events);
        self.flush_waiting(events);
        self.close_text("incomplete", true, events);
        self.drop_citations();
        self.ensure_usage();
        let message = fault.response_message().into_owned();
        let state = ResponseState {
            status: "failed",
            error: Some((fault.response_code(), &message)),
            usage: self.usage,
            ..self.state()
        };
        self.write_terminal_event("response.failed", &state, events);
        self.outcome = Some(ResponseStatus::Failed);
    }

    /// How the answer ended, once it has.
    pub fn outcome(&self) -> Option<ResponseStatus> {
        self.outcome
    }

    /// The finished items, each with its id, as JSON.
    pub fn items(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.writer.items()
    }

    /// The token counts: the provider's, or an estimate once it has ended.
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// What was repaired on the way.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    fn count_bytes(&mut self, bytes: usize) {
        self.size += bytes;
    }

    fn add_text(
        &mut self,
        kind: TextKind,
        fragment: &Fragment<'_>,
        logprobs: Option<&str>,
        events: &mut EventBuffer,
    ) {
        self.count_bytes(fragment.escaped().len());
        if !self.calls.is_empty() && self.waiting.is_empty() && fragment.is_blank() {
            // White space behind a call says nothing unless text follows it.
            if kind == TextKind::Output {
                self.blank.push_str(fragment.escaped());
            }
            return;
        }
        if !self.calls.is_empty() {
            self.calls
                .close_complete(&mut self.writer, &mut self.notes, events, true);
        }
        if self.calls.is_empty() {
            self.flush_waiting(events);
            self.write_text(kind, fragment.escaped(), logprobs, events);
        } else {
            match self.waiting.last_mut() {
                Some((last, text)) if *last == kind => text.push_str(fragment.escaped()),
                _ => {
                    let mut text = std::mem::take(&mut self.blank);
                    if kind != TextKind::Output {
                        text.clear();
                    }
                    text.push_str(fragment.escaped());
                    self.waiting.push((kind, text));
                }
            }
        }
    }

    fn write_text(
        &mut self,
        kind: TextKind,
        escaped: &str,
        logprobs: Option<&str>,
        events: &mut EventBuffer,
    ) {
        let fits = match (&self.open, kind) {
            (OpenItem::Message(_), TextKind::Output | TextKind::Refusal)
            | (OpenItem::Reasoning(_), TextKind::Reasoning) => true,
            (OpenItem::Nothing | OpenItem::Message(_) | OpenItem::Reasoning(_), _) => false,
        };
        let held;
        let mut escaped = escaped;
        if !fits {
            if Fragment::from_escaped(escaped).is_blank() {
                if kind == TextKind::Output {
                    self.blank.push_str(escaped);
                }
                return;
            }
            self.close_text("completed", true, events);
            if kind == TextKind::Output && !self.blank.is_empty() {
                self.blank.push_str(escaped);
                held = std::mem::take(&mut self.blank);
                escaped = &held;
            }
            self.blank.clear();
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
                message.text(
                    kind == TextKind::Refusal,
                    escaped,
                    logprobs,
                    &mut self.writer,
                    events,
                );
                if message.is_text() {
                    for annotation in self.citations.waiting.drain(..) {
                        message.annotation(annotation, &mut self.writer, events);
                    }
                }
            }
            OpenItem::Reasoning(reasoning) => reasoning.text(escaped, &mut self.writer, events),
            OpenItem::Nothing => {}
        }
    }

    fn flush_waiting(&mut self, events: &mut EventBuffer) {
        for (kind, text) in std::mem::take(&mut self.waiting) {
            self.write_text(kind, &text, None, events);
        }
    }

    /// Closes the open message or reasoning. A message that something follows
    /// is commentary.
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
                let seals = self.settings.params.seal_reasoning || !self.details.is_empty();
                let baggage = seals.then(|| self.take_baggage());
                reasoning.close(status, baggage, &mut self.writer, events);
            }
        }
        // Inside an open call they wait for its end.
        if !self.details.is_empty() && self.calls.is_empty() {
            let baggage = self.take_baggage();
            reasoning::write_baggage_item(status, &baggage, &mut self.writer, events);
        }
    }

    /// What a reasoning item carries: takes the details.
    fn take_baggage(&mut self) -> Baggage {
        let details = std::mem::take(&mut self.details);
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
            OpenItem::Message(message) if message.is_text() => {
                message.annotation(annotation, &mut self.writer, events);
            }
            OpenItem::Message(_) | OpenItem::Reasoning(_) | OpenItem::Nothing => {
                self.citations.wait(annotation);
            }
        }
    }

    /// Says which citations found no text.
    fn drop_citations(&mut self) {
        let lost = self.citations.waiting.len();
        if lost > 0 {
            let detail = format!("{lost} without a text that they belong to");
            self.notes.add("annotation_dropped", detail);
            self.citations.waiting.clear();
        }
    }

    fn start_call(&mut self, slot: u32, id: &str, name: &str, events: &mut EventBuffer) {
        self.blank.clear();
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
        let baggage = self.call_extra.take().map(|call_extra| Baggage {
            origin: self.settings.params.origin.clone(),
            extra_content: call_extra,
            ..Baggage::default()
        });
        let held = self.settings.caller_is_codex;
        self.calls
            .push_back(CallItem::new(slot, call_id, resolved.target, held, baggage));
        self.calls
            .close_complete(&mut self.writer, &mut self.notes, events, false);
    }

    /// The upstream's call id if it can be used, else one made from what the
    /// model called: the same call gets the same id when it is replayed.
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
        let whole = finish == Finish::Stop;
        let called = !self.calls.is_empty();
        let status = if whole { "completed" } else { "incomplete" };
        self.calls
            .finish(whole, &mut self.writer, &mut self.notes, events);
        if called {
            self.flush_waiting(events);
        }
        self.close_text(status, false, events);
        self.drop_citations();
        self.ensure_usage();
        let state = ResponseState {
            usage: self.usage,
            ..self.state()
        };
        let (outcome, name, state) = match finish {
            Finish::Stop => (
                ResponseStatus::Completed,
                "response.completed",
                ResponseState {
                    status: "completed",
                    completed_at: Some(now),
                    ..state
                },
            ),
            Finish::Length | Finish::ContentFilter => (
                ResponseStatus::Incomplete,
                "response.incomplete",
                ResponseState {
                    status: "incomplete",
                    incomplete: Some(if finish == Finish::Length {
                        "max_output_tokens"
                    } else {
                        "content_filter"
                    }),
                    ..state
                },
            ),
        };
        self.write_terminal_event(name, &state, events);
        self.outcome = Some(outcome);
    }

    /// Estimates the token counts if the provider sent none.
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
        let output =
            (self.size as f32 / self.settings.params.bytes_per_token.max(0.1)).ceil() as u64;
        Usage {
            input: self.settings.params.estimated_input_tokens,
            output,
            ..Usage::default()
        }
    }

    fn state(&self) -> ResponseState<'_> {
        ResponseState {
            status: "in_progress",
            completed_at: None,
            error: None,
            incomplete: None,
            output: &self.writer.output,
            usage: None,
        }
    }

    fn write_lifecycle_event(&mut self, name: &'static str, events: &mut EventBuffer) {
        let sequence = self.writer.next_sequence();
        let out = events.begin_event(name, sequence);
        out.extend_from_slice(b",\"response\":");
        self.settings.envelope.push(out, &self.state());
        events.end_event();
    }

    /// Writes the event that ends the stream, and `[DONE]`. No number follows
    /// its own.
    fn write_terminal_event(
        &self,
        name: &'static str,
        state: &ResponseState<'_>,
        events: &mut EventBuffer,
    ) {
        let out = events.begin_event(name, self.writer.sequence);
        out.extend_from_slice(b",\"response\":");
        let start = out.len();
        self.settings.envelope.push(out, state);
        events.mark_terminal(start);
        events.end_event();
        events.push_done_marker();
    }
}
