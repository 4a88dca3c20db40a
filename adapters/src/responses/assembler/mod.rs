//! The only writer of Responses events.
//!
//! It owns ids, `output_index`, `sequence_number`, the opening and closing of
//! items and parts, and the final object. Items follow one another: one is
//! closed before the next is opened, and what an upstream interleaves waits.

mod call;
mod calls;
mod citations;
mod custom;
mod message;
mod reasoning;
mod writer;

use std::collections::HashSet;

use self::call::Call;
use self::calls::Calls;
use self::citations::Citations;
use self::message::Message;
use self::reasoning::Reasoning;
use self::writer::Writer;
use super::envelope::{Envelope, State};
use super::frames::Frames;
use crate::baggage::Baggage;
use crate::event::{Event, Finish, Fragment, Usage};
use crate::fault::{Fault, Kind};
use crate::json;
use crate::notes::Notes;
use crate::tools::ToolNames;

/// What a turn's answer is written with.
#[derive(Debug)]
pub struct Settings {
    /// The response object around the output.
    pub envelope: Envelope,
    /// From the wire's tool names back to the client's.
    pub tools: ToolNames,
    /// Call ids that the history has already.
    pub known_calls: HashSet<String>,
    /// Codex takes every item that is done for whole: it runs a call at once and
    /// keeps a text for its next try. So calls are held back until they are
    /// whole, and what is open when an answer breaks off is never said to be
    /// done. It drops refusals, so they are written as text.
    pub codex: bool,
    /// What depends on the provider.
    pub terms: Terms,
    /// The most bytes that an answer may have.
    pub limit: usize,
}

/// What an answer's writer must know of the provider.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Reasoning items carry the baggage that the provider wants back.
    pub seal_reasoning: bool,
    /// Where the answer is from, for the baggage: `provider/model`.
    pub origin: String,
    /// The input's size in tokens, if the provider does not say it.
    pub estimated_input: u64,
    /// Bytes of text a token, for the same purpose.
    pub bytes_per_token: f32,
}

/// The state of one answer.
#[derive(Debug)]
pub struct Assembler {
    settings: Settings,
    writer: Writer,
    open: Open,
    calls: Calls,
    /// The `reasoning_details` of the open reasoning, or of what was said since
    /// the last item was closed: objects, separated by commas.
    details: String,
    /// The `extra_content` of the call that begins next.
    call_extra: Option<String>,
    citations: Citations,
    /// Text or reasoning that came while a call was still open.
    waiting: Vec<(Text, String)>,
    /// White space that may turn out to be the beginning of a text.
    blank: String,
    usage: Option<Usage>,
    notes: Notes,
    size: usize,
    outcome: Option<Outcome>,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `response.completed`
    Completed,
    /// `response.incomplete`
    Incomplete,
    /// `response.failed`
    Failed,
}

#[derive(Debug)]
enum Open {
    Nothing,
    Message(Message),
    Reasoning(Reasoning),
}

/// The kinds of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Output,
    Refusal,
    Reasoning,
}

impl Assembler {
    /// An assembler that has not said anything yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            writer: Writer::new(settings.envelope.id()),
            settings,
            open: Open::Nothing,
            calls: Calls::default(),
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
    pub fn begin(&mut self, frames: &mut Frames) {
        self.lifecycle("response.created", frames);
        self.lifecycle("response.in_progress", frames);
    }

    /// Another provider answers than was thought. Nothing of an answer was
    /// written yet.
    pub fn goes_to(&mut self, terms: Terms) {
        self.settings.terms = terms;
    }

    /// Writes a sign of life with the output so far.
    pub fn heartbeat(&mut self, frames: &mut Frames) {
        if self.outcome.is_none() {
            self.lifecycle("response.in_progress", frames);
        }
    }

    /// Takes one event of the upstream. `now` is in Unix seconds. The fault is
    /// the upstream's, or that the answer cannot be passed on; it is not
    /// written: see [`Assembler::fail`].
    pub fn event(&mut self, event: Event<'_>, now: u64, frames: &mut Frames) -> Result<(), Fault> {
        if self.outcome.is_some() {
            return Ok(());
        }
        match event {
            Event::Started => {}
            Event::Text(fragment, logprobs) => {
                let logprobs = logprobs.map(serde_json::value::RawValue::get);
                self.text(Text::Output, &fragment, logprobs, frames);
            }
            Event::Refusal(fragment) => {
                let kind = if self.settings.codex {
                    Text::Output
                } else {
                    Text::Refusal
                };
                self.text(kind, &fragment, None, frames);
            }
            Event::Reasoning(fragment) => self.text(Text::Reasoning, &fragment, None, frames),
            Event::CallStart { slot, id, name } => self.call_start(slot, &id, &name, frames),
            Event::CallArguments(slot, fragment) => {
                self.grow(fragment.escaped().len());
                let taken = self
                    .calls
                    .arguments(slot, &fragment, &mut self.writer, frames);
                if !taken && !fragment.is_blank() {
                    self.notes
                        .add("arguments_after_end", format!("call {slot}"));
                }
            }
            Event::ReasoningDetails(list) => {
                self.grow(list.len());
                if !self.details.is_empty() {
                    self.details.push(',');
                }
                self.details.push_str(&list);
            }
            Event::CallExtra(extra) => {
                self.grow(extra.len());
                self.call_extra = Some(extra.into_owned());
            }
            Event::Annotation(raw) => {
                self.grow(raw.get().len());
                match self.citations.annotation(raw) {
                    Some(annotation) => self.annotation(annotation, frames),
                    None => self
                        .notes
                        .add("annotation_dropped", "it is no url_citation"),
                }
            }
            Event::Source { url, title } => {
                if let Some(annotation) = self.citations.source(&url, &title) {
                    self.grow(annotation.len());
                    self.annotation(annotation, frames);
                }
            }
            Event::Usage(usage) => self.usage = Some(usage),
            Event::Note(code, detail) => self.notes.add(code, detail),
            Event::Finish(Finish::ContentFilter) if self.settings.codex => {
                // Codex takes an answer that is incomplete for this reason for
                // a broken connection and asks again and again.
                let message = "The provider's content filter cut the answer off.";
                return Err(Fault::new(Kind::ContentFilter, message));
            }
            Event::Finish(finish) => self.finish(finish, now, frames),
            Event::Failed(fault) => return Err(fault),
        }
        if self.size > self.settings.limit && self.outcome.is_none() {
            let message = format!(
                "The provider's answer is larger than {} bytes.",
                self.settings.limit
            );
            return Err(Fault::new(Kind::BadReply, message));
        }
        Ok(())
    }

    /// Writes a compaction item with this `encrypted_content`. It stands alone:
    /// nothing is open, and what follows it is another item or the end. OpenAI's own
    /// items have an id and no status.
    pub fn compaction(&mut self, blob: &str, frames: &mut Frames) {
        if self.outcome.is_some() {
            return;
        }
        let place = self.writer.place("cmp");
        let mut item = vec![b'{'];
        json::field(&mut item, "id", &place.id);
        json::field(&mut item, "type", "compaction");
        json::field(&mut item, "encrypted_content", blob);
        item.push(b'}');
        self.writer.added(&place, &item, frames);
        self.writer.done(&place, &item, frames);
    }

    /// Ends the answer with `response.failed`; open items become incomplete, but
    /// stay open for Codex.
    pub fn fail(&mut self, fault: &Fault, frames: &mut Frames) {
        if self.outcome.is_some() {
            return;
        }
        if self.settings.codex {
            self.open = Open::Nothing;
            self.waiting.clear();
            self.details.clear();
        }
        self.close_text("incomplete", true, frames);
        self.calls.fail(&mut self.writer, &mut self.notes, frames);
        self.flush_waiting(frames);
        self.close_text("incomplete", true, frames);
        self.drop_citations();
        self.count_tokens();
        let message = fault.response_message().into_owned();
        let state = State {
            status: "failed",
            error: Some((fault.response_code(), &message)),
            usage: self.usage,
            ..self.state()
        };
        self.terminal("response.failed", &state, frames);
        self.outcome = Some(Outcome::Failed);
    }

    /// How the answer ended, once it has.
    pub fn outcome(&self) -> Option<Outcome> {
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

    fn grow(&mut self, bytes: usize) {
        self.size += bytes;
    }

    fn text(
        &mut self,
        kind: Text,
        fragment: &Fragment<'_>,
        logprobs: Option<&str>,
        frames: &mut Frames,
    ) {
        self.grow(fragment.escaped().len());
        if !self.calls.is_empty() && self.waiting.is_empty() && fragment.is_blank() {
            // White space behind a call says nothing unless text follows it.
            if kind == Text::Output {
                self.blank.push_str(fragment.escaped());
            }
            return;
        }
        if !self.calls.is_empty() {
            self.calls
                .settle(&mut self.writer, &mut self.notes, frames, true);
        }
        if self.calls.is_empty() {
            self.flush_waiting(frames);
            self.write_text(kind, fragment.escaped(), logprobs, frames);
        } else {
            match self.waiting.last_mut() {
                Some((last, text)) if *last == kind => text.push_str(fragment.escaped()),
                _ => {
                    let mut text = std::mem::take(&mut self.blank);
                    if kind != Text::Output {
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
        kind: Text,
        escaped: &str,
        logprobs: Option<&str>,
        frames: &mut Frames,
    ) {
        let fits = match (&self.open, kind) {
            (Open::Message(_), Text::Output | Text::Refusal)
            | (Open::Reasoning(_), Text::Reasoning) => true,
            (Open::Nothing | Open::Message(_) | Open::Reasoning(_), _) => false,
        };
        let held;
        let mut escaped = escaped;
        if !fits {
            if Fragment::from_escaped(escaped).is_blank() {
                if kind == Text::Output {
                    self.blank.push_str(escaped);
                }
                return;
            }
            self.close_text("completed", true, frames);
            if kind == Text::Output && !self.blank.is_empty() {
                self.blank.push_str(escaped);
                held = std::mem::take(&mut self.blank);
                escaped = &held;
            }
            self.blank.clear();
            self.open = match kind {
                Text::Output | Text::Refusal => {
                    Open::Message(Message::open(&mut self.writer, frames))
                }
                Text::Reasoning => Open::Reasoning(Reasoning::open(&mut self.writer, frames)),
            };
        }
        match &mut self.open {
            Open::Message(message) => {
                message.text(
                    kind == Text::Refusal,
                    escaped,
                    logprobs,
                    &mut self.writer,
                    frames,
                );
                if message.is_text() {
                    for annotation in self.citations.waiting.drain(..) {
                        message.annotation(annotation, &mut self.writer, frames);
                    }
                }
            }
            Open::Reasoning(reasoning) => reasoning.text(escaped, &mut self.writer, frames),
            Open::Nothing => {}
        }
    }

    fn flush_waiting(&mut self, frames: &mut Frames) {
        for (kind, text) in std::mem::take(&mut self.waiting) {
            self.write_text(kind, &text, None, frames);
        }
    }

    /// Closes the open message or reasoning. A message that something follows
    /// is commentary.
    fn close_text(&mut self, status: &'static str, followed: bool, frames: &mut Frames) {
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing => {}
            Open::Message(message) => {
                let phase = if followed {
                    "commentary"
                } else {
                    "final_answer"
                };
                message.close(status, phase, &mut self.writer, frames);
            }
            Open::Reasoning(reasoning) => {
                let seals = self.settings.terms.seal_reasoning || !self.details.is_empty();
                let baggage = seals.then(|| self.baggage());
                reasoning.close(status, baggage, &mut self.writer, frames);
            }
        }
        // Inside an open call they wait for its end.
        if !self.details.is_empty() && self.calls.is_empty() {
            let baggage = self.baggage();
            reasoning::carry(status, &baggage, &mut self.writer, frames);
        }
    }

    /// What a reasoning item carries: takes the details.
    fn baggage(&mut self) -> Baggage {
        let details = std::mem::take(&mut self.details);
        Baggage {
            origin: self.settings.terms.origin.clone(),
            details: if details.is_empty() {
                details
            } else {
                format!("[{details}]")
            },
            ..Baggage::default()
        }
    }

    fn annotation(&mut self, annotation: String, frames: &mut Frames) {
        match &mut self.open {
            Open::Message(message) if message.is_text() => {
                message.annotation(annotation, &mut self.writer, frames);
            }
            Open::Message(_) | Open::Reasoning(_) | Open::Nothing => {
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

    fn call_start(&mut self, slot: u32, id: &str, name: &str, frames: &mut Frames) {
        self.blank.clear();
        if self.calls.is_empty() {
            self.close_text("completed", true, frames);
        }
        self.grow(id.len() + name.len());
        let resolved = self.settings.tools.resolve(name);
        if resolved.guessed {
            self.notes.add(
                "tool_name_repaired",
                format!("{name} to {}", resolved.target.name),
            );
        }
        let call_id = self.call_id(id, name, slot);
        let baggage = self.call_extra.take().map(|call_extra| Baggage {
            origin: self.settings.terms.origin.clone(),
            call_extra,
            ..Baggage::default()
        });
        let held = self.settings.codex;
        self.calls
            .start(Call::new(slot, call_id, resolved.target, held, baggage));
        self.calls
            .settle(&mut self.writer, &mut self.notes, frames, false);
    }

    /// The upstream's call id if it can be used, else one made from what the
    /// model called: the same call gets the same id when it is replayed.
    fn call_id(&mut self, id: &str, name: &str, slot: u32) -> String {
        if (1..=64).contains(&id.len()) && self.settings.known_calls.insert(id.to_owned()) {
            return id.to_owned();
        }
        self.notes.add(
            "call_id_minted",
            format!(
                "{name}: the provider's id was {}",
                if id.is_empty() { "empty" } else { "not usable" }
            ),
        );
        let mut count = self.settings.known_calls.len();
        loop {
            let seed = format!("{id}\0{name}\0{slot}\0{count}");
            let minted = format!("call_{:08x}{:08x}", crc32fast::hash(seed.as_bytes()), count);
            if self.settings.known_calls.insert(minted.clone()) {
                return minted;
            }
            count += 1;
        }
    }

    fn finish(&mut self, finish: Finish, now: u64, frames: &mut Frames) {
        let whole = finish == Finish::Stop;
        let called = !self.calls.is_empty();
        let status = if whole { "completed" } else { "incomplete" };
        self.calls
            .finish(whole, &mut self.writer, &mut self.notes, frames);
        if called {
            self.flush_waiting(frames);
        }
        self.close_text(status, false, frames);
        self.drop_citations();
        self.count_tokens();
        let state = State {
            usage: self.usage,
            ..self.state()
        };
        let (outcome, name, state) = match finish {
            Finish::Stop => (
                Outcome::Completed,
                "response.completed",
                State {
                    status: "completed",
                    completed_at: Some(now),
                    ..state
                },
            ),
            Finish::Length | Finish::ContentFilter => (
                Outcome::Incomplete,
                "response.incomplete",
                State {
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
        self.terminal(name, &state, frames);
        self.outcome = Some(outcome);
    }

    /// Estimates the token counts if the provider sent none.
    fn count_tokens(&mut self) {
        if self.usage.is_none() {
            self.notes
                .add("usage_estimated", "the provider sent no token counts");
            self.usage = Some(self.estimate());
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an estimate"
    )]
    fn estimate(&self) -> Usage {
        let output =
            (self.size as f32 / self.settings.terms.bytes_per_token.max(0.1)).ceil() as u64;
        Usage {
            input: self.settings.terms.estimated_input,
            output,
            ..Usage::default()
        }
    }

    fn state(&self) -> State<'_> {
        State {
            status: "in_progress",
            completed_at: None,
            error: None,
            incomplete: None,
            output: &self.writer.output,
            usage: None,
        }
    }

    fn lifecycle(&mut self, name: &'static str, frames: &mut Frames) {
        let sequence = self.writer.next_sequence();
        let out = frames.open(name, sequence);
        out.extend_from_slice(b",\"response\":");
        self.settings.envelope.push(out, &self.state());
        frames.close();
    }

    /// Writes the event that ends the stream, and `[DONE]`. No number follows
    /// its own.
    fn terminal(&self, name: &'static str, state: &State<'_>, frames: &mut Frames) {
        let out = frames.open(name, self.writer.sequence);
        out.extend_from_slice(b",\"response\":");
        let start = out.len();
        self.settings.envelope.push(out, state);
        frames.mark_terminal(start);
        frames.close();
        frames.done();
    }
}
