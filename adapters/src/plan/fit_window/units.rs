//! Units of the sequence with the bytes that they take. A unit stays or is left out as a
//! whole: a message, or an answer with its calls and their results.

use std::ops::Range;

use crate::item_text;
use crate::json;
use crate::media::MediaEstimate;
use crate::plan::{AnswerItems, Bounds, Plan, SequenceEntry, output};
use crate::result_text::output_has_parts;
use crate::shorten::{EscapeDepth, shorten};
use crate::turn::{Item, ItemKind, Turn};

/// The JSON around a message, with the marks and headings that a provider may want, and
/// an assistant message that may have to precede it.
const MESSAGE_FRAME: usize = 192;
/// The same for an answer, with placeholders for lost reasoning.
const ANSWER_FRAME: usize = 320;
const CALL_FRAME: usize = 160;
const RESULT_FRAME: usize = 200;

pub(super) struct SequenceUnit {
    pub(super) kind: UnitKind,
    /// Its entries in the sequence.
    pub(super) entries: Range<usize>,
    /// The bytes that it takes however short its texts are.
    pub(super) frame: usize,
    pub(super) texts: Vec<UnitText>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UnitKind {
    System,
    User,
    /// The prompt for a summary.
    Prompt,
    /// An earlier summary.
    Summary,
    Answer,
    /// A result without a call, or a notice about omitted messages.
    Other,
}

/// A text that can be shortened.
pub(super) struct UnitText {
    pub(super) item: usize,
    pub(super) role: TextRole,
    /// Bytes as they are sent, without those beyond the limits.
    pub(super) bytes: usize,
    /// Whether it is longer than the limits allow.
    pub(super) exceeds_limits: bool,
    /// The number of images and files that belong to it.
    pub(super) media: usize,
    /// The index of the call that it is the output of.
    pub(super) call: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TextRole {
    Message,
    Output,
    Arguments,
}

/// Limits of single texts, whatever the budget of the request is.
#[derive(Clone, Copy)]
pub(super) struct TextLimits {
    /// The maximum characters of a text.
    pub(super) text_chars: usize,
    /// The maximum bytes of the arguments of a call.
    pub(super) arguments: usize,
    /// Whether images and reasoning are sent. Otherwise a placeholder
    /// replaces each image.
    pub(super) keeps_media_and_reasoning: bool,
}

impl TextLimits {
    pub(super) fn none() -> Self {
        Self {
            text_chars: usize::MAX,
            arguments: usize::MAX,
            keeps_media_and_reasoning: true,
        }
    }
}

impl SequenceUnit {
    /// Its bytes if none of its texts takes more than `cap` bytes.
    pub(super) fn size(&self, cap: usize) -> usize {
        let texts = self.texts.iter().map(|text| text.bytes.min(cap));
        self.frame + texts.sum::<usize>()
    }

    /// Its bytes if no text is shortened.
    pub(super) fn full_size(&self) -> usize {
        self.size(usize::MAX)
    }

    pub(super) fn message_count(&self) -> usize {
        self.entries.len()
    }
}

/// The units of the first `count` entries of the sequence, in order.
pub(super) fn units(
    turn: &Turn<'_>,
    plan: &Plan,
    bounds: &Bounds,
    limits: TextLimits,
    count: usize,
) -> Vec<SequenceUnit> {
    let reader = UnitReader {
        turn,
        plan,
        image_bytes: bounds.bytes_for(MediaEstimate::IMAGE_TOKENS),
        limits,
    };
    let mut units: Vec<SequenceUnit> = Vec::new();
    for (at, entry) in plan.sequence.iter().enumerate().take(count) {
        if turn.stop.is_raised() {
            break;
        }
        match (entry, units.last_mut()) {
            (SequenceEntry::Result(index), Some(unit)) => {
                unit.entries.end = at + 1;
                reader.add_result(unit, *index);
            }
            (SequenceEntry::Interrupted(_), Some(unit)) => {
                unit.entries.end = at + 1;
                unit.frame += RESULT_FRAME;
            }
            (entry, _) => units.push(reader.unit(entry, at)),
        }
    }
    units
}

struct UnitReader<'m, 'a> {
    turn: &'m Turn<'a>,
    plan: &'m Plan,
    image_bytes: usize,
    limits: TextLimits,
}

impl UnitReader<'_, '_> {
    fn unit(&self, entry: &SequenceEntry, at: usize) -> SequenceUnit {
        let mut unit = SequenceUnit {
            kind: UnitKind::Other,
            entries: at..at + 1,
            frame: MESSAGE_FRAME,
            texts: Vec::new(),
        };
        match entry {
            SequenceEntry::Message(index) => {
                if let Some(item) = self.turn.items.get(*index) {
                    unit.kind = match item.kind {
                        ItemKind::Compaction => UnitKind::Summary,
                        _ if item.is_system() => UnitKind::System,
                        _ if at + 1 == self.plan.sequence.len() && self.asks_for_summary() => {
                            UnitKind::Prompt
                        }
                        _ => UnitKind::User,
                    };
                }
                self.add_message(&mut unit, *index);
            }
            SequenceEntry::Answer(answer) => self.add_answer(&mut unit, answer),
            SequenceEntry::Stray(index) | SequenceEntry::Result(index) => {
                self.add_result(&mut unit, *index);
            }
            SequenceEntry::Interrupted(_) => unit.frame += RESULT_FRAME,
            SequenceEntry::Omitted(text) => unit.frame += json::escaped_len(text),
        }
        unit
    }

    fn asks_for_summary(&self) -> bool {
        self.turn.purpose.summary_mode().is_some()
    }

    fn add_answer(&self, unit: &mut SequenceUnit, answer: &AnswerItems) {
        unit.kind = UnitKind::Answer;
        unit.frame = ANSWER_FRAME;
        for &index in &answer.text {
            self.add_message(unit, index);
        }
        for &index in &answer.calls {
            let Some(item) = self.turn.items.get(index) else {
                continue;
            };
            let bytes = match self.plan.replaced_arguments(item, index) {
                Some(arguments) => json::escaped_len(arguments),
                None => item_text::escaped_arguments_len(item),
            };
            unit.frame += CALL_FRAME + self.name_and_id(index, item);
            if item.kind == ItemKind::McpCall {
                // What replaces it is its result.
                unit.frame += bytes;
                continue;
            }
            self.add_text(unit, index, TextRole::Arguments, bytes, 0);
        }
        if self.limits.keeps_media_and_reasoning {
            let reasoning = answer
                .reasoning
                .iter()
                .filter_map(|index| self.turn.items.get(*index));
            unit.frame += reasoning.map(reasoning_len).sum::<usize>();
        }
    }

    fn add_message(&self, unit: &mut SequenceUnit, index: usize) {
        let Some(item) = self.turn.items.get(index) else {
            return;
        };
        let (bytes, media) = match (self.plan.replacement_text(index), item.plain_text()) {
            (Some(text), _) => (json::escaped_len(text), 0),
            (None, Some(text)) => (text.escaped_len(), 0),
            (None, None) => {
                let size = item_text::content_size(item.content(), false);
                (size.bytes, size.media)
            }
        };
        self.add_text(unit, index, TextRole::Message, bytes, media);
    }

    fn add_result(&self, unit: &mut SequenceUnit, index: usize) {
        let Some(item) = self.turn.items.get(index) else {
            return;
        };
        unit.frame += RESULT_FRAME + self.name_and_id(index, item);
        if item.kind == ItemKind::ToolSearchOutput {
            let names = item.tools().map(crate::tools::wire_names);
            let names = names.unwrap_or_default();
            unit.frame += names.iter().map(|name| name.len() + 2).sum::<usize>();
            return;
        }
        let (own_bytes, media) = match item.output() {
            Some(raw) if output_has_parts(item.kind) || raw.get().starts_with('"') => {
                let size = item_text::content_size(Some(raw), true);
                (size.bytes, size.media)
            }
            Some(raw) => (json::escaped_len(raw.get()), 0),
            None => (0, 0),
        };
        let replaced = self.plan.replacement_text(index);
        let bytes = replaced.map_or(own_bytes, json::escaped_len);
        self.add_text(unit, index, TextRole::Output, bytes, media);
        if let Some(text) = unit.texts.last_mut() {
            text.call = self.call_of_last(&unit.entries);
        }
    }

    /// The call of the last of these entries: they are an answer with the results of its calls in
    /// their order.
    fn call_of_last(&self, entries: &Range<usize>) -> Option<usize> {
        match self.plan.sequence.get(entries.start)? {
            SequenceEntry::Answer(answer) => {
                let place = entries.len().checked_sub(2)?;
                answer.calls.get(place).copied()
            }
            SequenceEntry::Message(_)
            | SequenceEntry::Result(_)
            | SequenceEntry::Interrupted(_)
            | SequenceEntry::Stray(_)
            | SequenceEntry::Omitted(_) => None,
        }
    }

    /// The maximum bytes of the tool name and the call id.
    fn name_and_id(&self, index: usize, item: &Item<'_>) -> usize {
        let name = item.name().map_or(0, |name| name.len().min(64));
        name + json::escaped_len(&self.plan.call_id(self.turn, index))
    }

    fn add_text(
        &self,
        unit: &mut SequenceUnit,
        item: usize,
        role: TextRole,
        bytes: usize,
        media: usize,
    ) {
        let mut piece = UnitText {
            item,
            role,
            bytes,
            exceeds_limits: false,
            media,
            call: None,
        };
        if self.limits.keeps_media_and_reasoning {
            unit.frame += media * self.image_bytes;
        } else if media > 0 {
            unit.frame += json::escaped_len(MEDIA_PLACEHOLDER);
        }
        match role {
            TextRole::Arguments if bytes > self.limits.arguments => {
                piece.exceeds_limits = true;
                piece.bytes = self.limits.arguments;
            }
            TextRole::Message | TextRole::Output
                if bytes > self.limits.text_chars
                    && !matches!(
                        unit.kind,
                        UnitKind::System | UnitKind::Summary | UnitKind::Prompt
                    ) =>
            {
                let text = text(self.turn, self.plan, item, role);
                let cut = shorten(&text, usize::MAX, self.limits.text_chars, EscapeDepth::Once);
                piece.exceeds_limits = cut.len() != text.len();
                piece.bytes = json::escaped_len(&cut).min(bytes);
            }
            TextRole::Message | TextRole::Output | TextRole::Arguments => {}
        }
        unit.texts.push(piece);
    }
}

/// The text that is sent instead of an image or a file.
pub(super) const MEDIA_PLACEHOLDER: &str = "\n[An image or file was left out here.]";

/// A text as it would be sent if it were not shortened to fit.
pub(super) fn text(turn: &Turn<'_>, plan: &Plan, index: usize, role: TextRole) -> String {
    if let Some(text) = plan.replacement_text(index) {
        return text.to_owned();
    }
    let Some(item) = turn.items.get(index) else {
        return String::new();
    };
    match role {
        TextRole::Message => item_text::message_text(item).into_owned(),
        TextRole::Output => output::text(item).unwrap_or_default().into_owned(),
        TextRole::Arguments => item_text::arguments_json(item).into_owned(),
    }
}

/// The maximum bytes that a reasoning item takes. A blob of ours is longer than what it
/// holds; an item with an upstream's own content goes back whole to that upstream; of one with
/// any other encrypted content only the readable text is sent.
fn reasoning_len(item: &Item<'_>) -> usize {
    let text = |raw: Option<&serde_json::value::RawValue>| raw.map_or(0, |raw| raw.get().len());
    let blob = item.encrypted_content().unwrap_or_default();
    let readable = text(item.content()) + text(item.summary());
    if blob.starts_with("rsp1.") {
        blob.len().max(readable)
    } else if blob.starts_with("rse1.") {
        blob.len() + readable
    } else {
        readable
    }
}
