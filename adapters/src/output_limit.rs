//! The output limit of a request, fitted to the model and its window.

use registry::{Model, WindowSource};

use crate::notes::Notes;
use crate::purpose::SummaryMode;
use crate::turn::Turn;

/// An output limit that has not been fitted to the window.
#[derive(Clone, Copy)]
pub(crate) struct OutputLimit {
    pub(crate) field: &'static str,
    pub(crate) tokens: u64,
    /// Whether the client asked for this limit.
    pub(crate) asked: bool,
    /// Whether the window is known to have enough room, so that the estimate must
    /// not lower the limit.
    pub(crate) has_room: bool,
}

impl OutputLimit {
    /// The limit before the size of the input is known: the client's, or the whole allowance for a
    /// summary, else `default`. `None` if there is none, or the provider has no `field` for it.
    pub(crate) fn requested(
        turn: &Turn<'_>,
        model: &Model,
        field: Option<&'static str>,
        default: Option<u64>,
        notes: &mut Notes,
    ) -> Option<Self> {
        let summary = turn.purpose.summary_mode();
        let asked = match summary {
            Some(_) => Some(model.window().output_allowance()),
            None => turn.controls.max_output_tokens,
        };
        let is_from_client = asked.is_some() && summary.is_none();
        if field.is_none() && is_from_client {
            notes.add("parameter_dropped", "max_output_tokens");
        }
        Some(Self {
            field: field?,
            tokens: asked.or(default)?,
            asked: is_from_client,
            has_room: summary == Some(SummaryMode::NextTurn),
        })
    }

    /// The limit, lowered to the limit of the model and to the room that the input leaves in the
    /// window. A window whose size is only assumed does not lower it.
    pub(crate) fn fit(self, model: &Model, input: u64, notes: &mut Notes) -> u64 {
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

/// The smallest limit, for when the estimate says that the window is full:
/// estimates are often too high, and the provider knows better. Large windows
/// reserve more, because a truncated answer is of no use.
fn min_output(window: u64) -> u64 {
    (window / 32).max(1_024)
}
