//! Collects what a provider requires of its earlier answers: the reasoning, and the
//! `extra_content` of calls.

use registry::{ExtraContentReplay, ReasoningReplay};
use serde_json::value::RawValue;

use super::message::{AssistantMessage, ReplayedReasoning};
use crate::baggage::Baggage;
use crate::chat::options::ChatOptions;
use crate::chat::reasoning_state;
use crate::content::MessageContent;
use crate::fault::Fault;
use crate::json;
use crate::notes::Notes;
use crate::purpose::SummaryMode;
use crate::turn::{Item, Turn};

/// The field of a message that has the text of its reasoning; `None` if reasoning is not sent in a
/// field of text.
pub(super) fn text_field(replay: ReasoningReplay) -> Option<&'static str> {
    match replay {
        ReasoningReplay::ReasoningContent => Some("reasoning_content"),
        // The text is sent where there are no details.
        ReasoningReplay::Reasoning | ReasoningReplay::ReasoningDetails => Some("reasoning"),
        ReasoningReplay::None | ReasoningReplay::ThinkTags | ReasoningReplay::ThinkingParts => None,
    }
}

/// Replaces reasoning that was lost. A provider may refuse the empty string.
pub(super) const REASONING_PLACEHOLDER: &str = " ";

/// The documented placeholder for a lost thought signature
/// (<https://ai.google.dev/gemini-api/docs/thought-signatures>).
const SIGNATURE_PLACEHOLDER: &str =
    r#"{"google":{"thought_signature":"skip_thought_signature_validator"}}"#;

/// The same placeholder as an element of `reasoning_details`, where OpenRouter
/// looks for it (Roo Code and Kilo Code, `api/providers/openrouter.ts`).
pub(super) fn signature_detail_placeholder(call_id: &str) -> String {
    format!(
        r#"{{"type":"reasoning.encrypted","data":"skip_thought_signature_validator","id":"{}","format":"google-gemini-v1","index":0}}"#,
        json::escape(call_id)
    )
}

/// The note for either placeholder.
pub(super) const LOST_SIGNATURE: &str = "the signature of an earlier call was lost";

impl<'a> ReplayedReasoning<'a> {
    /// Reads the reasoning items of a message. If none of them carries baggage of
    /// ours, it is looked up by the ids of the message's calls.
    pub(super) fn collect(
        message: &AssistantMessage<'a>,
        turn: &Turn<'a>,
        options: &ChatOptions<'_>,
        notes: &mut Notes,
    ) -> Result<Self, Fault> {
        let quirks = options.quirks;
        let mut reasoning = Self::default();
        let replays = quirks.reasoning_replay != ReasoningReplay::None;
        let extras = quirks.call_extra != ExtraContentReplay::None;
        let cut = turn.purpose.summary_mode() == Some(SummaryMode::FitWindow);
        if cut || !replays && !extras {
            return Ok(reasoning);
        }
        let (answer, mut whole, mut carried) = (&message.answer, true, false);
        for &index in &answer.reasoning {
            let Some(item) = turn.items.get(index) else {
                continue;
            };
            let sealed = item.encrypted_content();
            if let Some(baggage) = sealed.and_then(|blob| Baggage::open(&blob)) {
                let call = first_after(&answer.calls, index);
                let next = first_after(&answer.reasoning, index);
                let call = call.filter(|call| next.is_none_or(|next| next > *call));
                whole &= reasoning.push_baggage(Some(index), call, baggage, (options, notes));
                carried = true;
            } else {
                whole = false;
                let text = MessageContent::read_reasoning(item, index)?;
                reasoning.push_text(Some(index), text);
            }
        }
        if !carried {
            let known: Vec<_> = answer
                .calls
                .iter()
                .flat_map(|&call| {
                    known_baggage(turn, call, options).map(move |baggage| (call, baggage))
                })
                .collect();
            if !known.is_empty() {
                (reasoning, whole) = (Self::default(), true);
            }
            for (call, baggage) in known {
                whole &= reasoning.push_baggage(None, Some(call), baggage, (options, notes));
            }
        }
        if !whole {
            reasoning.details.clear();
        }
        Ok(reasoning)
    }

    /// Whether no reasoning text is known.
    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Adds the contents of a blob. Returns false if its reasoning has no details
    /// that can be sent back.
    fn push_baggage(
        &mut self,
        item: Option<usize>,
        call: Option<usize>,
        baggage: Baggage,
        (options, notes): (&ChatOptions<'_>, &mut Notes),
    ) -> bool {
        let same_origin = baggage.origin == options.origin;
        let (mut all_details, mut extra_content) = (String::new(), String::new());
        for (form, blob) in baggage.states {
            match form {
                reasoning_state::REASONING_DETAILS => all_details = blob,
                reasoning_state::EXTRA_CONTENT => extra_content = blob,
                // A state of another wire.
                _ => {}
            }
        }
        if same_origin
            && let Some(call) = call
            && is_sound_json(&extra_content, '{', notes)
        {
            self.extras.entry(call).or_insert(extra_content);
        }
        self.push_text(
            item,
            MessageContent::from_text(baggage.reasoning.clone().into()),
        );
        let details = Some(all_details.as_str())
            .filter(|details| same_origin && is_sound_json(details, '[', notes))
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

    fn push_text(&mut self, item: Option<usize>, content: MessageContent<'a>) {
        if !content.is_empty() {
            self.texts.push((item, content));
        }
    }

    /// Writes the `extra_content` of a call, or a placeholder for it.
    pub(super) fn push_extra_content(
        &self,
        out: &mut Vec<u8>,
        call: usize,
        is_first: bool,
        call_extra: ExtraContentReplay,
        notes: &mut Notes,
    ) {
        let extra = self.extras.get(&call);
        match (call_extra, extra) {
            (ExtraContentReplay::Kept | ExtraContentReplay::Required, Some(extra)) => {
                json::raw_field(out, "extra_content", extra);
            }
            (ExtraContentReplay::Required, None) | (ExtraContentReplay::Placeholder, _)
                if is_first =>
            {
                notes.add("call_extra_placeholder", LOST_SIGNATURE);
                json::raw_field(out, "extra_content", SIGNATURE_PLACEHOLDER);
            }
            (ExtraContentReplay::None | ExtraContentReplay::Placeholder, _)
            | (ExtraContentReplay::Kept | ExtraContentReplay::Required, None) => {}
        }
    }
}

/// The baggage that is known for a call.
fn known_baggage<'o>(
    turn: &Turn<'_>,
    call: usize,
    options: &ChatOptions<'o>,
) -> impl Iterator<Item = Baggage> + use<'o> {
    let id = turn.items.get(call).and_then(Item::call_id);
    let blobs = id
        .and_then(|id| options.known_baggage?.get(id.as_ref()))
        .map(String::as_str)
        .unwrap_or_default();
    blobs.split(' ').filter_map(Baggage::open)
}

/// The first of these indices, which ascend, that is larger than `index`.
fn first_after(indices: &[usize], index: usize) -> Option<usize> {
    let place = indices.partition_point(|other| *other <= index);
    indices.get(place).copied()
}

/// Whether the text is JSON that begins with this character, and may be copied into the body:
/// anybody can make a blob with a correct checksum, so its JSON is checked like the JSON of a
/// request. A note names what does not pass.
fn is_sound_json(text: &str, first: char, notes: &mut Notes) -> bool {
    if text.is_empty() {
        return false;
    }
    let is_sound = text.starts_with(first)
        && !json::is_deeper_than(text, json::MAX_DEPTH)
        && !json::has_lone_surrogate(text)
        && serde_json::from_str::<&RawValue>(text).is_ok();
    if !is_sound {
        let detail = "its JSON is damaged, too deep, or holds half a character";
        notes.add("reasoning_state_dropped", detail);
    }
    is_sound
}
