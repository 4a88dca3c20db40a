//! The fields of a chunk that count, borrowed from it. Whatever a server may
//! spell in another way stays raw until it is looked at: one odd field must not
//! cost the answer.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::event::Fragment;
use crate::json;

/// A chunk of a stream, or a whole answer.
#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    /// Groq says usage here too.
    #[serde(borrow)]
    pub(super) x_groq: Option<&'a RawValue>,
    /// `MiniMax` answers 200 and says here that it failed.
    #[serde(borrow)]
    base_resp: Option<&'a RawValue>,
    /// Perplexity and xAI: addresses, or objects with `url` and `title`.
    #[serde(borrow)]
    pub(super) citations: Option<&'a RawValue>,
    /// Perplexity, beside `citations`, with titles.
    #[serde(borrow)]
    pub(super) search_results: Option<&'a RawValue>,
    /// GLM: objects with `link` and `title`.
    #[serde(borrow)]
    pub(super) web_search: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    detail: Option<&'a RawValue>,
    #[serde(borrow)]
    msg: Option<&'a RawValue>,
    /// Cloudflare and other gateways.
    #[serde(borrow)]
    errors: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(borrow)]
    pub(super) index: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    /// In place of `delta` in an answer that is not streamed, and in the last
    /// chunk of `MiniMax`; beside it at Perplexity, with all that was said so far.
    #[serde(borrow)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) logprobs: Option<&'a RawValue>,
    /// Where Kimi says it.
    #[serde(borrow)]
    pub(super) usage: Option<&'a RawValue>,
    /// Where `OpenRouter` may say why `finish_reason` is `error`.
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) reasoning_content: Option<&'a RawValue>,
    /// What newer vLLM, Ollama and `OpenRouter` call `reasoning_content`; some
    /// send both.
    #[serde(borrow)]
    pub(super) reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) reasoning_details: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<&'a RawValue>,
    /// The one call of the days before `tool_calls`.
    #[serde(borrow)]
    pub(super) function_call: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) annotations: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct CallDelta<'a> {
    #[serde(borrow)]
    pub(super) index: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) function: Option<FunctionDelta<'a>>,
    /// Gemini's thought signature.
    #[serde(borrow)]
    pub(super) extra_content: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionDelta<'a> {
    #[serde(borrow)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
}

impl<'a> Choice<'a> {
    /// Whether it is the one that was asked for.
    pub(super) fn is_first(&self) -> bool {
        self.index
            .is_none_or(|index| matches!(&*word(Some(index)), "" | "0" | "0.0"))
    }

    /// The `logprobs` of text.
    pub(super) fn logprobs(&self) -> Option<&'a RawValue> {
        #[derive(Deserialize)]
        struct Logprobs<'a> {
            #[serde(borrow)]
            content: Option<&'a RawValue>,
        }
        object::<Logprobs<'a>>(self.logprobs)?.content
    }
}

impl<'a> Delta<'a> {
    /// The calls; the error is of a list that is none of calls.
    pub(super) fn calls(&self) -> Result<Vec<CallDelta<'a>>, serde_json::Error> {
        let listed = self.tool_calls.map(RawValue::get).unwrap_or_default();
        let mut calls: Vec<CallDelta<'a>> = if listed.starts_with('[') {
            let calls: Vec<Option<CallDelta<'a>>> = serde_json::from_str(listed)?;
            calls.into_iter().flatten().collect()
        } else {
            Vec::new()
        };
        if calls.is_empty()
            && let Some(function) = object(self.function_call)
        {
            calls.push(CallDelta {
                function: Some(function),
                ..CallDelta::default()
            });
        }
        Ok(calls)
    }
}

impl<'a> Chunk<'a> {
    /// The error that this chunk is or holds; `data` is the whole of it.
    pub(super) fn error(&self, data: &'a str) -> Option<Cow<'a, RawValue>> {
        let choices = self.choices.iter().flatten();
        let inside = choices.filter_map(|choice| choice.error);
        if let Some(error) = self.error.into_iter().chain(inside).find(says) {
            return Some(Cow::Borrowed(error));
        }
        if let Some(error) = self.base_resp.and_then(failed_base) {
            return Some(Cow::Owned(error));
        }
        // Older vLLM sends the error object without a wrapper.
        if self
            .object
            .is_some_and(|object| object.get() == "\"error\"")
        {
            return serde_json::from_str(data).ok().map(Cow::Borrowed);
        }
        if self.choices.is_some() || self.usage.is_some() {
            return None;
        }
        let text = |raw: &&RawValue| raw.get().starts_with('"');
        if self.message.as_ref().is_some_and(text) {
            return serde_json::from_str(data).ok().map(Cow::Borrowed);
        }
        self.detail
            .or(self.msg.filter(text))
            .or(self.errors.filter(says))
            .map(Cow::Borrowed)
    }
}

/// Whether an error is one: some servers send an empty field with every chunk.
fn says(raw: &&RawValue) -> bool {
    !matches!(raw.get(), "{}" | "[]" | "\"\"" | "false" | "0")
}

/// A `base_resp` whose code is not 0, as the error that it is; it stays in its
/// frame, for its numbers are not those of others.
fn failed_base(raw: &RawValue) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    struct Base {
        status_code: i64,
    }
    let base: Base = serde_json::from_str(raw.get()).ok()?;
    (base.status_code != 0).then_some(())?;
    RawValue::from_string(format!(r#"{{"base_resp":{}}}"#, raw.get())).ok()
}

/// The fragment of a non-empty string; null and the rest say nothing.
pub(super) fn fragment(raw: Option<&RawValue>) -> Option<Fragment<'_>> {
    Fragment::from_raw(raw?).filter(|fragment| !fragment.is_empty())
}

/// A word of the wire: a string, or a number that should have been one.
pub(super) fn word(raw: Option<&RawValue>) -> Cow<'_, str> {
    let Some(raw) = raw else {
        return Cow::default();
    };
    match json::unquote(raw.get()) {
        Some(escaped) => json::unescape(escaped),
        None if raw.get().starts_with(['{', '[', 'n', 't', 'f']) => Cow::default(),
        None => Cow::Borrowed(raw.get()),
    }
}

/// An object; `None` for another value.
pub(super) fn object<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    let raw = raw.filter(|raw| raw.get().starts_with('{'))?;
    serde_json::from_str(raw.get()).ok()
}

/// The elements of a list; none of another value.
pub(super) fn list<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Vec<T> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default()
}
