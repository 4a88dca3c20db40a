use super::*;

#[test]
fn no_number_is_beyond_the_maximum_of_the_search_engine() {
    let mut query = words("rust");
    query.results = 1_000;
    query.allowed_domains = (0..200).map(|n| format!("d{n}.example")).collect();
    for (engine, number) in [
        (SearchEngine::Brave, "&count=20&"),
        (SearchEngine::Tavily, r#""max_results":20,"#),
        (SearchEngine::Exa, r#""numResults":100,"#),
        (SearchEngine::Serper, r#""num":100}"#),
        (SearchEngine::SerpApi, "&m=50&"),
        (SearchEngine::Perplexity, r#""max_results":20,"#),
        (SearchEngine::OpenRouter, r#""max_results":20,"#),
    ] {
        let shown = shown(&request(engine, &query));
        assert!(shown.contains(number), "{shown}");
        assert!(!shown.contains("d100.example"), "{shown}");
        let perplexity = engine == SearchEngine::Perplexity;
        assert!(!perplexity || !shown.contains("d20.example"), "{shown}");
    }
}

/// What is searched for counts more than the operators, and is cut at a border of characters.
#[test]
fn no_words_are_longer_than_the_search_engine_takes() {
    for (engine, name, chars) in [
        (SearchEngine::Brave, "q", 400),
        (SearchEngine::SerpApi, "q", 500),
        (SearchEngine::DuckDuckGo, "q", 499),
        (SearchEngine::SearXng, "q", 2_000),
    ] {
        for (text, sites) in [("日本".repeat(5_000), 0), ("日".repeat(chars - 12), 1)] {
            let mut query = words(&text);
            query.allowed_domains = list(&["a.org", "bb.org"]);
            let request = request(engine, &query);
            let form = std::str::from_utf8(&request.body).unwrap();
            let pairs = request.url.query().unwrap_or(form);
            let mut pairs = url::form_urlencoded::parse(pairs.as_bytes());
            let (_, sent) = pairs.find(|(key, _)| key == name).unwrap();
            assert!(sent.chars().count() <= chars, "{}", sent.chars().count());
            assert!(sent.chars().count() > chars - 3);
            assert_eq!(sent.matches("site:").count(), sites);
        }
    }
    let mut query = words(&"word ".repeat(49));
    query.blocked_domains = list(&["a.org", "b.org"]);
    let brave = request(SearchEngine::Brave, &query);
    let (_, sent) = brave.url.query_pairs().next().unwrap();
    assert_eq!(sent.split(' ').count(), 50);
    let tavily = shown(&request(SearchEngine::Tavily, &words(&"é".repeat(900))));
    assert_eq!(tavily.matches('é').count(), 400);
}

#[test]
fn a_period_holds_all_the_days() {
    for (days, period) in [
        (0, "day"),
        (1, "day"),
        (2, "week"),
        (8, "month"),
        (31, "month"),
        (32, "year"),
        (366, "year"),
        (367, ""),
        (u32::MAX, ""),
    ] {
        let mut query = words("rust");
        query.recency_days = Some(days);
        let request = request(SearchEngine::SearXng, &query);
        let mut pairs = request.url.query_pairs();
        let found = pairs.find(|(name, _)| name == "time_range");
        assert_eq!(
            found.map_or(String::new(), |(_, value)| value.into_owned()),
            period
        );
    }
    let mut query = words("rust");
    query.recency_days = Some(u32::MAX);
    let brave = shown(&request(SearchEngine::Brave, &query));
    assert!(
        brave.contains("&freshness=1926-12-23to2026-11-28&"),
        "{brave}"
    );
}

#[test]
fn an_unknown_country_is_not_sent() {
    for country in ["XX", "Germany", "", "D", "é"] {
        let mut query = words("rust");
        query.location = Some(UserLocation {
            country: Some(country.to_owned()),
            ..UserLocation::default()
        });
        for engine in [
            SearchEngine::Brave,
            SearchEngine::SerpApi,
            SearchEngine::DuckDuckGo,
        ] {
            let shown = shown(&request(engine, &query));
            assert!(
                !shown.contains("country=") && !shown.contains("kl=x"),
                "{shown}"
            );
        }
    }
}

#[test]
fn what_is_no_domain_gets_into_no_query() {
    let mut query = words("rust");
    query.allowed_domains = list(&["a.org OR b.org", "", "*.", "a\"b", "[::x]"]);
    let shown = shown(&request(SearchEngine::SearXng, &query));
    assert!(shown.contains("?q=rust&"), "{shown}");
}

#[test]
fn no_output_shows_the_key() {
    for engine in SearchEngine::VARIANTS.iter().copied() {
        let request = request(engine, &full());
        let shown = format!("{request:?} {:?} {:?}", request.headers, settings(engine));
        assert!(!shown.contains("canary"), "{shown}");
        assert!(!format!("{request:?}").contains("Z%C3"), "{request:?}");
    }
}

#[test]
fn without_a_key_that_can_be_sent_there_is_no_request() {
    for engine in SearchEngine::VARIANTS.iter().copied() {
        let mut settings = settings(engine);
        settings.key = None;
        let request = engine.request(&words("rust"), &settings, TODAY);
        assert_eq!(request.is_err(), engine.needs_key());
        settings.key = Secret::new("key\nwith a line break");
        match engine.request(&words("rust"), &settings, TODAY) {
            Err(error) => assert_eq!(error, SearchError::Key(StatusCode::UNAUTHORIZED)),
            Ok(_) => assert!(!engine.needs_key() || engine == SearchEngine::SerpApi),
        }
    }
}
