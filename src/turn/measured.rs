//! What plans found out about outputs, for the next turns of a session, which bring
//! the same outputs again. Bounded, in memory.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use adapters::plan::{Found, Memo};
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Bytes of a generation; there are two.
const LIMIT: usize = 4 << 20;

/// What an entry takes beside its text.
const FRAME: usize = 300;

/// What was found out, by the hash of the output.
#[derive(Debug)]
pub(super) struct Measured {
    /// Of this process alone, so that no output can be made to have another's hash.
    seed: u64,
    found: Mutex<Generations>,
}

/// What is asked for moves to the younger one; the older one goes when that is full.
#[derive(Debug, Default)]
struct Generations {
    young: HashMap<u128, Found>,
    old: HashMap<u128, Found>,
    bytes: usize,
}

impl Default for Measured {
    fn default() -> Self {
        Self {
            seed: RandomState::new().hash_one(0),
            found: Mutex::default(),
        }
    }
}

impl Memo for Measured {
    fn name(&self, text: &str) -> u128 {
        xxh3_128_with_seed(text.as_bytes(), self.seed)
    }

    fn get(&self, name: u128) -> Option<Found> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = found.young.get(&name) {
            return Some(known.clone());
        }
        let known = found.old.remove(&name)?;
        found.add(name, known.clone());
        Some(known)
    }

    fn put(&self, name: u128, found: Found) {
        let mut all = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        all.add(name, found);
    }
}

impl Generations {
    fn add(&mut self, name: u128, found: Found) {
        self.bytes += bytes(&found);
        if self.bytes > LIMIT {
            self.old = std::mem::take(&mut self.young);
            self.bytes = bytes(&found);
        }
        self.young.insert(name, found);
    }
}

fn bytes(found: &Found) -> usize {
    match found {
        Found::Measure(..) => FRAME,
        Found::Shown(text) => FRAME + text.len(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use adapters::plan::{Bounds, Outputs, plan, plan_with};
    use adapters::responses::request::TurnSource;
    use serde_json::json;

    use super::*;

    fn text(found: Option<Found>) -> Option<Arc<str>> {
        match found? {
            Found::Shown(text) => Some(text),
            Found::Measure(..) => None,
        }
    }

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        let measured = Measured::default();
        let page: Arc<str> = "x".repeat(100_000).into();
        measured.put(0, Found::Shown("wanted".into()));
        for name in 1..200 {
            measured.put(name, Found::Shown(Arc::clone(&page)));
            assert_eq!(text(measured.get(0)).as_deref(), Some("wanted"));
        }
        assert!(measured.get(1).is_none());
        assert!(measured.get(199).is_some());
        let kept = (0..200).filter(|name| measured.get(*name).is_some());
        assert!(kept.count() * 100_000 <= 2 * LIMIT);
    }

    #[test]
    fn a_plan_from_memory_is_the_same_plan() {
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
        let measured = Measured::default();
        for outputs in [Outputs::Adaptive, Outputs::Fixed] {
            let bounds = Bounds {
                outputs,
                ..Bounds::none()
            };
            let fresh = plan(&turn, &bounds);
            assert_eq!(fresh.shown.len(), 3);
            for _ in 0..2 {
                assert_eq!(plan_with(&turn, &bounds, &measured), fresh);
            }
        }
    }
}
