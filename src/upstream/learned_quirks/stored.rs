//! What was learned, in the store: one row for each owner and model, and for each session with
//! limits.

use std::fmt;
use std::sync::Arc;

use adapters::quirk_patch::QuirkPatch;
use serde::{Deserialize, Serialize};

use super::{LearnedPatch, LearnedQuirks, ModelKey, is_limit};
use crate::store::{LearnedRow, Store, StoreError};

/// A patch as it is stored.
#[derive(Deserialize, Serialize)]
struct StoredPatch {
    patch: QuirkPatch,
    evidence: Arc<str>,
    learned: u64,
    settings: u64,
}

impl LearnedQuirks {
    /// Reads what earlier processes have learned from the store, and keeps there what is learned
    /// from now on.
    pub async fn keep_in(&self, store: &Arc<Store>) -> Result<(), StoreError> {
        self.read_rows(store.learned().await?);
        self.store.set(Arc::clone(store)).ok();
        Ok(())
    }

    /// Adds what these rows of the store say.
    pub fn read_rows(&self, rows: Vec<LearnedRow>) {
        let mut known = self.patches.write();
        for row in rows {
            let Some((provider, model)) = model_of(&row.subject) else {
                self.read_limits(&row);
                continue;
            };
            let patches: Vec<StoredPatch> = serde_json::from_str(&row.changes).unwrap_or_default();
            let owner: Arc<str> = row.owner.as_str().into();
            let patches = patches.into_iter().map(|stored| LearnedPatch {
                patch: stored.patch,
                owner: Arc::clone(&owner),
                refused_owner: Arc::default(),
                evidence: stored.evidence,
                learned: stored.learned,
                settings: stored.settings,
                expires: None,
            });
            let key = (provider.to_owned(), model.to_owned());
            let all = known.entry(key).or_insert_with(Vec::new);
            all.extend(patches);
            all.sort_by_key(|patch| patch.learned);
        }
    }

    /// Stores the patches of a model that an owner has, in the background. Its limits are not
    /// stored: sessions have their own, and others learn them again.
    pub(super) fn store_patches(&self, key: &ModelKey, owner: &str, patches: &[LearnedPatch]) {
        let Some(store) = self.store.get() else {
            return;
        };
        let own = patches
            .iter()
            .filter(|it| *it.owner == *owner && !is_limit(it.patch));
        let own = own.map(|learned| StoredPatch {
            patch: learned.patch,
            evidence: Arc::clone(&learned.evidence),
            learned: learned.learned,
            settings: learned.settings,
        });
        let own: Vec<StoredPatch> = own.collect();
        store.put_learned(LearnedRow {
            owner: owner.to_owned(),
            subject: subject_of(key),
            changes: serde_json::to_string(&own).unwrap_or_default(),
            learned: own.iter().map(|it| it.learned).max().unwrap_or_default(),
        });
    }
}

/// The subject of a row: a model.
fn subject_of((provider, model): &ModelKey) -> String {
    format!("model/{provider}/{model}")
}

fn model_of(subject: &str) -> Option<(&str, &str)> {
    subject.strip_prefix("model/")?.split_once('/')
}

impl fmt::Debug for LearnedQuirks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LearnedQuirks").finish_non_exhaustive()
    }
}
