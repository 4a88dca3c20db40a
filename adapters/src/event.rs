//! What an upstream says, whatever wire it spoke.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::fault::Fault;
use crate::json;

/// All that a decoder may emit.
#[derive(Debug)]
pub enum Event<'a> {
    /// The upstream has begun to answer.
    Started,
    /// Visible text, with the `logprobs` array of this piece if there is one.
    Text(Fragment<'a>, Option<&'a RawValue>),
    /// Text by which the model declines.
    Refusal(Fragment<'a>),
    /// Thinking.
    Reasoning(Fragment<'a>),
    /// What the provider wants back of the thinking before this point: the
    /// objects of a `reasoning_details` array as JSON, separated by commas.
    ReasoningDetails(String),
    /// The `extra_content` of the call that begins next, as JSON.
    CallExtraContent(Cow<'a, str>),
    /// A call begins in `slot`, a number of the decoder's choice, new for each
    /// call of the answer.
    CallStart {
        /// The call's key for the fragments that follow.
        slot: u32,
        /// The upstream's call id; empty when it has none.
        id: Cow<'a, str>,
        /// The tool's name on the wire.
        name: Cow<'a, str>,
    },
    /// More of the arguments of the call in this slot.
    CallArguments(u32, Fragment<'a>),
    /// A citation in the wire's form: `{type, url_citation: {…}}`, or the same
    /// without nesting.
    Annotation(&'a RawValue),
    /// A page that the answer as a whole is drawn from.
    Source {
        /// Its address.
        url: Cow<'a, str>,
        /// Its title, if known.
        title: Cow<'a, str>,
    },
    /// Token counts; a later one replaces an earlier one.
    Usage(Usage),
    /// Something was repaired or not understood: a note's code and detail.
    Note(&'static str, String),
    /// The answer is over; nothing follows.
    Finish(Finish),
    /// The answer broke off; nothing follows.
    Failed(Fault),
}

impl Event<'_> {
    /// Whether this is content: after it a turn cannot be tried again.
    pub fn is_content(&self) -> bool {
        match self {
            Self::Text(..)
            | Self::Refusal(_)
            | Self::Reasoning(_)
            | Self::ReasoningDetails(_)
            | Self::CallExtraContent(_)
            | Self::CallStart { .. }
            | Self::CallArguments(..)
            | Self::Annotation(_)
            | Self::Source { .. } => true,
            Self::Started | Self::Usage(_) | Self::Note(..) | Self::Finish(_) | Self::Failed(_) => {
                false
            }
        }
    }
}

/// Why an answer is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model was done, with or without calls.
    Stop,
    /// The output limit was hit.
    Length,
    /// A filter of the provider cut it.
    ContentFilter,
}

/// Token counts in the terms of the Responses API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Usage {
    /// Everything that was sent, cached included.
    pub input: u64,
    /// The part of `input` that came from the provider's cache.
    pub cached: u64,
    /// The part of `input` that was written to the provider's cache.
    pub cache_write: u64,
    /// Everything that was generated, reasoning included.
    pub output: u64,
    /// The part of `output` that was reasoning.
    pub reasoning: u64,
}

/// A piece of text as the inside of a JSON string, still escaped: it goes to
/// the client without being unescaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment<'a>(Cow<'a, str>);

impl<'a> Fragment<'a> {
    /// The fragment of a JSON string literal; `None` for another value.
    pub fn from_raw(raw: &'a RawValue) -> Option<Self> {
        json::unquote(raw.get()).map(|inner| Self(inner.into()))
    }

    /// A fragment from the inside of a JSON string.
    pub fn from_escaped(escaped: impl Into<Cow<'a, str>>) -> Self {
        Self(escaped.into())
    }

    /// The inside of the JSON string.
    pub fn escaped(&self) -> &str {
        &self.0
    }

    /// The text itself.
    pub fn decoded(&self) -> Cow<'_, str> {
        json::unescape(&self.0)
    }

    /// Whether there is no character.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is nothing but blanks and line ends.
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
