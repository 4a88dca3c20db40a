//! The stream of a Chat Completions answer becomes [`Event`]s.
//!
//! One chunk is parsed into borrowed fields; text stays escaped. Usage may
//! come after the finish reason, so the end is told at the end.

mod calls;
mod chunk;
mod details;
mod finish;
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

use registry::{ExtraContentReplay, Quirks, ReasoningReplay};

use self::calls::Calls;
use self::chunk::{CallDelta, Choice, Chunk, Delta, fragment, list, object, word};
use self::details::{Details, Pieces};
use self::finish::Ending;
use self::sources::Sources;
use self::text_calls::TextCalls;
use self::think::Think;
use super::refusal;
use crate::event::{Event, Finish, Fragment};
use crate::fault::{Fault, Kind};
use crate::json;

/// What a decoder keeps between chunks.
#[derive(Debug)]
pub(super) struct Decoder {
    /// See [`Quirks::usage_apart`].
    usage_apart: bool,
    think: Think,
    text_calls: TextCalls,
    /// What the provider wants back of its thinking, where it does.
    details: Option<Details>,
    /// What was shown of it.
    shown: Pieces,
    calls: Calls,
    sources: Sources,
    said: Said,
    finish: Option<Finish>,
    /// What was wrong with the last token counts.
    wrong_usage: Option<String>,
    over: bool,
}

/// What an answer has said so far.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
struct Said {
    /// Anything at all.
    anything: bool,
    /// Text or a call.
    content: bool,
    /// Thinking in a field of plain text.
    reasoning: bool,
    /// All of it, in one document.
    document: bool,
    /// A part of it, in a chunk of a stream.
    pieces: bool,
    /// `[DONE]`
    done: bool,
    /// Token counts behind all content.
    counts: bool,
    /// The chunk that is being read has content.
    news: bool,
}

/// What one event of a stream is, besides its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// An event, or a whole document.
    Whole,
    /// An event by the name `error`.
    Error,
    /// What was there when the body ended: it may be cut.
    Last,
}

impl Decoder {
    /// A decoder for a model with these quirks.
    pub(super) fn new(quirks: &Quirks) -> Self {
        Self {
            usage_apart: quirks.usage_apart,
            think: Think::new(quirks.think_tags),
            text_calls: TextCalls::new(quirks.tool_call_tags),
            details: (quirks.reasoning_replay == ReasoningReplay::ReasoningDetails)
                .then(Details::default),
            shown: Pieces::default(),
            calls: Calls::new(quirks.call_extra != ExtraContentReplay::None),
            sources: Sources::default(),
            said: Said::default(),
            finish: None,
            wrong_usage: None,
            over: false,
        }
    }

    /// Reads the data of one SSE event, or a whole JSON answer.
    pub(super) fn data<'a>(
        &mut self,
        data: &'a str,
        frame: Frame,
        emit: &mut impl FnMut(Event<'a>),
    ) {
        if self.over {
            return;
        }
        let chunk: Chunk<'a> = match serde_json::from_str(data) {
            Ok(chunk) if !data.trim_start().starts_with('[') => chunk,
            _ => return self.odd(data, frame, emit),
        };
        if let Some(error) = chunk.error(data) {
            self.usage(chunk.usage, emit);
            self.fail(refusal::in_stream(&error), emit);
            return;
        }
        if frame == Frame::Error {
            self.fail(error_event(data), emit);
            return;
        }
        if !self.said.anything {
            self.said.anything = true;
            emit(Event::Started);
        }
        self.said.news = false;
        self.sources.take(&chunk, emit);
        let mut usage = chunk.x_groq.and_then(inner_usage);
        for choice in chunk.choices.into_iter().flatten().filter(Choice::is_first) {
            usage = choice.usage.or(usage);
            self.choice(choice, emit);
        }
        if self.said.news {
            self.said.counts = false;
        }
        self.usage(chunk.usage.or(usage), emit);
    }

    /// Whether nothing was understood so far.
    pub(super) fn is_silent(&self) -> bool {
        !self.said.anything && !self.over
    }

    /// The stream is over: tells how.
    pub(super) fn end<'a>(&mut self, emit: &mut impl FnMut(Event<'a>)) {
        if self.over {
            return;
        }
        self.release_text(emit);
        if let Some(piece) = self.text_calls.end() {
            self.text_piece(piece, emit);
        }
        self.tell_details(emit);
        self.over = true;
        self.calls.end(emit);
        if let Some(wrong) = self.wrong_usage.take() {
            emit(Event::Note("usage_clamped", wrong));
        }
        // A relay may put `[DONE]` behind an answer that was cut off, but nobody
        // counts the tokens of an answer before it is whole.
        let finish = self.finish.or_else(|| {
            let over = self.said.document || (self.said.done && self.said.counts);
            let over = over && self.said.content && self.calls.are_whole();
            over.then(|| {
                let detail = "the provider ended its answer without one";
                emit(Event::Note("finish_reason_missing", detail.to_owned()));
                Finish::Stop
            })
        });
        let Some(finish) = finish else {
            emit(Event::Failed(cut()));
            return;
        };
        if self.think.is_thinking() && finish == Finish::Stop {
            let detail = "the thinking had no end, so that all of the text is reasoning";
            emit(Event::Note("think_tag_unclosed", detail.to_owned()));
        }
        emit(Event::Finish(finish));
    }

    /// Whether the answer is complete, although more may follow: token counts.
    pub(super) fn is_complete(&self) -> bool {
        self.finish.is_some()
    }

    /// Ends the answer with a fault, unless it is over.
    pub(super) fn fail<'a>(&mut self, fault: Fault, emit: &mut impl FnMut(Event<'a>)) {
        if !self.over {
            self.over = true;
            emit(Event::Failed(fault));
        }
    }

    /// Data that is no chunk.
    fn odd<'a>(&mut self, data: &'a str, frame: Frame, emit: &mut impl FnMut(Event<'a>)) {
        match data.trim() {
            "" | "null" => return,
            "[DONE]" => {
                self.said.done = true;
                self.end(emit);
                return;
            }
            cut if frame == Frame::Last && "[DONE]".starts_with(cut) => return,
            _ => {}
        }
        // Gemini wraps errors in a list.
        if let Ok(chunks) = serde_json::from_str::<Vec<&'a RawValue>>(data)
            && !chunks.iter().any(|chunk| chunk.get().starts_with('['))
        {
            for chunk in chunks {
                self.data(chunk.get(), frame, emit);
            }
            return;
        }
        let fault = match serde_json::from_str::<Chunk<'a>>(data) {
            // All was said; the connection may have been cut in the token counts.
            _ if self.is_complete() && frame != Frame::Error => return,
            _ if frame == Frame::Error => error_event(data),
            Err(error) if frame == Frame::Last && error.is_eof() => cut(),
            Err(error) => bad_chunk(data, &error.to_string()),
            Ok(_) => bad_chunk(data, "a list"),
        };
        self.fail(fault, emit);
    }

    fn choice<'a>(&mut self, choice: Choice<'a>, emit: &mut impl FnMut(Event<'a>)) {
        let logprobs = choice.logprobs();
        if let Some(delta) = choice.delta {
            self.delta(&delta, logprobs, emit);
            self.said.pieces = self.said.content || self.said.reasoning;
        } else if let Some(message) = object(choice.message) {
            self.message(&message, logprobs, emit);
        }
        let Some(reason) = choice.finish_reason else {
            return;
        };
        let reason = word(Some(reason));
        let said = self.said.content || self.said.reasoning;
        match finish::read(&reason, said) {
            Ending::Open => {}
            Ending::Finish(finish) => self.finish = Some(finish::stronger(self.finish, finish)),
            Ending::Guess(finish) => {
                emit(Event::Note("finish_reason_unknown", reason.into_owned()));
                self.finish = Some(finish::stronger(self.finish, finish));
            }
            Ending::Failed(fault) => self.fail(fault, emit),
        }
    }

    /// Takes a whole answer. Of one that was told in pieces already only calls
    /// can be news.
    fn message<'a>(
        &mut self,
        message: &Delta<'a>,
        logprobs: Option<&'a RawValue>,
        emit: &mut impl FnMut(Event<'a>),
    ) {
        if !self.said.pieces {
            self.said.document = true;
            self.delta(message, logprobs, emit);
        } else if self.calls.is_empty() {
            let calls = Delta {
                tool_calls: message.tool_calls,
                function_call: message.function_call,
                ..Delta::default()
            };
            self.delta(&calls, None, emit);
        }
    }

    fn delta<'a>(
        &mut self,
        delta: &Delta<'a>,
        logprobs: Option<&'a RawValue>,
        emit: &mut impl FnMut(Event<'a>),
    ) {
        let reasoning = fragment(delta.reasoning_content).or_else(|| fragment(delta.reasoning));
        if let Some(reasoning) = reasoning {
            self.said.reasoning = true;
            self.said.news = true;
            self.think.told_apart();
            emit(Event::Reasoning(reasoning));
        }
        if let Some(raw) = delta.reasoning_details {
            if !self.said.reasoning {
                for shown in details::shown(raw, &mut self.shown) {
                    self.think.told_apart();
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
                    self.said.news = true;
                    self.text(text, logprobs, emit);
                }
                None => {
                    self.said.news = true;
                    self.parts(content, emit);
                }
            }
        }
        if let Some(refusal) = fragment(delta.refusal) {
            self.said.content = true;
            self.said.news = true;
            self.tell_details(emit);
            emit(Event::Refusal(refusal));
        }
        if let Some(annotations) = delta.annotations {
            for annotation in list(Some(annotations)) {
                emit(Event::Annotation(annotation));
            }
        }
        match delta.calls() {
            Ok(calls) => {
                for call in calls {
                    self.call(call, emit);
                }
            }
            Err(error) => {
                let calls = delta.tool_calls.map(RawValue::get).unwrap_or_default();
                self.fail(bad_chunk(calls, &error.to_string()), emit);
            }
        }
    }

    /// Takes a piece of the content.
    fn text<'a>(
        &mut self,
        text: Fragment<'a>,
        logprobs: Option<&'a RawValue>,
        emit: &mut impl FnMut(Event<'a>),
    ) {
        if self.think.is_over() {
            self.behind_thinking(text, logprobs, emit);
            return;
        }
        for piece in self.think.push(text.escaped()) {
            self.piece(piece, emit);
        }
    }

    fn piece<'a>(&mut self, piece: think::Piece, emit: &mut impl FnMut(Event<'a>)) {
        match piece {
            // MiniMax without `reasoning_split` says its thinking twice.
            think::Piece::Thought(_) if self.said.reasoning => {
                let detail = "between tags, as it stood in a field of its own";
                emit(Event::Note("reasoning_repeated", detail.to_owned()));
            }
            think::Piece::Thought(text) => emit(Event::Reasoning(Fragment::from_escaped(text))),
            think::Piece::Text(text) => {
                self.behind_thinking(Fragment::from_escaped(text), None, emit);
            }
        }
    }

    fn behind_thinking<'a>(
        &mut self,
        text: Fragment<'a>,
        logprobs: Option<&'a RawValue>,
        emit: &mut impl FnMut(Event<'a>),
    ) {
        if self.text_calls.passes(text.escaped()) {
            self.said.content = self.said.content || !text.is_blank();
            self.tell_details(emit);
            emit(Event::Text(text, logprobs));
            return;
        }
        for piece in self.text_calls.push(text.escaped()) {
            self.text_piece(piece, emit);
        }
    }

    fn text_piece<'a>(&mut self, piece: text_calls::Piece, emit: &mut impl FnMut(Event<'a>)) {
        self.said.content = true;
        self.tell_details(emit);
        match piece {
            text_calls::Piece::Text(text) => {
                emit(Event::Text(Fragment::from_escaped(text), None));
            }
            text_calls::Piece::Call { name, arguments } => {
                emit(Event::Note("tool_call_in_text", name.clone()));
                self.calls.whole(name, arguments, emit);
            }
        }
    }

    /// Takes content that is a list of parts: Mistral's, with thinking in it.
    fn parts<'a>(&mut self, content: &'a RawValue, emit: &mut impl FnMut(Event<'a>)) {
        #[derive(Deserialize)]
        struct Part<'a> {
            #[serde(borrow, rename = "type")]
            kind: Option<&'a RawValue>,
            #[serde(borrow)]
            text: Option<&'a RawValue>,
            #[serde(borrow)]
            thinking: Option<&'a RawValue>,
        }
        for part in list::<Part<'a>>(Some(content)) {
            let inner = list::<Part<'a>>(part.thinking);
            let thoughts = fragment(part.thinking)
                .into_iter()
                .chain(inner.into_iter().filter_map(|part| fragment(part.text)));
            for thought in thoughts {
                self.said.reasoning = true;
                self.think.told_apart();
                emit(Event::Reasoning(thought));
            }
            if let Some(text) = fragment(part.text) {
                self.text(text, None, emit);
            } else if part.text.is_none() && part.thinking.is_none() {
                let kind = word(part.kind);
                emit(Event::Note(
                    "content_dropped",
                    format!("a part of type {kind}"),
                ));
            }
        }
    }

    fn call<'a>(&mut self, call: CallDelta<'a>, emit: &mut impl FnMut(Event<'a>)) {
        self.said.content = true;
        self.said.news = true;
        self.release_text(emit);
        self.tell_details(emit);
        if let Err(fault) = self.calls.take(call, self.said.document, emit) {
            self.fail(fault, emit);
        }
    }

    /// Tells the text that was held back because it could have become a tag.
    fn release_text<'a>(&mut self, emit: &mut impl FnMut(Event<'a>)) {
        if let Some(piece) = self.think.flush() {
            self.piece(piece, emit);
        }
    }

    /// Tells what the provider wants back of the thinking that ends here.
    fn tell_details<'a>(&mut self, emit: &mut impl FnMut(Event<'a>)) {
        let Some(details) = self.details.as_mut().filter(|details| !details.is_empty()) else {
            return;
        };
        let (list, too_many) = details.take();
        if let Some(list) = list {
            emit(Event::ReasoningDetails(list));
        }
        if too_many {
            let detail = "they are too large to be carried";
            emit(Event::Note("reasoning_details_dropped", detail.to_owned()));
        }
    }

    fn usage<'a>(&mut self, raw: Option<&RawValue>, emit: &mut impl FnMut(Event<'a>)) {
        if let Some((usage, wrong)) = raw.and_then(|raw| usage::read(raw, self.usage_apart)) {
            self.wrong_usage = wrong;
            self.said.counts = !self.said.news;
            emit(Event::Usage(usage));
        }
    }
}

/// The `usage` inside Groq's field.
fn inner_usage(raw: &RawValue) -> Option<&RawValue> {
    #[derive(Deserialize)]
    struct Inner<'a> {
        #[serde(borrow)]
        usage: Option<&'a RawValue>,
    }
    serde_json::from_str::<Inner<'_>>(raw.get()).ok()?.usage
}

fn cut() -> Fault {
    Fault::new(
        Kind::Cut,
        "The provider's answer ended before it was complete.",
    )
}

/// The fault of an `error` event without an error object: all of it is the
/// error.
fn error_event(data: &str) -> Fault {
    let whole = serde_json::from_str::<&RawValue>(data).map(ToOwned::to_owned);
    let text = || RawValue::from_string(format!("\"{}\"", json::escape(data.trim())));
    match whole.or_else(|_| text()) {
        Ok(raw) => refusal::in_stream(&raw),
        Err(_) => bad_chunk(data, "an error event"),
    }
}

fn bad_chunk(data: &str, reason: &str) -> Fault {
    let start: String = data.chars().take(200).collect();
    Fault::new(
        Kind::BadReply,
        "The provider sent something that is not a chat completion chunk.",
    )
    .caused_by(format!("{reason}: {start}"))
}
