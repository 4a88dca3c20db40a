//! Artifacts in the store. What the disk does not take goes to memory.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

use super::memory::MemoryBackend;
use super::written_references::{ReferenceKey, WrittenReferences};
use super::{ArtifactError, READ_FAILED, SWEEP_FAILED, WRITE_FAILED};
use crate::metrics::ArtifactCounts;
use crate::store::{
    ArtifactBatch, ArtifactEntry, ArtifactFilter, ArtifactRange, ArtifactText, NewArtifact,
    PendingWrite, Store, StoreError, SweepLimits, SweepResult, WrittenBatch,
};

pub(super) struct DiskBackend {
    store: Arc<Store>,
    state: Arc<DiskState>,
}

struct DiskState {
    /// The artifacts that could not be written to the disk.
    memory: Arc<MemoryBackend>,
    written: WrittenReferences,
    counts: ArtifactCounts,
    /// The most bytes that texts may take on disk.
    quota: u64,
    /// Notified when texts take more than `report_above`.
    over_quota: Notify,
    /// A tenth of the quota above what the last sweep had to leave, or above the quota.
    report_above: AtomicU64,
    /// For each warning, whether it was logged already.
    warned: [(&'static str, AtomicBool); 3],
}

/// A batch on its way to the disk.
pub(super) struct DiskCommit {
    pending: PendingWrite,
    state: Arc<DiskState>,
    keys: Vec<ReferenceKey>,
    ids: Vec<String>,
    /// The ids of the artifacts that the request names besides.
    named: BTreeSet<String>,
    bytes: u64,
    owner: String,
    session: String,
    now: u64,
}

impl DiskBackend {
    pub(super) fn new(
        store: Arc<Store>,
        memory: &Arc<MemoryBackend>,
        quota: u64,
        counts: ArtifactCounts,
    ) -> Self {
        Self {
            store,
            state: Arc::new(DiskState {
                memory: Arc::clone(memory),
                written: WrittenReferences::default(),
                counts,
                quota,
                over_quota: Notify::new(),
                report_above: AtomicU64::new(report_above(quota, 0)),
                warned: [WRITE_FAILED, READ_FAILED, SWEEP_FAILED]
                    .map(|warning| (warning, AtomicBool::new(false))),
            }),
        }
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Whether this is on disk. Asking counts as access.
    pub(super) fn is_written(
        &self,
        owner: &str,
        session: &str,
        call_id: &str,
        id: &str,
        now: u64,
    ) -> bool {
        let key = ReferenceKey::new(owner, session, call_id, id);
        let (is_written, refresh) = self.state.written.contains(key, now);
        if refresh {
            self.refresh_access_times(now);
        }
        is_written
    }

    pub(super) fn keep(
        &self,
        owner: &str,
        session: &str,
        artifacts: Vec<NewArtifact>,
        named: BTreeSet<String>,
        now: u64,
    ) -> DiskCommit {
        let (owner, session) = (owner.to_owned(), session.to_owned());
        let key = |new: &NewArtifact| ReferenceKey::new(&owner, &session, &new.call_id, &new.id);
        DiskCommit {
            keys: artifacts.iter().map(key).collect(),
            ids: artifacts.iter().map(|new| new.id.clone()).collect(),
            named,
            bytes: artifacts.iter().map(|new| new.text.len() as u64).sum(),
            state: Arc::clone(&self.state),
            pending: self.store.write(ArtifactBatch {
                owner: owner.clone(),
                session: session.clone(),
                artifacts,
                now,
            }),
            owner,
            session,
            now,
        }
    }

    pub(super) async fn list(
        &self,
        owner: &str,
        filter: &ArtifactFilter,
    ) -> Result<Vec<ArtifactEntry>, ArtifactError> {
        let entries = self.store.list(owner, filter).await;
        entries.map_err(|error| self.state.failed(READ_FAILED, &error))
    }

    pub(super) async fn read(
        &self,
        owner: &str,
        id: &str,
        range: &ArtifactRange,
        now: u64,
    ) -> Result<Option<ArtifactText>, ArtifactError> {
        let read = self.store.read(owner, id, range).await;
        let mut read = read.map_err(|error| self.state.failed(READ_FAILED, &error))?;
        if let Some(read) = &mut read
            && read.entry.accessed != now
        {
            read.entry.accessed = now;
            self.store.mark_accessed(owner, id, now).await;
        }
        Ok(read)
    }

    pub(super) async fn delete(&self, owner: &str, id: &str) -> Result<bool, ArtifactError> {
        let deleted = self.store.delete(owner, id).await;
        // The same output may have to be kept again.
        self.state.written.clear();
        deleted.map_err(|error| self.state.failed(WRITE_FAILED, &error))
    }

    pub(super) async fn sweep(
        &self,
        accessed_since: u64,
        now: u64,
        swept: &mut SweepResult,
    ) -> Result<(), ArtifactError> {
        self.refresh_access_times(now);
        let limits = SweepLimits {
            accessed_since,
            max_bytes: self.state.quota,
        };
        loop {
            let step = self.store.sweep(limits).await;
            let step = step.map_err(|error| self.state.failed(SWEEP_FAILED, &error))?;
            if step.references_deleted {
                self.state.written.clear();
            }
            swept.artifacts += step.swept.artifacts;
            swept.bytes += step.swept.bytes;
            if let Some(left) = step.stored_bytes {
                let state = &self.state;
                let above = report_above(state.quota, left);
                state.report_above.store(above, Ordering::Relaxed);
            }
            if !step.more {
                return Ok(());
            }
        }
    }

    pub(super) async fn purge(&self) -> Result<bool, ArtifactError> {
        let purged = self.store.purge().await;
        self.state.written.clear();
        purged.map_err(|error| self.state.failed(SWEEP_FAILED, &error))
    }

    pub(super) async fn over_quota(&self) {
        self.state.over_quota.notified().await;
    }

    /// Writes what is in memory one by one. Each artifact stays in memory until the disk has it.
    pub(super) async fn flush_memory(&self, now: u64) {
        let DiskState {
            memory, written, ..
        } = &*self.state;
        for (owner, session, mut artifact) in memory.references() {
            let Some(text) = memory.text(&artifact.id) else {
                continue;
            };
            artifact.text.clone_from(&text);
            let (call_id, id) = (artifact.call_id.clone(), artifact.id.clone());
            let batch = ArtifactBatch {
                owner: owner.clone(),
                session: session.clone(),
                artifacts: vec![artifact],
                now,
            };
            // A failure needs no second warning.
            let Ok(batch) = self.store.write(batch).done().await else {
                return;
            };
            let key = ReferenceKey::new(&owner, &session, &call_id, &id);
            written.add(std::iter::once(key).zip(batch.reference_numbers), now);
            memory.forget(&owner, &session, &call_id, &id);
        }
    }

    fn refresh_access_times(&self, now: u64) {
        let written = &self.state.written;
        let shown = written.take_shown();
        if !shown.is_empty()
            && let Err(unsent) = self.store.mark_shown(shown, now)
        {
            written.put_back_shown(unsent);
        }
    }
}

/// The bytes above which the quota counts as exceeded. A sweep leaves more than the quota if stored
/// responses need it, and need not be repeated at once.
fn report_above(quota: u64, left: u64) -> u64 {
    quota.max(left).saturating_add(quota / 10)
}

impl DiskCommit {
    /// Waits until the artifacts can be read back, from the disk or from memory. Returns the ids of
    /// those that cannot.
    pub(super) async fn wait(self) -> BTreeSet<String> {
        let state = self.state;
        match self.pending.done().await {
            Ok(WrittenBatch {
                reference_numbers,
                stored_bytes,
            }) => {
                if stored_bytes > state.report_above.load(Ordering::Relaxed) {
                    state.over_quota.notify_one();
                }
                state.counts.kept(self.keys.len() as u64, self.bytes);
                state
                    .written
                    .add(self.keys.into_iter().zip(reference_numbers), self.now);
                BTreeSet::new()
            }
            Err(unwritten) => {
                state.failed(WRITE_FAILED, &unwritten.error);
                let (owner, session, memory) = (&self.owner, &self.session, &state.memory);
                memory.keep(owner, session, unwritten.artifacts, self.named, self.now);
                let is_lost = |id: &String| !memory.has_text(id);
                self.ids.into_iter().filter(is_lost).collect()
            }
        }
    }
}

impl DiskState {
    /// Counts a failure, and logs it the first time.
    fn failed(&self, warning: &'static str, error: &StoreError) -> ArtifactError {
        self.counts.failed(warning);
        let message = error.to_string();
        let is_first = self
            .warned
            .iter()
            .any(|(id, before)| *id == warning && !before.swap(true, Ordering::Relaxed));
        if is_first {
            let instead = if warning == WRITE_FAILED {
                "; what the disk does not take is kept in memory"
            } else {
                ""
            };
            tracing::warn!(
                "{message}{instead}; further failures of this kind are only counted [{warning}]"
            );
        }
        ArtifactError { warning, message }
    }
}
