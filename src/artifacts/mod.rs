//! Artifacts: tool outputs that were too long to send, kept whole so that they can be read back.
//!
//! | module | what it does |
//! |---|---|
//! | [`owner`] | the artifacts of one owner, as clients and tools read them |
//! | [`search`] | searches the text of an artifact |
//! | `disk` | keeps artifacts in the store, or in memory while the disk fails |
//! | `memory` | keeps artifacts in bounded memory |
//! | `written_references` | remembers what is on disk already |

mod disk;
mod memory;
pub mod owner;
pub mod search;
#[cfg(test)]
mod tests;
mod written_references;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use adapters::plan::{self, Artifact, Retention};
use adapters::turn::Item;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clock::{Clock, System};
use crate::config::{ArtifactConfig, ArtifactMode};
use crate::metrics::ArtifactCounts;
use crate::store::{
    ArtifactEntry, ArtifactFilter, ArtifactRange, ArtifactText, NewArtifact, Store, SweepResult,
    UnusableStore,
};
use disk::DiskBackend;
use memory::MemoryBackend;

const DAY: u64 = 24 * 60 * 60;

/// The most searches at the same time. Each holds a whole text in memory.
const CONCURRENT_SEARCHES: usize = 2;

/// An artifact cannot be read or kept at the moment. Trying again may help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{warning}: {message}")]
pub struct ArtifactError {
    /// A stable id, such as `ARTIFACT_STORE_READ_FAILED`.
    pub warning: &'static str,
    /// A description for people.
    pub message: String,
}

/// The id of the warning that the store could not be opened.
pub const OPEN_FAILED: &str = "ARTIFACT_STORE_OPEN_FAILED";
/// The id of the warning that a damaged store was moved aside and an empty one created.
pub const MOVED_ASIDE: &str = "ARTIFACT_STORE_MOVED_ASIDE";
/// The id of the warning that an artifact could not be written.
pub const WRITE_FAILED: &str = "ARTIFACT_STORE_WRITE_FAILED";
/// The id of the warning that an artifact could not be read.
pub const READ_FAILED: &str = "ARTIFACT_STORE_READ_FAILED";
/// The id of the warning that old artifacts could not be deleted.
pub const SWEEP_FAILED: &str = "ARTIFACT_STORE_SWEEP_FAILED";

/// The artifacts of all owners. Clones share them.
#[derive(Clone)]
pub struct Artifacts(Arc<ArtifactsInner>);

struct ArtifactsInner {
    retention: Retention,
    backend: Backend,
    /// Seconds after the last access until an artifact is deleted.
    keep_for: u64,
    clock: Arc<dyn Clock>,
    searches: Arc<Semaphore>,
}

enum Backend {
    /// Nothing is kept.
    Off,
    Memory(MemoryBackend),
    Disk(DiskBackend),
}

/// Artifacts on their way to the disk. An artifact may be mentioned to a model only after
/// [`ArtifactCommit::wait`].
pub struct ArtifactCommit(Option<disk::DiskCommit>);

impl Artifacts {
    /// Keeps artifacts as the settings say. With `mode = "disk"` they go to the store that the
    /// program has opened. Without a store they are kept in bounded memory; if it could not be
    /// opened, a warning is logged.
    pub fn open(
        settings: &ArtifactConfig,
        store: Option<Result<Arc<Store>, UnusableStore>>,
        clock: Arc<dyn Clock>,
        counts: ArtifactCounts,
    ) -> Self {
        let memory = MemoryBackend::new(settings.memory);
        let (retention, backend) = match (settings.mode, store) {
            (ArtifactMode::Off, _) => (Retention::Nothing, Backend::Off),
            (ArtifactMode::Memory, _) | (ArtifactMode::Disk, None) => {
                (Retention::Memory, Backend::Memory(memory))
            }
            (ArtifactMode::Disk, Some(Ok(store))) => {
                if let Some(moved_to) = store.moved_aside() {
                    counts.failed(MOVED_ASIDE);
                    warn_of_damage(moved_to);
                }
                let disk = DiskBackend::new(store, memory, settings.keep_size, counts);
                (Retention::Disk, Backend::Disk(disk))
            }
            (ArtifactMode::Disk, Some(Err(UnusableStore { database, error }))) => {
                counts.failed(OPEN_FAILED);
                tracing::warn!(
                    "{OPEN_FAILED}: {} cannot be used, so artifacts are kept in memory until the end of the program: {error}",
                    database.display()
                );
                (Retention::Memory, Backend::Memory(memory))
            }
        };
        Self::new(retention, backend, settings.keep_days, clock)
    }

    /// Reads what a server has left in the store, for a program that is no server.
    pub fn of_store(settings: &ArtifactConfig, store: Arc<Store>) -> Self {
        let (memory, counts) = (MemoryBackend::new(0), ArtifactCounts::default());
        let disk = DiskBackend::new(store, memory, settings.keep_size, counts);
        let clock = Arc::new(System);
        Self::new(
            Retention::Disk,
            Backend::Disk(disk),
            settings.keep_days,
            clock,
        )
    }

    /// Keeps artifacts in memory only, `limit` bytes at most.
    pub fn memory(limit: usize) -> Self {
        let backend = Backend::Memory(MemoryBackend::new(limit));
        Self::new(Retention::Memory, backend, 30, Arc::new(System))
    }

    /// Keeps nothing. For replays: excerpts claim the `retention` of the recorded turn.
    pub fn without_store(retention: Retention) -> Self {
        Self::new(retention, Backend::Off, 0, Arc::new(System))
    }

    fn new(retention: Retention, backend: Backend, keep_days: u32, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(ArtifactsInner {
            retention,
            backend,
            keep_for: u64::from(keep_days) * DAY,
            clock,
            searches: Arc::new(Semaphore::new(CONCURRENT_SEARCHES)),
        }))
    }

    /// Where excerpts say that the whole output is kept.
    pub fn retention(&self) -> Retention {
        self.0.retention
    }

    /// Whether this artifact is kept already for this owner, session and call. Counts as access.
    pub fn is_kept(&self, owner: &str, session: &str, call_id: &str, id: &str) -> bool {
        let now = self.now();
        match &self.0.backend {
            Backend::Off => true,
            Backend::Memory(memory) => memory.is_kept(owner, session, call_id, id, now),
            Backend::Disk(disk) => disk.is_kept(owner, session, call_id, id, now),
        }
    }

    /// The artifact to keep for an output of this owner and session, or `None` if it is kept
    /// already.
    pub fn missing_artifact(
        &self,
        (owner, session): (&str, &str),
        output: &Item<'_>,
        artifact: &Artifact,
    ) -> Option<NewArtifact> {
        let call_id = output.call_id().unwrap_or_default();
        if self.is_kept(owner, session, &call_id, &artifact.id) {
            return None;
        }
        Some(NewArtifact {
            id: artifact.id.clone(),
            call_id: call_id.into_owned(),
            kind: artifact.kind,
            chars: artifact.chars,
            lines: artifact.lines,
            text: plan::output::text(output)?.into_owned(),
        })
    }

    /// Starts to keep artifacts. This never fails: what the disk does not take stays in memory, as
    /// far as there is room.
    pub fn keep(&self, owner: &str, session: &str, artifacts: Vec<NewArtifact>) -> ArtifactCommit {
        let now = self.now();
        match &self.0.backend {
            Backend::Off => ArtifactCommit(None),
            Backend::Memory(memory) => {
                memory.keep(owner, session, artifacts, now);
                ArtifactCommit(None)
            }
            Backend::Disk(disk) => ArtifactCommit(Some(disk.keep(owner, session, artifacts, now))),
        }
    }

    /// Lists the artifacts of an owner, the newest first.
    pub async fn list(
        &self,
        owner: &str,
        filter: &ArtifactFilter,
    ) -> Result<Vec<ArtifactEntry>, ArtifactError> {
        match &self.0.backend {
            Backend::Off => Ok(Vec::new()),
            Backend::Memory(memory) => Ok(memory.list(owner, filter)),
            Backend::Disk(disk) => disk.list(owner, filter).await,
        }
    }

    /// Reads a range of an artifact; `None` if it is unknown, expired or another owner's. Counts
    /// as access.
    pub async fn read(
        &self,
        owner: &str,
        id: &str,
        range: &ArtifactRange,
    ) -> Result<Option<ArtifactText>, ArtifactError> {
        let now = self.now();
        match &self.0.backend {
            Backend::Off => Ok(None),
            Backend::Memory(memory) => Ok(memory.read(owner, id, range, now)),
            Backend::Disk(disk) => disk.read(owner, id, range, now).await,
        }
    }

    async fn search_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.searches).acquire_owned().await.ok()
    }

    /// Waits until artifacts exceed the quota by so much that a sweep should not wait.
    pub async fn over_quota(&self) {
        match &self.0.backend {
            Backend::Off | Backend::Memory(_) => std::future::pending().await,
            Backend::Disk(disk) => disk.over_quota().await,
        }
    }

    /// Writes the artifacts to disk that could not be written before, if the disk works again.
    pub async fn flush_to_disk(&self) {
        match &self.0.backend {
            Backend::Off | Backend::Memory(_) => {}
            Backend::Disk(disk) => disk.flush_memory(self.now()).await,
        }
    }

    /// Deletes an artifact; false if there is none.
    pub async fn delete(&self, owner: &str, id: &str) -> Result<bool, ArtifactError> {
        match &self.0.backend {
            Backend::Off => Ok(false),
            Backend::Memory(memory) => Ok(memory.delete(owner, id)),
            Backend::Disk(disk) => disk.delete(owner, id).await,
        }
    }

    /// Deletes artifacts that are too old, and the least recently used ones beyond the quota.
    pub async fn sweep(&self) -> Result<SweepResult, ArtifactError> {
        let now = self.now();
        let accessed_since = now.saturating_sub(self.0.keep_for);
        match &self.0.backend {
            Backend::Off => Ok(SweepResult::default()),
            Backend::Memory(memory) => Ok(memory.sweep(accessed_since)),
            Backend::Disk(disk) => disk.sweep(accessed_since, now).await,
        }
    }

    fn now(&self) -> u64 {
        self.0.clock.unix()
    }
}

fn warn_of_damage(moved_to: &Path) {
    tracing::warn!(
        "{MOVED_ASIDE}: the store of artifacts was damaged; it is now {}, and a new one was begun",
        moved_to.display()
    );
}

impl ArtifactCommit {
    /// Waits until the artifacts can be read back.
    pub async fn wait(self) {
        if let Some(commit) = self.0 {
            commit.wait().await;
        }
    }
}

impl fmt::Debug for Artifacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Artifacts")
            .field("retention", &self.0.retention)
            .finish_non_exhaustive()
    }
}
