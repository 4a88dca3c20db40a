//! What clients did not see of answers, in the store: a session goes on after a restart with the
//! same prompt. Only a session that has such answers, and not all of them in memory, waits for the
//! store.

use std::fmt;
use std::sync::{Arc, OnceLock};

use adapters::hidden_rounds::HiddenRounds;
use hashlink::LruCache;
use parking_lot::Mutex;

use super::session_memory::{SessionKey, SessionMemory};
use crate::store::{MAX_HIDDEN_ROUNDS, SessionRow, Store, StoreError};

/// The sessions with hidden rounds in the store, if there is one. Lives as long as the process.
pub(super) struct StoredRounds {
    /// No more than the store keeps, of which each has one answer at least.
    sessions: Mutex<LruCache<SessionKey, ()>>,
    store: OnceLock<Arc<Store>>,
}

impl Default for StoredRounds {
    fn default() -> Self {
        Self {
            sessions: Mutex::new(LruCache::new(MAX_HIDDEN_ROUNDS)),
            store: OnceLock::new(),
        }
    }
}

impl StoredRounds {
    /// Reads from the store which sessions have hidden rounds, and keeps later ones there.
    pub(super) async fn keep_in(&self, store: &Arc<Store>) -> Result<(), StoreError> {
        let known = store.sessions_with_hidden_rounds().await?;
        let mut sessions = self.sessions.lock();
        for (owner, session) in known {
            sessions.insert((owner.into(), session.into()), ());
        }
        drop(sessions);
        self.store.set(Arc::clone(store)).ok();
        Ok(())
    }

    /// Stores the rounds of an answer so far, at the time `now`, in seconds since 1970. Does not
    /// wait for the disk; they are lost if the store is busy. Returns the length of what is stored
    /// of the answer; `replaces` is what this returned for the same answer before, or 0.
    pub(super) fn put(
        &self,
        owner: &Arc<str>,
        session: &str,
        rounds: &HiddenRounds,
        replaces: usize,
        now: u64,
    ) -> usize {
        let Some(store) = self.store.get() else {
            return 0;
        };
        let rounds = serde_json::to_string(rounds).unwrap_or_default();
        let bytes = rounds.len();
        let answer = SessionRow {
            owner: owner.to_string(),
            session: session.to_owned(),
            text: rounds,
            accessed: now,
        };
        if !store.put_hidden_rounds(answer, replaces) {
            return replaces;
        }
        let key = (Arc::clone(owner), session.into());
        self.sessions.lock().insert(key, ());
        bytes
    }

    /// Whether any session has hidden rounds in the store.
    pub(super) fn has_any(&self) -> bool {
        !self.sessions.lock().is_empty()
    }

    /// Whether the session has hidden rounds in the store.
    pub(super) fn has(&self, owner: &Arc<str>, session: &str) -> bool {
        let key = (Arc::clone(owner), session.into());
        self.sessions.lock().get(&key).is_some()
    }

    /// Reads the hidden rounds of a session into memory, unless they are all there.
    pub(super) async fn load(&self, owner: &Arc<str>, session: &str, memory: &SessionMemory) {
        if !self.has(owner, session) || memory.has_all_hidden_rounds(owner, session) {
            return;
        }
        let Some(store) = self.store.get() else {
            return;
        };
        match store.hidden_rounds(owner, session).await {
            Ok(found) => {
                let (answers, _memory) = found.into_parts();
                let answers = answers.iter();
                let answers = answers.filter_map(|rounds| serde_json::from_str(rounds).ok());
                let answers: Vec<_> = answers.map(Arc::new).collect();
                memory.load_hidden_rounds(owner, session, &answers);
            }
            Err(error) => {
                tracing::warn!("what tools have returned in a session cannot be read: {error}");
            }
        }
    }
}

impl fmt::Debug for StoredRounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredRounds").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use adapters::cited_source::{CitedSource, PageArtifact};
    use adapters::hidden_rounds::HiddenEntry;

    use super::*;
    use crate::store::DataDir;

    /// Promise: What the model has read with tools of the proxy is there in the next turn of the
    /// session, also after a restart.
    #[tokio::test]
    async fn hidden_rounds_outlive_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let owner: Arc<str> = "local".into();
        let open = || Arc::new(Store::open(&DataDir::new(folder.path()), 0).unwrap());
        let rounds = HiddenRounds {
            entries: vec![
                HiddenEntry::Hidden(r#"{"type":"function_call_output"}"#.into()),
                HiddenEntry::Call("c1".to_owned()),
                HiddenEntry::Source(CitedSource {
                    url: "https://a.example/".to_owned(),
                    title: "A".to_owned(),
                    kept: Some(Box::new(PageArtifact::default())),
                }),
            ],
        };
        {
            let stored = StoredRounds::default();
            stored.keep_in(&open()).await.unwrap();
            assert!(!stored.has_any());
            stored.put(&owner, "s", &rounds, 0, 1_000);
        }
        let stored = StoredRounds::default();
        stored.keep_in(&open()).await.unwrap();
        assert!(stored.has_any());
        let memory = SessionMemory::default();
        stored.load(&owner, "other", &memory).await;
        stored.load(&owner, "s", &memory).await;
        let anchors = || HashSet::from(["c1".to_owned()]);
        let found = || memory.hidden_rounds(&owner, "s", anchors);
        assert_eq!(found(), [Arc::new(rounds.clone())]);
        // What memory has no room for is read again.
        memory.set_limit(900);
        assert!(found().is_empty());
        memory.set_limit(usize::MAX);
        stored.load(&owner, "s", &memory).await;
        assert_eq!(found(), [Arc::new(rounds)]);
    }
}
