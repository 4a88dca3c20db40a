//! Remembers which references are on disk already, so that they are not written again each turn.

use std::mem;

use hashlink::LruCache;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

/// The most references; beyond it the one that was not used for the longest time is dropped.
const MAX_REFERENCES: usize = 1 << 17;

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

/// The references that are on disk.
pub(super) struct WrittenReferences(Mutex<ReferenceCache>);

struct ReferenceCache {
    known: LruCache<ReferenceKey, WrittenReference>,
    /// The numbers of references whose access time has to be written.
    shown: Vec<i64>,
}

impl Default for WrittenReferences {
    fn default() -> Self {
        Self(Mutex::new(ReferenceCache {
            known: LruCache::new(MAX_REFERENCES),
            shown: Vec::new(),
        }))
    }
}

struct WrittenReference {
    /// The row number in the database.
    number: i64,
    /// When its access time was last written, or scheduled to be; in seconds since 1970.
    refreshed: u64,
}

impl WrittenReferences {
    /// Adds references that are on disk now.
    pub(super) fn add(&self, references: impl Iterator<Item = (ReferenceKey, i64)>, now: u64) {
        let mut inner = self.0.lock();
        for (key, number) in references {
            let refreshed = now;
            let reference = WrittenReference { number, refreshed };
            inner.known.insert(key, reference);
        }
    }

    /// Returns whether the reference is on disk, and whether enough access times wait to be
    /// written. Asking counts as access.
    pub(super) fn contains(&self, key: ReferenceKey, now: u64) -> (bool, bool) {
        let mut inner = self.0.lock();
        let ReferenceCache { known, shown } = &mut *inner;
        let Some(reference) = known.get_mut(&key) else {
            return (false, false);
        };
        if now.saturating_sub(reference.refreshed) >= REFRESH_SECONDS {
            reference.refreshed = now;
            shown.push(reference.number);
        }
        (true, shown.len() >= REFRESH_BATCH)
    }

    /// Takes the numbers of the references whose access time has to be written.
    pub(super) fn take_shown(&self) -> Vec<i64> {
        mem::take(&mut self.0.lock().shown)
    }

    /// Puts back what could not be written now.
    pub(super) fn put_back_shown(&self, mut numbers: Vec<i64>) {
        let mut inner = self.0.lock();
        numbers.truncate(MAX_REFERENCES.saturating_sub(inner.shown.len()));
        inner.shown.append(&mut numbers);
    }

    pub(super) fn clear(&self) {
        self.0.lock().known.clear();
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
        for number in 0..2 * MAX_REFERENCES {
            written.add([(key(&number.to_string()), 2)].into_iter(), 0);
            if number % (MAX_REFERENCES / 2) == 0 {
                assert!(written.contains(key("used"), 0).0);
            }
        }
        assert!(written.contains(key("used"), 0).0);
        assert!(!written.contains(key("0"), 0).0);
        assert_eq!(written.0.lock().known.len(), MAX_REFERENCES);
    }
}
