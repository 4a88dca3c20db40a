use std::future::pending;
use std::sync::Arc;

use adapters::cited_source::PageArtifact;
use tokio::time::Instant;

use super::*;
use crate::artifacts::Artifacts;
use crate::net::memory::{MemoryKind, ProcessMemory};
use crate::tools::page_artifacts::PageArtifacts;
use crate::tools::web::page::{FetchStrategy, PageFuture, PageKeeper as _, PageReader};
use crate::tools::web::search::{SearchFuture, SearchOutcome, Searcher};

/// A web whose pages cannot be read any more: some are refused, and some never come.
struct LostWeb;

impl Searcher for LostWeb {
    fn search<'s>(&'s self, _: &'s WebQuery) -> SearchFuture<'s> {
        Box::pin(async { SearchOutcome::default() })
    }
}

impl PageReader for LostWeb {
    fn read<'r>(&'r self, url: &'r str) -> PageFuture<'r> {
        Box::pin(async move {
            if url.ends_with("silent") {
                pending::<()>().await;
            }
            Err(PageError::Robots)
        })
    }
}

/// Promise: A page that cannot be read anew is shown as an earlier answer has read it, with its
/// age, soon enough for the call.
#[tokio::test(start_paused = true)]
async fn an_old_page_is_shown_with_its_age() {
    for name in ["refused", "silent"] {
        let url = format!("https://a.example/{name}");
        let artifacts = Artifacts::memory(1 << 20);
        let artifacts = PageArtifacts::new(artifacts, &"owner".into(), "session");
        let page = Arc::new(Page {
            url: url.clone(),
            canonical: None,
            title: "A".to_owned(),
            published: None,
            markdown: "It was so.".to_owned(),
            received_bytes: 10,
            fetched_by: FetchStrategy::Native,
            memory: None,
        });
        let kept = artifacts.keep(&page).await.unwrap();
        let known = CitedSource {
            url: url.clone(),
            title: "A".to_owned(),
            kept: Some(Box::new(PageArtifact {
                url: url.clone(),
                published: None,
                artifact_id: kept.artifact_id,
                read: System.unix() - 2 * 3_600 - 60,
            })),
        };
        let tools = WebTools::new(Arc::new(LostWeb), Arc::new(LostWeb));
        let turn = SearchTurn::new(
            Some(tools),
            CallLimits::default(),
            HostedSearchSettings::default(),
            SessionPages::new(artifacts, [&known]),
            ProcessMemory::unlimited().share(MemoryKind::Answers),
        );
        let call = WithheldCall {
            id: "c1".to_owned(),
            name: OPEN.to_owned(),
            arguments: json!({"url": url, "from": 0.0}).to_string(),
            items: Vec::new(),
        };
        let began = Instant::now();
        let result = turn.call(&call).await;
        assert!(began.elapsed() < PAGE_TIMEOUT);
        let head = "This is how the page was 2 hours ago.\n\nA\n";
        assert!(result.text.starts_with(head), "{}", result.text);
        assert!(result.text.ends_with("It was so.\n"), "{}", result.text);
        assert!(!result.failed);
    }
}
