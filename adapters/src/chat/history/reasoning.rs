//! What a provider wants back of its earlier answers: the reasoning, and the
//! `extra_content` of calls.

use registry::{ExtraContentReplay, ReasoningReplay};
use serde_json::value::RawValue;

use super::layout::Said;
use crate::baggage::Baggage;
use crate::chat::content::Content;
use crate::chat::encode::Options;
use crate::compact::Form;
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

/// The same among `reasoning_details`, where OpenRouter looks for it (Roo Code and
/// Kilo Code, `api/providers/openrouter.ts`).
pub(super) fn details_placeholder(call_id: &str) -> String {
    format!(
        r#"{{"type":"reasoning.encrypted","data":"skip_thought_signature_validator","id":"{}","format":"google-gemini-v1","index":0}}"#,
        json::escape(call_id)
    )
}

/// The note of either.
pub(super) const LOST_SIGNATURE: &str = "the signature of an earlier call was lost";

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
    /// Reads the reasoning items of a message. Where these carry nothing of ours
    /// it is looked up by the ids of the message's calls.
    pub(super) fn of(
        said: &Said<'a>,
        turn: &Turn<'a>,
        options: &Options<'_>,
        notes: &mut Notes,
    ) -> Result<Self, Fault> {
        let quirks = options.quirks();
        let mut thoughts = Self::default();
        let replays = quirks.reasoning_replay != ReasoningReplay::None;
        let extras = quirks.call_extra != ExtraContentReplay::None;
        let cut = turn.purpose.form() == Some(Form::Cut);
        if cut || !replays && !extras {
            return Ok(thoughts);
        }
        let (answer, mut whole, mut carried) = (&said.answer, true, false);
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
                carried = true;
            } else {
                whole = false;
                thoughts.add_text(Some(index), visible(item, index, notes)?);
            }
        }
        if !carried {
            let known: Vec<_> = answer
                .calls
                .iter()
                .flat_map(|&call| known(turn, call, options).map(move |baggage| (call, baggage)))
                .collect();
            if !known.is_empty() {
                (thoughts, whole) = (Self::default(), true);
            }
            for (call, baggage) in known {
                whole &= thoughts.add(None, Some(call), baggage, options);
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
            && is_json(&baggage.extra_content, '{')
        {
            self.extras.push((call, baggage.extra_content));
        }
        self.add_text(item, Content::of(baggage.reasoning.clone().into()));
        let details = Some(baggage.reasoning_details.as_str())
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
        keeps: ExtraContentReplay,
        notes: &mut Notes,
    ) {
        let extra = self.extras.iter().find(|(of, _)| *of == call);
        match (keeps, extra) {
            (ExtraContentReplay::Kept | ExtraContentReplay::Required, Some((_, extra))) => {
                json::raw_field(out, "extra_content", extra);
            }
            (ExtraContentReplay::Required, None) | (ExtraContentReplay::Placeholder, _)
                if is_first =>
            {
                notes.add("call_extra_placeholder", LOST_SIGNATURE);
                json::raw_field(out, "extra_content", EXTRA_PLACEHOLDER);
            }
            (ExtraContentReplay::None | ExtraContentReplay::Placeholder, _)
            | (ExtraContentReplay::Kept | ExtraContentReplay::Required, None) => {}
        }
    }
}

/// What was kept for a call.
fn known<'o>(
    turn: &Turn<'_>,
    call: usize,
    options: &Options<'o>,
) -> impl Iterator<Item = Baggage> + use<'o> {
    let id = turn.items.get(call).and_then(Item::call_id);
    let blobs = id.and_then(|id| options.known_baggage?.get(id.as_ref()));
    let blobs = blobs.map(String::as_str).unwrap_or_default();
    blobs.split(' ').filter_map(Baggage::open)
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
