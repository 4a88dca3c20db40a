//! `search_answer`: the answer of a search engine. The first line of an input is the name of the
//! engine and the status of the answer, the rest is its body.

use std::collections::HashSet;

use http::{HeaderMap, StatusCode};
use respondent::tools::web::search::{SearchEngine, WebQuery, filter_hits};

pub(super) fn run(input: &[u8]) {
    let mut lines = input.splitn(2, |byte| *byte == b'\n');
    let head = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let body = lines.next().unwrap_or_default();
    let mut words = head.split_whitespace();
    let engine = words.next().and_then(|name| name.parse().ok());
    let engine: SearchEngine = engine.unwrap_or(SearchEngine::SearXng);
    let status = words.next().and_then(|status| status.parse().ok());
    let status = status.unwrap_or(StatusCode::OK);
    let Ok(hits) = engine.read(status, &HeaderMap::new(), body) else {
        return;
    };
    assert!(
        status.is_success(),
        "an answer with status {status} was read"
    );
    let query = WebQuery {
        results: 10,
        ..WebQuery::default()
    };
    let hits = filter_hits(&query, hits);
    assert!(hits.len() <= 10);
    let mut addresses = HashSet::new();
    for hit in &hits {
        let is_web = ["http://", "https://"]
            .iter()
            .any(|scheme| hit.url.starts_with(scheme));
        assert!(is_web && hit.url.len() <= 2_000, "{}", hit.url);
        assert!(hit.title.chars().count() <= 500, "{}", hit.title);
        assert!(addresses.insert(&hit.url), "{} twice", hit.url);
    }
}
