//! The stream of a Chat Completions answer becomes [`Event`]s.
//!
//! One chunk is parsed into borrowed fields; text stays escaped. Usage may
//! come after the finish reason, so the end is told at the end.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use registry::Quirks;

use super::refusal;
use crate::event::{Event, Finish, Fragment, Usage};
use crate::fault::{Fault, Kind};
use crate::json;

/// The most bytes of arguments that wait for the name of their call.
const EARLY_LIMIT: usize = 1 << 20;

/// What a decoder keeps between chunks.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    started: bool,
    finish: Option<Finish>,
    calls: Vec<Call>,
    over: bool,
}

/// A call of the answer. Its slot is its position.
#[derive(Debug)]
struct Call {
    index: Option<u64>,
    id: String,
    /// Its name was there, so that it has been told.
    told: bool,
    /// Arguments that came before the name, escaped.
    early: String,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: u64,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    /// In place of `delta` in an answer that is not streamed.
    #[serde(borrow)]
    message: Option<Delta<'a>>,
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
    /// What newer vLLM calls `reasoning_content`; some send both.
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
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
    /// A decoder for a model with these quirks.
    pub(super) fn new(_quirks: &Quirks) -> Self {
        Self::default()
    }

    /// Reads the data of one SSE event, or a whole JSON answer.
    pub(super) fn data<'a>(&mut self, data: &'a str, emit: &mut impl FnMut(Event<'a>)) {
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
            Err(_) if self.is_complete() => return,
            Err(error) => {
                self.fail(bad_chunk(data, &error), emit);
                return;
            }
        };
        // Older vLLM sends the error object without a wrapper.
        let bare = chunk
            .object
            .is_some_and(|object| object.get() == "\"error\"");
        if let Some(error) = chunk
            .error
            .or_else(|| bare.then(|| serde_json::from_str(data).ok()).flatten())
        {
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
    pub(super) fn end<'a>(&mut self, emit: &mut impl FnMut(Event<'a>)) {
        if self.over {
            return;
        }
        self.over = true;
        for call in self.calls.iter().filter(|call| !call.told) {
            let detail = format!("{} bytes of arguments", call.early.len());
            emit(Event::Note("call_without_name", detail));
        }
        match self.finish {
            Some(finish) => emit(Event::Finish(finish)),
            None => emit(Event::Failed(Fault::new(
                Kind::Cut,
                "The provider's answer ended before it was complete.",
            ))),
        }
    }

    /// Whether the answer is complete, although more may follow: token counts.
    pub(super) fn is_complete(&self) -> bool {
        self.finish.is_some()
    }

    fn fail<'a>(&mut self, fault: Fault, emit: &mut impl FnMut(Event<'a>)) {
        self.over = true;
        emit(Event::Failed(fault));
    }

    fn choice<'a>(&mut self, choice: Choice<'a>, emit: &mut impl FnMut(Event<'a>)) {
        if let Some(delta) = choice.delta.or(choice.message) {
            let reasoning = fragment(delta.reasoning_content).or_else(|| fragment(delta.reasoning));
            if let Some(reasoning) = reasoning {
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
            Some("error") => self.fail(
                Fault::new(
                    Kind::Unavailable,
                    "The provider ended its answer with an error and did not say which.",
                ),
                emit,
            ),
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
        let slot = self.slot(call.index, &id, &name).unwrap_or_else(|| {
            self.calls.push(Call {
                index: call.index,
                id: String::new(),
                told: false,
                early: String::new(),
            });
            self.calls.len() - 1
        });
        let Some(open) = self.calls.get_mut(slot) else {
            return;
        };
        let slot = slot_number(slot);
        if open.id.is_empty() {
            open.id = id.into_owned();
        }
        if !open.told && !name.is_empty() {
            open.told = true;
            emit(Event::CallStart {
                slot,
                id: Cow::Owned(open.id.clone()),
                name,
            });
            if !open.early.is_empty() {
                let early = Fragment::from_escaped(std::mem::take(&mut open.early));
                emit(Event::CallArguments(slot, early));
            }
        }
        let Some(arguments) = arguments else { return };
        let fragment = Fragment::from_raw(arguments).unwrap_or_else(|| object_text(arguments));
        if !open.told {
            open.early.push_str(fragment.escaped());
            if open.early.len() > EARLY_LIMIT {
                let message = "The provider sent a tool call without a name.";
                self.fail(Fault::new(Kind::BadReply, message), emit);
            }
        } else if !fragment.is_empty() {
            emit(Event::CallArguments(slot, fragment));
        }
    }

    /// The call that a piece belongs to; `None` when it begins a new one: with
    /// a new id on a known index, or, without id and index, with a name.
    fn slot(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        // An id may come late, but not together with a second name.
        let late = |call: &Call| call.id.is_empty() && (name.is_empty() || !call.told);
        let same = |call: &Call| id.is_empty() || call.id == id || late(call);
        match index {
            Some(_) => self
                .calls
                .iter()
                .rposition(|call| call.index == index)
                .filter(|slot| self.calls.get(*slot).is_some_and(same)),
            None if id.is_empty() && name.is_empty() => self.calls.len().checked_sub(1),
            None if id.is_empty() => None,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What the chunks say, in short.
    fn told(chunks: &[&str]) -> Vec<String> {
        let mut told = Vec::new();
        let mut decoder = Decoder::default();
        let mut emit = |event: Event<'_>| {
            told.push(match event {
                Event::Started => return,
                Event::Text(text, _) => format!("text {}", text.decoded()),
                Event::Reasoning(text) => format!("reasoning {}", text.decoded()),
                Event::CallStart { slot, id, name } => format!("call {slot} {id} {name}"),
                Event::CallArguments(slot, text) => format!("arguments {slot} {}", text.decoded()),
                Event::Finish(finish) => format!("finish {finish:?}"),
                Event::Failed(fault) => format!("failed {} {}", fault.kind.name(), fault.message),
                other => format!("{other:?}"),
            });
        };
        for chunk in chunks {
            decoder.data(chunk, &mut emit);
        }
        decoder.end(&mut emit);
        told
    }

    /// Chunks of one choice each.
    fn answer(deltas: &[&str]) -> Vec<String> {
        let mut chunks: Vec<String> = deltas
            .iter()
            .map(|delta| format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#))
            .collect();
        chunks.push(r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#.into());
        let mut told = told(&chunks.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(told.pop().as_deref(), Some("finish Stop"));
        told
    }

    #[test]
    fn a_call_waits_for_its_name_but_not_for_its_id() {
        assert_eq!(
            answer(&[
                r#"{"tool_calls":[{"index":0,"id":"a"}]}"#,
                r#"{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"}"}}]}"#,
            ]),
            ["call 0 a f", "arguments 0 {", "arguments 0 }"]
        );
        assert_eq!(
            answer(&[
                r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"}"}}]}"#,
            ]),
            ["call 0  f", "arguments 0 {", "arguments 0 }"]
        );
    }

    #[test]
    fn calls_without_id_and_index_are_told_apart_by_their_names() {
        assert_eq!(
            answer(&[
                r#"{"tool_calls":[{"function":{"name":"f","arguments":"{}"}},{"function":{"name":"f","arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"function":{"arguments":"}"}}]}"#,
            ]),
            [
                "call 0  f",
                "arguments 0 {}",
                "call 1  f",
                "arguments 1 {",
                "arguments 1 }"
            ]
        );
    }

    #[test]
    fn a_new_id_on_an_index_is_a_new_call() {
        assert_eq!(
            answer(&[
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1}}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"b","function":{"name":"g","arguments":null}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"b","function":{"name":"","arguments":"{}"}}]}"#,
            ]),
            [
                "call 0 a f",
                r#"arguments 0 {"x":1}"#,
                "call 1 b g",
                "arguments 1 {}"
            ]
        );
    }

    #[test]
    fn reasoning_has_two_names_and_is_told_once() {
        assert_eq!(
            answer(&[
                r#"{"reasoning":"a"}"#,
                r#"{"reasoning":"b","reasoning_content":"b"}"#,
                r#"{"reasoning":null,"reasoning_content":"","content":"c"}"#,
            ]),
            ["reasoning a", "reasoning b", "text c"]
        );
    }

    #[test]
    fn a_choice_may_hold_delta_and_message() {
        let chunk =
            r#"{"choices":[{"delta":{"content":"a"},"message":null,"finish_reason":"stop"}]}"#;
        assert_eq!(told(&[chunk]), ["text a", "finish Stop"]);
        let whole = r#"{"choices":[{"message":{"content":"a"},"finish_reason":"length"}]}"#;
        assert_eq!(told(&[whole]), ["text a", "finish Length"]);
    }

    #[test]
    fn an_error_never_completes_an_answer() {
        for (chunk, end) in [
            (
                r#"{"error":{"message":"no","code":400}}"#,
                "failed refused no",
            ),
            (
                r#"{"object":"error","message":"busy","type":"x","code":503}"#,
                "failed overloaded busy",
            ),
            (
                r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#,
                "failed unavailable The provider ended its answer with an error and did not say which.",
            ),
            (
                r#"{"choices":[{"delta":{"content":""}}]}"#,
                "failed cut The provider's answer ended before it was complete.",
            ),
        ] {
            assert_eq!(told(&[chunk, "[DONE]"]), [end]);
        }
    }
}
