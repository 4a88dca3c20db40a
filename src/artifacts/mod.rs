//! Artifacts: tool outputs that were too long to send, kept whole so that they can be read back.
//!
//! | module | what it does |
//! |---|---|
//! | [`owner`] | the artifacts of one owner, as clients and tools read them |
//! | [`search`] | searches the text of an artifact |
//! | `opened` | reads a range piece by piece |
//! | `disk` | keeps artifacts in the store |
//! | `memory` | keeps artifacts in bounded memory: without a store, and while the disk fails |
//! | `written_references` | remembers what is on disk already |

mod disk;
mod memory;
mod opened;
pub mod owner;
pub mod search;
#[cfg(test)]
mod tests;
mod written_references;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use adapters::plan::{self, Artifact, Retention};
use adapters::turn::Item;

use crate::clock::{Clock, System};
use crate::config::{ArtifactConfig, ArtifactMode};
use crate::metrics::ArtifactCounts;
use crate::net::bounded_id;
use crate::net::fairness::{FairPlaces, OwnerPlace, Sharing};
use crate::store::text_range::{self, TextPosition};
use crate::store::{
    ArtifactEntry, ArtifactFilter, ArtifactRange, ArtifactText, NewArtifact, Store, SweepResult,
    UnusableStore,
};
use disk::DiskBackend;
use memory::MemoryBackend;
pub use opened::OpenArtifact;

const DAY: u64 = 24 * 60 * 60;

/// The most searches at the same time, of those that are quick and of the others. Each holds a
/// whole text in memory.
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
    /// False if nothing is kept.
    keeps: bool,
    /// In a replay: the ids of the artifacts that the recorded turn did not keep.
    recorded_as_unkept: BTreeSet<String>,
    /// What is not on disk.
    memory: Arc<MemoryBackend>,
    disk: Option<DiskBackend>,
    /// Why what was kept before cannot be read, if the store could not be opened.
    unusable: Option<ArtifactError>,
    /// Seconds after the last access until an artifact is deleted.
    keep_for: u64,
    clock: Arc<dyn Clock>,
    searches: SearchSlots,
}

/// Limits the searches that run at the same time, which owners have in turn.
struct SearchSlots {
    quick: Arc<FairPlaces>,
    slow: Arc<FairPlaces>,
}

impl SearchSlots {
    fn new(sharing: &Sharing) -> Self {
        let slots = || FairPlaces::new(CONCURRENT_SEARCHES, sharing.clone());
        Self {
            quick: slots(),
            slow: slots(),
        }
    }
}

/// Artifacts on their way to the disk. An artifact may be mentioned to a model only after
/// [`ArtifactCommit::wait`].
pub struct ArtifactCommit {
    pending: Option<disk::DiskCommit>,
    /// The ids of the artifacts for which there is no room.
    unkept: BTreeSet<String>,
}

impl Artifacts {
    /// Keeps artifacts as the settings say. With `mode = "disk"` they go to the store that the
    /// program has opened. Without a store they are kept in bounded memory; if it could not be
    /// opened, a warning is logged.
    pub fn open(
        settings: &ArtifactConfig,
        store: Option<Result<Arc<Store>, UnusableStore>>,
        clock: Arc<dyn Clock>,
        counts: ArtifactCounts,
        sharing: &Sharing,
    ) -> Self {
        let store = match (settings.mode, store) {
            (ArtifactMode::Off, _) => {
                return Self::without_store(Retention::Nothing, BTreeSet::new());
            }
            (ArtifactMode::Memory, _) | (ArtifactMode::Disk, None) => None,
            (ArtifactMode::Disk, Some(Ok(store))) => {
                if let Some(moved_to) = store.moved_aside() {
                    counts.failed(MOVED_ASIDE);
                    tracing::warn!(
                        "the artifact store was damaged; it was moved to {}, and a new one was begun [{MOVED_ASIDE}]",
                        moved_to.display()
                    );
                }
                Some(Ok(store))
            }
            (ArtifactMode::Disk, Some(Err(UnusableStore { database, error }))) => {
                counts.failed(OPEN_FAILED);
                tracing::warn!(
                    "{} cannot be used, so artifacts are kept in memory until the end of the program: {error} [{OPEN_FAILED}]",
                    database.display()
                );
                Some(Err(ArtifactError {
                    warning: OPEN_FAILED,
                    message: error.to_string(),
                }))
            }
        };
        Self::new(settings, store, clock, counts, sharing)
    }

    /// Reads what a server has left in the store, for a program that is no server.
    pub fn of_store(settings: &ArtifactConfig, store: Arc<Store>) -> Self {
        let settings = ArtifactConfig {
            memory: 0,
            ..*settings
        };
        let counts = ArtifactCounts::default();
        let (clock, sharing) = (Arc::new(System), Sharing::default());
        Self::new(&settings, Some(Ok(store)), clock, counts, &sharing)
    }

    /// Keeps artifacts in memory only, `limit` bytes at most.
    pub fn memory(limit: usize) -> Self {
        let settings = ArtifactConfig {
            memory: limit,
            ..ArtifactConfig::default()
        };
        let counts = ArtifactCounts::default();
        let (clock, sharing) = (Arc::new(System), Sharing::default());
        Self::new(&settings, None, clock, counts, &sharing)
    }

    /// Keeps nothing. For replays: excerpts claim the `retention` of the recorded turn, except for
    /// the artifacts `unkept`.
    pub fn without_store(retention: Retention, unkept: BTreeSet<String>) -> Self {
        Self(Arc::new(ArtifactsInner {
            retention,
            keeps: false,
            recorded_as_unkept: unkept,
            memory: Arc::new(MemoryBackend::new(0)),
            disk: None,
            unusable: None,
            keep_for: 0,
            clock: Arc::new(System),
            searches: SearchSlots::new(&Sharing::default()),
        }))
    }

    fn new(
        settings: &ArtifactConfig,
        store: Option<Result<Arc<Store>, ArtifactError>>,
        clock: Arc<dyn Clock>,
        counts: ArtifactCounts,
        sharing: &Sharing,
    ) -> Self {
        let (store, unusable) = match store {
            Some(Err(error)) => (None, Some(error)),
            store => (store.and_then(Result::ok), None),
        };
        let memory = Arc::new(MemoryBackend::new(settings.memory));
        let disk = store.map(|store| DiskBackend::new(store, &memory, settings.keep_size, counts));
        Self(Arc::new(ArtifactsInner {
            retention: match &disk {
                Some(_) => Retention::Disk,
                None => Retention::Memory,
            },
            keeps: true,
            recorded_as_unkept: BTreeSet::new(),
            memory,
            disk,
            unusable,
            keep_for: u64::from(settings.keep_days) * DAY,
            clock,
            searches: SearchSlots::new(sharing),
        }))
    }

    /// Where excerpts say that the whole output is kept.
    pub fn retention(&self) -> Retention {
        self.0.retention
    }

    /// Whether this artifact is kept already for this owner, session and call. Counts as access.
    pub fn is_kept(&self, owner: &str, session: &str, call_id: &str, id: &str) -> bool {
        let now = self.now();
        let Self(inner) = self;
        let is_written = |disk: &DiskBackend| disk.is_written(owner, session, call_id, id, now);
        !inner.keeps
            || inner.disk.as_ref().is_some_and(is_written)
            || inner.memory.is_kept(owner, session, call_id, id, now)
    }

    /// The artifacts in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.0.memory.bytes()
    }

    /// The artifact to keep for an output of this owner and session, or `None` if it is kept
    /// already.
    pub fn missing_artifact(
        &self,
        (owner, session): (&str, &str),
        output: &Item<'_>,
        artifact: &Artifact,
    ) -> Option<NewArtifact> {
        let call_id = bounded_id(output.call_id().unwrap_or_default());
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

    /// Starts to keep artifacts for a request that names them, and that names those with the ids
    /// `named` besides. What the disk does not take stays in memory, if there is room beside all
    /// that the request names. If there is not room for all, the first ones are kept: they are
    /// older, and what was sent of them before stays as it was.
    pub fn keep(
        &self,
        owner: &str,
        session: &str,
        artifacts: Vec<NewArtifact>,
        named: BTreeSet<String>,
    ) -> ArtifactCommit {
        let now = self.now();
        let ArtifactsInner { disk, memory, .. } = &*self.0;
        match disk {
            Some(disk) => ArtifactCommit {
                pending: Some(disk.keep(owner, session, artifacts, named, now)),
                unkept: BTreeSet::new(),
            },
            None => ArtifactCommit {
                pending: None,
                unkept: memory.keep(owner, session, artifacts, named, now),
            },
        }
    }

    /// The artifacts that the turn of a replay did not keep.
    pub fn recorded_as_unkept(&self) -> &BTreeSet<String> {
        &self.0.recorded_as_unkept
    }

    /// Lists the artifacts of an owner, the newest first.
    pub async fn list(
        &self,
        owner: &str,
        filter: &ArtifactFilter,
    ) -> Result<Vec<ArtifactEntry>, ArtifactError> {
        let Some(disk) = &self.0.disk else {
            return Ok(self.0.memory.list(owner, filter));
        };
        // What is on disk and what is not is put in order before a page is cut out.
        let all = ArtifactFilter {
            session: filter.session.clone(),
            id_prefix: filter.id_prefix.clone(),
            ..ArtifactFilter::default()
        };
        let in_memory = self.0.memory.list(owner, &all);
        if in_memory.is_empty() {
            return disk.list(owner, filter).await;
        }
        let mut entries = disk.list(owner, &all).await?;
        let only_in_memory: Vec<_> = in_memory
            .into_iter()
            .filter(|entry| !entries.iter().any(|other| other.id == entry.id))
            .collect();
        entries.extend(only_in_memory);
        entries.sort_by_key(|entry| Reverse(entry.created));
        Ok(memory::page(entries.into_iter(), filter))
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
        let on_disk = match &self.0.disk {
            Some(disk) => disk.read(owner, id, range, now).await,
            None => self.unusable().map(|()| None),
        };
        if let Ok(Some(_)) = on_disk {
            return on_disk;
        }
        match self.0.memory.read(owner, id, range, now) {
            Some(in_memory) => Ok(Some(in_memory)),
            None => on_disk,
        }
    }

    /// The text of an artifact that is in memory, and where a range is in it.
    fn shared_text(
        &self,
        owner: &str,
        id: &str,
        range: &ArtifactRange,
    ) -> Option<(Arc<String>, TextPosition)> {
        let (_, text) = self.0.memory.open(owner, id, self.now())?;
        let position = text_range::locate(&text, range);
        Some((text, position))
    }

    /// Waits until a search of this owner may begin. Quick ones do not wait behind slow ones.
    async fn search_place(&self, owner: &str, is_quick: bool) -> OwnerPlace {
        let slots = &self.0.searches;
        let slots = if is_quick { &slots.quick } else { &slots.slow };
        slots.take(owner).await
    }

    /// Waits until artifacts exceed the quota by enough that a sweep should not wait.
    pub async fn over_quota(&self) {
        match &self.0.disk {
            Some(disk) => disk.over_quota().await,
            None => std::future::pending().await,
        }
    }

    /// Writes the artifacts to disk that could not be written before, if the disk works again.
    pub async fn flush_to_disk(&self) {
        if let Some(disk) = &self.0.disk {
            disk.flush_memory(self.now()).await;
        }
    }

    /// Deletes an artifact; false if there is none.
    pub async fn delete(&self, owner: &str, id: &str) -> Result<bool, ArtifactError> {
        let from_memory = self.0.memory.delete(owner, id);
        match &self.0.disk {
            Some(disk) => Ok(disk.delete(owner, id).await? || from_memory),
            None if from_memory => Ok(true),
            None => self.unusable().map(|()| false),
        }
    }

    /// An error if something may be kept in a store that could not be opened.
    fn unusable(&self) -> Result<(), ArtifactError> {
        self.0.unusable.clone().map_or(Ok(()), Err)
    }

    /// Deletes artifacts that are too old, and the least recently used ones beyond the quota.
    pub async fn sweep(&self) -> Result<SweepResult, ArtifactError> {
        let now = self.now();
        let used = self.store().map_or(now, |store| store.time_in_use(now));
        let accessed_since = used.saturating_sub(self.0.keep_for);
        let mut swept = self.0.memory.sweep(accessed_since);
        if let Some(disk) = &self.0.disk {
            disk.sweep(accessed_since, now, &mut swept).await?;
        }
        Ok(swept)
    }

    /// The database, if artifacts are on disk.
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.0.disk.as_ref().map(DiskBackend::store)
    }

    /// Forgets all artifacts, in memory and on disk, with everything else in the store. False if
    /// another program reads the files meanwhile, so that they still have it.
    pub async fn purge(&self) -> Result<bool, ArtifactError> {
        self.0.memory.sweep(u64::MAX);
        match &self.0.disk {
            Some(disk) => disk.purge().await,
            None => Ok(true),
        }
    }

    fn now(&self) -> u64 {
        self.0.clock.unix()
    }
}

impl ArtifactCommit {
    /// Takes the ids of the artifacts that are already known to be unkept: they cannot be read
    /// back.
    pub fn take_unkept(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.unkept)
    }

    /// Waits until the artifacts can be read back. Returns the ids of those that cannot.
    pub async fn wait(self) -> BTreeSet<String> {
        let mut unkept = self.unkept;
        if let Some(pending) = self.pending {
            unkept.extend(pending.wait().await);
        }
        unkept
    }
}

impl fmt::Debug for Artifacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Artifacts")
            .field("retention", &self.0.retention)
            .finish_non_exhaustive()
    }
}
