//! Requests and answers of our own in the shapes that the sources of each file document.

mod answers;
mod filter;
mod hostile;
mod limits;
mod refusals;
mod requests;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use jiff::civil::{Date, date};
use strum::VariantArray as _;
use url::Url;

use super::*;
use crate::secrets::Secret;

const TODAY: Date = date(2026, 11, 28);

/// The usual address, and a key that no output may show.
fn settings(engine: SearchEngine) -> EngineSettings {
    let base_url = engine.base_url().unwrap_or("http://localhost:8080/searx/");
    EngineSettings {
        base_url: Url::parse(base_url).unwrap(),
        key: Secret::new("key-canary"),
        model: None,
        limits: ResultLimits::default(),
        price: 0.0,
    }
}

/// A query that says everything.
fn full() -> WebQuery {
    WebQuery {
        text: " Zürich\n日本 & co ".to_owned(),
        results: 7,
        allowed_domains: list(&[
            "Example.org",
            "*.pubmed.gov",
            "https://a.example/path",
            "a b",
        ]),
        blocked_domains: list(&["spam.example", "münchen.example"]),
        location: Some(UserLocation {
            country: Some("de".to_owned()),
            region: Some("Bayern".to_owned()),
            city: Some("München".to_owned()),
            timezone: Some("Europe/Berlin".to_owned()),
        }),
        recency_days: Some(7),
    }
}

/// The method, the address, the headers by name, and the body.
fn shown(request: &WebRequest) -> String {
    let mut headers: Vec<_> = request.headers.iter().collect();
    headers.sort_by_key(|(name, _)| name.as_str());
    let mut text = format!("{} {}\n", request.method, request.url);
    for (name, value) in headers {
        text.extend([name.as_str(), ": ", value.to_str().unwrap(), "\n"]);
    }
    text + std::str::from_utf8(&request.body).unwrap()
}

fn request(engine: SearchEngine, query: &WebQuery) -> WebRequest {
    engine.request(query, &settings(engine), TODAY).unwrap()
}

fn words(text: &str) -> WebQuery {
    WebQuery {
        text: text.to_owned(),
        ..WebQuery::default()
    }
}

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn read(engine: SearchEngine, status: u16, body: &str) -> Result<Vec<SearchHit>, SearchError> {
    let status = StatusCode::from_u16(status).unwrap();
    engine.read(status, &HeaderMap::new(), body.as_bytes())
}

fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
    let header = |(name, value): &(&'static str, &'static str)| {
        let name = HeaderName::from_static(name);
        (name, HeaderValue::from_static(value))
    };
    list.iter().map(header).collect()
}

fn found(url: &str, title: &str, snippet: &str) -> SearchHit {
    SearchHit {
        url: url.to_owned(),
        title: title.to_owned(),
        snippet: snippet.to_owned(),
        ..SearchHit::default()
    }
}

#[test]
fn names_are_those_of_a_configuration_file() {
    let names: Vec<_> = SearchEngine::VARIANTS
        .iter()
        .map(|engine| engine.name())
        .collect();
    assert_eq!(
        names.join(" "),
        "searxng brave tavily exa serper serpapi perplexity openrouter duckduckgo"
    );
    for engine in SearchEngine::VARIANTS {
        assert_eq!(engine.name().parse(), Ok(*engine));
        let json = format!("\"{}\"", engine.name());
        assert_eq!(
            serde_json::from_str::<SearchEngine>(&json).unwrap(),
            *engine
        );
    }
}

#[test]
fn two_search_engines_need_no_key_and_one_summarizes() {
    let engines = SearchEngine::VARIANTS.iter().copied();
    let keyless: Vec<_> = engines
        .clone()
        .filter(|engine| !engine.needs_key())
        .collect();
    assert_eq!(keyless, [SearchEngine::SearXng, SearchEngine::DuckDuckGo]);
    let summaries: Vec<_> = engines
        .clone()
        .filter(|engine| engine.kind() == SearchKind::Summary)
        .collect();
    assert_eq!(summaries, [SearchEngine::OpenRouter]);
    for engine in engines {
        let address = engine.base_url().map(Url::parse);
        assert_eq!(address.is_none(), engine == SearchEngine::SearXng);
        assert!(address.is_none_or(|url| url.unwrap().scheme() == "https"));
        let variables = engine.key_variables();
        assert!(
            variables.iter().all(|name| name.ends_with("_API_KEY")),
            "{variables:?}"
        );
    }
}
