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
    /// The text so far is a message of its own: that which follows is another one.
    MessageEnd,
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
    /// The provider has searched the web itself.
    Searched,
    /// A piece of an answer that is made of Responses items already.
    Native(NativeEvent<'a>),
    /// Token counts of the whole answer so far. They replace the earlier ones.
    Usage(Usage),
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
            | Self::Source { .. }
            | Self::Native(_) => true,
            Self::Started
            | Self::MessageEnd
            | Self::Searched
            | Self::Usage(_)
            | Self::Note(..)
            | Self::Finish(_)
            | Self::Failed(_) => false,
        }
    }
}

/// A piece of an answer that is made of Responses items already, from an upstream that
/// speaks the Responses API.
///
/// `slot` is a number that the decoder chooses for an item, unique within the answer and
/// larger for a later item. The pieces of an item come between its `ItemAdded` and its
/// `ItemDone` or `ItemEnded`, but the pieces of two items may be mixed, and the end may be missing.
#[derive(Debug)]
pub enum NativeEvent<'a> {
    /// An item begins.
    ItemAdded {
        /// The item's slot.
        slot: u32,
        /// The item as JSON: an object with a `type`.
        item: Cow<'a, str>,
    },
    /// A part of an item begins.
    PartAdded {
        /// The item's slot.
        slot: u32,
        /// The kind of the part.
        text: NativeText,
    },
    /// The next piece of a text of an item.
    Delta {
        /// The item's slot.
        slot: u32,
        /// The kind of text.
        text: NativeText,
        /// Which part of the item it belongs to, as the upstream counts them.
        index: u32,
        /// The piece.
        fragment: Fragment<'a>,
        /// The `logprobs` list of the piece.
        logprobs: Option<&'a RawValue>,
    },
    /// The whole of a text that was sent in pieces, or at once.
    TextDone {
        /// The item's slot.
        slot: u32,
        /// The kind of text.
        text: NativeText,
        /// The text.
        whole: Fragment<'a>,
    },
    /// An annotation of the text that was sent last.
    Annotation {
        /// The item's slot.
        slot: u32,
        /// The annotation, an object of the Responses API.
        annotation: &'a RawValue,
    },
    /// An event of a tool that runs at the upstream, such as
    /// `response.web_search_call.searching`.
    Progress {
        /// The item's slot.
        slot: u32,
        /// The type of the event.
        name: &'static str,
        /// The event as JSON.
        document: &'a str,
    },
    /// An item is complete.
    ItemDone {
        /// The item's slot.
        slot: u32,
        /// The complete item as JSON.
        item: Cow<'a, str>,
    },
    /// An item has ended, and its end did not tell what it is.
    ItemEnded {
        /// The item's slot.
        slot: u32,
    },
}

/// The texts that items of the Responses API stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NativeText {
    /// `output_text` of a message.
    Output,
    /// `refusal` of a message.
    Refusal,
    /// `reasoning_text` of a reasoning item.
    Reasoning,
    /// `summary_text` of a reasoning item.
    Summary,
    /// The `arguments` or the `input` of a call.
    Body,
}

/// State of the model that the provider wants back unchanged in later requests: signatures,
/// encrypted reasoning. Only the wire that received it understands the blob; it travels in
/// [`crate::baggage::Baggage`], where the pieces of several events are joined by their wire
/// ([`crate::wire`]).
#[derive(Debug)]
pub struct ReasoningState<'a> {
    /// The slot of the call that it belongs to, which begins with the next
    /// [`Event::CallStart`]; `None` for state of the reasoning before this event.
    pub slot: Option<u32>,
    /// What the blob is to its wire.
    pub form: ReasoningStateForm,
    /// The state, or a piece of it, in that form: JSON as it is in the bodies of the wire, so that
    /// it is redacted like these.
    pub blob: Cow<'a, str>,
}

/// The form of a [`ReasoningState`], which its wire defines, see [`crate::wire`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasoningStateForm(char);

impl ReasoningStateForm {
    /// The form that has this letter in a blob of [`crate::baggage::Baggage`]: one of `a` to `z`
    /// that no other form of any wire has, and not `r` or `o`.
    pub const fn new(letter: char) -> Self {
        Self(letter)
    }

    /// The letter of the form.
    pub const fn letter(self) -> char {
        self.0
    }
}

/// A member of a provider's JSON that holds reasoning state, such as a signature: opaque base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasoningStateMember {
    /// The name of the member.
    pub name: &'static str,
    /// A word that is near such a member, if members of this name hold other things as well.
    pub beside: Option<&'static str>,
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

/// How a piece of data arrived that a decoder gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataKind {
    /// As a complete event, or a complete document.
    Complete,
    /// As an event named `error`.
    ErrorEvent,
    /// As the rest of the body, which may be truncated.
    Trailing,
}
