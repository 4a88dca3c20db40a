//! The limits that a plan has to keep to.

use excerpts::Retention;
use registry::{Dialect, Model, Price, Window};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::UnshortenedFrom;

/// How much of a history may be sent to a model. A plan is a function of the turn and of
/// these values alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// The context window of the model.
    pub window: Window,
    /// Bytes of text per token. The same in all turns of a session, whatever is learned of the
    /// model meanwhile: another ratio would change the bytes of a history.
    pub bytes_per_token: f32,
    /// Whether the model gets its earlier reasoning back, which then counts against the
    /// window.
    pub replays_reasoning: bool,
    /// How tool outputs are limited.
    pub outputs: OutputPolicy,
    /// Where shortened outputs can be read back from.
    pub retention: Retention,
    /// The price of a cached token in relation to one that is not cached; `None` if it is not
    /// known.
    pub cached_price: Option<f64>,
    /// The point in the session after which outputs are shortened only if the window forces it;
    /// `None` if long ones are shortened everywhere.
    pub unshortened_from: Option<UnshortenedFrom>,
}

/// How tool outputs are limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputPolicy {
    /// By the model's window.
    Adaptive,
    /// By constants: outputs of up to 4,000 characters are sent whole; an excerpt of a
    /// longer one has 1,200 characters of its beginning and 1,200 of its end, and at
    /// most 5,000 in all.
    Fixed,
    /// Not at all.
    #[default]
    Whole,
}

impl Bounds {
    /// The bounds for a model that gets its earlier reasoning back.
    pub fn for_model(model: &Model, outputs: OutputPolicy, retention: Retention) -> Self {
        Self {
            window: model.window(),
            bytes_per_token: model.bytes_per_token(),
            replays_reasoning: true,
            outputs,
            retention,
            cached_price: model.price.as_ref().and_then(Price::cached_ratio),
            unshortened_from: None,
        }
    }

    /// The same bounds for a session whose outputs are not shortened after a point.
    #[must_use]
    pub fn with_unshortened_from(self, unshortened_from: Option<UnshortenedFrom>) -> Self {
        Self {
            unshortened_from,
            ..self
        }
    }

    /// The same bounds for a provider with this dialect, which says whether the model
    /// gets its earlier reasoning back.
    #[must_use]
    pub fn for_dialect(self, dialect: &Dialect) -> Self {
        Self {
            replays_reasoning: dialect.quirks.replays_reasoning(),
            ..self
        }
    }

    /// No limits but the window that is assumed for an unknown model.
    pub fn none() -> Self {
        let model = Model::unlisted("");
        Self::for_model(&model, OutputPolicy::default(), Retention::default())
    }

    /// The window in bytes of text.
    pub fn window_bytes(&self) -> usize {
        self.bytes_for(self.window.tokens)
    }

    /// The bytes of text that make up this number of tokens.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a budget; no window has 2^52 tokens"
    )]
    pub fn bytes_for(&self, tokens: u64) -> usize {
        (tokens as f64 * f64::from(self.bytes_per_token.max(0.1))) as usize
    }
}
