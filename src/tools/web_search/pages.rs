//! The pages of a session: those that this turn has read, and those that earlier answers of the
//! conversation have read, from its artifacts.

use std::collections::HashMap;
use std::sync::Arc;

use adapters::cited_source::{CitedSource, PageArtifact};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::tools::page_artifacts::PageArtifacts;
use crate::tools::web::page::{KeptPage, Page, PageKeeper as _};

/// The pages of the session of one turn.
pub(super) struct SessionPages {
    artifacts: PageArtifacts,
    /// What earlier answers have read, by the addresses under which it was asked for and found.
    earlier: HashMap<String, KeptPage>,
    /// What was read in this turn, by the addresses under which it was asked for. Calls at the same
    /// time for the same page read it once.
    read: Mutex<HashMap<String, Arc<OnceCell<HeldPage>>>>,
}

/// A page that was read, and where all of it is kept.
#[derive(Clone)]
pub(super) struct HeldPage {
    pub(super) page: Arc<Page>,
    /// `None` if there is no room for it.
    pub(super) kept: Option<KeptPage>,
}

impl HeldPage {
    /// The page as a source that answers may cite under this address, and that later ones open.
    pub(super) fn source(&self, url: &str) -> CitedSource {
        let kept = self.kept.as_ref().map(|kept| PageArtifact {
            url: kept.url.clone(),
            published: kept.published.clone(),
            artifact_id: kept.artifact_id.clone(),
            read: kept.read,
        });
        CitedSource {
            url: url.to_owned(),
            title: self.page.title.clone(),
            kept: kept.map(Box::new),
        }
    }
}

impl SessionPages {
    /// The pages of a session whose earlier answers have found and read these, the oldest first.
    pub(super) fn new<'s>(
        artifacts: PageArtifacts,
        known: impl IntoIterator<Item = &'s CitedSource>,
    ) -> Self {
        let earlier = known.into_iter().filter_map(|source| {
            let kept = source.kept.as_ref()?;
            let page = KeptPage {
                url: kept.url.clone(),
                title: source.title.clone(),
                published: kept.published.clone(),
                artifact_id: kept.artifact_id.clone(),
                read: kept.read,
            };
            Some((source.url.clone(), page))
        });
        Self {
            artifacts,
            earlier: earlier.collect(),
            read: Mutex::default(),
        }
    }

    /// The page at an address as it was read in this turn, or as `read` reads it now.
    pub(super) async fn get_or_read<E>(
        &self,
        url: &str,
        read: impl Future<Output = Result<HeldPage, E>>,
    ) -> Result<HeldPage, E> {
        let held = Arc::clone(self.read.lock().entry(url.to_owned()).or_default());
        let page = held.get_or_try_init(|| read).await?.clone();
        let last = page.page.url.clone();
        let mut pages = self.read.lock();
        let of_last = pages.entry(last).or_default();
        // One that is empty has failed, or is being read needlessly.
        if !of_last.initialized() {
            *of_last = Arc::clone(&held);
        }
        drop(pages);
        Ok(page)
    }

    /// Whether an earlier answer has read a page.
    pub(super) fn knows(&self, url: &str) -> bool {
        self.earlier.contains_key(url)
    }

    /// Whether an earlier answer has read a page so recently that it need not be read again. `now`
    /// is in seconds since 1970.
    pub(super) fn is_fresh(&self, url: &str, now: u64) -> bool {
        let earlier = self.earlier.get(url);
        earlier.is_some_and(|page| page.is_fresh(now))
    }

    /// A page as an earlier answer has read it; `None` if none has, or it is not kept any more.
    pub(super) async fn earlier(&self, url: &str) -> Option<HeldPage> {
        let kept = self.earlier.get(url)?;
        Some(HeldPage {
            page: self.artifacts.read(kept).await?,
            kept: Some(kept.clone()),
        })
    }

    /// Keeps a page whole as an artifact of the session. Nothing that quotes it is sent before it
    /// is kept.
    pub(super) async fn keep(&self, page: Arc<Page>) -> HeldPage {
        let kept = self.artifacts.keep(&page).await;
        HeldPage { page, kept }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifacts::Artifacts;

    /// Promise: A page that was read more than an hour ago is read again.
    #[test]
    fn an_old_page_is_read_again() {
        let read = |url: &str, read: u64| CitedSource {
            url: url.to_owned(),
            title: String::new(),
            kept: Some(Box::new(PageArtifact {
                read,
                ..PageArtifact::default()
            })),
        };
        let found = CitedSource {
            kept: None,
            ..read("found", 0)
        };
        // The newest of the same address counts.
        let known = [
            read("a", 1_000),
            read("b", 1_000),
            read("b", 2_000),
            read("future", 9_000),
            found,
        ];
        let artifacts = PageArtifacts::new(Artifacts::memory(0), &"local".into(), "s");
        let pages = SessionPages::new(artifacts, &known);
        let fresh = ["a", "b", "future", "found", "other"].map(|url| pages.is_fresh(url, 4_600));
        assert_eq!(fresh, [false, true, true, false, false]);
    }
}
