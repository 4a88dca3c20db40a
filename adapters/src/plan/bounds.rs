//! What a plan has to keep to.

use registry::{Dialect, Model, ReasoningReplay, Window};
use serde::{Deserialize, Serialize};

/// How much of a history may be sent. A plan is a function of the turn and of
/// these values alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The window of the model.
    pub window: Window,
    /// Bytes of text a token, a fixed ratio of the model: live figures would change
    /// the bytes of a history.
    pub bytes_per_token: f32,
    /// Whether the model gets its earlier reasoning again, which then takes room.
    pub reasoning: bool,
    /// How outputs are bounded.
    pub outputs: Outputs,
    /// Where what is left out can be read back from.
    pub keeping: Keeping,
}

/// How tool outputs are bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outputs {
    /// By the model's window.
    Adaptive,
    /// By constants: 4,000 characters whole, else excerpts of 1,200 and 1,200,
    /// visible at most 5,000.
    Fixed,
    /// Not at all.
    #[default]
    Whole,
}

/// Where shortened outputs are kept whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Keeping {
    /// On disk.
    Disk,
    /// In memory, until the program stops or the room is needed.
    Memory,
    /// Nowhere.
    #[default]
    Nothing,
}

impl Bounds {
    /// For this model: what it can take, and how outputs are bounded and kept.
    pub fn of(model: &Model, outputs: Outputs, keeping: Keeping) -> Self {
        Self {
            window: model.window(),
            bytes_per_token: model.bytes_per_token(),
            reasoning: true,
            outputs,
            keeping,
        }
    }

    /// The same for a model that is spoken to in this dialect.
    #[must_use]
    pub fn spoken(self, dialect: &Dialect) -> Self {
        Self {
            reasoning: dialect.quirks.reasoning_replay != ReasoningReplay::None,
            ..self
        }
    }

    /// No bounds but the assumed window.
    pub fn none() -> Self {
        Self {
            window: Window::assumed(),
            bytes_per_token: Model::BYTES_PER_TOKEN,
            reasoning: true,
            outputs: Outputs::Whole,
            keeping: Keeping::Nothing,
        }
    }

    /// The window in bytes of text.
    pub fn window_bytes(&self) -> usize {
        self.bytes(self.window.tokens)
    }

    /// As many tokens in bytes of text.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a budget; no window has 2^52 tokens"
    )]
    pub fn bytes(&self, tokens: u64) -> usize {
        (tokens as f64 * f64::from(self.bytes_per_token.max(0.1))) as usize
    }
}
