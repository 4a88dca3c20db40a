//! Tool outputs kept whole, to be read back.

mod clock;
pub(crate) mod cut;
mod memory;
mod model;
pub mod owned;
pub mod search;

use std::fmt;
use std::sync::Arc;

use adapters::plan::Keeping;

pub use clock::Clock;
pub use model::{Entry, Filter, New, Part, Piece, Swept};

use crate::config::{ArtifactMode, Config};
use memory::Memory;

const DAY: u64 = 24 * 60 * 60;

/// Why something cannot be read or kept now. Trying again may help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{warning}: {message}")]
pub struct StoreError {
    /// A stable id, such as `ARTIFACT_STORE_READ_FAILED`.
    pub warning: &'static str,
    /// What went wrong, for people.
    pub message: String,
}

/// The artifacts of all owners. Clones share them.
#[derive(Clone)]
pub struct Artifacts(Arc<Kept>);

struct Kept {
    keeping: Keeping,
    /// Nothing is kept where there is none.
    memory: Option<Memory>,
    /// Seconds after the last access until an artifact goes.
    keep_for: u64,
    clock: Clock,
}

/// What is waited for before an artifact may be mentioned.
pub struct Commit(());

impl Artifacts {
    /// Opens what the configuration names. Where that fails, artifacts are kept in
    /// bounded memory, and a warning says so.
    pub fn open(config: &Config) -> Self {
        match config.artifacts.mode {
            ArtifactMode::Off => Self::pretend(Keeping::Nothing),
            ArtifactMode::Memory | ArtifactMode::Disk => Self::memory(config.artifacts.memory),
        }
    }

    /// Keeps in memory alone, at most so many bytes.
    pub fn memory(limit: usize) -> Self {
        Self(Arc::new(Kept {
            keeping: Keeping::Memory,
            memory: Some(Memory::new(limit)),
            keep_for: 30 * DAY,
            clock: Clock::system(),
        }))
    }

    /// Keeps nothing, but lets excerpts say this: for turns that run once more.
    pub fn pretend(keeping: Keeping) -> Self {
        Self(Arc::new(Kept {
            keeping,
            memory: None,
            keep_for: 0,
            clock: Clock::system(),
        }))
    }

    /// What is said about where artifacts are.
    pub fn keeping(&self) -> Keeping {
        self.0.keeping
    }

    /// Whether this artifact was kept for this owner, session and call since the
    /// program started: then it need not be kept again.
    pub fn knows(&self, owner: &str, session: &str, call_id: &str, id: &str) -> bool {
        match &self.0.memory {
            Some(memory) => memory.knows(owner, session, call_id, id, self.0.clock.now()),
            None => true,
        }
    }

    /// Begins to keep artifacts. Never fails: what the disk does not take stays in
    /// memory, as far as there is room.
    pub fn keep(&self, owner: &str, session: &str, new: Vec<New>) -> Commit {
        if let Some(memory) = &self.0.memory {
            memory.keep(owner, session, new, self.0.clock.now());
        }
        Commit(())
    }

    /// The owner's artifacts.
    #[expect(clippy::unused_async, reason = "asks the store")]
    pub async fn list(&self, owner: &str, filter: &Filter) -> Result<Vec<Entry>, StoreError> {
        let memory = self.0.memory.as_ref();
        Ok(memory.map_or_else(Vec::new, |memory| memory.list(owner, filter)))
    }

    /// A part of an artifact; `None` for one that is unknown, expired or another
    /// owner's. Reading counts as access.
    #[expect(clippy::unused_async, reason = "asks the store")]
    pub async fn read(
        &self,
        owner: &str,
        id: &str,
        part: &Part,
    ) -> Result<Option<Piece>, StoreError> {
        let memory = self.0.memory.as_ref();
        Ok(memory.and_then(|memory| memory.read(owner, id, part, self.0.clock.now())))
    }

    /// Forgets an artifact; false when there is none.
    #[expect(clippy::unused_async, reason = "asks the store")]
    pub async fn delete(&self, owner: &str, id: &str) -> Result<bool, StoreError> {
        let memory = self.0.memory.as_ref();
        Ok(memory.is_some_and(|memory| memory.delete(owner, id)))
    }

    /// Forgets what is too old, and what is more than the quota.
    #[expect(clippy::unused_async, reason = "asks the store")]
    pub async fn sweep(&self) -> Result<Swept, StoreError> {
        let memory = self.0.memory.as_ref();
        let since = self.0.clock.now().saturating_sub(self.0.keep_for);
        Ok(memory.map_or_else(Swept::default, |memory| memory.sweep(since)))
    }
}

impl Commit {
    /// Ends when the artifacts can be read back.
    #[expect(clippy::unused_async, reason = "asks the store")]
    pub async fn done(self) {}
}

impl fmt::Debug for Artifacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Artifacts")
            .field("keeping", &self.0.keeping)
            .finish_non_exhaustive()
    }
}
