use super::*;
use crate::tools::web::shown::SearchContext;

const SITES: &str = "site%3Aexample.org+OR+site%3Apubmed.gov+OR+site%3Aa.example\
    +-site%3Aspam.example+-site%3Axn--mnchen-3ya.example";

#[test]
fn get_requests_say_all_that_the_search_engine_takes() {
    let words = "Z%C3%BCrich+%E6%97%A5%E6%9C%AC+%26+co";
    for (engine, expected) in [
        (
            SearchEngine::SearXng,
            format!(
                "GET http://localhost:8080/searx/search?q={words}+{SITES}&format=json\
                 &time_range=week\naccept: application/json\n"
            ),
        ),
        (
            SearchEngine::Brave,
            format!(
                "GET https://api.search.brave.com/res/v1/web/search?q={words}+{SITES}&count=7\
                 &country=DE&freshness=2026-11-21to2026-11-28&text_decorations=false\n\
                 accept: application/json\nx-subscription-token: key-canary\n"
            ),
        ),
        (
            SearchEngine::SerpApi,
            format!(
                "GET https://serpapi.com/search.json?engine=duckduckgo&q={words}+{SITES}&m=7\
                 &kl=de-de&df=2026-11-21..2026-11-28&api_key=key-canary\n\
                 accept: application/json\n"
            ),
        ),
    ] {
        assert_eq!(shown(&request(engine, &full())), expected);
    }
}

#[test]
fn post_requests_say_all_that_the_search_engine_takes() {
    let bearer = "accept: application/json\nauthorization: Bearer key-canary\n\
                  content-type: application/json\n";
    let header = "accept: application/json\ncontent-type: application/json\n\
                  x-api-key: key-canary\n";
    let allowed = r#"["example.org","pubmed.gov","a.example"]"#;
    let blocked = r#"["spam.example","xn--mnchen-3ya.example"]"#;
    for (engine, address, headers, body) in [
        (
            SearchEngine::Tavily,
            "https://api.tavily.com/search",
            bearer,
            format!(r#"{{"query":"Zürich 日本 & co","max_results":7,"include_domains":{allowed},"#)
                + &format!(r#""exclude_domains":{blocked},"start_date":"2026-11-21"}}"#),
        ),
        (
            SearchEngine::Exa,
            "https://api.exa.ai/search",
            header,
            format!(r#"{{"query":"Zürich 日本 & co","numResults":7,"includeDomains":{allowed},"#)
                + &format!(r#""excludeDomains":{blocked},"#)
                + r#""startPublishedDate":"2026-11-21T00:00:00.000Z","userLocation":"DE","#
                + r#""contents":{"highlights":true}}"#,
        ),
        (
            SearchEngine::Serper,
            "https://google.serper.dev/search",
            header,
            r#"{"q":"Zürich 日本 & co site:example.org OR site:pubmed.gov OR site:a.example "#
                .to_owned()
                + r#"-site:spam.example -site:xn--mnchen-3ya.example","#
                + r#""num":7,"gl":"de","tbs":"qdr:w"}"#,
        ),
        (
            SearchEngine::Perplexity,
            "https://api.perplexity.ai/search",
            bearer,
            r#"{"query":"Zürich 日本 & co","max_results":7,"#.to_owned()
                + r#""max_tokens":3584,"max_tokens_per_page":512,"#
                + &format!(r#""search_domain_filter":{allowed},"#)
                + r#""search_after_date_filter":"11/21/2026","country":"DE"}"#,
        ),
        (
            SearchEngine::OpenRouter,
            "https://openrouter.ai/api/v1/chat/completions",
            bearer,
            r#"{"messages":[{"role":"user","content":"Search the web for the following, and "#
                .to_owned()
                + "list the pages found: for each, one sentence on what it says, with a citation "
                + r"of it.\n\nZürich 日本 & co\n\nOnly pages of the last days count. "
                + r#"Number of days: 7"}],"tools":[{"type":"openrouter:web_search","parameters":"#
                + r#"{"max_results":7,"max_total_results":7,"#
                + &format!(r#""allowed_domains":{allowed},"#)
                + r#""user_location":{"city":"München","region":"Bayern","country":"DE","#
                + r#""timezone":"Europe/Berlin","type":"approximate"}}}]}"#,
        ),
    ] {
        let expected = format!("POST {address}\n{headers}{body}");
        assert_eq!(shown(&request(engine, &full())), expected);
    }
}

#[test]
fn the_form_of_duckduckgo_says_all_that_it_takes() {
    let expected = format!(
        "POST https://html.duckduckgo.com/html/\naccept: text/html\n\
         content-type: application/x-www-form-urlencoded\n\
         referer: https://html.duckduckgo.com/\n\
         q=Z%C3%BCrich+%E6%97%A5%E6%9C%AC+%26+co+{SITES}&b=&kl=de-de&df=w"
    );
    assert_eq!(shown(&request(SearchEngine::DuckDuckGo, &full())), expected);
    let plain = shown(&request(SearchEngine::DuckDuckGo, &words("rust")));
    assert!(plain.ends_with("\nq=rust&b=&kl=wt-wt"), "{plain}");
}

#[test]
fn words_alone_are_sent_alone() {
    for (engine, expected) in [
        (SearchEngine::SearXng, "search?q=rust&format=json"),
        (SearchEngine::Brave, "search?q=rust&text_decorations=false"),
        (SearchEngine::Tavily, r#"{"query":"rust"}"#),
        (
            SearchEngine::Exa,
            r#"{"query":"rust","contents":{"highlights":true}}"#,
        ),
        (SearchEngine::Serper, r#"{"q":"rust"}"#),
        (
            SearchEngine::SerpApi,
            "?engine=duckduckgo&q=rust&api_key=key-canary",
        ),
        (SearchEngine::Perplexity, r#"{"query":"rust"}"#),
        (SearchEngine::OpenRouter, r#""parameters":{}}]}"#),
    ] {
        let shown = shown(&request(engine, &words("rust")));
        let end = shown.contains(&format!("{expected}\n")) || shown.ends_with(expected);
        assert!(end, "{shown}");
    }
}

#[test]
fn blocked_domains_are_sent_where_only_one_list_is_taken() {
    let mut query = words("rust");
    query.blocked_domains = list(&["b.example"]);
    let perplexity = shown(&request(SearchEngine::Perplexity, &query));
    assert!(
        perplexity.contains(r#""search_domain_filter":["-b.example"]"#),
        "{perplexity}"
    );
    let openrouter = shown(&request(SearchEngine::OpenRouter, &query));
    assert!(
        openrouter.contains(r#""excluded_domains":["b.example"]"#),
        "{openrouter}"
    );
}

/// Promise: How much Perplexity sends of the pages that it finds follows from the size of the
/// context that the client wants, unless the operator has set it.
#[test]
fn perplexity_is_told_how_much_to_send() {
    for (context, usual) in [
        (SearchContext::Low, (3, 1_536)),
        (SearchContext::Medium, (5, 2_560)),
        (SearchContext::High, (10, 5_120)),
    ] {
        let query = WebQuery {
            results: context.results(),
            ..words("rust")
        };
        let (results, tokens) = usual;
        let wanted =
            format!(r#""max_results":{results},"max_tokens":{tokens},"max_tokens_per_page":512}}"#);
        let shown = shown(&request(SearchEngine::Perplexity, &query));
        assert!(shown.ends_with(&wanted), "{shown}");
    }
    let mut settings = settings(SearchEngine::Perplexity);
    settings.limits = ResultLimits {
        results: Some(4),
        tokens: Some(3_000),
        tokens_per_page: Some(1_000),
    };
    let request = SearchEngine::Perplexity.request(&full(), &settings, TODAY);
    let shown = shown(&request.unwrap());
    let wanted = r#""max_results":4,"max_tokens":3000,"max_tokens_per_page":1000"#;
    assert!(shown.contains(wanted), "{shown}");
}

#[test]
fn the_model_of_the_settings_searches() {
    let mut settings = settings(SearchEngine::OpenRouter);
    settings.model = Some("some/model".to_owned());
    let request = SearchEngine::OpenRouter.request(&words("rust"), &settings, TODAY);
    let shown = shown(&request.unwrap());
    assert!(
        shown.contains(r#"{"model":"some/model","messages""#),
        "{shown}"
    );
}
