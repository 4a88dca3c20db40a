//! Chooses among several keys of one provider. A session keeps its key as long as that key is
//! available, because the prompt cache belongs to the key's account.

use std::time::Duration;

use http::HeaderValue;
use parking_lot::Mutex;
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::secrets::Secret;

/// The longest cooldown. A provider may ask for any pause, but `Instant` overflows.
const MAX_COOLDOWN: Duration = Duration::from_hours(1);

/// The keys of a provider and their cooldowns: a key at its limit is not used for a while.
#[derive(Debug)]
pub struct KeyRing {
    keys: Vec<Secret>,
    /// One for each key, or empty.
    weights: Vec<u32>,
    rests: Mutex<Vec<Option<Rest>>>,
}

/// A cooldown: since when, and until when.
#[derive(Clone, Copy, Debug)]
struct Rest {
    since: Instant,
    until: Instant,
}

/// The index of a key in its [`KeyRing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyIndex(usize);

impl KeyIndex {
    /// The index as a number.
    pub fn index(self) -> usize {
        self.0
    }
}

impl KeyRing {
    pub(super) fn new(keys: &[Secret], weights: &[u32]) -> Self {
        Self {
            keys: keys.to_vec(),
            weights: weights.to_vec(),
            rests: Mutex::new(vec![None; keys.len()]),
        }
    }

    pub(super) fn has_keys(&self, keys: &[Secret]) -> bool {
        self.keys == keys
    }

    /// Chooses a key for a session, which is given as a stable hash. With weights it is the
    /// session's own among the available keys, without weights the first available one. If
    /// all keys are cooling down, it is the one that is available soonest. `None` if the
    /// provider has no key.
    pub fn choose(&self, session: u64) -> Option<KeyIndex> {
        let now = Instant::now();
        let rests = self.rests.lock();
        let available = rests
            .iter()
            .enumerate()
            .filter(|(_, rest)| is_over(**rest, now))
            .map(|(index, _)| index);
        let chosen = if self.weights.is_empty() {
            available.min()
        } else {
            available.min_by(|a, b| self.cost(*a, session).total_cmp(&self.cost(*b, session)))
        };
        chosen
            .or_else(|| {
                let rests = rests.iter().enumerate();
                let soonest = rests.min_by_key(|(_, rest)| rest.map(|rest| rest.until));
                soonest.map(|(index, _)| index)
            })
            .map(KeyIndex)
    }

    /// Starts the cooldown of a key. Returns whether another key is available.
    pub fn cool_down(&self, key: KeyIndex, pause: Duration) -> bool {
        let now = Instant::now();
        let mut rests = self.rests.lock();
        if let Some(rest) = rests.get_mut(key.0) {
            *rest = Some(Rest {
                since: now,
                until: now + pause.min(MAX_COOLDOWN),
            });
        }
        rests.iter().any(|rest| is_over(*rest, now))
    }

    /// Ends the cooldown of a key: a request with it that began at `began` was accepted. One that
    /// began before the cooldown proves nothing.
    pub fn accepted(&self, key: KeyIndex, began: Instant) {
        if let Some(rest) = self.rests.lock().get_mut(key.0) {
            *rest = rest.filter(|rest| rest.since > began);
        }
    }

    /// The time until a key is available; `None` if one is available or there are no keys.
    pub fn time_until_available(&self) -> Option<Duration> {
        let shortest = self.cooldowns().into_iter().min();
        shortest.filter(|left| !left.is_zero())
    }

    /// The indexes of all keys, in order.
    pub fn indexes(&self) -> impl Iterator<Item = KeyIndex> + use<> {
        (0..self.keys.len()).map(KeyIndex)
    }

    /// The remaining cooldown of each key.
    pub fn cooldowns(&self) -> Vec<Duration> {
        let now = Instant::now();
        let left = |rest: &Option<Rest>| {
            rest.map_or(Duration::ZERO, |rest| {
                rest.until.saturating_duration_since(now)
            })
        };
        self.rests.lock().iter().map(left).collect()
    }

    /// The value of the header that carries the key: `prefix` and the key, marked as
    /// sensitive.
    pub(super) fn header_value(&self, key: KeyIndex, prefix: &str) -> Option<HeaderValue> {
        let secret = self.keys.get(key.0)?;
        let mut value = HeaderValue::try_from(format!("{prefix}{}", secret.expose())).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Sets the query parameter of this name to the key.
    pub(super) fn set_in_query(&self, key: KeyIndex, name: &str, url: &mut reqwest::Url) {
        if let Some(secret) = self.keys.get(key.0) {
            set_query(url, &[(name, secret.expose())]);
        }
    }

    /// The cost of a key for a session, by weighted rendezvous hashing: the key with the
    /// lowest cost wins. Each key wins in proportion to its weight, and losing a key moves
    /// only that key's sessions. A key of weight 0 has infinite cost.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    fn cost(&self, index: usize, session: u64) -> f64 {
        let key = self.keys.get(index).map_or("", Secret::expose);
        let hash = xxh3_64_with_seed(key.as_bytes(), session);
        let uniform = ((hash >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        let weight = self.weights.get(index).copied().unwrap_or(1);
        if weight == 0 {
            f64::INFINITY
        } else {
            -uniform.ln() / f64::from(weight)
        }
    }
}

/// Sets parameters of a query. Others stay as they are.
pub(super) fn set_query(url: &mut reqwest::Url, pairs: &[(impl AsRef<str>, impl AsRef<str>)]) {
    let is_other = |name: &str| pairs.iter().all(|(set, _)| set.as_ref() != name);
    let others: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(name, _)| is_other(name))
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    url.query_pairs_mut()
        .clear()
        .extend_pairs(others)
        .extend_pairs(pairs);
}

fn is_over(rest: Option<Rest>, now: Instant) -> bool {
    rest.is_none_or(|rest| rest.until <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(keys: &[&str], weights: &[u32]) -> KeyRing {
        let keys: Vec<Secret> = keys.iter().filter_map(|key| Secret::new(key)).collect();
        KeyRing::new(&keys, weights)
    }

    /// How many of 4,000 sessions each key gets.
    fn shares(ring: &KeyRing) -> Vec<usize> {
        let mut shares = vec![0; ring.keys.len()];
        for session in 0..4_000 {
            shares[ring.choose(session).unwrap().0] += 1;
        }
        shares
    }

    #[tokio::test(start_paused = true)]
    async fn another_key_is_used_during_a_cooldown() {
        let ring = ring(&["first-key", "second-key"], &[]);
        assert_eq!(ring.choose(7), Some(KeyIndex(0)));
        assert!(ring.cool_down(KeyIndex(0), Duration::from_secs(10)));
        assert_eq!(ring.choose(7), Some(KeyIndex(1)));
        assert!(!ring.cool_down(KeyIndex(1), Duration::from_mins(1)));
        assert_eq!(ring.choose(7), Some(KeyIndex(0)));
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!(ring.choose(7), Some(KeyIndex(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_until_a_key_is_available_is_known() {
        let ring = ring(&["first-key", "second-key"], &[]);
        ring.cool_down(KeyIndex(0), Duration::from_mins(1));
        assert!(ring.time_until_available().is_none());
        ring.cool_down(KeyIndex(1), Duration::from_secs(10));
        assert_eq!(ring.time_until_available(), Some(Duration::from_secs(10)));
        assert!(ring.time_until_available().is_some());
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(ring.time_until_available().is_none());
    }

    /// Promise: A key that was at its limit or refused counts as usable again as soon as a later
    /// request with it is accepted.
    #[tokio::test(start_paused = true)]
    async fn a_key_that_works_again_rests_no_longer() {
        let ring = ring(&["first-key"], &[]);
        let before = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        ring.cool_down(KeyIndex(0), Duration::from_mins(10));
        ring.accepted(KeyIndex(0), before);
        assert!(ring.time_until_available().is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        ring.accepted(KeyIndex(0), Instant::now());
        assert_eq!(ring.cooldowns(), [Duration::ZERO]);
    }

    #[test]
    fn a_provider_without_keys_never_waits_for_one() {
        let none = ring(&[], &[]);
        assert_eq!(none.choose(7), None);
        assert!(none.time_until_available().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_cooldown_of_any_length_is_accepted() {
        let ring = ring(&["first-key"], &[]);
        assert!(!ring.cool_down(KeyIndex(0), Duration::MAX));
        assert_eq!(ring.choose(7), Some(KeyIndex(0)));
    }

    #[test]
    fn weights_share_the_sessions() {
        let shares = shares(&ring(&["first-key", "second-key", "third-key"], &[3, 1, 0]));
        assert!((2_900..3_100).contains(&shares[0]), "{shares:?}");
        assert_eq!(shares[2], 0, "{shares:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_keeps_its_key_when_another_one_cools_down_or_is_removed() {
        let all = ring(&["first-key", "second-key", "third-key"], &[1, 1, 1]);
        let fewer = ring(&["first-key", "third-key"], &[1, 1]);
        let before: Vec<KeyIndex> = (0..300).map(|s| all.choose(s).unwrap()).collect();
        all.cool_down(KeyIndex(1), Duration::from_mins(1));
        let mut moved = [0; 3];
        for (session, was) in (0..300).zip(&before) {
            let is = all.choose(session).unwrap();
            if *was == KeyIndex(1) {
                moved[is.0] += 1;
            } else {
                assert_eq!(is, *was);
            }
            let left = fewer.choose(session).unwrap();
            assert_eq!(fewer.keys[left.0].expose(), all.keys[is.0].expose());
        }
        assert!(moved[0] > 20 && moved[2] > 20 && moved[1] == 0, "{moved:?}");
        tokio::time::advance(Duration::from_mins(1)).await;
        let after: Vec<KeyIndex> = (0..300).map(|s| all.choose(s).unwrap()).collect();
        assert_eq!(after, before);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_of_weight_zero_is_used_only_while_the_others_cool_down() {
        let ring = ring(&["spare-key", "first-key"], &[0, 1]);
        assert_eq!(ring.choose(7), Some(KeyIndex(1)));
        ring.cool_down(KeyIndex(1), Duration::from_mins(1));
        assert_eq!(ring.choose(7), Some(KeyIndex(0)));
    }
}
