//! What is stored of the calls of a turn: what they have found and read.

use std::fmt::Write as _;
use std::iter::repeat;
use std::ops::Range;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::pages::HeldPage;
use crate::clock::milliseconds;
use crate::store::{MAX_BODY_CHARS, NewSource, SourceStatus};
use crate::tools::web::service::SearchReport;
use crate::turn::{CallRecord, CallSource};

/// The searches of a call, and where its result shows what each has found.
pub(super) fn of_searches(reports: &[SearchReport], places: Vec<Vec<Range<usize>>>) -> CallRecord {
    let shown = reports.iter().zip(places).flat_map(|(report, places)| {
        let places = places.into_iter().map(Some).chain(repeat(None));
        report.results.iter().zip(places)
    });
    let found = shown.filter(|(result, _)| !result.is_synthetic);
    let sources = found.map(|(result, shown)| {
        let hit = &result.hit;
        CallSource {
            asked: hit.url.clone(),
            source: NewSource {
                relevance: hit.score.map(f64::from),
                has_low_relevance: result.has_low_relevance,
                ..NewSource::new(SourceStatus::Found, &hit.url, &hit.title)
            },
            shown: shown.unwrap_or_default(),
        }
    });
    let attempts = reports.iter().flat_map(|report| &report.attempts);
    let attempts = attempts.map(|attempt| {
        let (engine, ms) = (attempt.engine.name(), milliseconds(attempt.took));
        match &attempt.found {
            Ok(found) => json!({"engine": engine, "ms": ms, "found": found}),
            Err(failure) => json!({"engine": engine, "ms": ms, "error": failure.code()}),
        }
    });
    let attempts: Vec<Value> = attempts.collect();
    CallRecord {
        sources: sources.collect(),
        artifact_id: None,
        attempts: (!attempts.is_empty()).then(|| json!(attempts).to_string()),
    }
}

/// A page that was read, of which the model gets `bytes` bytes.
pub(super) fn of_page(asked: &str, held: &HeldPage, bytes: usize) -> CallRecord {
    let HeldPage { page, kept, .. } = held;
    let artifact_id = kept.as_ref().map(|kept| kept.artifact_id.clone());
    let markdown = &page.markdown;
    let mut hash = String::with_capacity(64);
    for byte in Sha256::digest(markdown.as_bytes()) {
        let _ = write!(hash, "{byte:02x}");
    }
    CallRecord {
        sources: vec![CallSource {
            asked: asked.to_owned(),
            source: NewSource {
                body: Some(markdown.chars().take(MAX_BODY_CHARS).collect()),
                chars: Some(markdown.chars().count() as u64),
                sha256: Some(hash),
                artifact_id: artifact_id.clone(),
                ..NewSource::new(SourceStatus::Read, &page.url, &page.title)
            },
            shown: 0..bytes,
        }],
        artifact_id,
        attempts: None,
    }
}

/// A page that could not be read, for a reason of which the model gets `bytes` bytes.
pub(super) fn of_failure(asked: &str, why: &str, bytes: usize) -> CallRecord {
    let mut source = NewSource::new(SourceStatus::Failed, asked, "");
    source.error = Some(why.trim_end().to_owned());
    CallRecord {
        sources: vec![CallSource {
            asked: asked.to_owned(),
            source,
            shown: 0..bytes,
        }],
        ..CallRecord::default()
    }
}
