//! A model: its window, output limit, modalities, reasoning control and price.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

/// A model of one provider.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, Serialize, SmartDefault)]
#[serde(deny_unknown_fields, expecting = "a table")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about a model"
)]
pub struct Model {
    /// The id in requests to the provider; may contain slashes.
    pub id: String,
    /// The name for people; empty if it is the id.
    #[serde(default)]
    pub name: String,
    /// One sentence for the model pickers of clients.
    #[serde(default)]
    pub description: String,
    /// The context window in tokens, shared by input and output.
    pub window: Option<u64>,
    /// Upper bound of the output tokens of one answer.
    pub max_output: Option<u64>,
    /// Whether messages may contain images.
    #[serde(default)]
    pub images: bool,
    /// Whether messages may contain audio.
    #[serde(default)]
    pub audio: bool,
    /// The effort levels, weakest first; empty if reasoning cannot be controlled.
    #[serde(default)]
    pub reasoning: Vec<String>,
    /// The effort level that clients preselect.
    pub default_reasoning: Option<String>,
    /// Whether `temperature` and `top_p` are accepted.
    #[serde(default = "default_true")]
    #[default = true]
    pub sampling: bool,
    /// The price, if known.
    pub price: Option<Price>,
    /// Bytes of request text per token, to estimate the size of a request before the
    /// provider counts its tokens. Without it the ratio is learned from these counts.
    pub bytes_per_token: Option<f32>,
    /// The ratio that was learned, which a listed one replaces. No key of a configuration.
    #[serde(skip)]
    pub learned_bytes_per_token: Option<f32>,
    /// Whether it was made by [`Self::unlisted`]. It stays so when its window is learned. No key
    /// of a configuration: a model with a table is listed.
    #[serde(skip)]
    pub unlisted: bool,
    /// Whether its window is one that the provider has told. No key of a configuration.
    #[serde(skip)]
    pub reported: bool,
}

impl Model {
    /// The default of [`Self::bytes_per_token`].
    pub const BYTES_PER_TOKEN: f32 = 2.7;

    /// A model that is not listed: only its name is known. Nothing is withheld from it: images and
    /// audio are sent, for example.
    pub fn unlisted(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            name: id.to_owned(),
            images: true,
            audio: true,
            unlisted: true,
            ..Self::default()
        }
    }

    /// The listed window, the one that the provider has told, or else the assumed one.
    pub fn window(&self) -> Window {
        self.window.map_or_else(Window::assumed, |tokens| Window {
            tokens,
            source: if self.reported {
                WindowSource::Reported
            } else {
                WindowSource::Listed
            },
        })
    }

    /// Bytes of request text per token.
    pub fn bytes_per_token(&self) -> f32 {
        self.bytes_per_token
            .or(self.learned_bytes_per_token)
            .unwrap_or(Self::BYTES_PER_TOKEN)
    }

    /// The name for people, or the id if there is none.
    pub fn display_name(&self) -> &str {
        if self.name.is_empty() {
            &self.id
        } else {
            &self.name
        }
    }
}

fn default_true() -> bool {
    true
}

/// Prices in US dollars per million tokens.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct Price {
    /// Input that was not cached.
    pub input: f64,
    /// Input read from the provider's cache; the price of `input` if absent.
    pub cached_input: Option<f64>,
    /// Input written to the provider's cache; the price of `input` if absent.
    pub cache_write: Option<f64>,
    /// Output, including reasoning.
    pub output: f64,
    /// The prices of long requests, sorted by `above`.
    #[serde(default)]
    pub tiers: Vec<PriceTier>,
}

impl Price {
    /// The price of a cached input token in relation to one that is not cached and, if that has a
    /// price, is written to the cache. `None` for a model that costs nothing.
    pub fn cached_ratio(&self) -> Option<f64> {
        let fresh = self.cache_write.unwrap_or(self.input);
        let ratio = self.cached_input.unwrap_or(self.input) / fresh;
        ratio.is_finite().then(|| ratio.clamp(0.0, 1.0))
    }

    /// The cost in US dollars of a request with `input` tokens and an answer with `output` tokens.
    /// `cached` of the input tokens were read from the provider's cache, and `cache_write` written
    /// to it. The tier that the input reaches applies to the whole request.
    pub fn cost(&self, input: u64, cached: u64, cache_write: u64, output: u64) -> f64 {
        let tier = self.tiers.iter().rfind(|tier| input > tier.above);
        let (plain, read, out) = match tier {
            Some(tier) => (tier.input, tier.cached_input, tier.output),
            None => (self.input, self.cached_input, self.output),
        };
        // Cache writes cost more than input by the same factor in every tier.
        let write = match self.cache_write {
            Some(write) if self.input > 0.0 => write * plain / self.input,
            Some(write) => write,
            None => plain,
        };
        let cached = cached.min(input);
        let written = cache_write.min(input - cached);
        let fresh = input - cached - written;
        let sum = tokens(fresh) * plain
            + tokens(cached) * read.unwrap_or(plain)
            + tokens(written) * write
            + tokens(output) * out;
        sum / 1e6
    }
}

#[expect(clippy::cast_precision_loss, reason = "no request has 2^52 tokens")]
fn tokens(count: u64) -> f64 {
    count as f64
}

/// The prices of requests with long input, in US dollars per million tokens.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct PriceTier {
    /// The tier applies to requests with more input tokens than this.
    pub above: u64,
    /// The price of input that was not cached.
    pub input: f64,
    /// The price of input read from the cache; that of `input` if absent.
    pub cached_input: Option<f64>,
    /// The price of output, including reasoning.
    pub output: f64,
}

/// The context window of a model: how many tokens input and output may have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Window {
    /// The size in tokens.
    pub tokens: u64,
    /// How the size is known.
    pub source: WindowSource,
}

impl Window {
    /// The window that is assumed for a model of unknown size.
    pub const fn assumed() -> Self {
        Self {
            tokens: 131_072,
            source: WindowSource::Assumed,
        }
    }

    /// The tokens that are reserved for the answer: a quarter of the window, at most
    /// 20,000.
    pub const fn output_allowance(self) -> u64 {
        let quarter = self.tokens / 4;
        if quarter < 20_000 { quarter } else { 20_000 }
    }

    /// The most tokens that a request may have, so that there is room for an answer.
    pub const fn max_input(self) -> u64 {
        self.tokens.saturating_sub(self.output_allowance())
    }
}

/// How the size of a window is known, the most reliable source first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowSource {
    /// Listed in the registry or the configuration.
    Listed,
    /// Reported in the model list of the provider.
    Reported,
    /// Learned from the error message of a request that was too long.
    Learned,
    /// Assumed, because nothing is known.
    Assumed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_a_small_window_is_reserved_for_the_answer() {
        let small = Window {
            tokens: 8_192,
            source: WindowSource::Learned,
        };
        assert_eq!(small.output_allowance(), 2_048);
        assert_eq!(Window::assumed().output_allowance(), 20_000);
    }

    fn price(toml: &str) -> Price {
        toml::from_str(toml).unwrap()
    }

    fn assert_cost(cost: f64, dollars: f64) {
        assert!((cost - dollars).abs() < 1e-9, "{cost} is not {dollars}");
    }

    #[test]
    fn cached_and_written_input_have_their_own_prices() {
        let price = price("input = 2.0\ncached_input = 0.5\ncache_write = 2.5\noutput = 10.0");
        assert_cost(price.cost(1_000_000, 0, 0, 0), 2.0);
        assert_cost(price.cost(1_000_000, 400_000, 0, 100_000), 1.2 + 0.2 + 1.0);
        assert_cost(price.cost(1_000_000, 400_000, 600_000, 0), 0.2 + 1.5);
        // A provider has been seen to report more cached tokens than input tokens.
        assert_cost(price.cost(100, 1_000_000, 1_000_000, 0), 0.5 * 100.0 / 1e6);
    }

    #[test]
    fn cached_input_without_a_price_costs_as_input() {
        let price = price("input = 2.0\noutput = 10.0");
        assert_cost(price.cost(1_000_000, 500_000, 500_000, 0), 2.0);
    }

    #[test]
    fn a_long_request_costs_the_price_of_its_tier() {
        let price = price(
            "input = 1.0\ncached_input = 0.1\ncache_write = 1.25\noutput = 5.0\n\
             tiers = [{ above = 200000, input = 2.0, cached_input = 0.2, output = 10.0 }, \
             { above = 500000, input = 4.0, output = 20.0 }]",
        );
        assert_cost(price.cost(200_000, 0, 0, 1_000_000), 0.2 + 5.0);
        assert_cost(
            price.cost(200_001, 200_001, 0, 1_000_000),
            0.040_000_2 + 10.0,
        );
        assert_cost(price.cost(400_000, 0, 400_000, 0), 1.0);
        assert_cost(price.cost(1_000_000, 1_000_000, 0, 0), 4.0);
    }

    #[test]
    fn an_unlisted_model_has_the_assumed_window() {
        assert_eq!(Model::unlisted("x").window(), Window::assumed());
    }
}
