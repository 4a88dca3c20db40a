//! The bytes that a request may have.

use super::units::TextLimits;
use crate::json;
use crate::plan::{Bounds, OutputPolicy, Plan};
use crate::turn::Turn;

pub(super) struct ByteBudget {
    /// The bytes of the instructions and all messages.
    pub(super) bytes: usize,
    /// The part of these that the notice about omitted messages may take.
    pub(super) notice: usize,
    pub(super) limits: TextLimits,
}

/// The messages of a request for a summary under [`OutputPolicy::Fixed`], brackets
/// included.
const FIXED_MESSAGES: usize = 120 * 1024;
const MAX_NOTICE: usize = 8_000;
const FIXED_TEXT_CHARS: usize = 8_000;
const FIXED_ARGUMENTS: usize = 3_000;

/// The parts of a request body other than its messages and tools.
const BODY_FRAME: usize = 1_024;

impl ByteBudget {
    /// For a request for a summary. A tenth is left free for the error of the ratio of
    /// bytes to tokens: if this request does not fit, no smaller one is tried.
    pub(super) fn for_summary(turn: &Turn<'_>, bounds: &Bounds, plan: &Plan) -> Self {
        let bytes = message_bytes(turn, bounds, plan) / 10 * 9;
        let (bytes, text_chars, arguments) = match bounds.outputs {
            OutputPolicy::Fixed => (
                bytes.min(FIXED_MESSAGES - 2),
                FIXED_TEXT_CHARS,
                FIXED_ARGUMENTS,
            ),
            OutputPolicy::Adaptive | OutputPolicy::Whole => (bytes, usize::MAX, usize::MAX),
        };
        Self {
            bytes,
            notice: MAX_NOTICE.min(bytes / 14).max(400),
            limits: TextLimits {
                text_chars,
                arguments,
                keeps_media_and_reasoning: false,
            },
        }
    }

    pub(super) fn for_answer(turn: &Turn<'_>, bounds: &Bounds, plan: &Plan) -> Self {
        Self {
            bytes: message_bytes(turn, bounds, plan),
            notice: 0,
            limits: TextLimits::none(),
        }
    }
}

/// The bytes of the window that the answer and the tools leave.
fn message_bytes(turn: &Turn<'_>, bounds: &Bounds, plan: &Plan) -> usize {
    let offered = turn.tools.iter().filter(|tool| plan.offers(tool));
    let tools = offered.map(|tool| {
        let schema = tool.parameters.map_or(0, |raw| raw.get().len());
        let description = tool
            .description
            .as_ref()
            .map_or(0, crate::text::Text::escaped_len);
        schema + description + 128
    });
    let tools: usize = tools.sum();
    input_bytes(bounds)
        .saturating_sub(BODY_FRAME)
        .saturating_sub(tools)
}

/// The bytes of the window without those that are kept free for the answer.
fn input_bytes(bounds: &Bounds) -> usize {
    bounds.bytes_for(bounds.window.max_input())
}

/// The bytes of the instructions as they are sent.
pub(super) fn instructions_len(turn: &Turn<'_>) -> usize {
    let text = turn.instructions.as_ref();
    text.map_or(0, |text| match text {
        crate::text::Text::Raw(raw) => raw.get().len().saturating_sub(2),
        crate::text::Text::Owned(text) => json::escaped_len(text),
    })
}
