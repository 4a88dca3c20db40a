//! What is on the disk already, so that it need not be written with every turn.

use std::collections::HashMap;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

/// References remembered at most, twice: the newer and the older.
const MOST: usize = 1 << 16;

/// Seconds in which a reference need not be refreshed.
const FRESH: u64 = 60 * 60;

/// References that wait for their refresh before it is worth a write.
const WORTH: usize = 256;

/// Names a reference: what owner, session, call and artifact it is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 16]);

impl Key {
    pub(super) fn new(owner: &str, session: &str, call_id: &str, id: &str) -> Self {
        let mut hash = Sha256::new();
        for name in [owner, session, call_id, id] {
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name);
        }
        let mut key = [0; 16];
        for (to, from) in key.iter_mut().zip(hash.finalize()) {
            *to = from;
        }
        Self(key)
    }
}

/// References that are on the disk, by their keys.
#[derive(Default)]
pub(super) struct Known(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    newer: HashMap<Key, Reference>,
    older: HashMap<Key, Reference>,
    /// Numbers of references that were shown again.
    shown: Vec<i64>,
}

#[derive(Clone, Copy)]
struct Reference {
    /// In the database.
    number: i64,
    /// When its last refresh was, or is going to be.
    refreshed: u64,
}

impl Known {
    /// These are on the disk.
    pub(super) fn add(&self, references: impl Iterator<Item = (Key, i64)>, now: u64) {
        let mut inner = self.inner();
        for (key, number) in references {
            let refreshed = now;
            inner.put(key, Reference { number, refreshed });
        }
    }

    /// Whether this is on the disk. Asking counts as showing it; the second tells
    /// whether there is enough to refresh.
    pub(super) fn has(&self, key: Key, now: u64) -> (bool, bool) {
        let mut inner = self.inner();
        let Some(mut reference) = inner.get(key) else {
            return (false, false);
        };
        if now.saturating_sub(reference.refreshed) >= FRESH {
            reference.refreshed = now;
            inner.put(key, reference);
            inner.shown.push(reference.number);
        }
        (true, inner.shown.len() >= WORTH)
    }

    /// Takes what is to be refreshed.
    pub(super) fn take_shown(&self) -> Vec<i64> {
        mem::take(&mut self.inner().shown)
    }

    /// Puts back what could not be refreshed now.
    pub(super) fn shown_still(&self, mut numbers: Vec<i64>) {
        let mut inner = self.inner();
        numbers.truncate(MOST.saturating_sub(inner.shown.len()));
        inner.shown.append(&mut numbers);
    }

    /// Knows nothing any more.
    pub(super) fn forget(&self) {
        let mut inner = self.inner();
        inner.newer.clear();
        inner.older.clear();
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn get(&mut self, key: Key) -> Option<Reference> {
        if let Some(reference) = self.newer.get(&key) {
            return Some(*reference);
        }
        // What is in use must not go with the older half.
        let reference = self.older.remove(&key)?;
        self.put(key, reference);
        Some(reference)
    }

    fn put(&mut self, key: Key, reference: Reference) {
        if self.newer.len() >= MOST {
            self.older = mem::take(&mut self.newer);
        }
        self.newer.insert(key, reference);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(call_id: &str) -> Key {
        Key::new("owner", "session", call_id, "art_1")
    }

    #[test]
    fn names_do_not_run_into_each_other() {
        assert!(Key::new("a", "bc", "", "") != Key::new("ab", "c", "", ""));
    }

    #[test]
    fn what_is_shown_again_is_refreshed_once_an_hour() {
        let known = Known::default();
        known.add([(key("1"), 7)].into_iter(), 1000);
        for (now, refreshed) in [
            (1000 + FRESH - 1, vec![]),
            (1000 + FRESH, vec![7]),
            (1000 + FRESH + 1, vec![]),
            (1000 + 2 * FRESH, vec![7]),
        ] {
            assert_eq!(known.has(key("1"), now), (true, false));
            assert_eq!(known.take_shown(), refreshed, "{now}");
        }
        assert_eq!(known.has(key("2"), 1000), (false, false));
    }

    #[test]
    fn it_is_bounded_and_keeps_what_is_in_use() {
        let known = Known::default();
        known.add([(key("used"), 1)].into_iter(), 0);
        for number in 0..3 * MOST {
            known.add([(key(&number.to_string()), 2)].into_iter(), 0);
            if number % (MOST / 2) == 0 {
                assert!(known.has(key("used"), 0).0);
            }
        }
        assert!(known.has(key("used"), 0).0);
        assert!(!known.has(key("0"), 0).0);
        let inner = known.inner();
        assert!(inner.newer.len() <= MOST && inner.older.len() <= MOST);
    }
}
