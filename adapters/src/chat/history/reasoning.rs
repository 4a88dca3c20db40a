//! What a provider wants back of its earlier answers: the reasoning, and the
//! `extra_content` of calls.

use registry::{CallExtra, ReasoningReplay};
use serde_json::value::RawValue;

use super::layout::Said;
use crate::baggage::Baggage;
use crate::chat::content::Content;
use crate::chat::encode::Options;
use crate::fault::Fault;
use crate::json;
use crate::notes::Notes;
use crate::turn::{Item, Turn};

/// Stands in for reasoning that was lost; a provider may refuse the empty string.
pub(super) const PLACEHOLDER: &str = " ";

/// The documented stand-in for a lost thought signature
/// (<https://ai.google.dev/gemini-api/docs/thought-signatures>).
const EXTRA_PLACEHOLDER: &str =
    r#"{"google":{"thought_signature":"skip_thought_signature_validator"}}"#;

/// What is known of the thinking behind one message.
#[derive(Debug, Default)]
pub(super) struct Thoughts<'a> {
    /// Every piece of text that is not empty, and its item.
    pub(super) texts: Vec<(Option<usize>, Content<'a>)>,
    /// The elements of `reasoning_details`, without the brackets.
    pub(super) details: String,
    /// The `extra_content` of calls, by the calls' items.
    extras: Vec<(usize, String)>,
}

impl<'a> Thoughts<'a> {
    /// Reads the reasoning items of a message. A message without any is looked
    /// up by the ids of its calls.
    pub(super) fn of(
        said: &Said<'a>,
        turn: &Turn<'a>,
        options: &Options<'_>,
        notes: &mut Notes,
    ) -> Result<Self, Fault> {
        let quirks = options.quirks();
        let mut thoughts = Self::default();
        let replays = quirks.reasoning_replay != ReasoningReplay::None;
        let extras = quirks.call_extra != CallExtra::None;
        if !replays && !extras {
            return Ok(thoughts);
        }
        let (answer, mut whole) = (&said.answer, true);
        for &index in &answer.reasoning {
            let Some(item) = turn.items.get(index) else {
                continue;
            };
            let sealed = item.encrypted_content();
            if let Some(baggage) = sealed.and_then(|blob| Baggage::open(&blob)) {
                let call = answer.calls.iter().find(|call| **call > index);
                let next = answer.reasoning.iter().find(|other| **other > index);
                let call = call.filter(|call| next.is_none_or(|next| next > *call));
                whole &= thoughts.add(Some(index), call.copied(), baggage, options);
            } else {
                whole = false;
                thoughts.add_text(Some(index), visible(item, index, notes)?);
            }
        }
        if answer.reasoning.is_empty() {
            for (position, &call) in answer.calls.iter().enumerate() {
                let Some(mut baggage) = known(turn, call, options) else {
                    continue;
                };
                if position > 0 {
                    baggage.reasoning.clear();
                    baggage.details.clear();
                }
                let is_whole = thoughts.add(None, Some(call), baggage, options);
                whole &= is_whole || position > 0;
            }
        }
        if !whole {
            thoughts.details.clear();
        }
        Ok(thoughts)
    }

    /// Whether nothing is known of the reasoning.
    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Adds what a blob holds; whether its details can go back.
    fn add(
        &mut self,
        item: Option<usize>,
        call: Option<usize>,
        baggage: Baggage,
        options: &Options<'_>,
    ) -> bool {
        let same_origin = baggage.origin == options.origin;
        if same_origin
            && let Some(call) = call
            && is_json(&baggage.call_extra, '{')
        {
            self.extras.push((call, baggage.call_extra));
        }
        self.add_text(item, Content::of(baggage.reasoning.clone().into()));
        let details = Some(baggage.details.as_str())
            .filter(|details| same_origin && is_json(details, '['))
            .and_then(|details| details.strip_prefix('[')?.strip_suffix(']'))
            .map(str::trim)
            .filter(|details| !details.is_empty());
        let Some(details) = details else {
            return baggage.reasoning.is_empty();
        };
        if !self.details.is_empty() {
            self.details.push(',');
        }
        self.details.push_str(details);
        true
    }

    fn add_text(&mut self, item: Option<usize>, content: Content<'a>) {
        if !content.is_empty() {
            self.texts.push((item, content));
        }
    }

    /// Writes the `extra_content` of a call.
    pub(super) fn push_extra(
        &self,
        out: &mut Vec<u8>,
        call: usize,
        is_first: bool,
        keeps: CallExtra,
        notes: &mut Notes,
    ) {
        let extra = self.extras.iter().find(|(of, _)| *of == call);
        match (keeps, extra) {
            (CallExtra::Kept | CallExtra::Required, Some((_, extra))) => {
                json::raw_field(out, "extra_content", extra);
            }
            (CallExtra::Required, None) | (CallExtra::Placeholder, _) if is_first => {
                notes.add(
                    "call_extra_placeholder",
                    "the signature of an earlier call was lost",
                );
                json::raw_field(out, "extra_content", EXTRA_PLACEHOLDER);
            }
            (CallExtra::None | CallExtra::Placeholder, _)
            | (CallExtra::Kept | CallExtra::Required, None) => {}
        }
    }
}

/// The blob that was kept for a call.
fn known(turn: &Turn<'_>, call: usize, options: &Options<'_>) -> Option<Baggage> {
    let id = turn.items.get(call)?.call_id()?;
    Baggage::open(options.known_baggage?.get(id.as_ref())?)
}

/// The reasoning of an item that carries no baggage of ours: its own text,
/// else its summary.
fn visible<'a>(item: &Item<'a>, index: usize, notes: &mut Notes) -> Result<Content<'a>, Fault> {
    let content = Content::read(item.content(), index, notes)?;
    if content.is_empty() {
        Content::read(item.summary(), index, notes)
    } else {
        Ok(content)
    }
}

/// Whether the text is JSON that begins like this. A blob is ours, but what we
/// put into a body unseen could break it.
fn is_json(text: &str, first: char) -> bool {
    text.starts_with(first) && serde_json::from_str::<&RawValue>(text).is_ok()
}
