//! What clients did not see of answers, in the store: a session goes on after a restart with the
//! same prompt. Only a session that has such answers, and is not in memory, waits for the store.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use adapters::hidden_rounds::HiddenRounds;
use parking_lot::Mutex;

use super::session_memory::{SessionKey, SessionMemory};
use crate::store::{HiddenRoundsRow, Store, StoreError};

/// The sessions with hidden rounds in the store, if there is one. Lives as long as the process.
#[derive(Default)]
pub(super) struct StoredRounds {
    sessions: Mutex<HashSet<SessionKey>>,
    store: OnceLock<Arc<Store>>,
}

impl StoredRounds {
    /// Reads from the store which sessions have hidden rounds, and keeps later ones there.
    pub(super) async fn keep_in(&self, store: &Arc<Store>) -> Result<(), StoreError> {
        let known = store.sessions_with_hidden_rounds().await?;
        let known = known.into_iter();
        let known = known.map(|(owner, session)| (owner.into(), session.into()));
        self.sessions.lock().extend(known);
        self.store.set(Arc::clone(store)).ok();
        Ok(())
    }

    /// Stores the rounds of an answer that ended at the time `now`, in seconds since 1970. They are
    /// lost if the store is busy.
    pub(super) fn put(&self, owner: &Arc<str>, session: &str, rounds: &HiddenRounds, now: u64) {
        let Some(store) = self.store.get() else {
            return;
        };
        let is_queued = store.put_hidden_rounds(HiddenRoundsRow {
            owner: owner.to_string(),
            session: session.to_owned(),
            rounds: serde_json::to_string(rounds).unwrap_or_default(),
            accessed: now,
        });
        if is_queued {
            let key = (Arc::clone(owner), session.into());
            self.sessions.lock().insert(key);
        }
    }

    /// Whether any session has hidden rounds in the store.
    pub(super) fn has_any(&self) -> bool {
        !self.sessions.lock().is_empty()
    }

    /// Reads the hidden rounds of a session into memory, unless they are there.
    pub(super) async fn load(&self, owner: &Arc<str>, session: &str, memory: &SessionMemory) {
        let key = (Arc::clone(owner), session.into());
        if !self.sessions.lock().contains(&key) || memory.has_hidden_rounds(owner, session) {
            return;
        }
        let Some(store) = self.store.get() else {
            return;
        };
        match store.hidden_rounds(owner, session).await {
            Ok(found) => {
                let (answers, _memory) = found.into_parts();
                for rounds in answers {
                    if let Ok(rounds) = serde_json::from_str(&rounds) {
                        memory.keep_hidden_rounds(owner, session, &Arc::new(rounds));
                    }
                }
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
            ],
        };
        {
            let stored = StoredRounds::default();
            stored.keep_in(&open()).await.unwrap();
            assert!(!stored.has_any());
            stored.put(&owner, "s", &rounds, 1_000);
        }
        let stored = StoredRounds::default();
        stored.keep_in(&open()).await.unwrap();
        assert!(stored.has_any());
        let memory = SessionMemory::default();
        stored.load(&owner, "other", &memory).await;
        stored.load(&owner, "s", &memory).await;
        let anchors = || HashSet::from(["c1".to_owned()]);
        let found = memory.hidden_rounds(&owner, "s", anchors);
        assert_eq!(found, [Arc::new(rounds)]);
        assert!(!memory.has_hidden_rounds(&owner, "other"));
    }
}
