//! Several keys of one provider. The first that is not resting is used, so
//! that a session stays with one account and its prompt cache.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use tokio::time::Instant;

use crate::secrets::Secret;

/// A provider may ask for any pause; a clock cannot hold every one.
const LONGEST_REST: Duration = Duration::from_hours(1);

/// The keys of a provider and which of them rest.
#[derive(Debug)]
pub struct KeyRing {
    keys: Vec<Secret>,
    resting: Mutex<Vec<Option<Instant>>>,
}

/// A key by its place in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(usize);

impl KeyRing {
    pub(super) fn new(keys: &[Secret]) -> Self {
        Self {
            keys: keys.to_vec(),
            resting: Mutex::new(vec![None; keys.len()]),
        }
    }

    pub(super) fn holds(&self, keys: &[Secret]) -> bool {
        self.keys.len() == keys.len()
            && self
                .keys
                .iter()
                .zip(keys)
                .all(|(mine, other)| mine.matches(other.expose().as_bytes()))
    }

    /// The key to use now; the one that rests least when all rest. `None`
    /// when the provider has no key.
    pub fn choose(&self) -> Option<Key> {
        let now = Instant::now();
        let resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        resting
            .iter()
            .enumerate()
            .min_by_key(|(_, until)| until.filter(|until| *until > now))
            .map(|(index, _)| Key(index))
    }

    /// Lets a key rest; true when another one is awake.
    pub fn rest(&self, key: Key, pause: Duration) -> bool {
        let now = Instant::now();
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(until) = resting.get_mut(key.0) {
            *until = Some(now + pause.min(LONGEST_REST));
        }
        resting
            .iter()
            .any(|until| until.is_none_or(|until| until <= now))
    }

    /// The `Authorization` value of a key, marked as sensitive.
    pub(super) fn authorization(&self, key: Key) -> Option<HeaderValue> {
        let secret = self.keys.get(key.0)?;
        let mut value = HeaderValue::try_from(format!("Bearer {}", secret.expose())).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_resting_key_gives_way_and_comes_back() {
        let keys: Vec<Secret> = ["first-key", "second-key"]
            .into_iter()
            .filter_map(Secret::new)
            .collect();
        let ring = KeyRing::new(&keys);
        assert_eq!(ring.choose(), Some(Key(0)));
        assert!(ring.rest(Key(0), Duration::from_secs(10)));
        assert_eq!(ring.choose(), Some(Key(1)));
        assert!(!ring.rest(Key(1), Duration::from_mins(1)));
        assert_eq!(ring.choose(), Some(Key(0)));
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!(ring.choose(), Some(Key(0)));
        assert_eq!(KeyRing::new(&[]).choose(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn no_pause_is_too_long_for_the_clock() {
        let keys: Vec<Secret> = Secret::new("first-key").into_iter().collect();
        let ring = KeyRing::new(&keys);
        assert!(!ring.rest(Key(0), Duration::MAX));
        assert_eq!(ring.choose(), Some(Key(0)));
    }
}
