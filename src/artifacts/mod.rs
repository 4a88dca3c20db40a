//! Tool outputs kept whole, to be read back.
//!
//! | module | noun |
//! |---|---|
//! | `model` | an artifact, a part of it, a list |
//! | [`cut`] | where a part stands in a text |
//! | `disk` | the store, with memory for what it does not take |
//! | `memory` | bounded memory |
//! | `known` | what is on the disk already |

mod clock;
pub(crate) mod cut;
mod disk;
mod known;
mod memory;
mod model;
pub mod owned;
pub mod search;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use adapters::plan::{self, Artifact, Keeping};
use adapters::turn::Item;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use clock::Clock;
pub use model::{Entry, Filter, New, Part, Piece, Swept};

use crate::config::{ArtifactConfig, ArtifactMode, Config};
use crate::metrics::ArtifactCounts;
pub use crate::store::InUse;
use crate::store::{self, Place, Store};
use disk::Disk;
use memory::Memory;

const DAY: u64 = 24 * 60 * 60;

/// Searches at a time: each holds a whole text.
const SEARCHES: usize = 2;

/// Why something cannot be read or kept now. Trying again may help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{warning}: {message}")]
pub struct StoreError {
    /// A stable id, such as `ARTIFACT_STORE_READ_FAILED`.
    pub warning: &'static str,
    /// What went wrong, for people.
    pub message: String,
}

/// The store could not be opened.
pub const OPEN_FAILED: &str = "ARTIFACT_STORE_OPEN_FAILED";
/// It was damaged; it was moved aside and a new one begun.
pub const MOVED_ASIDE: &str = "ARTIFACT_STORE_MOVED_ASIDE";
/// An artifact could not be written.
pub const WRITE_FAILED: &str = "ARTIFACT_STORE_WRITE_FAILED";
/// An artifact could not be read.
pub const READ_FAILED: &str = "ARTIFACT_STORE_READ_FAILED";
/// What is too old or too much could not be deleted.
pub const SWEEP_FAILED: &str = "ARTIFACT_STORE_SWEEP_FAILED";

/// Why a program that is no server cannot have the artifacts.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// A server runs, and is the one to ask.
    #[error(transparent)]
    InUse(#[from] InUse),
    /// They cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The artifacts of all owners. Clones share them.
#[derive(Clone)]
pub struct Artifacts(Arc<Kept>);

struct Kept {
    keeping: Keeping,
    home: Home,
    /// Seconds after the last access until an artifact goes.
    keep_for: u64,
    clock: Clock,
    searches: Arc<Semaphore>,
}

/// Where artifacts are.
enum Home {
    Nowhere,
    Memory(Memory),
    Disk(Disk),
}

/// What is waited for before an artifact may be mentioned.
pub struct Commit(Option<disk::Commit>);

impl Artifacts {
    /// Opens what the configuration names, and claims the data directory if that is
    /// the disk. Where the disk fails, artifacts are kept in bounded memory, and a
    /// warning says so. An error says that another program has the directory.
    pub fn open(config: &Config, counts: ArtifactCounts) -> Result<Self, InUse> {
        let place = Place::new(&config.server.data_dir);
        Self::opened(&place, &config.artifacts, Clock::system(), counts)
    }

    fn opened(
        place: &Place,
        settings: &ArtifactConfig,
        clock: Clock,
        counts: ArtifactCounts,
    ) -> Result<Self, InUse> {
        let memory = Memory::new(settings.memory);
        let (keeping, home) = match settings.mode {
            ArtifactMode::Off => (Keeping::Nothing, Home::Nowhere),
            ArtifactMode::Memory => (Keeping::Memory, Home::Memory(memory)),
            ArtifactMode::Disk => {
                let claimed = place.claim()?;
                let opened = claimed.map_err(store::Error::from).and_then(|claim| {
                    let (store, aside) = Store::open(place, clock.now())?;
                    Ok((store, claim, aside))
                });
                match opened {
                    Ok((store, claim, aside)) => {
                        if let Some(aside) = aside {
                            counts.failed(MOVED_ASIDE);
                            warn_of_damage(&aside);
                        }
                        let disk = Disk::new(store, claim, memory, settings.keep_size, counts);
                        (Keeping::Disk, Home::Disk(disk))
                    }
                    Err(error) => {
                        counts.failed(OPEN_FAILED);
                        tracing::warn!(
                            "{OPEN_FAILED}: {} cannot be used, so artifacts are kept in memory until the end of the program: {error}",
                            place.database().display()
                        );
                        (Keeping::Memory, Home::Memory(memory))
                    }
                }
            }
        };
        Ok(Self::new(keeping, home, settings.keep_days, clock))
    }

    /// Opens what a server has left on the disk, for a program that is none. Makes
    /// no store where there is none, and moves none aside. Blocks.
    pub fn offline(config: &Config) -> Result<Self, Unavailable> {
        let place = Place::new(&config.server.data_dir);
        let settings = &config.artifacts;
        if !place.database().exists() {
            return Ok(Self::memory(settings.memory));
        }
        let failed = |error: store::Error| StoreError {
            warning: OPEN_FAILED,
            message: format!("{} cannot be used: {error}", place.database().display()),
        };
        let claim = place.claim()?.map_err(|error| failed(error.into()))?;
        let store = Store::open_sound(&place).map_err(failed)?;
        let memory = Memory::new(0);
        let counts = ArtifactCounts::default();
        let disk = Disk::new(store, claim, memory, settings.keep_size, counts);
        let home = Home::Disk(disk);
        Ok(Self::new(
            Keeping::Disk,
            home,
            settings.keep_days,
            Clock::system(),
        ))
    }

    /// Keeps in memory alone, at most so many bytes.
    pub fn memory(limit: usize) -> Self {
        let home = Home::Memory(Memory::new(limit));
        Self::new(Keeping::Memory, home, 30, Clock::system())
    }

    /// Keeps nothing, but lets excerpts say this: for turns that run once more.
    pub fn pretend(keeping: Keeping) -> Self {
        Self::new(keeping, Home::Nowhere, 0, Clock::system())
    }

    fn new(keeping: Keeping, home: Home, keep_days: u32, clock: Clock) -> Self {
        Self(Arc::new(Kept {
            keeping,
            home,
            keep_for: u64::from(keep_days) * DAY,
            clock,
            searches: Arc::new(Semaphore::new(SEARCHES)),
        }))
    }

    /// What is said about where artifacts are.
    pub fn keeping(&self) -> Keeping {
        self.0.keeping
    }

    /// Whether this artifact was kept for this owner, session and call since the
    /// program started: then it need not be kept again.
    pub fn knows(&self, owner: &str, session: &str, call_id: &str, id: &str) -> bool {
        let now = self.0.clock.now();
        match &self.0.home {
            Home::Nowhere => true,
            Home::Memory(memory) => memory.knows(owner, session, call_id, id, now),
            Home::Disk(disk) => disk.knows(owner, session, call_id, id, now),
        }
    }

    /// What is to be kept of an output that an owner's session has, if it is not kept
    /// already.
    pub fn lacks(
        &self,
        (owner, session): (&str, &str),
        output: &Item<'_>,
        artifact: &Artifact,
    ) -> Option<New> {
        let call_id = output.call_id().unwrap_or_default();
        if self.knows(owner, session, &call_id, &artifact.id) {
            return None;
        }
        Some(New {
            id: artifact.id.clone(),
            call_id: call_id.into_owned(),
            kind: artifact.kind,
            chars: artifact.chars,
            lines: artifact.lines,
            text: plan::output::text(output)?.into_owned(),
        })
    }

    /// Begins to keep artifacts. Never fails: what the disk does not take stays in
    /// memory, as far as there is room.
    pub fn keep(&self, owner: &str, session: &str, new: Vec<New>) -> Commit {
        let now = self.0.clock.now();
        match &self.0.home {
            Home::Nowhere => Commit(None),
            Home::Memory(memory) => {
                memory.keep(owner, session, new, now);
                Commit(None)
            }
            Home::Disk(disk) => Commit(Some(disk.keep(owner, session, new, now))),
        }
    }

    /// The owner's artifacts.
    pub async fn list(&self, owner: &str, filter: &Filter) -> Result<Vec<Entry>, StoreError> {
        match &self.0.home {
            Home::Nowhere => Ok(Vec::new()),
            Home::Memory(memory) => Ok(memory.list(owner, filter)),
            Home::Disk(disk) => disk.list(owner, filter).await,
        }
    }

    /// A part of an artifact; `None` for one that is unknown, expired or another
    /// owner's. Reading counts as access.
    pub async fn read(
        &self,
        owner: &str,
        id: &str,
        part: &Part,
    ) -> Result<Option<Piece>, StoreError> {
        let now = self.0.clock.now();
        match &self.0.home {
            Home::Nowhere => Ok(None),
            Home::Memory(memory) => Ok(memory.read(owner, id, part, now)),
            Home::Disk(disk) => disk.read(owner, id, part, now).await,
        }
    }

    /// Waits until one more may search.
    async fn search_turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.searches).acquire_owned().await.ok()
    }

    /// Ends when much more is kept than the quota, so that a sweep should not wait.
    pub async fn overfull(&self) {
        match &self.0.home {
            Home::Nowhere | Home::Memory(_) => std::future::pending().await,
            Home::Disk(disk) => disk.overfull().await,
        }
    }

    /// Brings to the disk what it did not take before, if it takes it now.
    pub async fn settle(&self) {
        match &self.0.home {
            Home::Nowhere | Home::Memory(_) => {}
            Home::Disk(disk) => disk.settle(self.0.clock.now()).await,
        }
    }

    /// Forgets an artifact; false when there is none.
    pub async fn delete(&self, owner: &str, id: &str) -> Result<bool, StoreError> {
        match &self.0.home {
            Home::Nowhere => Ok(false),
            Home::Memory(memory) => Ok(memory.delete(owner, id)),
            Home::Disk(disk) => disk.delete(owner, id).await,
        }
    }

    /// Forgets what is too old, and what is more than the quota.
    pub async fn sweep(&self) -> Result<Swept, StoreError> {
        let now = self.0.clock.now();
        let since = now.saturating_sub(self.0.keep_for);
        match &self.0.home {
            Home::Nowhere => Ok(Swept::default()),
            Home::Memory(memory) => Ok(memory.sweep(since)),
            Home::Disk(disk) => disk.sweep(since, now).await,
        }
    }
}

fn warn_of_damage(aside: &Path) {
    tracing::warn!(
        "{MOVED_ASIDE}: the store of artifacts was damaged; it is now {}, and a new one was begun",
        aside.display()
    );
}

impl Commit {
    /// Ends when the artifacts can be read back.
    pub async fn done(self) {
        if let Some(commit) = self.0 {
            commit.done().await;
        }
    }
}

impl fmt::Debug for Artifacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Artifacts")
            .field("keeping", &self.0.keeping)
            .finish_non_exhaustive()
    }
}
