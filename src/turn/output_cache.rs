//! Caches what plans computed for tool outputs: their measures and excerpts. The following turns of
//! a session bring the same outputs again. Bounded and in memory.

use std::hash::{BuildHasher, RandomState};

use adapters::plan::{CachedOutput, PlanCache};
use hashlink::LinkedHashMap;
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// The most bytes of all entries; beyond it the ones that were not read for the longest time go.
const LIMIT: usize = 8 << 20;

/// Bytes of an entry besides its text.
const FRAME: usize = 300;

/// Plan results by the hash of the output.
#[derive(Debug)]
pub(super) struct OutputCache {
    /// Randomly keyed per process, so an attacker cannot construct a hash collision.
    seed: u64,
    found: Mutex<CachedOutputs>,
}

#[derive(Debug, Default)]
struct CachedOutputs {
    /// The least recently used one first.
    entries: LinkedHashMap<u128, CachedOutput>,
    bytes: usize,
}

impl Default for OutputCache {
    fn default() -> Self {
        Self {
            seed: RandomState::new().hash_one(0),
            found: Mutex::default(),
        }
    }
}

impl OutputCache {
    /// What is cached, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.found.lock().bytes
    }
}

impl PlanCache for OutputCache {
    fn key(&self, text: &str) -> u128 {
        xxh3_128_with_seed(text.as_bytes(), self.seed)
    }

    fn get(&self, name: u128) -> Option<CachedOutput> {
        let mut found = self.found.lock();
        found.entries.to_back(&name).map(|cached| cached.clone())
    }

    fn put(&self, name: u128, found: CachedOutput) {
        let mut all = self.found.lock();
        all.bytes += bytes(&found);
        let replaced = all.entries.insert(name, found);
        all.bytes -= replaced.as_ref().map_or(0, bytes);
        while all.bytes > LIMIT
            && let Some((_, oldest)) = all.entries.pop_front()
        {
            all.bytes -= bytes(&oldest);
        }
    }
}

fn bytes(found: &CachedOutput) -> usize {
    match found {
        CachedOutput::Measure(..) => FRAME,
        CachedOutput::Replacement(text) => FRAME + text.len(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use adapters::plan::{Bounds, OutputPolicy, plan, plan_with_cache};
    use adapters::responses::request::TurnSource;
    use serde_json::json;

    use super::*;

    fn text(found: Option<CachedOutput>) -> Option<Arc<str>> {
        match found? {
            CachedOutput::Replacement(text) => Some(text),
            CachedOutput::Measure(..) => None,
        }
    }

    #[test]
    fn entries_that_are_read_stay_and_others_are_dropped() {
        let cache = OutputCache::default();
        let page: Arc<str> = "x".repeat(100_000).into();
        cache.put(0, CachedOutput::Replacement("wanted".into()));
        for name in 1..200 {
            cache.put(name, CachedOutput::Replacement(Arc::clone(&page)));
            assert_eq!(text(cache.get(0)).as_deref(), Some("wanted"));
        }
        assert!(cache.get(1).is_none());
        assert!(cache.get(199).is_some());
        let cached = (1..200).filter(|name| cache.get(*name).is_some());
        assert!(cached.count() * 100_000 <= LIMIT);
    }

    #[test]
    fn a_plan_with_cached_results_is_the_same_plan() {
        let output = |word: &str| format!("{word} failed\n").repeat(9_000);
        let mut input = vec![json!({"type": "message", "role": "user", "content": "go"})];
        for (call, word) in ["one", "two", "three"].iter().enumerate() {
            let id = format!("call_{call}");
            input.push(
                json!({"type": "function_call", "name": "f", "call_id": id, "arguments": "{}"}),
            );
            input.push(
                json!({"type": "function_call_output", "call_id": id, "output": output(word)}),
            );
        }
        let source = TurnSource::new(json!({"model": "m", "input": input}).to_string());
        let turn = source.turn().unwrap();
        let cache = OutputCache::default();
        for outputs in [OutputPolicy::Adaptive, OutputPolicy::Fixed] {
            let bounds = Bounds {
                outputs,
                ..Bounds::none()
            };
            let fresh = plan(&turn, &bounds);
            assert_eq!(fresh.replacements.len(), 3);
            for _ in 0..2 {
                assert_eq!(plan_with_cache(&turn, &bounds, &cache), fresh);
            }
        }
    }
}
