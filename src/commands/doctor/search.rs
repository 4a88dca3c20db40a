//! Checks of the search engines.

use super::report::DoctorCheck;
use crate::config::search::{ConfiguredSearchEngine, SearchConfig, SearchMode};
use crate::tools::setup;
use crate::tools::web::search::{Searcher as _, WebQuery};

const SUBJECT: &str = "search";

/// What every search engine finds something for.
const QUERY: &str = "weather";

/// Which search engines are on.
pub(super) fn configured(search: &SearchConfig) -> DoctorCheck {
    const REMEDY: &str =
        "Set the key of one, such as BRAVE_API_KEY, or base_url of [search.searxng].";
    match search.mode {
        SearchMode::Off => return DoctorCheck::good(SUBJECT, "off"),
        SearchMode::Auto | SearchMode::Native | SearchMode::Proxy => {}
    }
    let shown = |engine: &ConfiguredSearchEngine| match &engine.key_origin {
        Some(origin) => format!("{} ({origin})", engine.name.name()),
        None => format!("{} (no key)", engine.name.name()),
    };
    let engines: Vec<String> = search.engines.iter().map(shown).collect();
    let has_own =
        |engine: &ConfiguredSearchEngine| engine.key.is_some() || engine.base_url.is_some();
    if engines.is_empty() {
        DoctorCheck::warning(SUBJECT, "No search engine is on.", REMEDY)
    } else if search.engines.iter().any(has_own) {
        DoctorCheck::good(SUBJECT, engines.join(", "))
    } else {
        let found = "Only a page without a key is asked, which often wants proof of a human.";
        DoctorCheck::warning(SUBJECT, found, REMEDY)
    }
}

/// Whether the search engines answer, each asked once.
pub(super) async fn tried(search: &SearchConfig) -> Vec<DoctorCheck> {
    match search.mode {
        SearchMode::Off => return Vec::new(),
        SearchMode::Auto | SearchMode::Native | SearchMode::Proxy => {}
    }
    let engines = match setup::single_engines(search) {
        Ok(engines) => engines,
        Err(error) => return vec![DoctorCheck::failed(SUBJECT, error.to_string(), None)],
    };
    let query = WebQuery {
        text: QUERY.to_owned(),
        results: 3,
        ..WebQuery::default()
    };
    let mut checks = Vec::new();
    for (name, engine) in engines {
        for attempt in engine.search(&query).await.attempts {
            let (name, ms) = (name.name(), attempt.took.as_millis());
            checks.push(match attempt.found {
                Ok(_) => DoctorCheck::good(SUBJECT, format!("{name} answers in {ms} ms")),
                Err(failure) => {
                    let found = format!("{name}: {failure}.");
                    DoctorCheck::warning(SUBJECT, found, "Leave it out of order in [search].")
                }
            });
        }
    }
    checks
}
