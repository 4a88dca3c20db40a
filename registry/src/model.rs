//! A model: its window, output limit, modalities, reasoning control and price.

use serde::{Deserialize, Serialize};

/// A model of one provider.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
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
    #[serde(default = "default_true")]
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

fn default_true() -> bool {
    true
}

/// US dollars a million tokens.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
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
    pub tiers: Vec<PriceTier>,
}

impl Price {
    /// US dollars for a request of `input` tokens, of which `cached` were read from
    /// the provider's cache and `cache_write` written to it, and an answer of
    /// `output` tokens. The whole request has the price of the tier that its input
    /// reaches.
    pub fn cost(&self, input: u64, cached: u64, cache_write: u64, output: u64) -> f64 {
        let tier = self.tiers.iter().rfind(|tier| input > tier.above);
        let (plain, read, out) = match tier {
            Some(tier) => (tier.input, tier.cached_input, tier.output),
            None => (self.input, self.cached_input, self.output),
        };
        // What is written costs more by the same factor in every tier.
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

/// What a request costs whose input is long.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct PriceTier {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
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

    fn price(toml: &str) -> Price {
        toml::from_str(toml).unwrap()
    }

    fn near(cost: f64, dollars: f64) {
        assert!((cost - dollars).abs() < 1e-9, "{cost} is not {dollars}");
    }

    #[test]
    fn cached_and_written_input_have_their_own_prices() {
        let price = price("input = 2.0\ncached_input = 0.5\ncache_write = 2.5\noutput = 10.0");
        near(price.cost(1_000_000, 0, 0, 0), 2.0);
        near(price.cost(1_000_000, 400_000, 0, 100_000), 1.2 + 0.2 + 1.0);
        near(price.cost(1_000_000, 400_000, 600_000, 0), 0.2 + 1.5);
        // More cached than there was is what a provider once reports.
        near(price.cost(100, 1_000_000, 1_000_000, 0), 0.5 * 100.0 / 1e6);
    }

    #[test]
    fn without_a_price_of_its_own_cached_input_is_input() {
        let price = price("input = 2.0\noutput = 10.0");
        near(price.cost(1_000_000, 500_000, 500_000, 0), 2.0);
    }

    #[test]
    fn a_long_request_has_the_price_of_its_tier() {
        let price = price(
            "input = 1.0\ncached_input = 0.1\ncache_write = 1.25\noutput = 5.0\n\
             tiers = [{ above = 200000, input = 2.0, cached_input = 0.2, output = 10.0 }, \
             { above = 500000, input = 4.0, output = 20.0 }]",
        );
        near(price.cost(200_000, 0, 0, 1_000_000), 0.2 + 5.0);
        near(
            price.cost(200_001, 200_001, 0, 1_000_000),
            0.040_000_2 + 10.0,
        );
        near(price.cost(400_000, 0, 400_000, 0), 1.0);
        near(price.cost(1_000_000, 1_000_000, 0, 0), 4.0);
    }

    #[test]
    fn an_unlisted_model_has_the_assumed_window() {
        assert_eq!(Model::unlisted("x").window(), Window::assumed());
    }
}
