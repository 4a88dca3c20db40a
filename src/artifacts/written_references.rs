//! What is on the disk already, so that it need not be written with every turn.

use std::collections::HashMap;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

/// References remembered at most, twice: the newer and the older.
const MAX_REFERENCES: usize = 1 << 16;

/// Seconds in which a reference need not be refreshed.
const REFRESH_SECONDS: u64 = 60 * 60;

/// References that wait for their refresh before it is worth a write.
const REFRESH_BATCH: usize = 256;

/// Names a reference: what owner, session, call and artifact it is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ReferenceKey([u8; 16]);

impl ReferenceKey {
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
pub(super) struct WrittenReferences(Mutex<ReferenceGenerations>);

#[derive(Default)]
struct ReferenceGenerations {
    newer: HashMap<ReferenceKey, WrittenReference>,
    older: HashMap<ReferenceKey, WrittenReference>,
    /// Numbers of references that were shown again.
    shown: Vec<i64>,
}

#[derive(Clone, Copy)]
struct WrittenReference {
    /// In the database.
    number: i64,
    /// When its last refresh was, or is going to be.
    refreshed: u64,
}

impl WrittenReferences {
    /// These are on the disk.
    pub(super) fn add(&self, references: impl Iterator<Item = (ReferenceKey, i64)>, now: u64) {
        let mut inner = self.inner();
        for (key, number) in references {
            let refreshed = now;
            inner.put(key, WrittenReference { number, refreshed });
        }
    }

    /// Whether this is on the disk. Asking counts as showing it; the second tells
    /// whether there is enough to refresh.
    pub(super) fn contains(&self, key: ReferenceKey, now: u64) -> (bool, bool) {
        let mut inner = self.inner();
        let Some(mut reference) = inner.get(key) else {
            return (false, false);
        };
        if now.saturating_sub(reference.refreshed) >= REFRESH_SECONDS {
            reference.refreshed = now;
            inner.put(key, reference);
            inner.shown.push(reference.number);
        }
        (true, inner.shown.len() >= REFRESH_BATCH)
    }

    /// Takes what is to be refreshed.
    pub(super) fn take_shown(&self) -> Vec<i64> {
        mem::take(&mut self.inner().shown)
    }

    /// Puts back what could not be refreshed now.
    pub(super) fn put_back_shown(&self, mut numbers: Vec<i64>) {
        let mut inner = self.inner();
        numbers.truncate(MAX_REFERENCES.saturating_sub(inner.shown.len()));
        inner.shown.append(&mut numbers);
    }

    /// Knows nothing any more.
    pub(super) fn clear(&self) {
        let mut inner = self.inner();
        inner.newer.clear();
        inner.older.clear();
    }

    fn inner(&self) -> MutexGuard<'_, ReferenceGenerations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReferenceGenerations {
    fn get(&mut self, key: ReferenceKey) -> Option<WrittenReference> {
        if let Some(reference) = self.newer.get(&key) {
            return Some(*reference);
        }
        // What is in use must not go with the older half.
        let reference = self.older.remove(&key)?;
        self.put(key, reference);
        Some(reference)
    }

    fn put(&mut self, key: ReferenceKey, reference: WrittenReference) {
        if self.newer.len() >= MAX_REFERENCES {
            self.older = mem::take(&mut self.newer);
        }
        self.newer.insert(key, reference);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(call_id: &str) -> ReferenceKey {
        ReferenceKey::new("owner", "session", call_id, "art_1")
    }

    #[test]
    fn names_do_not_run_into_each_other() {
        assert!(ReferenceKey::new("a", "bc", "", "") != ReferenceKey::new("ab", "c", "", ""));
    }

    #[test]
    fn what_is_shown_again_is_refreshed_once_an_hour() {
        let known = WrittenReferences::default();
        known.add([(key("1"), 7)].into_iter(), 1000);
        for (now, refreshed) in [
            (1000 + REFRESH_SECONDS - 1, vec![]),
            (1000 + REFRESH_SECONDS, vec![7]),
            (1000 + REFRESH_SECONDS + 1, vec![]),
            (1000 + 2 * REFRESH_SECONDS, vec![7]),
        ] {
            assert_eq!(known.contains(key("1"), now), (true, false));
            assert_eq!(known.take_shown(), refreshed, "{now}");
        }
        assert_eq!(known.contains(key("2"), 1000), (false, false));
    }

    #[test]
    fn it_is_bounded_and_keeps_what_is_in_use() {
        let known = WrittenReferences::default();
        known.add([(key("used"), 1)].into_iter(), 0);
        for number in 0..3 * MAX_REFERENCES {
            known.add([(key(&number.to_string()), 2)].into_iter(), 0);
            if number % (MAX_REFERENCES / 2) == 0 {
                assert!(known.contains(key("used"), 0).0);
            }
        }
        assert!(known.contains(key("used"), 0).0);
        assert!(!known.contains(key("0"), 0).0);
        let inner = known.inner();
        assert!(inner.newer.len() <= MAX_REFERENCES && inner.older.len() <= MAX_REFERENCES);
    }
}
