//! The artifacts of one owner, as clients and tools read them.

use std::sync::Arc;
use std::time::Duration;

use adapters::shared_text::SharedText;

use super::search::{self, FoundLines, SearchQuery};
use super::{ArtifactError, Artifacts, OpenArtifact};
use crate::net::blocking::run_stoppable;
use crate::net::{LOCAL_OWNER, bounded_id};
use crate::store::text_range::TextPosition;
use crate::store::{ArtifactEntry, ArtifactFilter, ArtifactRange, ArtifactText, SweepResult};

/// Whether a text has the form of an artifact id: `art_` and 32 lower-case hexadecimal digits.
pub fn is_artifact_id(text: &str) -> bool {
    text.strip_prefix("art_").is_some_and(|digits| {
        let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        digits.len() == 32 && digits.bytes().all(hex)
    })
}

/// The longest time that a search may take, with the wait for its turn.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(30);

/// The artifacts of one owner.
#[derive(Clone, Debug)]
pub struct OwnerArtifacts {
    artifacts: Artifacts,
    owner: Arc<str>,
    keep_days: u32,
    /// The only session whose artifacts are listed; `None` for all.
    session: Option<Arc<str>>,
}

/// The reason why an artifact cannot be read. The messages are for clients.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No artifact has this id, or it is expired.
    #[error(
        "There is no artifact {id}: it is unknown or expired. Artifacts are deleted {keep_days} days after their last use."
    )]
    Missing {
        /// The requested id.
        id: String,
        /// The days for which artifacts are kept after their last use.
        keep_days: u32,
    },
    /// The requested id is malformed.
    #[error("This is not an artifact id: expected art_ followed by 32 hexadecimal digits.")]
    MalformedId,
    /// A search took too long.
    #[error("The search took longer than {} seconds; search for a plain text or a simpler expression.", SEARCH_TIMEOUT.as_secs())]
    SearchTimeout,
    /// The store cannot be read at the moment.
    #[error("The artifacts cannot be read now ({}); send the same request again.", .0.warning)]
    Store(#[from] ArtifactError),
}

impl OwnerArtifacts {
    /// The artifacts of [`LOCAL_OWNER`], which are kept for `keep_days` days after their last use.
    pub fn local(artifacts: Artifacts, keep_days: u32) -> Self {
        Self {
            artifacts,
            owner: LOCAL_OWNER.into(),
            keep_days,
            session: None,
        }
    }

    /// The artifacts of this owner instead.
    #[must_use]
    pub fn of(self, owner: Arc<str>) -> Self {
        Self { owner, ..self }
    }

    /// The same, of which only those of this session are listed, and searched for what may be in
    /// any of them. Those whose id is known can all be read.
    #[must_use]
    pub fn of_session(self, session: &str) -> Self {
        Self {
            session: Some(session.into()),
            ..self
        }
    }

    /// See [`Artifacts::list`]. The session is named as its client names it, whatever its length.
    pub async fn list(&self, filter: &ArtifactFilter) -> Result<Vec<ArtifactEntry>, ReadError> {
        let session = self.session.as_deref().or(filter.session.as_deref());
        let filter = ArtifactFilter {
            session: session.map(|session| bounded_id(session.into()).into_owned()),
            ..filter.clone()
        };
        Ok(self.artifacts.list(&self.owner, &filter).await?)
    }

    /// Reads a range of an artifact. A malformed id is refused without a query.
    pub async fn read(&self, id: &str, range: &ArtifactRange) -> Result<ArtifactText, ReadError> {
        check_id(id)?;
        let read = self.artifacts.read(&self.owner, id, range).await?;
        read.ok_or_else(|| self.missing(id))
    }

    /// Opens a range of an artifact, to be read piece by piece.
    pub async fn open(&self, id: &str, range: &ArtifactRange) -> Result<OpenArtifact, ReadError> {
        OpenArtifact::open(self, id, range).await
    }

    pub(super) fn shared_text(
        &self,
        id: &str,
        range: &ArtifactRange,
    ) -> Option<(Arc<String>, TextPosition)> {
        self.artifacts.shared_text(&self.owner, id, range)
    }

    /// Searches an artifact on a blocking thread, within a time limit. Only a few searches run at
    /// the same time, since each holds a whole text; slow ones do not hold up quick ones. The
    /// search stops soon after this future is dropped.
    pub async fn search(
        &self,
        id: &str,
        query: &SearchQuery,
    ) -> Result<(ArtifactEntry, FoundLines), ReadError> {
        within_search_timeout(self.search_unbounded(id, query)).await
    }

    async fn search_unbounded(
        &self,
        id: &str,
        query: &SearchQuery,
    ) -> Result<(ArtifactEntry, FoundLines), ReadError> {
        let failed = || {
            ReadError::Store(ArtifactError {
                warning: "ARTIFACT_SEARCH_FAILED",
                message: "the search did not end".to_owned(),
            })
        };
        let place = self
            .artifacts
            .search_place(&self.owner, query.is_quick())
            .await;
        let (entry, text) = if let Some((text, _)) = self.shared_text(id, &ArtifactRange::Whole) {
            let read = self.read(id, &ArtifactRange::Bytes(0..0)).await?;
            (read.entry, SharedText::new(text))
        } else {
            let read = self.read(id, &ArtifactRange::Whole).await?;
            (read.entry, SharedText::new(Arc::new(read.text)))
        };
        let query = query.clone();
        let found = run_stoppable(move |stop| {
            let _place = place;
            search::search(&text, &query, &|| stop.is_raised())
        });
        Ok((entry, found.await.ok_or_else(failed)?))
    }

    /// Deletes an artifact.
    pub async fn delete(&self, id: &str) -> Result<(), ReadError> {
        check_id(id)?;
        if self.artifacts.delete(&self.owner, id).await? {
            Ok(())
        } else {
            Err(self.missing(id))
        }
    }

    /// See [`Artifacts::sweep`].
    pub async fn sweep(&self) -> Result<SweepResult, ReadError> {
        Ok(self.artifacts.sweep().await?)
    }

    /// See [`Artifacts::purge`].
    pub async fn purge(&self) -> Result<bool, ReadError> {
        Ok(self.artifacts.purge().await?)
    }

    pub(super) fn missing(&self, id: &str) -> ReadError {
        ReadError::Missing {
            id: id.to_owned(),
            keep_days: self.keep_days,
        }
    }
}

/// Ends a search, or several that belong together, after a time limit.
pub(crate) async fn within_search_timeout<T, E: From<ReadError>>(
    searches: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    tokio::time::timeout(SEARCH_TIMEOUT, searches)
        .await
        .unwrap_or_else(|_| Err(ReadError::SearchTimeout.into()))
}

fn check_id(id: &str) -> Result<(), ReadError> {
    if is_artifact_id(id) {
        Ok(())
    } else {
        Err(ReadError::MalformedId)
    }
}

/// Artifacts with these texts, and their ids in the same order.
#[cfg(test)]
pub(crate) async fn owner_with_texts(texts: &[&str]) -> (OwnerArtifacts, Vec<String>) {
    owner_with(Artifacts::memory(1 << 24), texts).await
}

#[cfg(test)]
async fn owner_with(artifacts: Artifacts, texts: &[&str]) -> (OwnerArtifacts, Vec<String>) {
    use std::collections::BTreeSet;

    use adapters::plan::output::OutputKind;

    let mut ids = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let id = format!("art_{number:032x}");
        let new = crate::store::NewArtifact {
            id: id.clone(),
            call_id: format!("call_{number}"),
            kind: OutputKind::CommandOutput,
            chars: text.chars().count(),
            lines: text.lines().count(),
            text: (*text).to_owned(),
        };
        artifacts
            .keep(LOCAL_OWNER, "session_1", vec![new], BTreeSet::new())
            .wait()
            .await;
        ids.push(id);
    }
    (OwnerArtifacts::local(artifacts, 30), ids)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::clock::System;
    use crate::config::ArtifactConfig;
    use crate::metrics::ArtifactCounts;
    use crate::net::fairness::Sharing;
    use crate::net::memory::ProcessMemory;
    use crate::store::{DataDir, Store};

    #[test]
    fn malformed_ids_are_recognized() {
        assert!(is_artifact_id("art_0123456789abcdef0123456789abcdef"));
        for bad in [
            "",
            "art_",
            "art_0123456789abcdef0123456789abcde",
            "art_0123456789abcdef0123456789abcdef0",
            "art_0123456789ABCDEF0123456789abcdef",
            "0123456789abcdef0123456789abcdef",
            "art_../../../../../../../../../../et",
            "art_'; drop table blobs; --xxxxxxxxx",
        ] {
            assert!(!is_artifact_id(bad), "{bad}");
        }
    }

    /// The text of a search counts, and a search that nobody waits for gives it back.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_text_counts_while_it_is_searched() {
        let text = "ab".repeat(1 << 20);
        let folder = tempfile::tempdir().unwrap();
        let memory = ProcessMemory::unlimited();
        let store = Store::open_within(&DataDir::new(folder.path()), 0, &memory).unwrap();
        let artifacts = Artifacts::of_store(&ArtifactConfig::default(), Arc::new(store));
        let (owned, ids) = owner_with(artifacts, &[&text]).await;
        let query = SearchQuery::new("a[ab]{400}c", true, false).unwrap();
        let searched = async move { owned.search(&ids[0], &query).await };
        let searched = tokio::spawn(searched);
        let limit = std::time::Instant::now() + Duration::from_secs(30);
        let wait_for = async |bytes| {
            while memory.used() != bytes {
                assert!(std::time::Instant::now() < limit, "never {bytes} bytes");
                tokio::task::yield_now().await;
            }
        };
        wait_for(text.len()).await;
        searched.abort();
        wait_for(0).await;
    }

    #[tokio::test]
    async fn missing_and_malformed_ids_are_told_apart() {
        let (owned, ids) = owner_with_texts(&["text"]).await;
        let read = owned.read(&ids[0], &ArtifactRange::Whole).await;
        assert_eq!(*read.unwrap().text, "text");
        let unknown = format!("art_{:032x}", 99);
        let missing = owned
            .read(&unknown, &ArtifactRange::Whole)
            .await
            .unwrap_err();
        assert!(missing.to_string().contains("30 days"), "{missing}");
        assert_eq!(owned.delete("x").await, Err(ReadError::MalformedId));
        owned.delete(&ids[0]).await.unwrap();
        assert!(owned.delete(&ids[0]).await.is_err());
    }

    #[tokio::test]
    async fn searches_of_one_owner_leave_a_place_for_another() {
        let (settings, counts) = (ArtifactConfig::default(), ArtifactCounts::default());
        let sharing = Sharing::default();
        sharing.set(true);
        let artifacts = Artifacts::open(&settings, None, Arc::new(System), counts, &sharing);
        for is_quick in [true, false] {
            let _first = artifacts.search_place("alice", is_quick).await;
            let second = artifacts.search_place("alice", is_quick).now_or_never();
            assert!(second.is_none());
            let other = artifacts.search_place("bob", is_quick).now_or_never();
            assert!(other.is_some());
        }
    }
}
