//! A model: its window, output limit, modalities, reasoning control and price.

use serde::Deserialize;

/// A model of one provider.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Model {
    /// The id the provider knows it by; may contain slashes.
    pub id: String,
    /// The name people know it by; the id when left out.
    #[serde(default)]
    pub name: String,
    /// One sentence for model pickers.
    #[serde(default)]
    pub description: String,
    /// Tokens that input and output share.
    pub window: Option<u64>,
    /// Tokens of one answer at most.
    pub max_output: Option<u64>,
    /// Whether messages may hold images.
    #[serde(default)]
    pub images: bool,
    /// Effort levels from the weakest; empty means no control.
    #[serde(default)]
    pub reasoning: Vec<String>,
    /// The level that clients are offered first.
    pub default_reasoning: Option<String>,
    /// Whether `temperature` and `top_p` are accepted.
    #[serde(default = "yes")]
    pub sampling: bool,
    /// What a million tokens cost.
    pub price: Option<Price>,
    /// Bytes of request text a token, to reckon sizes before a provider counts.
    pub bytes_per_token: Option<f32>,
}

impl Model {
    /// What is assumed of a model when nothing says otherwise.
    pub const BYTES_PER_TOKEN: f32 = 2.7;

    /// A model that is passed on by name alone. Nothing is known of it, so
    /// nothing is withheld: images go through.
    pub fn unlisted(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            name: id.to_owned(),
            description: String::new(),
            window: None,
            max_output: None,
            images: true,
            reasoning: Vec::new(),
            default_reasoning: None,
            sampling: true,
            price: None,
            bytes_per_token: None,
        }
    }

    /// The listed window, else the assumed one.
    pub fn window(&self) -> Window {
        self.window.map_or_else(Window::assumed, |tokens| Window {
            tokens,
            source: WindowSource::Listed,
        })
    }

    /// Bytes of request text a token.
    pub fn bytes_per_token(&self) -> f32 {
        self.bytes_per_token.unwrap_or(Self::BYTES_PER_TOKEN)
    }

    /// The name for people: the id when no name is given.
    pub fn display_name(&self) -> &str {
        if self.name.is_empty() {
            &self.id
        } else {
            &self.name
        }
    }
}

fn yes() -> bool {
    true
}

/// US dollars a million tokens.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Price {
    /// Input that was not cached.
    pub input: f64,
    /// Input read from the provider's cache; as input when left out.
    pub cached_input: Option<f64>,
    /// Input written to the provider's cache; as input when left out.
    pub cache_write: Option<f64>,
    /// Output, reasoning included.
    pub output: f64,
    /// What long requests cost instead, the shortest first.
    #[serde(default)]
    pub tiers: Vec<Tier>,
}

/// What a request costs whose input is long.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Tier {
    /// From more than this many input tokens on.
    pub above: u64,
    /// See [`Price::input`].
    pub input: f64,
    /// See [`Price::cached_input`].
    pub cached_input: Option<f64>,
    /// See [`Price::output`].
    pub output: f64,
}

/// How many tokens input and output may take together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The number.
    pub tokens: u64,
    /// Where it is from.
    pub source: WindowSource,
}

impl Window {
    /// The window of a model that nobody describes.
    pub const fn assumed() -> Self {
        Self {
            tokens: 131_072,
            source: WindowSource::Assumed,
        }
    }

    /// Tokens kept free for the answer.
    pub const fn output_allowance(self) -> u64 {
        let quarter = self.tokens / 4;
        if quarter < 20_000 { quarter } else { 20_000 }
    }
}

/// Where a window is from, the surest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowSource {
    /// The registry or the configuration.
    Listed,
    /// The provider's own model list.
    Reported,
    /// The message of an overflow.
    Learned,
    /// Nowhere.
    Assumed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_a_small_window_is_left_for_the_answer() {
        let small = Window {
            tokens: 8_192,
            source: WindowSource::Learned,
        };
        assert_eq!(small.output_allowance(), 2_048);
        assert_eq!(Window::assumed().output_allowance(), 20_000);
    }

    #[test]
    fn an_unlisted_model_has_the_assumed_window() {
        assert_eq!(Model::unlisted("x").window(), Window::assumed());
    }
}
