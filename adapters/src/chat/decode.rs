//! The stream of a Chat Completions answer becomes [`Event`]s.
//!
//! One chunk is parsed into borrowed fields; text stays escaped. Usage may
//! come after the finish reason, so the end is told at the end.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::refusal;
use crate::event::{Event, Finish, Fragment, Usage};
use crate::fault::{Fault, Kind};
use crate::json;

/// What a decoder keeps between chunks.
#[derive(Debug, Default)]
pub struct Decoder {
    started: bool,
    finish: Option<Finish>,
    calls: Vec<Call>,
    over: bool,
}

/// An open call: the upstream's index and id. Its slot is its position.
#[derive(Debug)]
struct Call {
    index: Option<u64>,
    id: String,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: u64,
    #[serde(borrow, alias = "message")]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    logprobs: Option<Logprobs<'a>>,
}

#[derive(Deserialize)]
struct Logprobs<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
    #[serde(borrow)]
    annotations: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct CallDelta<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    function: Option<FunctionDelta<'a>>,
}

#[derive(Deserialize)]
struct FunctionDelta<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

impl Decoder {
    /// Reads the data of one SSE event, or a whole JSON answer.
    pub fn data<'a>(&mut self, data: &'a str, emit: &mut impl FnMut(Event<'a>)) {
        if self.over {
            return;
        }
        if data.trim() == "[DONE]" {
            self.end(emit);
            return;
        }
        let chunk: Chunk<'a> = match serde_json::from_str(data) {
            Ok(chunk) => chunk,
            // All was said; the connection may have been cut in the token counts.
            Err(_) if self.is_finished() => return,
            Err(error) => {
                self.fail(bad_chunk(data, &error), emit);
                return;
            }
        };
        if let Some(error) = chunk.error {
            self.fail(refusal::in_stream(error), emit);
            return;
        }
        if !self.started {
            self.started = true;
            emit(Event::Started);
        }
        for choice in chunk
            .choices
            .into_iter()
            .flatten()
            .filter(|choice| choice.index == 0)
        {
            self.choice(choice, emit);
        }
        if let Some(usage) = chunk.usage.and_then(read_usage) {
            emit(Event::Usage(usage));
        }
    }

    /// The stream is over: tells how.
    pub fn end<'a>(&mut self, emit: &mut impl FnMut(Event<'a>)) {
        if self.over {
            return;
        }
        self.over = true;
        match self.finish {
            Some(finish) => emit(Event::Finish(finish)),
            None => emit(Event::Failed(Fault::new(
                Kind::Cut,
                "The provider's answer ended before it was complete.",
            ))),
        }
    }

    /// Whether the end was told.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Whether the provider gave its finish reason. Only token counts may follow.
    pub fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    fn fail<'a>(&mut self, fault: Fault, emit: &mut impl FnMut(Event<'a>)) {
        self.over = true;
        emit(Event::Failed(fault));
    }

    fn choice<'a>(&mut self, choice: Choice<'a>, emit: &mut impl FnMut(Event<'a>)) {
        if let Some(delta) = choice.delta {
            if let Some(reasoning) = fragment(delta.reasoning_content) {
                emit(Event::Reasoning(reasoning));
            }
            if let Some(text) = fragment(delta.content) {
                emit(Event::Text(
                    text,
                    choice.logprobs.and_then(|logprobs| logprobs.content),
                ));
            }
            if let Some(refusal) = fragment(delta.refusal) {
                emit(Event::Refusal(refusal));
            }
            for annotation in delta.annotations.into_iter().flatten() {
                emit(Event::Annotation(annotation));
            }
            for call in delta.tool_calls.into_iter().flatten() {
                self.call(call, emit);
            }
        }
        match choice.finish_reason.as_deref() {
            None | Some("") => {}
            Some("length") => self.finish = Some(Finish::Length),
            Some("content_filter") => self.finish = Some(Finish::ContentFilter),
            Some(reason) => {
                if !matches!(reason, "stop" | "tool_calls" | "function_call") {
                    emit(Event::Note("finish_reason_unknown", reason.to_owned()));
                }
                self.finish = Some(Finish::Stop);
            }
        }
    }

    fn call<'a>(&mut self, call: CallDelta<'a>, emit: &mut impl FnMut(Event<'a>)) {
        let id = call.id.unwrap_or_default();
        let (name, arguments) = match call.function {
            Some(function) => (function.name.unwrap_or_default(), function.arguments),
            None => (Cow::default(), None),
        };
        let slot = match self.slot(call.index, &id) {
            Some(slot) => slot,
            None => {
                self.calls.push(Call {
                    index: call.index,
                    id: id.clone().into_owned(),
                });
                let slot = self.calls.len() - 1;
                emit(Event::CallStart {
                    slot: slot_number(slot),
                    id,
                    name,
                });
                slot
            }
        };
        let Some(arguments) = arguments else { return };
        let fragment = Fragment::from_raw(arguments).unwrap_or_else(|| object_text(arguments));
        if !fragment.is_empty() {
            emit(Event::CallArguments(slot_number(slot), fragment));
        }
    }

    /// The call that a piece belongs to; `None` when it begins a new one. A
    /// new id on a known index is a new call.
    fn slot(&self, index: Option<u64>, id: &str) -> Option<usize> {
        match index {
            Some(_) => self
                .calls
                .iter()
                .rposition(|call| call.index == index)
                .filter(|slot| {
                    id.is_empty() || self.calls.get(*slot).is_some_and(|call| call.id == id)
                }),
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().rposition(|call| call.id == id),
        }
    }
}

fn slot_number(slot: usize) -> u32 {
    u32::try_from(slot).unwrap_or(u32::MAX)
}

/// The fragment of a non-empty string; null and the rest say nothing.
fn fragment(raw: Option<&RawValue>) -> Option<Fragment<'_>> {
    Fragment::from_raw(raw?).filter(|fragment| !fragment.is_empty())
}

/// Arguments that are an object instead of a string; null says nothing.
fn object_text(raw: &RawValue) -> Fragment<'static> {
    let mut text = Vec::new();
    if raw.get() != "null" {
        json::escape_json_text(&mut text, raw.get());
    }
    Fragment::from_escaped(String::from_utf8(text).unwrap_or_default())
}

fn bad_chunk(data: &str, error: &serde_json::Error) -> Fault {
    let start: String = data.chars().take(200).collect();
    Fault::new(
        Kind::BadReply,
        "The provider sent something that is not a chat completion chunk.",
    )
    .caused_by(format!("{error}: {start}"))
}

fn read_usage(raw: &RawValue) -> Option<Usage> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Counts {
        prompt_tokens: Option<u64>,
        completion_tokens: Option<u64>,
        prompt_tokens_details: Option<PromptDetails>,
        completion_tokens_details: Option<CompletionDetails>,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct PromptDetails {
        cached_tokens: Option<u64>,
        cache_write_tokens: Option<u64>,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct CompletionDetails {
        reasoning_tokens: Option<u64>,
    }
    let counts: Counts = serde_json::from_str(raw.get()).ok()?;
    let prompt = counts.prompt_tokens_details.unwrap_or_default();
    Some(Usage {
        input: counts.prompt_tokens?,
        cached: prompt.cached_tokens.unwrap_or(0),
        cache_write: prompt.cache_write_tokens.unwrap_or(0),
        output: counts.completion_tokens.unwrap_or(0),
        reasoning: counts
            .completion_tokens_details
            .and_then(|d| d.reasoning_tokens)
            .unwrap_or(0),
    })
}
