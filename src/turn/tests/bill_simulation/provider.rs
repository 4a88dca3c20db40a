//! A provider with its own idea of a token, which caches the beginnings of prompts.

use adapters::event::Usage;
use kit::session::SeededRandom;
use registry::{Price, PromptCache};
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

/// The tokens of an answer.
const OUTPUT: u64 = 300;

/// Tokens are longer or shorter in each part of a text with this many bytes.
const NOISE_BYTES: usize = 1 << 14;

pub(super) struct SimulatedProvider {
    bytes_per_token: f64,
    cache: PromptCache,
    price: Price,
    /// By how much tokens may be longer or shorter than others, as a part of their length.
    noise: f64,
}

impl SimulatedProvider {
    pub(super) fn new(bytes_per_token: f64, cache: PromptCache, price: Price, noise: f64) -> Self {
        Self {
            bytes_per_token,
            cache,
            price,
            noise,
        }
    }

    /// A cache that is another one than the provider file says: its blocks, its minimum and its
    /// lifetime are each half or twice as long, or the same.
    pub(super) fn other_cache(cache: PromptCache, random: &mut SeededRandom) -> PromptCache {
        let mut factor = || [1, 2, 4][random.below(3)];
        PromptCache {
            min_tokens: cache.min_tokens * factor() / 2,
            block_tokens: (cache.block_tokens * factor() / 2).max(1),
            lifetime: cache.lifetime * u32::try_from(factor()).unwrap() / 2,
        }
    }

    /// Answers a prompt. Its first `shared` bytes begin an earlier one, which was sent at `last`.
    pub(super) fn answer(&self, prompt: &[u8], shared: usize, last: Option<Instant>) -> Usage {
        let is_fresh = last.is_some_and(|last| last.elapsed() <= self.cache.lifetime);
        let input = self.tokens(prompt);
        let cached = if is_fresh {
            let shared = prompt.get(..shared).unwrap_or(prompt);
            self.cache.reusable(self.tokens(shared))
        } else {
            0
        };
        let writes = self.price.cache_write.is_some();
        Usage {
            input,
            cached,
            cache_write: if writes { input - cached } else { 0 },
            output: OUTPUT,
            ..Usage::default()
        }
    }

    /// The cost of all tokens in US dollars, and of those of the input alone.
    pub(super) fn bill(&self, usage: Usage) -> (f64, f64) {
        let Usage {
            input,
            cached,
            cache_write,
            ..
        } = usage;
        let cost = |output| self.price.cost(input, cached, cache_write, output);
        (cost(usage.output), cost(0))
    }

    fn tokens(&self, text: &[u8]) -> u64 {
        let tokens = text.chunks(NOISE_BYTES).map(|part| {
            let hash = xxh3_64(part.get(..64).unwrap_or(part));
            let noise = (hash % 2_001) as f64 / 1_000.0 - 1.0;
            part.len() as f64 / self.bytes_per_token * (1.0 + self.noise * noise)
        });
        tokens.sum::<f64>() as u64
    }
}

/// The bytes that two prompts begin with.
pub(super) fn shared_bytes(one: &[u8], other: &[u8]) -> usize {
    const BLOCK: usize = 1 << 12;
    let blocks = one.chunks(BLOCK).zip(other.chunks(BLOCK));
    let start = BLOCK * blocks.take_while(|(one, other)| one == other).count();
    let (one, other) = (
        one.get(start..).unwrap_or_default(),
        other.get(start..).unwrap_or_default(),
    );
    let same = one
        .iter()
        .zip(other)
        .take_while(|(one, other)| one == other);
    let start = start.min(start + one.len()).min(start + other.len());
    start + same.count()
}
