//! Artifacts on the disk, and in memory those that it does not take.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use super::written_references::{ReferenceKey, WrittenReferences};
use super::memory::{self, MemoryBackend};
use super::{ArtifactEntry, ArtifactFilter, NewArtifact, ArtifactRange, ArtifactText, SweepResult};
use super::{READ_FAILED, SWEEP_FAILED, ArtifactError, WRITE_FAILED};
use crate::metrics::ArtifactCounts;
use crate::store::{self, DataDirLock, SweepLimits, PendingWrite, ArtifactBatch, Store, WrittenBatch};

/// A store, and what stands in for it.
pub(super) struct DiskBackend {
    store: Store,
    shared: Arc<DiskState>,
    /// Let go after the store is closed.
    _claim: DataDirLock,
}

struct DiskState {
    memory: MemoryBackend,
    written: WrittenReferences,
    counts: ArtifactCounts,
    /// Bytes at most.
    quota: u64,
    /// Told when that is passed by a tenth.
    over_quota: Notify,
    /// Which failures were told already.
    warned: [(&'static str, AtomicBool); 3],
}

/// A set of artifacts on its way to the disk.
pub(super) struct DiskCommit {
    putting: PendingWrite,
    shared: Arc<DiskState>,
    keys: Vec<ReferenceKey>,
    bytes: u64,
    owner: String,
    session: String,
    now: u64,
}

impl DiskBackend {
    pub(super) fn new(
        store: Store,
        claim: DataDirLock,
        memory: MemoryBackend,
        quota: u64,
        counts: ArtifactCounts,
    ) -> Self {
        Self {
            store,
            shared: Arc::new(DiskState {
                memory,
                written: WrittenReferences::default(),
                counts,
                quota,
                over_quota: Notify::new(),
                warned: [WRITE_FAILED, READ_FAILED, SWEEP_FAILED]
                    .map(|warning| (warning, AtomicBool::new(false))),
            }),
            _claim: claim,
        }
    }

    pub(super) fn is_kept(
        &self,
        owner: &str,
        session: &str,
        call_id: &str,
        id: &str,
        now: u64,
    ) -> bool {
        let shared = &self.shared;
        let (known, refresh) = shared.written.contains(ReferenceKey::new(owner, session, call_id, id), now);
        if refresh {
            self.refresh(now);
        }
        known || shared.memory.is_kept(owner, session, call_id, id, now)
    }

    pub(super) fn keep(&self, owner: &str, session: &str, new: Vec<NewArtifact>, now: u64) -> DiskCommit {
        let (owner, session) = (owner.to_owned(), session.to_owned());
        let key = |new: &NewArtifact| ReferenceKey::new(&owner, &session, &new.call_id, &new.id);
        DiskCommit {
            keys: new.iter().map(key).collect(),
            bytes: new.iter().map(|new| new.text.len() as u64).sum(),
            shared: Arc::clone(&self.shared),
            putting: self.store.write(ArtifactBatch {
                owner: owner.clone(),
                session: session.clone(),
                new,
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
        let all = ArtifactFilter {
            session: filter.session.clone(),
            ..ArtifactFilter::default()
        };
        let here = self.shared.memory.list(owner, &all);
        let asked = if here.is_empty() { filter } else { &all };
        let there = self.store.list(owner, asked).await;
        let mut there = there.map_err(|error| self.shared.failed(READ_FAILED, &error))?;
        if here.is_empty() {
            return Ok(there);
        }
        there.extend(
            here.into_iter()
                .filter(|entry| {
                    // Stands there already, of another call.
                    !there.iter().any(|other| other.id == entry.id)
                })
                .collect::<Vec<_>>(),
        );
        there.sort_by_key(|entry| std::cmp::Reverse(entry.created));
        Ok(memory::page(there.into_iter(), filter))
    }

    pub(super) async fn read(
        &self,
        owner: &str,
        id: &str,
        part: &ArtifactRange,
        now: u64,
    ) -> Result<Option<ArtifactText>, ArtifactError> {
        let found = self.store.read(owner, id, part).await;
        if let Ok(Some(mut piece)) = found {
            if piece.entry.accessed != now {
                piece.entry.accessed = now;
                self.store.mark_accessed(owner, id, now).await;
            }
            return Ok(Some(piece));
        }
        let here = self.shared.memory.read(owner, id, part, now);
        match found {
            Err(error) => {
                let failed = self.shared.failed(READ_FAILED, &error);
                here.map_or(Err(failed), |piece| Ok(Some(piece)))
            }
            Ok(_) => Ok(here),
        }
    }

    pub(super) async fn delete(&self, owner: &str, id: &str) -> Result<bool, ArtifactError> {
        let here = self.shared.memory.delete(owner, id);
        let there = self.store.delete(owner, id).await;
        // It may be kept again.
        self.shared.written.clear();
        let there = there.map_err(|error| self.shared.failed(WRITE_FAILED, &error))?;
        Ok(here || there)
    }

    pub(super) async fn sweep(&self, since: u64, now: u64) -> Result<SweepResult, ArtifactError> {
        self.refresh(now);
        let mut swept = self.shared.memory.sweep(since);
        let limits = SweepLimits {
            since,
            bytes: self.shared.quota,
        };
        loop {
            let step = self.store.sweep(limits).await;
            let step = step.map_err(|error| self.shared.failed(SWEEP_FAILED, &error))?;
            if step.changed {
                self.shared.written.clear();
            }
            swept.artifacts += step.swept.artifacts;
            swept.bytes += step.swept.bytes;
            if !step.more {
                return Ok(swept);
            }
        }
    }

    pub(super) async fn overfull(&self) {
        self.shared.over_quota.notified().await;
    }

    /// One by one; memory has each until the disk has it.
    pub(super) async fn flush_memory(&self, now: u64) {
        let DiskState { memory, written: known, .. } = &*self.shared;
        for (owner, session, mut new) in memory.references() {
            let Some(text) = memory.text(&new.id) else {
                continue;
            };
            new.text.clone_from(&text);
            let (call_id, id) = (new.call_id.clone(), new.id.clone());
            let set = ArtifactBatch {
                owner: owner.clone(),
                session: session.clone(),
                new: vec![new],
                now,
            };
            // It was told that the disk fails.
            let Ok(written) = self.store.write(set).done().await else {
                return;
            };
            let key = ReferenceKey::new(&owner, &session, &call_id, &id);
            known.add(std::iter::once(key).zip(written.reference_numbers), now);
            memory.forget(&owner, &session, &call_id, &id);
        }
    }

    /// Lets the store know what was shown again.
    fn refresh(&self, now: u64) {
        let known = &self.shared.written;
        let shown = known.take_shown();
        if !shown.is_empty()
            && let Err(unsent) = self.store.mark_shown(shown, now)
        {
            known.put_back_shown(unsent);
        }
    }
}

impl DiskCommit {
    pub(super) async fn done(self) {
        let shared = self.shared;
        match self.putting.done().await {
            Ok(WrittenBatch { reference_numbers: numbers, stored_bytes: total }) => {
                if total > shared.quota.saturating_add(shared.quota / 10) {
                    shared.over_quota.notify_one();
                }
                shared.counts.kept(self.keys.len() as u64, self.bytes);
                shared
                    .written
                    .add(self.keys.into_iter().zip(numbers), self.now);
            }
            Err(refused) => {
                shared.failed(WRITE_FAILED, &refused.error);
                let (owner, session) = (&self.owner, &self.session);
                shared.memory.keep(owner, session, refused.new, self.now);
            }
        }
    }
}

impl DiskState {
    /// Counts a failure, and tells it the first time.
    fn failed(&self, warning: &'static str, error: &store::StoreError) -> ArtifactError {
        self.counts.failed(warning);
        let message = error.to_string();
        let first = self
            .warned
            .iter()
            .any(|(told, before)| *told == warning && !before.swap(true, Ordering::Relaxed));
        if first {
            let instead = if warning == WRITE_FAILED {
                "; what the disk does not take is kept in memory"
            } else {
                ""
            };
            tracing::warn!("{warning}: {message}{instead}; this is told once");
        }
        ArtifactError { warning, message }
    }
}
