//! A provider with its own idea of a token, which caches the beginnings of prompts.

use adapters::event::Usage;
use registry::{Price, PromptCache};
use tokio::time::Instant;

/// The tokens of an answer.
const OUTPUT: u64 = 300;

pub(super) struct SimulatedProvider {
    bytes_per_token: f64,
    cache: PromptCache,
    price: Price,
    /// When the last prompt was read.
    last: Option<Instant>,
}

impl SimulatedProvider {
    pub(super) fn new(bytes_per_token: f64, cache: PromptCache, price: Price) -> Self {
        Self {
            bytes_per_token,
            cache,
            price,
            last: None,
        }
    }

    /// Answers a prompt of so many bytes, of which so many begin the last one too.
    pub(super) fn answer(&mut self, bytes: usize, shared: usize) -> Usage {
        let now = Instant::now();
        let last = self.last.replace(now);
        let is_fresh = last.is_some_and(|last| now - last <= self.cache.lifetime);
        let input = self.tokens(bytes);
        let cached = if is_fresh {
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

    fn tokens(&self, bytes: usize) -> u64 {
        (bytes as f64 / self.bytes_per_token) as u64
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
