//! The output limit.

use registry::{MaxTokensField, Model, WindowSource};

use crate::chat::options::ChatOptions;
use crate::notes::Notes;
use crate::purpose::SummaryMode;
use crate::turn::Turn;

/// The smallest limit, for when the estimate says that the window is full:
/// estimates are often too high, and the provider knows better. Large windows
/// reserve more, because a truncated answer is of no use.
fn min_output(window: u64) -> u64 {
    (window / 32).max(1_024)
}

/// An output limit that has not been fitted to the window.
#[derive(Clone, Copy)]
pub(super) struct OutputLimit {
    pub(super) field: &'static str,
    tokens: u64,
    /// Whether the client asked for this limit.
    asked: bool,
    /// Whether the window is known to have enough room, so that the estimate must
    /// not lower the limit.
    has_room: bool,
}

/// The limit before the size of the input is known; `None` if none is sent.
pub(super) fn requested(
    turn: &Turn<'_>,
    options: &ChatOptions<'_>,
    notes: &mut Notes,
) -> Option<OutputLimit> {
    let summary = turn.purpose.summary_mode();
    let asked = match summary {
        Some(_) => Some(options.model.window().output_allowance()),
        None => turn.controls.max_output_tokens,
    };
    let field = match options.quirks().max_tokens_field {
        MaxTokensField::MaxTokens => "max_tokens",
        MaxTokensField::MaxCompletionTokens => "max_completion_tokens",
        MaxTokensField::None => {
            if asked.is_some() && summary.is_none() {
                notes.add("parameter_dropped", "max_output_tokens");
            }
            return None;
        }
    };
    Some(OutputLimit {
        field,
        tokens: asked.or(options.quirks().default_max_tokens)?,
        asked: asked.is_some() && summary.is_none(),
        has_room: summary == Some(SummaryMode::NextTurn),
    })
}

impl OutputLimit {
    /// The limit, lowered to that of the model and to the room that the input
    /// leaves in the window. A window whose size is only assumed does not lower it.
    pub(super) fn fit(self, model: &Model, input: u64, notes: &mut Notes) -> u64 {
        let model_limit = model.max_output.unwrap_or(u64::MAX);
        let window = model.window();
        let room = if self.has_room || window.source == WindowSource::Assumed {
            u64::MAX
        } else {
            let left = window.tokens.saturating_sub(input);
            left.max(min_output(window.tokens))
        };
        let limit = self.tokens.min(model_limit).min(room);
        if self.asked && limit < self.tokens {
            let why = if model_limit <= room {
                "to the model's limit"
            } else {
                "to what the window leaves,"
            };
            notes.add(
                "max_output_tokens_lowered",
                format!("{} {why} {limit}", self.tokens),
            );
        }
        limit
    }
}
