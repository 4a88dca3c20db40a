//! The fields of a chunk that are used, borrowed from it. A field that some server
//! may write in another way stays raw until it is read, so that one odd field does
//! not cost the whole answer.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::event::Fragment;
use crate::json;

/// The most calls of one answer.
pub(super) const MAX_CALLS: usize = 10_000;

/// A chunk of a stream, or a whole answer.
#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) choices: Option<Choices<'a>>,
    pub(super) usage: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    object: Option<&'a RawValue>,
    /// Groq's extension, which contains `usage` too.
    pub(super) x_groq: Option<&'a RawValue>,
    /// `MiniMax` answers with status 200 and reports the failure here.
    base_resp: Option<&'a RawValue>,
    /// Perplexity and xAI: URLs, or objects with `url` and `title`.
    pub(super) citations: Option<&'a RawValue>,
    /// Perplexity: the same pages as in `citations`, with titles.
    pub(super) search_results: Option<&'a RawValue>,
    /// GLM: objects with `link` and `title`.
    pub(super) web_search: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    detail: Option<&'a RawValue>,
    msg: Option<&'a RawValue>,
    /// Cloudflare and other gateways.
    errors: Option<&'a RawValue>,
}

/// The choices of a chunk that are read: those of the first index, and one with an error. One is
/// requested, so that a server has no reason to send many.
#[derive(Default)]
pub(super) struct Choices<'a> {
    pub(super) first: Vec<ChunkChoice<'a>>,
    error: Option<&'a RawValue>,
}

/// The most choices of the first index in one chunk.
const MAX_CHOICES: usize = 100;

impl<'de: 'a, 'a> Deserialize<'de> for Choices<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ChoicesVisitor;

        impl<'de> Visitor<'de> for ChoicesVisitor {
            type Value = Choices<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut choices = Choices::default();
                while let Some(choice) = list.next_element::<ChunkChoice<'de>>()? {
                    let error = choice.error.filter(is_error);
                    choices.error = choices.error.or(error);
                    if choice.is_first() {
                        if choices.first.len() == MAX_CHOICES {
                            return Err(A::Error::custom("too many choices"));
                        }
                        choices.first.push(choice);
                    }
                }
                Ok(choices)
            }
        }
        deserializer.deserialize_seq(ChoicesVisitor)
    }
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct ChunkChoice<'a> {
    #[serde(borrow)]
    pub(super) index: Option<&'a RawValue>,
    pub(super) delta: Option<Delta<'a>>,
    /// Replaces `delta` in an answer that is not streamed and in the last chunk of
    /// `MiniMax`. Perplexity sends it beside `delta`, with the whole answer so far.
    pub(super) message: Option<&'a RawValue>,
    pub(super) finish_reason: Option<&'a RawValue>,
    pub(super) logprobs: Option<&'a RawValue>,
    /// Kimi's place for the token counts.
    pub(super) usage: Option<&'a RawValue>,
    /// `OpenRouter`'s reason for a `finish_reason` of `error`.
    error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    pub(super) reasoning_content: Option<&'a RawValue>,
    /// The name for `reasoning_content` at newer vLLM, Ollama and `OpenRouter`;
    /// some servers send both.
    pub(super) reasoning: Option<&'a RawValue>,
    pub(super) reasoning_details: Option<&'a RawValue>,
    pub(super) refusal: Option<&'a RawValue>,
    pub(super) tool_calls: Option<&'a RawValue>,
    /// The single call of the API before `tool_calls`.
    pub(super) function_call: Option<&'a RawValue>,
    pub(super) annotations: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct CallDelta<'a> {
    #[serde(borrow)]
    pub(super) index: Option<&'a RawValue>,
    pub(super) id: Option<&'a RawValue>,
    pub(super) function: Option<FunctionDelta<'a>>,
    /// Gemini's thought signature.
    pub(super) extra_content: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionDelta<'a> {
    #[serde(borrow)]
    pub(super) name: Option<&'a RawValue>,
    pub(super) arguments: Option<&'a RawValue>,
}

impl<'a> ChunkChoice<'a> {
    /// Whether this is the first choice; only one is requested.
    pub(super) fn is_first(&self) -> bool {
        self.index
            .is_none_or(|index| matches!(&*scalar(Some(index)), "" | "0" | "0.0"))
    }

    /// The `logprobs` of the text.
    pub(super) fn logprobs(&self) -> Option<&'a RawValue> {
        #[derive(Deserialize)]
        struct Logprobs<'a> {
            #[serde(borrow)]
            content: Option<&'a RawValue>,
        }
        parse_object::<Logprobs<'a>>(self.logprobs)?.content
    }
}

impl<'a> Delta<'a> {
    /// The calls. Fails if the list is not a list of calls.
    pub(super) fn calls(&self) -> Result<Vec<CallDelta<'a>>, serde_json::Error> {
        let listed = self.tool_calls.map(RawValue::get).unwrap_or_default();
        let mut calls = Vec::new();
        if listed.starts_with('[') {
            json::read_each(listed, |call: Option<CallDelta<'a>>| {
                calls.extend(call);
                if calls.len() > MAX_CALLS {
                    return Err(serde_json::Error::custom("too many calls"));
                }
                Ok(())
            })??;
        }
        if calls.is_empty()
            && let Some(function) = parse_object(self.function_call)
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
    /// The error in this chunk, or the chunk itself if it is an error; `data` is
    /// all of its JSON.
    pub(super) fn error(&self, data: &'a str) -> Option<Cow<'a, RawValue>> {
        let inside = self.choices.as_ref().and_then(|choices| choices.error);
        if let Some(error) = self.error.filter(is_error).or(inside) {
            return Some(Cow::Borrowed(error));
        }
        if let Some(error) = self.base_resp.and_then(base_resp_error) {
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
            .or(self.errors.filter(is_error))
            .map(Cow::Borrowed)
    }
}

/// Whether an error field holds an error: some servers send an empty one with every
/// chunk.
fn is_error(raw: &&RawValue) -> bool {
    !matches!(raw.get(), "{}" | "[]" | "\"\"" | "false" | "0")
}

/// A `base_resp` with a code other than 0, as an error. It stays wrapped, because
/// its codes mean other things than those of other providers.
fn base_resp_error(raw: &RawValue) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    struct BaseResp {
        status_code: i64,
    }
    let base: BaseResp = serde_json::from_str(raw.get()).ok()?;
    (base.status_code != 0).then_some(())?;
    RawValue::from_string(format!(r#"{{"base_resp":{}}}"#, raw.get())).ok()
}

/// The fragment of a non-empty string; `None` for null and other values.
pub(super) fn text_fragment(raw: Option<&RawValue>) -> Option<Fragment<'_>> {
    Fragment::from_raw(raw?).filter(|fragment| !fragment.is_empty())
}

/// The text of a string, or of a number that should have been a string; empty for
/// other values.
pub(super) fn scalar(raw: Option<&RawValue>) -> Cow<'_, str> {
    let Some(raw) = raw else {
        return Cow::default();
    };
    match json::unquote(raw.get()) {
        Some(escaped) => json::unescape(escaped),
        None if raw.get().starts_with(['{', '[', 'n', 't', 'f']) => Cow::default(),
        None => Cow::Borrowed(raw.get()),
    }
}

/// An object; `None` for any other value.
pub(super) fn parse_object<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    let raw = raw.filter(|raw| raw.get().starts_with('{'))?;
    serde_json::from_str(raw.get()).ok()
}
