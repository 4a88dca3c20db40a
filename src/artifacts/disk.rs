//! Artifacts on the disk, and in memory those that it does not take.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use super::known::{Key, Known};
use super::memory::{self, Memory};
use super::model::{Entry, Filter, New, Part, Piece, Swept};
use super::{READ_FAILED, SWEEP_FAILED, StoreError, WRITE_FAILED};
use crate::metrics::ArtifactCounts;
use crate::store::{self, Claim, Limits, Putting, Set, Store, Written};

/// A store, and what stands in for it.
pub(super) struct Disk {
    store: Store,
    shared: Arc<Shared>,
    /// Let go after the store is closed.
    _claim: Claim,
}

struct Shared {
    memory: Memory,
    known: Known,
    counts: ArtifactCounts,
    /// Bytes at most.
    quota: u64,
    /// Told when that is passed by a tenth.
    overfull: Notify,
    /// Which failures were told already.
    told: [(&'static str, AtomicBool); 3],
}

/// A set of artifacts on its way to the disk.
pub(super) struct Commit {
    putting: Putting,
    shared: Arc<Shared>,
    keys: Vec<Key>,
    bytes: u64,
    owner: String,
    session: String,
    now: u64,
}

impl Disk {
    pub(super) fn new(
        store: Store,
        claim: Claim,
        memory: Memory,
        quota: u64,
        counts: ArtifactCounts,
    ) -> Self {
        Self {
            store,
            shared: Arc::new(Shared {
                memory,
                known: Known::default(),
                counts,
                quota,
                overfull: Notify::new(),
                told: [WRITE_FAILED, READ_FAILED, SWEEP_FAILED]
                    .map(|warning| (warning, AtomicBool::new(false))),
            }),
            _claim: claim,
        }
    }

    pub(super) fn knows(
        &self,
        owner: &str,
        session: &str,
        call_id: &str,
        id: &str,
        now: u64,
    ) -> bool {
        let shared = &self.shared;
        let (known, refresh) = shared.known.has(Key::new(owner, session, call_id, id), now);
        if refresh {
            self.refresh(now);
        }
        known || shared.memory.knows(owner, session, call_id, id, now)
    }

    pub(super) fn keep(&self, owner: &str, session: &str, new: Vec<New>, now: u64) -> Commit {
        let (owner, session) = (owner.to_owned(), session.to_owned());
        let key = |new: &New| Key::new(&owner, &session, &new.call_id, &new.id);
        Commit {
            keys: new.iter().map(key).collect(),
            bytes: new.iter().map(|new| new.text.len() as u64).sum(),
            shared: Arc::clone(&self.shared),
            putting: self.store.put(Set {
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
        filter: &Filter,
    ) -> Result<Vec<Entry>, StoreError> {
        let all = Filter {
            session: filter.session.clone(),
            ..Filter::default()
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
        part: &Part,
        now: u64,
    ) -> Result<Option<Piece>, StoreError> {
        let found = self.store.read(owner, id, part).await;
        if let Ok(Some(mut piece)) = found {
            if piece.entry.accessed != now {
                piece.entry.accessed = now;
                self.store.accessed(owner, id, now).await;
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

    pub(super) async fn delete(&self, owner: &str, id: &str) -> Result<bool, StoreError> {
        let here = self.shared.memory.delete(owner, id);
        let there = self.store.delete(owner, id).await;
        // It may be kept again.
        self.shared.known.forget();
        let there = there.map_err(|error| self.shared.failed(WRITE_FAILED, &error))?;
        Ok(here || there)
    }

    pub(super) async fn sweep(&self, since: u64, now: u64) -> Result<Swept, StoreError> {
        self.refresh(now);
        let mut swept = self.shared.memory.sweep(since);
        let limits = Limits {
            since,
            bytes: self.shared.quota,
        };
        loop {
            let step = self.store.sweep(limits).await;
            let step = step.map_err(|error| self.shared.failed(SWEEP_FAILED, &error))?;
            if step.changed {
                self.shared.known.forget();
            }
            swept.artifacts += step.swept.artifacts;
            swept.bytes += step.swept.bytes;
            if !step.more {
                return Ok(swept);
            }
        }
    }

    pub(super) async fn overfull(&self) {
        self.shared.overfull.notified().await;
    }

    /// One by one; memory has each until the disk has it.
    pub(super) async fn settle(&self, now: u64) {
        let Shared { memory, known, .. } = &*self.shared;
        for (owner, session, mut new) in memory.references() {
            let Some(text) = memory.text(&new.id) else {
                continue;
            };
            new.text.clone_from(&text);
            let (call_id, id) = (new.call_id.clone(), new.id.clone());
            let set = Set {
                owner: owner.clone(),
                session: session.clone(),
                new: vec![new],
                now,
            };
            // It was told that the disk fails.
            let Ok(written) = self.store.put(set).done().await else {
                return;
            };
            let key = Key::new(&owner, &session, &call_id, &id);
            known.add(std::iter::once(key).zip(written.numbers), now);
            memory.forget(&owner, &session, &call_id, &id);
        }
    }

    /// Lets the store know what was shown again.
    fn refresh(&self, now: u64) {
        let known = &self.shared.known;
        let shown = known.take_shown();
        if !shown.is_empty()
            && let Err(unsent) = self.store.shown(shown, now)
        {
            known.shown_still(unsent);
        }
    }
}

impl Commit {
    pub(super) async fn done(self) {
        let shared = self.shared;
        match self.putting.done().await {
            Ok(Written { numbers, total }) => {
                if total > shared.quota.saturating_add(shared.quota / 10) {
                    shared.overfull.notify_one();
                }
                shared.counts.kept(self.keys.len() as u64, self.bytes);
                shared
                    .known
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

impl Shared {
    /// Counts a failure, and tells it the first time.
    fn failed(&self, warning: &'static str, error: &store::Error) -> StoreError {
        self.counts.failed(warning);
        let message = error.to_string();
        let first = self
            .told
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
        StoreError { warning, message }
    }
}
