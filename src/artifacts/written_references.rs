//! Remembers which references are on disk already, so that they are not written again each turn.

use std::collections::HashMap;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

/// The most references in each of the two generations.
const MAX_REFERENCES: usize = 1 << 16;

/// The access time of a reference is written again after this many seconds.
const REFRESH_SECONDS: u64 = 60 * 60;

/// The number of references whose access time is written together.
const REFRESH_BATCH: usize = 256;

/// A hash of the owner, session, call and artifact of a reference.
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

/// The references that are on disk. Bounded: the older generation is dropped when the newer is
/// full.
#[derive(Default)]
pub(super) struct WrittenReferences(Mutex<ReferenceGenerations>);

#[derive(Default)]
struct ReferenceGenerations {
    newer: HashMap<ReferenceKey, WrittenReference>,
    older: HashMap<ReferenceKey, WrittenReference>,
    /// The numbers of references whose access time has to be written.
    shown: Vec<i64>,
}

#[derive(Clone, Copy)]
struct WrittenReference {
    /// The row number in the database.
    number: i64,
    /// When its access time was last written, or scheduled to be; in seconds since 1970.
    refreshed: u64,
}

impl WrittenReferences {
    /// Adds references that are on disk now.
    pub(super) fn add(&self, references: impl Iterator<Item = (ReferenceKey, i64)>, now: u64) {
        let mut inner = self.lock();
        for (key, number) in references {
            let refreshed = now;
            inner.put(key, WrittenReference { number, refreshed });
        }
    }

    /// Returns whether the reference is on disk, and whether enough access times wait to be
    /// written. Asking counts as access.
    pub(super) fn contains(&self, key: ReferenceKey, now: u64) -> (bool, bool) {
        let mut inner = self.lock();
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

    /// Takes the numbers of the references whose access time has to be written.
    pub(super) fn take_shown(&self) -> Vec<i64> {
        mem::take(&mut self.lock().shown)
    }

    /// Puts back what could not be written now.
    pub(super) fn put_back_shown(&self, mut numbers: Vec<i64>) {
        let mut inner = self.lock();
        numbers.truncate(MAX_REFERENCES.saturating_sub(inner.shown.len()));
        inner.shown.append(&mut numbers);
    }

    pub(super) fn clear(&self) {
        let mut inner = self.lock();
        inner.newer.clear();
        inner.older.clear();
    }

    fn lock(&self) -> MutexGuard<'_, ReferenceGenerations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReferenceGenerations {
    fn get(&mut self, key: ReferenceKey) -> Option<WrittenReference> {
        if let Some(reference) = self.newer.get(&key) {
            return Some(*reference);
        }
        // A reference that is in use must not be dropped with the older generation.
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
    fn names_are_hashed_apart() {
        assert!(ReferenceKey::new("a", "bc", "", "") != ReferenceKey::new("ab", "c", "", ""));
    }

    #[test]
    fn an_access_time_is_written_once_an_hour() {
        let written = WrittenReferences::default();
        written.add([(key("1"), 7)].into_iter(), 1000);
        for (now, refreshed) in [
            (1000 + REFRESH_SECONDS - 1, vec![]),
            (1000 + REFRESH_SECONDS, vec![7]),
            (1000 + REFRESH_SECONDS + 1, vec![]),
            (1000 + 2 * REFRESH_SECONDS, vec![7]),
        ] {
            assert_eq!(written.contains(key("1"), now), (true, false));
            assert_eq!(written.take_shown(), refreshed, "{now}");
        }
        assert_eq!(written.contains(key("2"), 1000), (false, false));
    }

    #[test]
    fn it_is_bounded_and_keeps_references_in_use() {
        let written = WrittenReferences::default();
        written.add([(key("used"), 1)].into_iter(), 0);
        for number in 0..3 * MAX_REFERENCES {
            written.add([(key(&number.to_string()), 2)].into_iter(), 0);
            if number % (MAX_REFERENCES / 2) == 0 {
                assert!(written.contains(key("used"), 0).0);
            }
        }
        assert!(written.contains(key("used"), 0).0);
        assert!(!written.contains(key("0"), 0).0);
        let inner = written.lock();
        assert!(inner.newer.len() <= MAX_REFERENCES && inner.older.len() <= MAX_REFERENCES);
    }
}
