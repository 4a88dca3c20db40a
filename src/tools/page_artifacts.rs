//! Pages as artifacts of a session: kept whole, and read again.

use std::collections::BTreeSet;
use std::sync::Arc;

use excerpts::OutputKind;

use super::web::page::{FetchStrategy, KeepFuture, KeptPage, KeptPageFuture, Page, PageKeeper};
use crate::artifacts::Artifacts;
use crate::clock::{Clock as _, System};
use crate::net::blocking::run_at_low_priority;
use crate::store::{ArtifactRange, NewArtifact};

/// The pages that one session keeps. Made for a turn, or for a call of Codex's tool.
pub struct PageArtifacts {
    artifacts: Artifacts,
    owner: Arc<str>,
    session: String,
}

impl PageArtifacts {
    /// The pages of a session of this owner.
    pub fn new(artifacts: Artifacts, owner: &Arc<str>, session: &str) -> Self {
        Self {
            artifacts,
            owner: Arc::clone(owner),
            session: session.to_owned(),
        }
    }

    /// The id of the new artifact of a page, unless there is no room for it.
    async fn put(&self, page: &Arc<Page>) -> Option<String> {
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
            .keep(&self.owner, &self.session, vec![artifact], named);
        let unkept = commit.wait().await;
        (!unkept.contains(&id)).then_some(id)
    }
}

impl PageKeeper for PageArtifacts {
    fn keep<'k>(&'k self, page: &'k Arc<Page>) -> KeepFuture<'k> {
        Box::pin(async move {
            Some(KeptPage {
                artifact_id: self.put(page).await?,
                url: page.url.clone(),
                title: page.title.clone(),
                published: page.published.clone(),
                // The clock of a turn is not read here: a replay, which runs no tools, gives its
                // readings out in their order.
                read: System.unix(),
            })
        })
    }

    fn read<'k>(&'k self, kept: &'k KeptPage) -> KeptPageFuture<'k> {
        Box::pin(async move {
            let (id, range) = (&kept.artifact_id, ArtifactRange::Whole);
            let read = self.artifacts.read(&self.owner, id, &range).await;
            let artifact = read.unwrap_or_else(|error| {
                tracing::warn!("a page that was read before cannot be read again: {error}");
                None
            });
            let (markdown, memory) = artifact?.text.into_parts();
            Some(Arc::new(Page {
                url: kept.url.clone(),
                canonical: None,
                title: kept.title.clone(),
                published: kept.published.clone(),
                received_bytes: markdown.len(),
                markdown,
                fetched_by: FetchStrategy::Kept,
                memory: Some(memory),
            }))
        })
    }
}
