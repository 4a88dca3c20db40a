//! Decodes a Chat Completions answer, streamed or whole, into [`Event`]s.
//!
//! Each chunk is parsed into borrowed fields, and text stays escaped. Token counts
//! may follow the finish reason, so the finish is emitted only when the stream
//! ends.
//!
//! | module | contents |
//! |---|---|
//! | [`chunk`] | the JSON fields of a chunk |
//! | [`think`] | reasoning between tags in the text |
//! | [`harmony`] | answers in the Harmony format, as text |
//! | [`text_calls`], [`xml_call`] | tool calls in the text |
//! | [`tags`] | tags in escaped text |
//! | [`calls`] | tool calls in their own field |
//! | [`details`] | `reasoning_details` |
//! | [`sources`] | citations and lists of cited pages |
//! | [`logprobs`] | log probabilities |
//! | [`usage`] | token counts |
//! | [`finish`] | finish reasons |

mod calls;
mod chunk;
mod details;
mod finish;
mod harmony;
mod logprobs;
mod sources;
mod tags;
mod text_calls;
mod think;
mod usage;
mod xml_call;

#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde_json::value::RawValue;

use registry::{ChatQuirks, ReasoningReplay};

use self::calls::StreamedCalls;
use self::chunk::{CallDelta, Chunk, ChunkChoice, Delta, parse_object, scalar, text_fragment};
use self::details::{DetailText, ReasoningDetails};
use self::finish::FinishMeaning;
use self::sources::CitedPages;
use self::text_calls::{TextCallParser, TextPiece};
use self::think::{ThinkPiece, ThinkTagParser};
use crate::chat::reasoning_state;
use crate::chat::refusals::find_patch;
use crate::event::DataKind;
use crate::event::{Event, Finish, Fragment, ReasoningState};
use crate::fault::{Fault, Kind};
use crate::json;
use crate::provider_error;

/// Decodes one answer. Made for each upstream response; ends with [`Self::finish`]
/// or [`Self::fail`].
#[derive(Debug)]
pub(crate) struct ChatDecoder {
    /// See [`ChatQuirks::usage_apart`].
    usage_apart: bool,
    think_tags: ThinkTagParser,
    text_calls: TextCallParser,
    /// `reasoning_details` to send back later; `None` if the provider does not
    /// require them.
    details: Option<ReasoningDetails>,
    /// The text of `reasoning_details` that has been emitted.
    shown_details: DetailText,
    calls: StreamedCalls,
    cited_pages: CitedPages,
    progress: StreamProgress,
    finish: Option<Finish>,
    /// The reason for the finish, if an answer with nothing cannot end for it: its meaning is a
    /// guess, or it says that there is a call.
    unmet_reason: Option<String>,
    /// It was emitted that the provider has searched.
    has_searched: bool,
    /// How the last token counts had to be corrected.
    usage_correction: Option<String>,
    ended: bool,
}

/// The progress of an answer that is being decoded.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
struct StreamProgress {
    /// A chunk was understood.
    started: bool,
    /// Text or a call was decoded.
    content: bool,
    /// Reasoning was decoded from a field of its own.
    reasoning: bool,
    /// The answer came as one document, not in deltas.
    whole_document: bool,
    /// Content or reasoning came in a delta.
    deltas: bool,
    /// `[DONE]` was received.
    done: bool,
    /// Token counts came, and no content after them.
    usage_after_content: bool,
    /// The chunk that is being read has content.
    chunk_has_content: bool,
}

impl ChatDecoder {
    /// A decoder for the answer of a model with these quirks.
    pub(crate) fn new(quirks: &ChatQuirks) -> Self {
        Self {
            usage_apart: quirks.usage_apart,
            think_tags: ThinkTagParser::new(quirks.think_tags),
            text_calls: TextCallParser::new(quirks.tool_call_tags),
            details: (quirks.reasoning_replay == ReasoningReplay::ReasoningDetails)
                .then(ReasoningDetails::default),
            shown_details: DetailText::default(),
            calls: StreamedCalls::new(quirks),
            cited_pages: CitedPages::default(),
            progress: StreamProgress::default(),
            finish: None,
            unmet_reason: None,
            has_searched: false,
            usage_correction: None,
            ended: false,
        }
    }

    /// Decodes the data of one SSE event, or a whole JSON answer.
    pub(crate) fn decode<'a>(
        &mut self,
        data: &'a str,
        kind: DataKind,
        emit: &mut impl FnMut(Event<'a>),
    ) {
        if self.ended {
            return;
        }
        let chunk: Chunk<'a> = match serde_json::from_str(data) {
            Ok(chunk) if !data.trim_start().starts_with('[') => chunk,
            _ => return self.decode_irregular(data, kind, emit),
        };
        if let Some(error) = chunk.error(data) {
            self.read_usage(chunk.usage, emit);
            self.fail(provider_error::from_stream_error(find_patch, &error), emit);
            return;
        }
        if kind == DataKind::ErrorEvent {
            self.fail(error_event_fault(data), emit);
            return;
        }
        if !self.progress.started {
            self.progress.started = true;
            emit(Event::Started);
        }
        self.progress.chunk_has_content = false;
        self.cited_pages.emit_changed(&chunk, emit);
        let mut usage = chunk.x_groq.and_then(groq_usage);
        for choice in chunk.choices.unwrap_or_default().first {
            usage = choice.usage.or(usage);
            self.read_choice(choice, emit);
        }
        if self.progress.chunk_has_content {
            self.progress.usage_after_content = false;
        }
        self.read_usage(chunk.usage.or(usage), emit);
    }

    /// Whether nothing has been understood so far.
    pub(crate) fn has_decoded_nothing(&self) -> bool {
        !self.progress.started && !self.ended
    }

    /// Ends the answer: emits the calls and details that are still held, then the
    /// finish or the failure.
    pub(crate) fn finish<'a>(&mut self, emit: &mut impl FnMut(Event<'a>)) {
        if self.ended {
            return;
        }
        self.calls.start_held(emit);
        let is_all = self.finish == Some(Finish::Stop) && !self.progress.content;
        let (pieces, is_unclosed) = self.think_tags.finish(is_all);
        for piece in pieces {
            self.emit_think_piece(piece, emit);
        }
        if let Some(piece) = self.text_calls.finish() {
            self.emit_text_piece(piece, emit);
        }
        self.emit_details(emit);
        self.ended = true;
        let is_call_lost = self.calls.finish(emit);
        if let Some(correction) = self.usage_correction.take() {
            emit(Event::Note("usage_clamped", correction));
        }
        // Without a finish reason the answer counts as complete only with further
        // evidence: a relay may send `[DONE]` after an answer that was cut off, but
        // token counts are sent only for a whole answer.
        let finish = self.finish.or_else(|| {
            let complete = self.progress.whole_document
                || (self.progress.done && self.progress.usage_after_content);
            let complete = complete && self.progress.content && self.calls.are_complete();
            complete.then(|| {
                let detail = "the provider ended its answer without one";
                emit(Event::Note("finish_reason_missing", detail.to_owned()));
                Finish::Stop
            })
        });
        let Some(finish) = finish else {
            emit(Event::Failed(cut_off_fault()));
            return;
        };
        if finish == Finish::Stop && is_call_lost {
            emit(Event::Failed(Fault::nameless_call()));
            return;
        }
        if let Some(reason) = self.unmet_reason.take()
            && finish == Finish::Stop
            && !self.progress.content
        {
            let reason: String = reason.chars().take(100).collect();
            let predicate = format!("ended without text or a call, for the reason '{reason}'.");
            emit(Event::Failed(Fault::of_answer(Kind::BadReply, predicate)));
            return;
        }
        if is_unclosed && finish == Finish::Stop {
            let detail = "the thinking had no end";
            emit(Event::Note("think_tag_unclosed", detail.to_owned()));
        }
        self.calls.forget_arguments();
        emit(Event::Finish(finish));
    }

    /// What the answer shows of its model: whether its answers begin inside thinking.
    pub(crate) fn begins_inside_thinking(&self) -> Option<bool> {
        self.think_tags.begins_inside_thinking()
    }

    /// Whether the answer has its finish reason. Token counts may still follow.
    pub(crate) fn is_complete(&self) -> bool {
        self.finish.is_some()
    }

    /// Whether the answer has its token counts behind its finish reason.
    pub(crate) fn has_counts(&self) -> bool {
        self.is_complete() && self.progress.usage_after_content
    }

    /// Ends the answer with a fault, unless it has ended.
    pub(crate) fn fail<'a>(&mut self, fault: Fault, emit: &mut impl FnMut(Event<'a>)) {
        if !self.ended {
            self.ended = true;
            self.calls.start_held(emit);
            emit(Event::Failed(fault));
        }
    }

    /// Decodes data that is not a chunk.
    fn decode_irregular<'a>(
        &mut self,
        data: &'a str,
        kind: DataKind,
        emit: &mut impl FnMut(Event<'a>),
    ) {
        match data.trim() {
            "" | "null" => return,
            "[DONE]" => {
                self.progress.done = true;
                self.finish(emit);
                return;
            }
            cut if kind == DataKind::Trailing && "[DONE]".starts_with(cut) => return,
            _ => {}
        }
        // Gemini wraps errors in a list.
        if let Ok(chunks) = serde_json::from_str::<Vec<&'a RawValue>>(data)
            && !chunks.iter().any(|chunk| chunk.get().starts_with('['))
        {
            for chunk in chunks {
                self.decode(chunk.get(), kind, emit);
            }
            return;
        }
        let fault = match serde_json::from_str::<Chunk<'a>>(data) {
            // The answer is complete; the connection may have been cut in the token
            // counts.
            _ if self.is_complete() && kind != DataKind::ErrorEvent => return,
            _ if kind == DataKind::ErrorEvent => error_event_fault(data),
            Err(error) if kind == DataKind::Trailing && error.is_eof() => cut_off_fault(),
            Err(error) => bad_chunk_fault(data, &error.to_string()),
            Ok(_) => bad_chunk_fault(data, "a list"),
        };
        self.fail(fault, emit);
    }

    fn read_choice<'a>(&mut self, choice: ChunkChoice<'a>, emit: &mut impl FnMut(Event<'a>)) {
        let logprobs = choice.logprobs();
        if let Some(delta) = choice.delta {
            self.read_delta(&delta, logprobs, emit);
            self.progress.deltas = self.progress.content || self.progress.reasoning;
        } else if let Some(message) = parse_object(choice.message) {
            self.read_message(&message, logprobs, emit);
        }
        let Some(reason) = choice.finish_reason else {
            return;
        };
        let reason = scalar(Some(reason));
        let has_output = self.progress.content || self.progress.reasoning;
        match finish::interpret(&reason, has_output) {
            FinishMeaning::Absent => {}
            FinishMeaning::Finish(finish) => {
                self.unmet_reason = finish::promises_call(&reason).then(|| reason.to_string());
                self.finish = Some(finish::more_severe(self.finish, finish));
            }
            FinishMeaning::Guessed(finish) => {
                if self.finish.is_none() {
                    self.unmet_reason = Some(reason.to_string());
                }
                emit(Event::Note("finish_reason_unknown", reason.into_owned()));
                self.finish = Some(finish::more_severe(self.finish, finish));
            }
            FinishMeaning::Failed(fault) => self.fail(fault, emit),
        }
    }

    /// Reads a whole message. If its content already came in deltas, only its calls
    /// may be new.
    fn read_message<'a>(
        &mut self,
        message: &Delta<'a>,
        logprobs: Option<&'a RawValue>,
        emit: &mut impl FnMut(Event<'a>),
    ) {
        if !self.progress.deltas {
            self.progress.whole_document = true;
            self.read_delta(message, logprobs, emit);
        } else if self.calls.is_empty() {
            let calls = Delta {
                tool_calls: message.tool_calls,
                function_call: message.function_call,
                ..Delta::default()
            };
            self.read_delta(&calls, None, emit);
        }
    }

    fn read_delta<'a>(
        &mut self,
        delta: &Delta<'a>,
        logprobs: Option<&'a RawValue>,
        emit: &mut impl FnMut(Event<'a>),
    ) {
        let reasoning =
            text_fragment(delta.reasoning_content).or_else(|| text_fragment(delta.reasoning));
        if let Some(reasoning) = reasoning {
            self.calls.start_held(emit);
            self.progress.reasoning = true;
            self.progress.chunk_has_content = true;
            self.think_tags.note_separate_reasoning(reasoning.escaped());
            emit(Event::Reasoning(reasoning));
        }
        if let Some(raw) = delta.reasoning_details {
            if !self.progress.reasoning {
                for shown in details::visible_text(raw, &mut self.shown_details) {
                    self.think_tags.note_separate_reasoning(shown.escaped());
                    emit(Event::Reasoning(shown));
                }
            }
            if let Some(details) = &mut self.details {
                details.push(raw);
            }
        }
        if let Some(content) = delta.content {
            match Fragment::from_raw(content) {
                Some(text) if text.is_empty() => {}
                Some(text) => {
                    self.calls.start_held(emit);
                    self.progress.chunk_has_content = true;
                    self.read_text(text, logprobs, emit);
                }
                None => {
                    self.calls.start_held(emit);
                    self.progress.chunk_has_content = true;
                    self.read_parts(content, emit);
                }
            }
        }
        if let Some(refusal) = text_fragment(delta.refusal) {
            self.calls.start_held(emit);
            self.progress.content = true;
            self.progress.chunk_has_content = true;
            self.emit_details(emit);
            emit(Event::Refusal(refusal));
        }
        if let Some(annotations) = delta.annotations {
            for annotation in json::list(Some(annotations)) {
                emit(match sources::citation(annotation) {
                    Some(citation) => Event::Citation(citation),
                    None => {
                        Event::Note("annotation_dropped", "it is not a url_citation".to_owned())
                    }
                });
            }
        }
        match delta.calls() {
            Ok(calls) => {
                for call in calls {
                    self.read_call(call, emit);
                }
            }
            Err(error) => {
                let calls = delta.tool_calls.map(RawValue::get).unwrap_or_default();
                self.fail(bad_chunk_fault(calls, &error.to_string()), emit);
            }
        }
    }

    /// Reads a piece of the content.
    fn read_text<'a>(
        &mut self,
        text: Fragment<'a>,
        logprobs: Option<&'a RawValue>,
        emit: &mut impl FnMut(Event<'a>),
    ) {
        if self.think_tags.is_plain_text(text.escaped()) {
            self.read_visible_text(text, logprobs, emit);
            return;
        }
        for piece in self.think_tags.push(text.escaped()) {
            self.emit_think_piece(piece, emit);
        }
    }

    fn emit_think_piece<'a>(&mut self, piece: ThinkPiece, emit: &mut impl FnMut(Event<'a>)) {
        match piece {
            // MiniMax without `reasoning_split` sends its reasoning twice.
            ThinkPiece::Repeated => {
                let detail = "between tags, as it stood in a field of its own";
                emit(Event::Note("reasoning_repeated", detail.to_owned()));
            }
            ThinkPiece::TextWasReasoning => {
                let detail = "the text before it was thinking; the next answers of the model are read so from their beginning";
                emit(Event::Note("think_tag_unopened", detail.to_owned()));
                emit(Event::MessageEnd);
            }
            ThinkPiece::Call { name, arguments } => {
                self.emit_text_piece(TextPiece::Call { name, arguments }, emit);
            }
            ThinkPiece::Reasoning(text) => emit(Event::Reasoning(Fragment::from_escaped(text))),
            ThinkPiece::Text(text) => {
                self.read_visible_text(Fragment::from_escaped(text), None, emit);
            }
        }
    }

    fn read_visible_text<'a>(
        &mut self,
        text: Fragment<'a>,
        logprobs: Option<&'a RawValue>,
        emit: &mut impl FnMut(Event<'a>),
    ) {
        if self.text_calls.is_plain_text(text.escaped()) {
            self.progress.content = self.progress.content || !text.is_blank();
            self.emit_details(emit);
            emit(Event::Text(text, logprobs.and_then(logprobs::read)));
            return;
        }
        for piece in self.text_calls.push(text.escaped()) {
            self.emit_text_piece(piece, emit);
        }
    }

    fn emit_text_piece<'a>(&mut self, piece: TextPiece, emit: &mut impl FnMut(Event<'a>)) {
        self.emit_details(emit);
        match piece {
            TextPiece::Text(text) => {
                let text = Fragment::from_escaped(text);
                self.progress.content |= !text.is_blank();
                emit(Event::Text(text, None));
            }
            TextPiece::Call { name, arguments } => {
                self.progress.content = true;
                emit(Event::Note("tool_call_in_text", name.clone()));
                if let Err(fault) = self.calls.push_complete(name, arguments, emit) {
                    self.fail(fault, emit);
                }
            }
        }
    }

    /// Reads content that is a list of parts: Mistral's, whose reasoning is among
    /// them.
    fn read_parts<'a>(&mut self, content: &'a RawValue, emit: &mut impl FnMut(Event<'a>)) {
        #[derive(Deserialize)]
        struct TextOrThinkingPart<'a> {
            #[serde(borrow, rename = "type")]
            kind: Option<&'a RawValue>,
            text: Option<&'a RawValue>,
            thinking: Option<&'a RawValue>,
        }
        for part in json::list::<TextOrThinkingPart<'a>>(Some(content)) {
            let inner = json::list::<TextOrThinkingPart<'a>>(part.thinking);
            let thoughts = text_fragment(part.thinking).into_iter().chain(
                inner
                    .into_iter()
                    .filter_map(|part| text_fragment(part.text)),
            );
            for thought in thoughts {
                self.progress.reasoning = true;
                self.think_tags.note_separate_reasoning(thought.escaped());
                emit(Event::Reasoning(thought));
            }
            if let Some(text) = text_fragment(part.text) {
                self.read_text(text, None, emit);
            } else if part.text.is_none() && part.thinking.is_none() {
                let kind = scalar(part.kind);
                emit(Event::Note(
                    "content_dropped",
                    format!("a part of type {kind}"),
                ));
            }
        }
    }

    fn read_call<'a>(&mut self, call: CallDelta<'a>, emit: &mut impl FnMut(Event<'a>)) {
        self.progress.content = true;
        self.progress.chunk_has_content = true;
        for piece in self.think_tags.flush() {
            self.emit_think_piece(piece, emit);
        }
        self.think_tags.note_call();
        self.emit_details(emit);
        if let Err(fault) = self.calls.push(call, self.progress.whole_document, emit) {
            self.fail(fault, emit);
        }
    }

    /// Emits the `reasoning_details` of the reasoning that ends here.
    fn emit_details<'a>(&mut self, emit: &mut impl FnMut(Event<'a>)) {
        let Some(details) = self.details.as_mut().filter(|details| !details.is_empty()) else {
            return;
        };
        let (list, too_many) = details.take();
        if let Some(list) = list {
            emit(Event::ReasoningState(ReasoningState {
                slot: None,
                form: reasoning_state::REASONING_DETAILS,
                blob: list.into(),
            }));
        }
        if too_many {
            let detail = "they are too large to be carried";
            emit(Event::Note("reasoning_details_dropped", detail.to_owned()));
        }
    }

    fn read_usage<'a>(&mut self, raw: Option<&RawValue>, emit: &mut impl FnMut(Event<'a>)) {
        if let Some((usage, wrong)) = raw.and_then(|raw| usage::read(raw, self.usage_apart)) {
            self.usage_correction = wrong;
            self.progress.usage_after_content = !self.progress.chunk_has_content;
            emit(Event::Usage(usage));
        }
        if !self.has_searched && raw.is_some_and(usage::has_searches) {
            self.has_searched = true;
            emit(Event::Searched);
        }
    }
}

/// The `usage` in Groq's `x_groq`.
fn groq_usage(raw: &RawValue) -> Option<&RawValue> {
    #[derive(Deserialize)]
    struct GroqExtension<'a> {
        #[serde(borrow)]
        usage: Option<&'a RawValue>,
    }
    serde_json::from_str::<GroqExtension<'_>>(raw.get())
        .ok()?
        .usage
}

fn cut_off_fault() -> Fault {
    Fault::of_answer(Kind::Cut, "ended before it was complete.")
}

/// The fault of an `error` event that has no error object: the whole data is the
/// error.
fn error_event_fault(data: &str) -> Fault {
    let whole = serde_json::from_str::<&RawValue>(data).map(ToOwned::to_owned);
    let text = || RawValue::from_string(format!("\"{}\"", json::escape(data.trim())));
    match whole.or_else(|_| text()) {
        Ok(raw) => provider_error::from_stream_error(find_patch, &raw),
        Err(_) => bad_chunk_fault(data, "an error event"),
    }
}

fn bad_chunk_fault(data: &str, reason: &str) -> Fault {
    let start: String = data.chars().take(200).collect();
    let predicate = "sent something that is not a chat completion chunk.";
    Fault::of_provider(Kind::BadReply, predicate).caused_by(format!("{reason}: {start}"))
}
