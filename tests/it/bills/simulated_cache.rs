//! A provider that caches the beginnings of prompts and counts tokens in its own way.
use std::sync::{Arc, Mutex};

use kit::player::{Player, PlayerRequest, ScriptedAnswer};
use serde_json::json;

use crate::faults::answer;

/// Only whole blocks are cached.
const BLOCK_TOKENS: u64 = 128;

/// The provider: how long its tokens are, how many it caches at least, and the prompts that it has
/// seen. Clones share these.
#[derive(Clone)]
pub struct SimulatedCache {
    bytes_per_token: f64,
    min_tokens: u64,
    seen: Arc<Mutex<Vec<String>>>,
}

impl SimulatedCache {
    pub fn new(bytes_per_token: f64) -> Self {
        Self {
            bytes_per_token,
            min_tokens: 1024,
            seen: Arc::default(),
        }
    }

    /// The same provider, which caches no fewer tokens than these.
    pub fn min_tokens(self, min_tokens: u64) -> Self {
        Self { min_tokens, ..self }
    }

    /// The bodies of all requests.
    pub fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// Answers requests on a free port.
    pub async fn serve(self) -> Player {
        let models = vec!["m".to_owned()];
        let player = Player::serve(models, Box::new(move |request| self.answer(request)));
        player.await.unwrap()
    }

    fn answer(&self, request: &PlayerRequest) -> ScriptedAnswer {
        let prompt = &request.body;
        let mut seen = self.seen.lock().unwrap();
        let shared = seen
            .iter()
            .map(|earlier| shared_bytes(prompt.as_bytes(), earlier.as_bytes()));
        let shared = self.tokens(shared.max().unwrap_or(0));
        let cached = if shared < self.min_tokens {
            0
        } else {
            shared - shared % BLOCK_TOKENS
        };
        let input = self.tokens(prompt.len());
        seen.push(prompt.clone());
        answer(json!([{"text": "Seen."}, {"usage": {
            "prompt_tokens": input, "completion_tokens": 3, "total_tokens": input + 3,
            "prompt_tokens_details": {"cached_tokens": cached},
        }}]))
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a simulation of small prompts"
    )]
    fn tokens(&self, bytes: usize) -> u64 {
        (bytes as f64 / self.bytes_per_token) as u64
    }
}

fn shared_bytes(one: &[u8], other: &[u8]) -> usize {
    let pairs = one.iter().zip(other);
    pairs.take_while(|(one, other)| one == other).count()
}
