//! The pages of a session: those that this turn has read, and those that earlier answers of the
//! conversation have read, from its artifacts.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use adapters::cited_source::{CitedSource, KeptPage};
use excerpts::OutputKind;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::artifacts::Artifacts;
use crate::clock::{Clock as _, System};
use crate::net::blocking::run_at_low_priority;
use crate::store::{ArtifactRange, NewArtifact};
use crate::tools::web::page::{FetchStrategy, PAGE_LIFETIME, Page};
use crate::turn::TurnContext;

/// The pages of the session of one turn.
pub(super) struct SessionPages {
    artifacts: Artifacts,
    session: String,
    /// What earlier answers have read, by the addresses under which it was asked for and found.
    earlier: HashMap<String, EarlierPage>,
    /// What was read in this turn, by the addresses under which it was asked for. Calls at the same
    /// time for the same page read it once.
    read: Mutex<HashMap<String, Arc<OnceCell<HeldPage>>>>,
}

struct EarlierPage {
    title: String,
    kept: KeptPage,
}

/// A page that was read, and where all of it is kept.
#[derive(Clone)]
pub(super) struct HeldPage {
    pub(super) page: Arc<Page>,
    /// `None` if there is no room for it.
    pub(super) kept: Option<Box<KeptPage>>,
}

/// The time in seconds since 1970. The clock of the turn is not read here: a replay, which runs no
/// tools, gives its readings out in their order.
pub(super) fn now() -> u64 {
    System.unix()
}

impl SessionPages {
    /// The pages of this session, whose earlier answers have found and read these, the oldest
    /// first.
    pub(super) fn new(artifacts: Artifacts, session: &str, known: &[&CitedSource]) -> Self {
        let earlier = known.iter().filter_map(|source| {
            let page = EarlierPage {
                title: source.title.clone(),
                kept: KeptPage::clone(source.kept.as_ref()?),
            };
            Some((source.url.clone(), page))
        });
        Self {
            artifacts,
            session: session.to_owned(),
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
        pages.entry(last).or_insert_with(|| Arc::clone(&held));
        drop(pages);
        Ok(page)
    }

    /// Whether an earlier answer has read a page so lately that it need not be read again. `now` is
    /// in seconds since 1970.
    pub(super) fn is_fresh(&self, url: &str, now: u64) -> bool {
        let age = |page: &EarlierPage| Duration::from_secs(now.saturating_sub(page.kept.read));
        self.earlier
            .get(url)
            .is_some_and(|page| age(page) < PAGE_LIFETIME)
    }

    /// A page as an earlier answer has read it; `None` if none has, or it is not kept any more.
    pub(super) async fn earlier(&self, ctx: &TurnContext, url: &str) -> Option<HeldPage> {
        let EarlierPage { title, kept } = self.earlier.get(url)?;
        let range = ArtifactRange::Whole;
        let read = self
            .artifacts
            .read(&ctx.owner, &kept.artifact_id, &range)
            .await;
        let artifact = read.unwrap_or_else(|error| {
            tracing::warn!("a page that was read before cannot be read again: {error}");
            None
        });
        let (markdown, memory) = artifact?.text.into_parts();
        let page = Page {
            url: kept.url.clone(),
            canonical: None,
            title: title.clone(),
            published: kept.published.clone(),
            received_bytes: markdown.len(),
            markdown,
            fetched_by: FetchStrategy::Kept,
            memory: Some(memory),
        };
        Some(HeldPage {
            page: Arc::new(page),
            kept: Some(Box::new(kept.clone())),
        })
    }

    /// Keeps a page whole as an artifact of the session. The result that quotes it is not sent
    /// before that.
    pub(super) async fn keep(&self, ctx: &TurnContext, page: Arc<Page>) -> HeldPage {
        HeldPage {
            kept: self.artifact(ctx, &page).await.map(|artifact_id| {
                Box::new(KeptPage {
                    url: page.url.clone(),
                    published: page.published.clone(),
                    artifact_id,
                    read: now(),
                })
            }),
            page,
        }
    }

    /// The id of the new artifact of a page, unless there is no room for it.
    async fn artifact(&self, ctx: &TurnContext, page: &Arc<Page>) -> Option<String> {
        let page = Arc::clone(page);
        let artifact = run_at_low_priority(move || NewArtifact {
            kind: OutputKind::WebOrSearch,
            ..NewArtifact::of_text(page.markdown.clone())
        });
        let artifact = artifact.await?;
        let id = artifact.id.clone();
        let named = BTreeSet::from([id.clone()]);
        let commit = self
            .artifacts
            .keep(&ctx.owner, &self.session, vec![artifact], named);
        let unkept = commit.wait().await;
        (!unkept.contains(&id)).then_some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: A page that was read more than an hour ago is read again.
    #[test]
    fn an_old_page_is_read_again() {
        let read = |url: &str, read: u64| CitedSource {
            url: url.to_owned(),
            title: String::new(),
            kept: Some(Box::new(KeptPage {
                read,
                ..KeptPage::default()
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
        let known: Vec<&CitedSource> = known.iter().collect();
        let pages = SessionPages::new(Artifacts::memory(0), "s", &known);
        let fresh = ["a", "b", "future", "found", "other"].map(|url| pages.is_fresh(url, 4_600));
        assert_eq!(fresh, [false, true, true, false, false]);
    }
}
