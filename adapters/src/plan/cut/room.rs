//! The bytes that a request may have.

use super::units::Limits;
use crate::json;
use crate::plan::{Bounds, Outputs};
use crate::turn::Turn;

/// The room of a request.
pub(super) struct Room {
    /// For the instructions and all messages.
    pub(super) bytes: usize,
    /// For the notice about what is left out, of these.
    pub(super) notice: usize,
    pub(super) limits: Limits,
}

/// The messages of a summary's request under [`Outputs::Fixed`], brackets included.
const FIXED: usize = 120 * 1024;
const FIXED_NOTICE: usize = 8_000;
const FIXED_TEXT: usize = 8_000;
const FIXED_ARGUMENTS: usize = 3_000;

/// Everything in a body but its messages and tools.
const BODY: usize = 1_024;

impl Room {
    /// For a summary. A tenth is left for what the ratio of bytes and tokens gets
    /// wrong: where this does not fit nothing smaller is tried.
    pub(super) fn of(turn: &Turn<'_>, bounds: &Bounds) -> Self {
        let bytes = for_messages(turn, bounds) / 10 * 9;
        let (bytes, notice, text, arguments) = match bounds.outputs {
            Outputs::Fixed => (
                bytes.min(FIXED - 2),
                FIXED_NOTICE,
                FIXED_TEXT,
                FIXED_ARGUMENTS,
            ),
            Outputs::Adaptive | Outputs::Whole => (bytes, FIXED_NOTICE, usize::MAX, usize::MAX),
        };
        Self {
            bytes,
            notice: notice.min(bytes / 14).max(400),
            limits: Limits {
                text,
                arguments,
                whole: false,
            },
        }
    }

    /// For an answer.
    pub(super) fn of_answer(turn: &Turn<'_>, bounds: &Bounds) -> Self {
        Self {
            bytes: for_messages(turn, bounds),
            notice: 0,
            limits: Limits {
                text: usize::MAX,
                arguments: usize::MAX,
                whole: true,
            },
        }
    }
}

/// What an answer and the tools leave of the window.
fn for_messages(turn: &Turn<'_>, bounds: &Bounds) -> usize {
    let tools = turn.tools.iter().map(|tool| {
        let schema = tool.parameters.map_or(0, |raw| raw.get().len());
        let description = tool
            .description
            .as_ref()
            .map_or(0, |text| text.escaped().len());
        schema + description + 128
    });
    let tools: usize = tools.sum();
    input_bytes(bounds)
        .saturating_sub(BODY)
        .saturating_sub(tools)
}

/// The window without what is kept free for the answer.
fn input_bytes(bounds: &Bounds) -> usize {
    let window = bounds.window;
    let tokens = window.tokens.saturating_sub(window.output_allowance());
    Bounds {
        window: registry::Window { tokens, ..window },
        ..*bounds
    }
    .window_bytes()
}

/// The instructions as they are sent.
pub(super) fn instructions_len(turn: &Turn<'_>) -> usize {
    let text = turn.instructions.as_ref();
    text.map_or(0, |text| match text {
        crate::text::Text::Raw(raw) => raw.get().len().saturating_sub(2),
        crate::text::Text::Owned(text) => json::escaped_len(text),
    })
}
