use super::*;

/// An answer with two results, one with everything and one with an address alone.
fn full(engine: SearchEngine) -> &'static str {
    match engine {
        SearchEngine::SearXng => {
            r#"{"query":"q","number_of_results":0,"results":[
                {"url":"https://a.example/","title":"Zürich\n 日本","content":" Text ","engine":"x",
                 "publishedDate":"2026-11-20T00:00:00","score":4.0,"category":"general"},
                {"url":"https://b.example/","title":null,"publishedDate":null}],
                "answers":[],"suggestions":["s"],"unresponsive_engines":[["x","timeout"]]}"#
        }
        SearchEngine::Brave => {
            r#"{"type":"search","query":{"original":"q"},"web":{"type":"search","results":[
                {"type":"search_result","url":"https://a.example/","title":"Zürich 日本",
                 "description":"Text","page_age":"2026-11-20T00:00:00","age":"8 days ago"},
                {"url":"https://b.example/"}],"family_friendly":true}}"#
        }
        SearchEngine::Tavily => {
            r#"{"query":"q","answer":null,"images":[],"results":[
                {"url":"https://a.example/","title":"Zürich 日本","content":"Text","score":0.75,
                 "published_date":"2026-11-20T00:00:00","raw_content":null},
                {"url":"https://b.example/","score":7}],"response_time":1.2}"#
        }
        SearchEngine::Exa => {
            r#"{"requestId":"r","results":[
                {"id":"i","url":"https://a.example/","title":"Zürich 日本","score":0.75,
                 "publishedDate":"2026-11-20T00:00:00","author":null,"highlights":["Text"],
                 "highlightScores":[0.4]},
                {"url":"https://b.example/","title":null,"highlights":[]}],
                "costDollars":{"total":0.007}}"#
        }
        SearchEngine::Serper => {
            r#"{"searchParameters":{"q":"q","type":"search"},"organic":[
                {"title":"Zürich 日本","link":"https://a.example/","snippet":"Text",
                 "date":"2026-11-20T00:00:00","position":1},
                {"link":"https://b.example/","position":2}],"credits":1}"#
        }
        SearchEngine::SerpApi => {
            r#"{"search_metadata":{"status":"Success"},"organic_results":[
                {"position":1,"title":"Zürich 日本","link":"https://a.example/","snippet":"Text",
                 "date":"2026-11-20T00:00:00","sitelinks":[{"link":"https://c.example/"}]},
                {"position":2,"link":"https://b.example/"}]}"#
        }
        SearchEngine::Perplexity => {
            r#"{"id":"i","results":[
                {"title":"Zürich 日本","url":"https://a.example/","snippet":"Text",
                 "date":"2026-11-20T00:00:00","last_updated":"2026-11-21"},
                {"url":"https://b.example/","date":null}],"server_time":null}"#
        }
        SearchEngine::OpenRouter => {
            r#"{"id":"i","choices":[{"index":0,"finish_reason":"stop","message":{
                "role":"assistant","content":"Answer","annotations":[
                {"type":"file","file":{"hash":"h"}},
                {"type":"url_citation","url_citation":{"url":"https://a.example/",
                 "title":"Zürich 日本","content":"Text","start_index":0,"end_index":6}},
                {"type":"url_citation","url_citation":{"url":"https://b.example/"}}]}}],
                "usage":{"server_tool_use":{"web_search_requests":1}}}"#
        }
        SearchEngine::DuckDuckGo => {
            r#"<html><body><div id="links"><div class="result result--ad result--ad--small">
                <a class="result__a" href="https://ad.example/">Ad</a></div>
                <div class="result results_links web-result "><h2 class="result__title">
                <a rel="nofollow" class="result__a"
                 href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.example%2F&amp;rut=1">Z&uuml;rich
                <b>日本</b></a></h2><a class="result__url" href="x">a.example</a>
                <a class="result__snippet" href="x"><b>Te</b>xt</a></div>
                <div class="result web-result"><h2><a class="result__a" href="https://b.example/">
                </a></h2></div><div class="result"><a class="result__a"
                 href="https://duckduckgo.com/y.js?ad_domain=x">Ad</a></div></div></body></html>"#
        }
    }
}

#[test]
fn all_that_a_search_engine_says_of_its_results_is_read() {
    for engine in SearchEngine::VARIANTS.iter().copied() {
        let hits = read(engine, 200, full(engine)).unwrap();
        let mut first = found("https://a.example/", "Zürich 日本", "Text");
        let undated = [SearchEngine::OpenRouter, SearchEngine::DuckDuckGo];
        first.published =
            Some("2026-11-20T00:00:00".to_owned()).filter(|_| !undated.contains(&engine));
        let scored = [SearchEngine::Tavily, SearchEngine::Exa];
        first.score = Some(0.75).filter(|_| scored.contains(&engine));
        assert_eq!(
            hits,
            [first, found("https://b.example/", "", "")],
            "{engine:?}"
        );
    }
}

#[test]
fn nothing_found_is_told_from_an_answer_that_is_none() {
    for (engine, body) in [
        (SearchEngine::SearXng, r#"{"query":"q","results":[]}"#),
        (
            SearchEngine::Brave,
            r#"{"type":"search","query":{"original":"q"}}"#,
        ),
        (
            SearchEngine::Brave,
            r#"{"type":"search","web":{"results":[]}}"#,
        ),
        (SearchEngine::Tavily, r#"{"query":"q","results":[]}"#),
        (SearchEngine::Exa, r#"{"requestId":"r","results":[]}"#),
        (
            SearchEngine::Serper,
            r#"{"searchParameters":{"q":"q"},"organic":[]}"#,
        ),
        (SearchEngine::Serper, r#"{"searchParameters":{"q":"q"}}"#),
        (
            SearchEngine::SerpApi,
            r#"{"error":"DuckDuckGo hasn't returned any results for this query."}"#,
        ),
        (SearchEngine::Perplexity, r#"{"results":[],"id":"i"}"#),
        (
            SearchEngine::OpenRouter,
            r#"{"choices":[{"message":{"content":"I know"}}]}"#,
        ),
        (
            SearchEngine::OpenRouter,
            r#"{"choices":[{"message":{"annotations":[]}}]}"#,
        ),
        (
            SearchEngine::DuckDuckGo,
            r#"<div class="result result--no-result"><div class="no-results">No.</div></div>"#,
        ),
    ] {
        assert_eq!(
            read(engine, 200, body),
            Err(SearchError::Empty),
            "{engine:?} {body}"
        );
        for body in [
            "",
            "{",
            "{}",
            "[]",
            "null",
            "\"\"",
            r#"{"results":{"a":1}}"#,
            "\u{feff}x",
        ] {
            assert_eq!(
                read(engine, 200, body),
                Err(SearchError::BadReply),
                "{engine:?} {body}"
            );
        }
    }
    assert_eq!(
        read(SearchEngine::DuckDuckGo, 303, ""),
        Err(SearchError::Empty)
    );
}
