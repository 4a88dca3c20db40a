//! The events of an upstream answer, independent of the provider's protocol.
//!
//! The decoder of a wire produces them, and
//! [`crate::responses::assembler::Assembler`] turns them into Responses events.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::fault::Fault;
use crate::json;

/// One event of an upstream answer. A decoder emits them in the order of the stream and
/// ends with [`Event::Finish`] or [`Event::Failed`].
#[derive(Debug)]
pub enum Event<'a> {
    /// The upstream sent its first bytes of an answer.
    Started,
    /// Text for the user, with the log probabilities of its tokens if the upstream sent
    /// them.
    Text(Fragment<'a>, Option<Vec<TokenLogprob<'a>>>),
    /// Text with which the model refuses.
    Refusal(Fragment<'a>),
    /// Reasoning text.
    Reasoning(Fragment<'a>),
    /// State that the provider wants back in later requests.
    ReasoningState(ReasoningState<'a>),
    /// A tool call begins.
    CallStart {
        /// A number that the decoder chooses, unique within the answer, to which
        /// [`Event::CallArguments`] refer.
        slot: u32,
        /// The upstream's call id; empty if it sent none.
        id: Cow<'a, str>,
        /// The wire name of the tool.
        name: Cow<'a, str>,
    },
    /// The next piece of the JSON arguments of the call in this slot.
    CallArguments(u32, Fragment<'a>),
    /// A citation in the text.
    Citation(Citation<'a>),
    /// A web page on which the answer as a whole is based.
    Source {
        /// The address of the page.
        url: Cow<'a, str>,
        /// The title of the page; empty if unknown.
        title: Cow<'a, str>,
    },
    /// Token counts of the whole answer so far. Each count replaces the earlier one of its
    /// kind.
    Usage(UsageUpdate),
    /// The code and detail of a [`crate::notes::Note`]: the decoder repaired or skipped
    /// something.
    Note(&'static str, String),
    /// The answer ended normally. No event follows.
    Finish(Finish),
    /// The answer broke off. No event follows.
    Failed(Fault),
}

impl Event<'_> {
    /// Whether the event carries content for the client. After the first content event the
    /// request cannot be retried.
    pub fn is_content(&self) -> bool {
        match self {
            Self::Text(..)
            | Self::Refusal(_)
            | Self::Reasoning(_)
            | Self::ReasoningState(_)
            | Self::CallStart { .. }
            | Self::CallArguments(..)
            | Self::Citation(_)
            | Self::Source { .. } => true,
            Self::Started | Self::Usage(_) | Self::Note(..) | Self::Finish(_) | Self::Failed(_) => {
                false
            }
        }
    }
}

/// State of the model that the provider wants back unchanged in later requests: signatures,
/// encrypted reasoning. Only the wire that received it understands the blob; it travels in
/// [`crate::baggage::Baggage`].
#[derive(Debug)]
pub struct ReasoningState<'a> {
    /// The slot of the call that it belongs to, which begins with the next
    /// [`Event::CallStart`]; `None` for state of the reasoning before this event.
    pub slot: Option<u32>,
    /// What the blob is.
    pub form: ReasoningStateForm,
    /// The state, in that form.
    pub blob: Cow<'a, str>,
}

/// The form of a [`ReasoningState`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningStateForm {
    /// Objects of a `reasoning_details` array (OpenRouter's API) as JSON, separated by
    /// commas. Those of several events are joined.
    ReasoningDetails,
    /// The `extra_content` of a call as JSON: Gemini's thought signature in its
    /// OpenAI-compatible API.
    ExtraContent,
}

/// A citation of a web page in the text that is being written.
#[derive(Debug, PartialEq, Eq)]
pub struct Citation<'a> {
    /// The address of the page.
    pub url: Cow<'a, str>,
    /// The title of the page; empty if unknown.
    pub title: Cow<'a, str>,
    /// Where the cited passage of the text begins, in the upstream's count of characters; 0 if
    /// unknown.
    pub start: u64,
    /// Where it ends; 0 if unknown.
    pub end: u64,
}

/// A token of the text with its log probability.
#[derive(Debug, PartialEq, Eq)]
pub struct TokenLogprob<'a> {
    /// The token.
    pub token: Cow<'a, str>,
    /// The log probability, in the digits of the upstream.
    pub logprob: Cow<'a, str>,
    /// The bytes of the token, if the upstream sent them: a token may be a part of a
    /// character.
    pub bytes: Option<Vec<u8>>,
    /// The likeliest tokens at this place. Their own lists are empty.
    pub top: Vec<TokenLogprob<'a>>,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model finished, with or without calls.
    Stop,
    /// The limit of output tokens was reached.
    Length,
    /// The provider's content filter stopped the answer.
    ContentFilter,
}

/// Token counts as the Responses API defines them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Usage {
    /// All input tokens, including cached ones.
    pub input: u64,
    /// Tokens of `input` that were read from the provider's cache.
    pub cached: u64,
    /// Tokens of `input` that were written to the provider's cache.
    pub cache_write: u64,
    /// All generated tokens, including reasoning.
    pub output: u64,
    /// Tokens of `output` that were reasoning.
    pub reasoning: u64,
}

/// Token counts of an answer that is still arriving; `None` where nothing is said. An upstream
/// may count input and output in different events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageUpdate {
    /// See [`Usage::input`].
    pub input: Option<u64>,
    /// See [`Usage::cached`].
    pub cached: Option<u64>,
    /// See [`Usage::cache_write`].
    pub cache_write: Option<u64>,
    /// See [`Usage::output`].
    pub output: Option<u64>,
    /// See [`Usage::reasoning`].
    pub reasoning: Option<u64>,
}

impl UsageUpdate {
    /// The counts after this update.
    #[must_use]
    pub fn applied_to(self, usage: Usage) -> Usage {
        Usage {
            input: self.input.unwrap_or(usage.input),
            cached: self.cached.unwrap_or(usage.cached),
            cache_write: self.cache_write.unwrap_or(usage.cache_write),
            output: self.output.unwrap_or(usage.output),
            reasoning: self.reasoning.unwrap_or(usage.reasoning),
        }
    }
}

/// An update of every count.
impl From<Usage> for UsageUpdate {
    fn from(usage: Usage) -> Self {
        Self {
            input: Some(usage.input),
            cached: Some(usage.cached),
            cache_write: Some(usage.cache_write),
            output: Some(usage.output),
            reasoning: Some(usage.reasoning),
        }
    }
}

/// A piece of streamed text as the content of a JSON string, still escaped, so that it can
/// be passed to the client without being unescaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment<'a>(Cow<'a, str>);

impl<'a> Fragment<'a> {
    /// The content of a JSON string literal; `None` for other JSON values.
    pub fn from_raw(raw: &'a RawValue) -> Option<Self> {
        json::unquote(raw.get()).map(|inner| Self(inner.into()))
    }

    /// A fragment from text that is escaped already.
    pub fn from_escaped(escaped: impl Into<Cow<'a, str>>) -> Self {
        Self(escaped.into())
    }

    /// The escaped text, without quotes.
    pub fn escaped(&self) -> &str {
        &self.0
    }

    /// The unescaped text.
    pub fn decoded(&self) -> Cow<'_, str> {
        json::unescape(&self.0)
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the text is empty or consists of spaces, tabs and line ends.
    pub fn is_blank(&self) -> bool {
        let mut bytes = self.0.bytes();
        while let Some(byte) = bytes.next() {
            let blank = match byte {
                b' ' | b'\t' => true,
                b'\\' => matches!(bytes.next(), Some(b'n' | b'r' | b't')),
                _ => false,
            };
            if !blank {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_usage_replaces_only_the_counts_that_it_names() {
        let first = UsageUpdate {
            input: Some(100),
            cached: Some(40),
            output: Some(1),
            ..UsageUpdate::default()
        };
        let last = UsageUpdate {
            output: Some(70),
            reasoning: Some(30),
            ..UsageUpdate::default()
        };
        let usage = last.applied_to(first.applied_to(Usage::default()));
        let expected = Usage {
            input: 100,
            cached: 40,
            cache_write: 0,
            output: 70,
            reasoning: 30,
        };
        assert_eq!(usage, expected);
        assert_eq!(UsageUpdate::from(expected).applied_to(usage), expected);
    }
}
