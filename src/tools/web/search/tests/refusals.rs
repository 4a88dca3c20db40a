use super::*;

fn refused(status: u16, message: &str) -> SearchError {
    SearchError::Refused {
        status: StatusCode::from_u16(status).unwrap(),
        message: message.to_owned(),
    }
}

fn key(status: u16) -> SearchError {
    SearchError::Key(StatusCode::from_u16(status).unwrap())
}

#[test]
fn refusals_about_the_key_are_told_from_others() {
    let json_is_off = "this SearXNG does not answer in JSON; \
                       add json to search.formats in its settings.yml";
    for (engine, status, body, expected) in [
        (
            SearchEngine::SearXng,
            403,
            "<h1>Forbidden</h1>",
            refused(403, json_is_off),
        ),
        (SearchEngine::SearXng, 401, "<b>no</b>", refused(401, "no")),
        (
            SearchEngine::Brave,
            422,
            r#"{"error":{"code":"SUBSCRIPTION_TOKEN_INVALID"}}"#,
            key(422),
        ),
        (
            SearchEngine::Brave,
            422,
            r#"{"type":"ErrorResponse","error":{"code":"VALIDATION","detail":"Bad q"}}"#,
            refused(422, "Bad q"),
        ),
        (
            SearchEngine::Brave,
            422,
            r#"{"errors":[{"code":"SUBSCRIPTION_TOKEN_INVALID","detail":"Wrong"}]}"#,
            key(422),
        ),
        (
            SearchEngine::Tavily,
            401,
            r#"{"detail":{"error":"Unauthorized"}}"#,
            key(401),
        ),
        (
            SearchEngine::Tavily,
            432,
            r#"{"detail":{"error":"plan"}}"#,
            key(432),
        ),
        (
            SearchEngine::Tavily,
            400,
            r#"{"detail":{"error":"long"}}"#,
            refused(400, "long"),
        ),
        (
            SearchEngine::Exa,
            402,
            r#"{"error":"e","tag":"NO_MORE_CREDITS"}"#,
            key(402),
        ),
        (
            SearchEngine::Exa,
            403,
            r#"{"error":"blocked"}"#,
            refused(403, "blocked"),
        ),
        (
            SearchEngine::Serper,
            403,
            r#"{"message":"No.","statusCode":403}"#,
            key(403),
        ),
        (
            SearchEngine::Serper,
            400,
            r#"{"message":"No q","statusCode":400}"#,
            refused(400, "No q"),
        ),
        (
            SearchEngine::SerpApi,
            401,
            r#"{"error":"Invalid API key."}"#,
            key(401),
        ),
        (
            SearchEngine::SerpApi,
            429,
            r#"{"error":"Your account has run out of searches."}"#,
            key(429),
        ),
        (
            SearchEngine::SerpApi,
            200,
            r#"{"error":"Broken."}"#,
            refused(200, "Broken."),
        ),
        (
            SearchEngine::Perplexity,
            401,
            "<html>401 Authorization Required",
            key(401),
        ),
        (
            SearchEngine::Perplexity,
            422,
            r#"{"detail":[{"loc":["body"],"msg":"Field required"}]}"#,
            refused(422, "Field required"),
        ),
        (
            SearchEngine::OpenRouter,
            402,
            r#"{"error":{"code":402,"message":"Insufficient credits"}}"#,
            key(402),
        ),
        (
            SearchEngine::OpenRouter,
            403,
            r#"{"error":{"code":403,"message":"flagged"}}"#,
            refused(403, "flagged"),
        ),
        (
            SearchEngine::OpenRouter,
            200,
            r#"{"error":{"code":502,"message":"Model is down"}}"#,
            refused(502, "Model is down"),
        ),
        (
            SearchEngine::OpenRouter,
            200,
            r#"{"error":{"code":401,"message":"No"}}"#,
            key(401),
        ),
        (SearchEngine::DuckDuckGo, 403, "", SearchError::Challenge),
        (
            SearchEngine::DuckDuckGo,
            202,
            "<p>wait</p>",
            SearchError::Challenge,
        ),
        (
            SearchEngine::DuckDuckGo,
            200,
            r#"<form id="challenge-form" action="/anomaly.js"></form>"#,
            SearchError::Challenge,
        ),
        (
            SearchEngine::DuckDuckGo,
            200,
            r#"<div class="anomaly-modal__title">Unfortunately, bots use DuckDuckGo too.</div>"#,
            SearchError::Challenge,
        ),
    ] {
        assert_eq!(
            read(engine, status, body),
            Err(expected),
            "{engine:?} {status} {body}"
        );
    }
    for engine in SearchEngine::VARIANTS.iter().copied() {
        let gateway = "<html><head><title>502 Bad Gateway</title><style>b{}</style></head></html>";
        assert_eq!(
            read(engine, 502, gateway),
            Err(refused(502, "502 Bad Gateway"))
        );
        assert_eq!(read(engine, 500, "{}"), Err(refused(500, "")));
        // A redirection is no answer, but that of DuckDuckGo for nothing found.
        assert!(matches!(
            read(engine, 301, ""),
            Err(SearchError::Refused { .. })
        ));
    }
}

#[test]
fn a_message_is_one_short_line() {
    let body = format!(r#"{{"message":"a\n\tb\u0000 {}"}}"#, "日".repeat(300));
    let Err(SearchError::Refused { message, .. }) = read(SearchEngine::Serper, 400, &body) else {
        panic!("not refused");
    };
    assert_eq!(message, format!("a b {}", "日".repeat(196)));
}

#[test]
fn a_rate_limit_says_when_it_ends() {
    let limit = |engine: SearchEngine, list: &[(&'static str, &'static str)]| match engine.read(
        StatusCode::TOO_MANY_REQUESTS,
        &headers(list),
        b"{}",
    ) {
        Err(SearchError::RateLimit { retry_after }) => retry_after,
        other => panic!("{other:?}"),
    };
    let date = ("date", "Sat, 28 Nov 2026 01:00:00 GMT");
    for engine in SearchEngine::VARIANTS.iter().copied() {
        assert_eq!(limit(engine, &[]), None);
        assert_eq!(limit(engine, &[("retry-after", " 30 ")]), Some(30));
        assert_eq!(limit(engine, &[("retry-after", "soon")]), None);
        let later = ("retry-after", "Sat, 28 Nov 2026 01:01:30 GMT");
        assert_eq!(limit(engine, &[later, date]), Some(90));
        assert_eq!(limit(engine, &[later]), None);
        let earlier = ("retry-after", "Sat, 28 Nov 2026 00:00:00 GMT");
        assert_eq!(limit(engine, &[earlier, date]), Some(0));
    }
    let windows = |remaining, reset| {
        let list = [
            ("x-ratelimit-remaining", remaining),
            ("x-ratelimit-reset", reset),
        ];
        limit(SearchEngine::Brave, &list)
    };
    assert_eq!(windows("0, 9000", "1, 86400"), Some(1));
    assert_eq!(windows("0, 0", "1, 86400"), Some(86_400));
    assert_eq!(windows("1, 1", "1, 86400"), None);
    assert_eq!(windows("0", "x"), None);
}
