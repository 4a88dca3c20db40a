//! The bytes that the parts of a request take, found without encoding them: close
//! enough for a budget, and a function of each item alone.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::plan::{Answer, Bounds};
use crate::turn::{Item, ItemKind, Turn};

/// What stands around the texts of a message: role, ids, punctuation.
pub(super) const FRAME: usize = 60;

/// What stands around the arguments of a call.
const CALL: usize = 90;

/// An image, whatever its size: about a thousand tokens.
const IMAGE: usize = 2_700;

/// Text and what is no text, each in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weight {
    pub(super) text: usize,
    /// Images and files by their tokens, not their bytes.
    pub(super) media: usize,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    file_data: Option<&'a RawValue>,
    #[serde(borrow)]
    image_url: Option<&'a RawValue>,
}

/// What precedes all items.
pub(super) fn head(turn: &Turn<'_>) -> usize {
    let instructions = turn.instructions.as_ref();
    let late_tools = turn
        .items
        .iter()
        .filter(|item| item.kind == ItemKind::AdditionalTools)
        .map(|item| raw(item.tools()));
    instructions.map_or(0, |text| text.escaped().len())
        + raw(turn.echo.tools)
        + late_tools.sum::<usize>()
}

/// A message.
pub(super) fn message(item: &Item<'_>) -> usize {
    said(item) + FRAME
}

fn said(item: &Item<'_>) -> usize {
    if let Some(text) = item.plain_text() {
        return text.escaped().len();
    }
    let weight = content(item.content());
    weight.text + weight.media
}

/// What the model said at once.
pub(super) fn answer(answer: &Answer, turn: &Turn<'_>, bounds: &Bounds) -> usize {
    let item = |index: &usize| turn.items.get(*index);
    let texts = answer.text.iter().filter_map(item).map(said);
    let calls = answer.calls.iter().filter_map(item).map(call);
    let thoughts = answer.reasoning.iter().filter_map(item).map(reasoning);
    let thoughts: usize = if bounds.reasoning { thoughts.sum() } else { 0 };
    FRAME + texts.sum::<usize>() + calls.sum::<usize>() + thoughts
}

/// A result that has no text of its own.
pub(super) fn result(item: &Item<'_>) -> usize {
    FRAME + raw(item.tools())
}

/// An output whose JSON has so many bytes.
pub(super) fn output(item: &Item<'_>, json: usize) -> Weight {
    let has_parts = matches!(
        item.kind,
        ItemKind::FunctionCallOutput | ItemKind::CustomToolCallOutput
    );
    if has_parts {
        content(item.output())
    } else {
        Weight {
            text: json,
            media: 0,
        }
    }
}

/// A string, or a list of parts.
fn content(content: Option<&RawValue>) -> Weight {
    let Some(json) = content.map(RawValue::get) else {
        return Weight::default();
    };
    let whole = Weight {
        text: json.len().saturating_sub(2),
        media: 0,
    };
    if !json.starts_with('[') {
        return whole;
    }
    let Ok(parts) = serde_json::from_str::<Vec<Part<'_>>>(json) else {
        return whole;
    };
    let mut weight = Weight::default();
    for part in parts {
        weight.text += raw(part.text.or(part.refusal));
        weight.media += match (part.image_url, part.file_data) {
            (Some(_), _) => IMAGE,
            // As the estimate of a request has it.
            (None, Some(data)) => IMAGE + data.get().len() / 12,
            (None, None) => 0,
        };
    }
    weight
}

fn call(item: &Item<'_>) -> usize {
    let input = item.input().map_or(0, |text| text.escaped().len());
    let given = [item.arguments(), item.action(), item.operation()];
    CALL + input + given.map(raw).iter().sum::<usize>()
}

/// The same thought stands in up to three places, of which one is sent. Of a blob of
/// ours three quarters are what it seals, in base64.
fn reasoning(item: &Item<'_>) -> usize {
    let blob = item.encrypted_content().map_or(0, |blob| blob.len());
    let shown = raw(item.content()).max(raw(item.summary()));
    shown.max(blob / 4 * 3)
}

fn raw(raw: Option<&RawValue>) -> usize {
    raw.map_or(0, |raw| raw.get().len())
}
