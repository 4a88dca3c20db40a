//! Estimates the bytes that the parts of a request take, without encoding them. The
//! estimate is close enough for a budget and depends on each item alone, so that the
//! sizes of a history never change. ([`crate::plan::fit_window`] measures more exactly,
//! because what it cuts has to fit.)

use serde_json::value::RawValue;

use crate::content::{self, ContentPart};
use crate::plan::{AnswerItems, Bounds};
use crate::result_text::output_has_parts;
use crate::text::Text;
use crate::turn::{Item, ItemKind, Turn};

/// The JSON around the text of a message: role, ids, punctuation.
pub(super) const MESSAGE_FRAME: usize = 60;

/// The JSON around the arguments of a call.
const CALL_FRAME: usize = 90;

/// An image of any size: about a thousand tokens.
const IMAGE_BYTES: usize = 2_700;

/// The size of an output in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SizeEstimate {
    pub(super) text: usize,
    /// Images and files, by the tokens that they take instead of their own bytes.
    pub(super) media: usize,
}

/// The instructions and the tools, which precede all items.
pub(super) fn fixed_input_size(turn: &Turn<'_>) -> usize {
    let instructions = turn.instructions.as_ref();
    let late_tools = turn
        .items
        .iter()
        .filter(|item| item.kind == ItemKind::AdditionalTools)
        .map(|item| raw_len(item.tools()));
    instructions.map_or(0, Text::escaped_len) + raw_len(turn.echo.tools) + late_tools.sum::<usize>()
}

pub(super) fn message_size(item: &Item<'_>) -> usize {
    message_content_size(item) + MESSAGE_FRAME
}

fn message_content_size(item: &Item<'_>) -> usize {
    if let Some(text) = item.plain_text() {
        return text.escaped_len();
    }
    let size = content_size(item.content());
    size.text + size.media
}

pub(super) fn answer_size(answer: &AnswerItems, turn: &Turn<'_>, bounds: &Bounds) -> usize {
    let item = |index: &usize| turn.items.get(*index);
    let texts = answer.text.iter().filter_map(item);
    let texts = texts.map(message_content_size);
    let calls = answer.calls.iter().filter_map(item).map(call_size);
    let reasoning = answer.reasoning.iter().filter_map(item);
    let reasoning: usize = if bounds.replays_reasoning {
        reasoning.map(reasoning_size).sum()
    } else {
        0
    };
    MESSAGE_FRAME + texts.sum::<usize>() + calls.sum::<usize>() + reasoning
}

/// A result without the text of its output.
pub(super) fn result_frame_size(item: &Item<'_>) -> usize {
    MESSAGE_FRAME + raw_len(item.tools())
}

/// An output whose JSON has `json_bytes` bytes.
pub(super) fn output_size(item: &Item<'_>, json_bytes: usize) -> SizeEstimate {
    let has_parts = output_has_parts(item.kind);
    let output = item.output().filter(|_| has_parts);
    let parts = output.and_then(|output| content::output_parts(output.get()));
    let whole = SizeEstimate {
        text: json_bytes.saturating_sub(if has_parts { 2 } else { 0 }),
        media: 0,
    };
    parts.map_or(whole, parts_size)
}

/// A content that is a string or a list of parts.
fn content_size(content: Option<&RawValue>) -> SizeEstimate {
    let json = content.map_or("", RawValue::get);
    let parts = json.starts_with('[').then(|| content::read_parts(json));
    let whole = SizeEstimate {
        text: json.len().saturating_sub(2),
        media: 0,
    };
    parts.and_then(Result::ok).map_or(whole, parts_size)
}

fn parts_size(parts: Vec<ContentPart<'_>>) -> SizeEstimate {
    let mut size = SizeEstimate::default();
    for part in parts {
        size.text += raw_len(part.text());
        let audio = part.input_audio.or(part.data);
        size.media += match (part.image_url, part.file_data, audio) {
            // What is text in base64 is sent as text.
            _ if part.is_text_file() => raw_len(part.file_data.or(part.image_url)),
            (Some(_), ..) => IMAGE_BYTES,
            // The same as in the token estimate of a whole request.
            (None, Some(data), _) => IMAGE_BYTES + data.get().len() / 12,
            (None, None, Some(audio)) => IMAGE_BYTES + audio.get().len() / 60,
            (None, None, None) => 0,
        };
    }
    size
}

fn call_size(item: &Item<'_>) -> usize {
    let input = item.input().map_or(0, |text| text.escaped_len());
    let json = [item.arguments(), item.action(), item.operation()];
    CALL_FRAME + input + json.map(raw_len).iter().sum::<usize>()
}

/// Up to three fields of an item have the same reasoning, and one of them is sent. Three quarters
/// of a blob of ours are the content, which is sealed in it as base64.
fn reasoning_size(item: &Item<'_>) -> usize {
    let blob = item.encrypted_content().map_or(0, |blob| blob.len());
    let readable = raw_len(item.content()).max(raw_len(item.summary()));
    readable.max(blob / 4 * 3)
}

fn raw_len(raw: Option<&RawValue>) -> usize {
    raw.map_or(0, |raw| raw.get().len())
}
