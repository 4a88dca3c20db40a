//! The references of sessions in the store: the ids by which a model names pages mean the same
//! after a restart, and after a session was forgotten in memory; so do the pages that it has read.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::web::references::{CallReferences, ReferencesCall, WebReferences};
use crate::clock::{Clock as _, System};
use crate::store::{SessionRow, Store, StoreError};

/// How long an answer waits for the disk.
const PATIENCE: Duration = Duration::from_secs(1);

/// The references of sessions, in memory and in the store, if there is one. Lives as long as the
/// process.
pub struct StoredReferences {
    in_memory: WebReferences,
    store: OnceLock<Arc<Store>>,
}

impl StoredReferences {
    /// These, in memory alone.
    pub fn new(in_memory: WebReferences) -> Self {
        Self {
            in_memory,
            store: OnceLock::new(),
        }
    }

    /// Keeps them in the store as well.
    pub fn keep_in(&self, store: &Arc<Store>) {
        self.store.set(Arc::clone(store)).ok();
    }

    /// What they take in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.in_memory.bytes()
    }

    /// Begins the next call of a session, which may have been known to an earlier process.
    pub async fn begin_call(&self, owner: &Arc<str>, session: &str) -> ReferencesCall<'_> {
        if !self.in_memory.knows(owner, session)
            && let Some(store) = self.store.get()
        {
            match store.web_references(owner, session).await {
                Ok(found) => {
                    let (calls, _memory) = found.into_parts();
                    let calls = calls
                        .iter()
                        .filter_map(|call| serde_json::from_str(call).ok());
                    let calls: Vec<CallReferences> = calls.collect();
                    if !calls.is_empty() {
                        self.in_memory.load(owner, session, &calls);
                    }
                }
                Err(error) => {
                    tracing::warn!("the references of a session cannot be read: {error}");
                }
            }
        }
        self.in_memory.begin_call(owner, session)
    }

    /// Stores the ids that a call has made, and where its pages are kept. Waits for the disk, but
    /// not for long.
    pub async fn keep(&self, owner: &Arc<str>, session: &str, call: &ReferencesCall<'_>) {
        let made = call.made();
        let Some(store) = self.store.get().filter(|_| !made.is_empty()) else {
            return;
        };
        let row = SessionRow {
            owner: owner.to_string(),
            session: session.to_owned(),
            text: serde_json::to_string(&made).unwrap_or_default(),
            accessed: System.unix(),
        };
        let stored = tokio::time::timeout(PATIENCE, store.put_web_references(row)).await;
        // A store that has ended is told of elsewhere.
        if let Ok(Err(error)) = stored
            && !matches!(error, StoreError::Closed)
        {
            tracing::warn!("the references of a session cannot be stored: {error}");
        }
    }
}

impl fmt::Debug for StoredReferences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredReferences").finish_non_exhaustive()
    }
}
