use super::*;

/// The field that lists the results, and a body around it.
fn around(engine: SearchEngine, results: &str) -> Option<String> {
    Some(match engine {
        SearchEngine::SearXng
        | SearchEngine::Tavily
        | SearchEngine::Exa
        | SearchEngine::Perplexity => format!(r#"{{"results":{results}}}"#),
        SearchEngine::Brave => format!(r#"{{"type":"search","web":{{"results":{results}}}}}"#),
        SearchEngine::Serper => format!(r#"{{"organic":{results}}}"#),
        SearchEngine::SerpApi => format!(r#"{{"organic_results":{results}}}"#),
        SearchEngine::OpenRouter => {
            format!(r#"{{"choices":[{{"message":{{"annotations":{results}}}}}]}}"#)
        }
        SearchEngine::DuckDuckGo => return None,
    })
}

fn result(engine: SearchEngine, n: usize) -> String {
    match engine {
        SearchEngine::OpenRouter => {
            format!(r#"{{"url_citation":{{"url":"https://e.example/{n}","title":"t"}}}}"#)
        }
        SearchEngine::Serper | SearchEngine::SerpApi => {
            format!(r#"{{"link":"https://e.example/{n}","title":"t"}}"#)
        }
        _ => format!(r#"{{"url":"https://e.example/{n}","title":"t"}}"#),
    }
}

#[test]
fn ten_thousand_results_are_a_hundred() {
    for engine in SearchEngine::VARIANTS.iter().copied() {
        let results: Vec<_> = (0..10_000).map(|n| result(engine, n)).collect();
        let links = (0..10_000).map(|n| format!(r#"<a class="result__a" href="/{n}">t</a>"#));
        let body =
            around(engine, &format!("[{}]", results.join(","))).unwrap_or_else(|| links.collect());
        assert_eq!(read(engine, 200, &body).unwrap().len(), 100, "{engine:?}");
    }
}

#[test]
fn elements_of_another_type_cost_nobody_else_a_place() {
    for engine in SearchEngine::VARIANTS.iter().copied() {
        let odd = r#"1,null,"x",[],{},true,{"url":5,"link":{},"url_citation":[]}"#;
        let Some(body) = around(engine, &format!("[{odd},{}]", result(engine, 1))) else {
            continue;
        };
        let expected = found("https://e.example/1", "t", "");
        assert_eq!(read(engine, 200, &body), Ok(vec![expected]), "{engine:?}");
        let body = around(engine, &format!("[{odd}]")).unwrap();
        let expected = match engine {
            SearchEngine::OpenRouter => SearchError::Empty,
            _ => SearchError::BadReply,
        };
        assert_eq!(read(engine, 200, &body), Err(expected), "{engine:?}");
    }
}

#[test]
fn fields_of_another_type_are_missing() {
    for engine in [
        SearchEngine::Tavily,
        SearchEngine::Exa,
        SearchEngine::SearXng,
    ] {
        for odd in [
            "1",
            "{}",
            "[[]]",
            "null",
            "true",
            "-1e3",
            r#"{"a":{"b":[1]}}"#,
        ] {
            let fields = [
                "title",
                "content",
                "highlights",
                "text",
                "score",
                "publishedDate",
            ];
            let fields: Vec<_> = fields
                .iter()
                .map(|name| format!(r#","{name}":{odd}"#))
                .collect();
            let result = format!(r#"[{{"url":"https://e.example/"{}}}]"#, fields.concat());
            let hits = read(engine, 200, &around(engine, &result).unwrap()).unwrap();
            let mut expected = found("https://e.example/", "", "");
            expected.score = (odd == "1" && engine != SearchEngine::SearXng).then_some(1.0);
            assert_eq!(hits, [expected], "{engine:?} {odd}");
        }
    }
}

#[test]
fn nested_nonsense_and_broken_text_are_bad_replies() {
    for engine in SearchEngine::VARIANTS.iter().copied() {
        let nested = "[".repeat(100_000);
        let body = around(engine, &nested).unwrap_or_else(|| "<div>".repeat(100_000));
        assert_eq!(
            read(engine, 200, &body),
            Err(SearchError::BadReply),
            "{engine:?}"
        );
        let closed = format!("[{}{}]", "{\"url\":".repeat(5_000), "}".repeat(5_000));
        if let Some(body) = around(engine, &closed) {
            assert_eq!(
                read(engine, 200, &body),
                Err(SearchError::BadReply),
                "{engine:?}"
            );
        }
        let bytes = engine.read(StatusCode::OK, &HeaderMap::new(), b"\xff\xfe{\x00");
        assert_eq!(bytes, Err(SearchError::BadReply), "{engine:?}");
        for status in [100, 204, 304, 418, 999] {
            assert!(read(engine, status, &body).is_err());
        }
    }
}

#[test]
fn long_texts_are_cut_between_characters() {
    for engine in SearchEngine::VARIANTS.iter().copied() {
        let long = "日".repeat(1_000_000);
        let body = match engine {
            SearchEngine::DuckDuckGo => format!(
                r#"<a class="result__a" href="/l/?uddg=https://e.example">t</a>
                   <a class="result__snippet">{long}"#
            ),
            SearchEngine::OpenRouter => around(
                engine,
                &format!(
                    r#"[{{"url_citation":{{"url":"https://e.example","content":"{long}"}}}}]"#
                ),
            )
            .unwrap(),
            _ => around(
                engine,
                &format!(
                    r#"[{{"url":"https://e.example","link":"https://e.example",
                        "content":"{long}","snippet":"{long}","description":"{long}",
                        "text":"{long}"}}]"#
                ),
            )
            .unwrap(),
        };
        let hits = read(engine, 200, &body).unwrap();
        assert_eq!(hits[0].snippet, "日".repeat(8_000), "{engine:?}");
    }
}

#[test]
fn links_of_a_page_lead_anywhere_without_harm() {
    for (link, expected) in [
        (
            "//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.example%2F%3Fq%3D%25C3",
            "https://a.example/?q=%C3",
        ),
        (
            "/l/?kh=-1&amp;uddg=https%3A%2F%2Fa.example",
            "https://a.example",
        ),
        (
            "https://evil.example/l/?uddg=x",
            "https://evil.example/l/?uddg=x",
        ),
        ("/l/?uddg=javascript%3Aalert(1)", "javascript:alert(1)"),
        ("/l/?uddg=%FF%FE", "\u{fffd}\u{fffd}"),
        ("/l/?uddg=", ""),
        ("/l/", ""),
        ("http://[::1", ""),
        ("https://duckduckgo.com/y.js?u3=x", ""),
        ("data:text/html,x", ""),
    ] {
        let page = format!(r#"<div class="result"><a class='result__a' href="{link}">t</a>"#);
        let hits = read(SearchEngine::DuckDuckGo, 200, &page).unwrap_or_default();
        let url = hits.first().map_or("", |hit| &hit.url);
        assert_eq!(url, expected, "{link}");
    }
}
