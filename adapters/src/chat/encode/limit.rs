//! The output limit.

use registry::MaxTokensField;

use crate::chat::options::ChatOptions;
use crate::notes::Notes;
use crate::output_limit::OutputLimit;
use crate::purpose::SummaryMode;
use crate::turn::Turn;

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
