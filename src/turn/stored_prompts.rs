//! The prompts of the last responses in the store, so that a client can compare with them after a
//! restart. Only a request that names a response not in memory waits for the store.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use adapters::responses::prompt_cache::PromptCacheDiagnostics;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::prefix::{RequestFingerprint, StoredPrompt, diagnose_stored};
use crate::store::{AnsweredPrompt, Store};

/// How long a prompt is looked for, for example in a locked database.
const PATIENCE: Duration = Duration::from_secs(1);

/// The prompts in the store, if there is one.
#[derive(Default)]
pub(super) struct StoredPrompts(OnceLock<Arc<Store>>);

/// A comparison with a prompt in the store, under way while the upstream answers. Dropping it ends
/// it.
pub(super) struct PendingComparison(JoinHandle<Option<PromptCacheDiagnostics>>);

impl StoredPrompts {
    /// Keeps prompts in this store.
    pub(super) fn keep_in(&self, store: &Arc<Store>) {
        self.0.set(Arc::clone(store)).ok();
    }

    /// Whether there is a store.
    pub(super) fn is_kept(&self) -> bool {
        self.0.get().is_some()
    }

    /// Stores a prompt that was answered at the time `now`, in seconds since 1970. It is lost if
    /// the store is busy.
    pub(super) fn put(&self, owner: &str, session: &str, prompt: StoredPrompt, now: u64) {
        let Some(store) = self.0.get() else { return };
        store.put_prompt(AnsweredPrompt {
            owner: owner.to_owned(),
            session: session.to_owned(),
            response: prompt.response.to_string(),
            continues: prompt.continues.map(|response| response.to_string()),
            parts: prompt.parts,
            details: prompt.details,
            asks_for_summary: prompt.asks_for_summary,
            accessed: now,
        });
    }

    /// Begins to compare the prompt of a request with that of a response. `None` without a store.
    pub(super) fn compare(
        &self,
        owner: &Arc<str>,
        response: &str,
        request: &Arc<RequestFingerprint>,
    ) -> Option<PendingComparison> {
        let store = Arc::clone(self.0.get()?);
        let (owner, response) = (Arc::clone(owner), response.to_owned());
        let request = Arc::clone(request);
        let comparison = async move {
            let found = timeout(PATIENCE, store.find_prompt(&owner, &response)).await;
            diagnose_stored(&request, &found.ok()?.ok()??)
        };
        Some(PendingComparison(tokio::spawn(comparison)))
    }
}

impl PendingComparison {
    /// The result of the comparison.
    pub(super) async fn finish(mut self) -> PromptCacheDiagnostics {
        let found = (&mut self.0).await.ok().flatten();
        found.unwrap_or(PromptCacheDiagnostics::ComparisonResponseNotFound)
    }
}

impl Drop for PendingComparison {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl fmt::Debug for StoredPrompts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredPrompts").finish_non_exhaustive()
    }
}
