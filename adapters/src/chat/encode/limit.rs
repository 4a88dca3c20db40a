//! The output limit, and the estimate of the input that bounds it.

use registry::{MaxTokensField, Model, WindowSource};

use super::EncodeOptions;
use crate::compact::Form;
use crate::notes::Notes;
use crate::turn::Turn;

/// What is left to an answer when the estimate says that the window is full: it
/// is often too high, and the provider knows better. Large windows leave more: an
/// answer that is cut off helps nobody.
fn min_output(window: u64) -> u64 {
    (window / 32).max(1_024)
}

/// The field for the output limit and the limit that is asked for.
#[derive(Clone, Copy)]
pub(super) struct OutputLimit {
    pub(super) field: &'static str,
    tokens: u64,
    /// Whether the client named it.
    asked: bool,
    /// Whoever sends it has found that the window has the room, by more than an
    /// estimate.
    has_room: bool,
}

/// The limit before anything is known of the input's size.
pub(super) fn requested(
    turn: &Turn<'_>,
    options: &EncodeOptions<'_>,
    notes: &mut Notes,
) -> Option<OutputLimit> {
    let summary = turn.purpose.form();
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
        has_room: summary == Some(Form::NextTurn),
    })
}

impl OutputLimit {
    /// The limit that fits the model, and into its window behind the input. An
    /// assumed window bounds nothing.
    pub(super) fn fit(self, model: &Model, input: u64, notes: &mut Notes) -> u64 {
        let most = model.max_output.unwrap_or(u64::MAX);
        let window = model.window();
        let room = if self.has_room || window.source == WindowSource::Assumed {
            u64::MAX
        } else {
            let left = window.tokens.saturating_sub(input);
            left.max(min_output(window.tokens))
        };
        let limit = self.tokens.min(most).min(room);
        if self.asked && limit < self.tokens {
            let why = if most <= room {
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
