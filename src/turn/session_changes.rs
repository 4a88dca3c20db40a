//! What sessions do otherwise because their provider has refused it: the contents that they leave
//! out, and the changes that are still tried.

use std::fmt;
use std::sync::{Arc, OnceLock};

use adapters::experiments::Experiments;
use adapters::refusal::change::{ContentChange, LeftOut};
use hashlink::LinkedHashMap;
use parking_lot::Mutex;

use super::session_memory::SessionKey;
use crate::store::{LearnedRow, Store, StoreError};

/// The most sessions that are remembered.
const MAX_SESSIONS: usize = 4096;

/// The prefix of the id of a session in the store.
const SUBJECT: &str = "session/";

/// What all sessions do otherwise. Lives as long as the process; what the sessions of earlier ones
/// leave out is read from the store.
#[derive(Default)]
pub(super) struct SessionChanges {
    /// The one that was not changed for the longest time first.
    by_key: Mutex<LinkedHashMap<SessionKey, ChangedSession>>,
    store: OnceLock<Arc<Store>>,
}

/// What one session does otherwise.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangedSession {
    pub(super) left_out: LeftOut,
    pub(super) experiments: Experiments,
}

impl SessionChanges {
    /// Reads what earlier processes left out from the store, and keeps there what is left out from
    /// now on.
    pub(super) async fn keep_in(&self, store: &Arc<Store>) -> Result<(), StoreError> {
        let rows = store.learned().await?;
        let mut by_key = self.by_key.lock();
        for row in rows {
            let Some(session) = row.subject.strip_prefix(SUBJECT) else {
                continue;
            };
            if let Ok(left_out) = serde_json::from_str(&row.changes) {
                let changed = ChangedSession {
                    left_out,
                    ..ChangedSession::default()
                };
                by_key.insert((row.owner.as_str().into(), session.into()), changed);
            }
        }
        drop(by_key);
        self.store.set(Arc::clone(store)).ok();
        Ok(())
    }

    /// What a session does otherwise.
    pub(super) fn get(&self, owner: &Arc<str>, session: &str) -> ChangedSession {
        let by_key = self.by_key.lock();
        if by_key.is_empty() {
            return ChangedSession::default();
        }
        let known = by_key.get(&(Arc::clone(owner), session.into()));
        known.cloned().unwrap_or_default()
    }

    /// Remembers the changes that are tried.
    pub(super) fn set_experiments(
        &self,
        owner: &Arc<str>,
        session: &str,
        experiments: &Experiments,
    ) {
        self.change(owner, session, |changed| {
            changed.experiments = experiments.clone();
        });
    }

    /// Leaves out further contents, because a request without them was answered at the time `now`,
    /// in seconds since 1970.
    pub(super) fn leave_out(
        &self,
        owner: &Arc<str>,
        session: &str,
        changes: &[ContentChange],
        now: u64,
    ) {
        let left_out = self.change(owner, session, |changed| {
            for change in changes {
                changed.left_out.add(change);
            }
        });
        if let Some(store) = self.store.get() {
            store.put_learned(LearnedRow {
                owner: owner.to_string(),
                subject: format!("{SUBJECT}{session}"),
                changes: serde_json::to_string(&left_out).unwrap_or_default(),
                learned: now,
            });
        }
    }

    /// Restores what a recorded turn left out.
    pub(super) fn restore(&self, owner: &Arc<str>, session: &str, recorded: ChangedSession) {
        if !recorded.is_empty() {
            self.change(owner, session, |changed| *changed = recorded);
        }
    }

    fn change(
        &self,
        owner: &Arc<str>,
        session: &str,
        change: impl FnOnce(&mut ChangedSession),
    ) -> LeftOut {
        let key = (Arc::clone(owner), session.into());
        let mut by_key = self.by_key.lock();
        let mut changed = by_key.remove(&key).unwrap_or_default();
        change(&mut changed);
        let left_out = changed.left_out.clone();
        if !changed.is_empty() {
            if by_key.len() >= MAX_SESSIONS {
                by_key.pop_front();
            }
            by_key.insert(key, changed);
        }
        left_out
    }
}

impl ChangedSession {
    fn is_empty(&self) -> bool {
        self.left_out.is_empty() && self.experiments.is_empty()
    }
}

impl fmt::Debug for SessionChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionChanges").finish_non_exhaustive()
    }
}
