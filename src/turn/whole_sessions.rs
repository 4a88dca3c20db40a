//! Sessions whose outputs are sent whole, because shortening them has cost more than it saved.
//!
//! A turn loses if it costs more than it would have cost with nothing shortened. A turn that the
//! window would not have held unshortened does not lose, whatever it costs. After three lost turns
//! in a row nothing more of the session is shortened, unless the window forces it; what was sent
//! before stays as it was, so that the provider's cache still knows it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use adapters::plan::UnshortenedFrom;
use hashlink::LinkedHashMap;
use parking_lot::Mutex;

use super::session_memory::SessionKey;
use crate::store::{MAX_WHOLE_SESSIONS, Store, StoreError, WholeSession};

/// A turn loses if it costs more than this times what it would have cost with nothing shortened.
/// Both are sums of rounded counts.
const LOST_RATIO: f64 = 1.001;

/// How many seconds pass until the use of a session is stored again.
const STORED_EVERY: u64 = 24 * 60 * 60;

/// Whether a turn with this cost lost against the cost with nothing shortened.
pub(super) fn is_lost(cost: f64, unshortened: f64) -> bool {
    cost > unshortened * LOST_RATIO
}

/// All sessions whose outputs are sent whole. Lives as long as the process; the sessions of earlier
/// ones are read from the store.
#[derive(Default)]
pub(super) struct WholeSessions {
    /// The one that was not used for the longest time first.
    by_key: Mutex<LinkedHashMap<SessionKey, KnownSession>>,
    store: OnceLock<Arc<Store>>,
}

#[derive(Clone, Debug)]
struct KnownSession {
    from: UnshortenedFrom,
    /// When its use was last stored, in seconds since 1970; 0 if it was not.
    stored: u64,
}

impl WholeSessions {
    /// Reads the sessions of earlier processes from the store, and keeps later ones there.
    pub(super) async fn keep_in(&self, store: &Arc<Store>) -> Result<(), StoreError> {
        let rows = store.whole_sessions().await?;
        let mut by_key = self.by_key.lock();
        for row in rows {
            if let Ok(from) = serde_json::from_str(&row.point) {
                let key = (row.owner.into(), row.session.into());
                let stored = row.accessed;
                by_key.insert(key, KnownSession { from, stored });
            }
        }
        drop(by_key);
        self.store.set(Arc::clone(store)).ok();
        Ok(())
    }

    /// The point from which on the outputs of a session are sent whole, if they are. Counts as a
    /// use of the session at the time `now`, in seconds since 1970.
    pub(super) fn get(&self, owner: &Arc<str>, session: &str, now: u64) -> Option<UnshortenedFrom> {
        let key = (Arc::clone(owner), session.into());
        let mut by_key = self.by_key.lock();
        let known = by_key.to_back(&key)?;
        if now.saturating_sub(known.stored) >= STORED_EVERY && self.store(&key, &known.from, now) {
            known.stored = now;
        }
        Some(known.from.clone())
    }

    /// From here on the outputs of a session are sent whole.
    pub(super) fn put(&self, owner: &Arc<str>, session: &str, from: UnshortenedFrom, now: u64) {
        let key = (Arc::clone(owner), session.into());
        let stored = if self.store(&key, &from, now) { now } else { 0 };
        let mut by_key = self.by_key.lock();
        by_key.insert(key, KnownSession { from, stored });
        if by_key.len() > MAX_WHOLE_SESSIONS {
            by_key.pop_front();
        }
    }

    /// The number of these sessions.
    pub(super) fn count(&self) -> usize {
        self.by_key.lock().len()
    }

    /// Whether the store takes the session now. If not, its next use tries again.
    fn store(&self, (owner, session): &SessionKey, from: &UnshortenedFrom, now: u64) -> bool {
        let Some(store) = self.store.get() else {
            return false;
        };
        let row = WholeSession {
            owner: owner.to_string(),
            session: session.to_string(),
            point: serde_json::to_string(from).unwrap_or_default(),
            accessed: now,
        };
        store.put_whole_session(row)
    }
}

impl fmt::Debug for WholeSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WholeSessions").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use adapters::plan::OutputMark;
    use adapters::responses::request::TurnSource;
    use tempfile::TempDir;

    use super::*;
    use crate::store::DataDir;

    fn open(folder: &TempDir) -> Arc<Store> {
        Arc::new(Store::open(&DataDir::new(folder.path()), 0).unwrap())
    }

    fn from(call: &str) -> UnshortenedFrom {
        let body = format!(
            r#"{{"model":"m","input":[{{"type":"function_call_output","call_id":"{call}","output":"o"}}]}}"#
        );
        let source = TurnSource::new(body);
        let turn = source.turn().unwrap();
        let mark = OutputMark::of(&turn.items[0], None);
        UnshortenedFrom::after([mark.as_slice()])
    }

    #[test]
    fn only_a_dearer_turn_is_lost() {
        assert!(is_lost(1.01, 1.0));
        assert!(!is_lost(1.0, 1.0));
        assert!(!is_lost(0.5, 1.0));
        assert!(!is_lost(0.0, 0.0));
    }

    #[tokio::test]
    async fn whole_sessions_outlive_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let owner: Arc<str> = "local".into();
        {
            let store = open(&folder);
            let sessions = WholeSessions::default();
            sessions.keep_in(&store).await.unwrap();
            sessions.put(&owner, "s1", from("call_1"), 1_000);
            sessions.put(&owner, "s2", from("call_2"), 1_000);
            // A later use is stored again after a day.
            sessions.get(&owner, "s1", 1_000 + STORED_EVERY).unwrap();
        }
        let store = open(&folder);
        let sessions = WholeSessions::default();
        assert_eq!(sessions.get(&owner, "s1", 0), None);
        sessions.keep_in(&store).await.unwrap();
        assert_eq!(sessions.count(), 2);
        assert_eq!(sessions.get(&owner, "s1", 0), Some(from("call_1")));
        let rows = store.whole_sessions().await.unwrap();
        let accessed: Vec<u64> = rows.iter().map(|row| row.accessed).collect();
        assert_eq!(accessed, [1_000, 1_000 + STORED_EVERY]);
    }

    #[test]
    fn the_sessions_in_memory_are_limited() {
        let owner: Arc<str> = "local".into();
        let sessions = WholeSessions::default();
        for number in 0..MAX_WHOLE_SESSIONS + 10 {
            sessions.put(&owner, &number.to_string(), from("call"), 0);
        }
        assert_eq!(sessions.count(), MAX_WHOLE_SESSIONS);
    }
}
