//! The status and the error that a client receives for each refusal of the upstream.
use kit::address::ReservedAddress;
use kit::player::{PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};

use super::{answer, body, player};
use crate::proxy::{CODEX, Proxy, Setup, streaming};

/// Promise: An error that stands in a stream by itself is shown, the limits of the provider's rate
/// are passed on, and a form that is sent to a path that does not exist is told what is served.
#[kit::test(on_each_wire)]
async fn an_error_that_stands_in_a_stream_by_itself_is_shown(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start_with(&player, Setup::new().provider("max_retries = 0")).await;
    let line = r#"{"error":{"message":"the backend is gone","type":"server_error"}}"#;
    let lines =
        "{\n  \"error\": {\n    \"message\": \"the backend is gone\",\n    \"code\": 502\n  }\n}";
    for begin in [json!({"text": "so far"}), json!({"nothing": true})] {
        for raw in [
            format!("{line}\n\n"),
            format!("{line}\n"),
            line.to_owned(),
            format!("{lines}\n\n"),
            format!("{lines}\n"),
            format!("{line}\n\ndata: [DONE]\n\n"),
            format!("\u{7}garbage\n{line}\r\n\r\n"),
        ] {
            player.push(answer(json!([begin, {"raw": raw}])));
            let stream = proxy
                .post_with(&streaming(&body()), CODEX)
                .await
                .stream_for_codex();
            let message = stream.response.pointer("/error/message").unwrap();
            let message = message.as_str().unwrap();
            assert!(message.contains("the backend is gone"), "{raw}: {message}");
        }
        // The connection may stay open behind it.
        let open = json!([begin, {"raw": format!("{line}\n\n")}, {"stall": true}]);
        player.push(answer(open));
        let reply = proxy.post_with(&streaming(&body()), CODEX).await;
        assert!(reply.body.contains("the backend is gone"), "{reply:?}");
    }
    // Half a line is no error.
    player.push(answer(json!([{"text": "so far"}, {"raw": "da"}])));
    let stream = proxy.stream(&body()).await;
    let message = stream.response.pointer("/error/message").unwrap();
    assert!(
        message
            .as_str()
            .unwrap()
            .contains("ended before it was complete")
    );
}

#[kit::test(on_each_wire)]
async fn the_limits_of_the_providers_rate_are_passed_on(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start_with(&player, Setup::new().provider("max_retries = 0")).await;
    let headers = || {
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        [
            named("x-ratelimit-remaining-requests", "7"),
            named("X-RateLimit-Reset-Tokens", "6m0s"),
            named("x-ratelimit-note", &"x".repeat(200)),
            named("x-quota", "secret"),
            named("set-cookie", "a=b"),
        ]
        .into()
    };
    for _ in 0..2 {
        player.push(ScriptedAnswer {
            headers: headers(),
            ..answer(json!([{"text": "a"}]))
        });
    }
    player.push(ScriptedAnswer {
        headers: headers(),
        ..ScriptedAnswer::error(429, "slow down")
    });
    for (request, status) in [(body(), 200), (streaming(&body()), 200), (body(), 429)] {
        let reply = proxy.post(&request).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("x-ratelimit-remaining-requests"), Some("7"));
        assert_eq!(reply.header("x-ratelimit-reset-tokens"), Some("6m0s"));
        for name in ["x-ratelimit-note", "x-quota", "set-cookie"] {
            assert_eq!(reply.header(name), None, "{name}");
        }
    }
}

/// A refusal of the upstream and the error that the client receives.
struct RefusalCase {
    status: u16,
    error: Value,
    /// The status for Codex and for other clients.
    codex: u16,
    other: u16,
    kind: &'static str,
    code: Value,
}

impl RefusalCase {
    /// The code of the failed stream that Codex gets; `None` if it gets the error by itself.
    fn code_in_stream(&self) -> Option<&'static str> {
        match self.code.as_str() {
            Some("context_length_exceeded" | "model_not_found") => None,
            Some("rate_limit_exceeded") => Some("rate_limit_exceeded"),
            Some("upstream_error" | "server_is_overloaded") => Some("server_error"),
            _ => Some("invalid_prompt"),
        }
    }
}

fn refusal_case(
    status: u16,
    error: Value,
    (codex, other): (u16, u16),
    kind: &'static str,
    code: impl Into<Value>,
) -> RefusalCase {
    RefusalCase {
        status,
        error,
        codex,
        other,
        kind,
        code: code.into(),
    }
}

fn refusal_cases() -> Vec<RefusalCase> {
    const REQUEST: &str = "invalid_request_error";
    let plain = |message: &str| json!({"message": message});
    let openai = |message: &str, kind: &str, code: &str| json!({"message": message, "type": kind, "param": "messages", "code": code});
    vec![
        refusal_case(400, plain("bad"), (400, 400), REQUEST, Value::Null),
        refusal_case(
            400,
            openai("bad", REQUEST, "invalid_value"),
            (400, 400),
            REQUEST,
            "invalid_value",
        ),
        refusal_case(
            400,
            openai("too long", REQUEST, "context_length_exceeded"),
            (400, 400),
            REQUEST,
            "context_length_exceeded",
        ),
        refusal_case(
            400,
            json!({"code": 400, "type": "exceed_context_size_error", "n_ctx": 4096, "n_prompt_tokens": 5000,
                "message": "the request exceeds the available context size, try increasing it"}),
            (400, 400),
            REQUEST,
            "context_length_exceeded",
        ),
        refusal_case(
            400,
            plain("This model's maximum context length is 4096 tokens."),
            (400, 400),
            REQUEST,
            "context_length_exceeded",
        ),
        refusal_case(
            401,
            plain("bad key"),
            (400, 401),
            "authentication_error",
            "invalid_api_key",
        ),
        refusal_case(
            402,
            plain("pay"),
            (429, 429),
            "insufficient_quota",
            "insufficient_quota",
        ),
        refusal_case(
            403,
            plain("not you"),
            (400, 403),
            "permission_error",
            "permission_denied",
        ),
        refusal_case(
            404,
            openai("The model 'm' does not exist", REQUEST, "model_not_found"),
            (404, 404),
            REQUEST,
            "model_not_found",
        ),
        refusal_case(404, plain("Not Found"), (400, 404), REQUEST, Value::Null),
        refusal_case(
            413,
            plain("too large"),
            (400, 400),
            REQUEST,
            "context_length_exceeded",
        ),
        refusal_case(422, plain("strange"), (400, 422), REQUEST, Value::Null),
        refusal_case(
            429,
            plain("slow down"),
            (429, 429),
            "rate_limit_error",
            "rate_limit_exceeded",
        ),
        refusal_case(
            429,
            openai("money", "insufficient_quota", "insufficient_quota"),
            (429, 429),
            "insufficient_quota",
            "insufficient_quota",
        ),
        refusal_case(
            500,
            plain("oops"),
            (502, 500),
            "server_error",
            "upstream_error",
        ),
        refusal_case(
            502,
            plain("gateway"),
            (502, 502),
            "server_error",
            "upstream_error",
        ),
        refusal_case(
            503,
            plain("full"),
            (503, 503),
            "server_error",
            "server_is_overloaded",
        ),
        refusal_case(
            529,
            plain("full"),
            (503, 503),
            "server_error",
            "server_is_overloaded",
        ),
    ]
}

#[kit::test(on_each_wire)]
async fn refusals_of_the_upstream_for_codex_and_for_other_clients(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start_with(&player, Setup::new().provider("max_retries = 0")).await;
    for case in refusal_cases() {
        for (headers, status) in [(CODEX, case.codex), (&[], case.other)] {
            for body in [body(), streaming(&body())] {
                player.push(ScriptedAnswer {
                    status: case.status,
                    json: Some(json!({"error": case.error})),
                    ..ScriptedAnswer::default()
                });
                let reply = proxy.post_with(&body, headers).await;
                let in_stream = body["stream"] == true && headers == CODEX;
                if in_stream && let Some(code) = case.code_in_stream() {
                    let stream = reply.stream_for_codex();
                    assert_eq!(stream.error_code(), Some(code), "{}", case.error);
                    continue;
                }
                let shown = format!("{} {}: {reply:?}", case.status, case.error);
                assert_eq!(reply.status, status, "{shown}");
                let error = reply.error(status);
                let (message, upstream_message) =
                    (error["message"].as_str(), case.error["message"].as_str());
                assert!(
                    message.unwrap().contains(upstream_message.unwrap()),
                    "{shown}"
                );
                assert_eq!(error["type"], case.kind, "{shown}");
                assert_eq!(error["code"], case.code, "{shown}");
                // Codex gives up on a 429 without a `Retry-After`.
                let pause = (case.code == "rate_limit_exceeded").then_some("10");
                assert_eq!(reply.header("retry-after"), pause, "{shown}");
                assert_eq!(reply.header("x-respondent-route"), Some("up/m"));
            }
        }
    }
    for header in ["retry-after", "Retry-After"] {
        let mut busy = ScriptedAnswer::error(429, "slow down");
        busy.headers.insert(header.into(), "7".into());
        player.push(busy);
        let reply = proxy.post_with(&body(), CODEX).await;
        assert_eq!(reply.error(429)["code"], "rate_limit_exceeded");
        assert_eq!(reply.header("retry-after"), Some("7"));
    }
}

/// Promise: A provider's error message reaches the client in OpenAI's error format, shortened and
/// without secrets.
#[kit::test(on_each_wire)]
async fn html_pages_and_huge_bodies_become_short_errors(wire: PlayerWire) {
    let player = player(wire).await;
    let proxy = Proxy::start_with(&player, Setup::new().provider("max_retries = 0")).await;
    let page = "<html><head><title>502 Bad Gateway</title></head>\n<body><h1>Bad Gateway</h1><hr>nginx</body></html>";
    let huge = format!(
        "{{\"error\":{{\"message\":\"{}\"}}}}",
        "long ".repeat(1 << 20)
    );
    for (status, text, expected) in [
        (502, page.to_owned(), "Bad Gateway"),
        (500, String::new(), "500"),
        (500, huge, "long long"),
        (500, "just words".to_owned(), "just words"),
        (500, "{\"detail\":\"of FastAPI\"}".to_owned(), "of FastAPI"),
        (500, "{\"message\":\"plain\"}".to_owned(), "plain"),
        (500, "{\"error\":\"only text\"}".to_owned(), "only text"),
        (500, "{\"error\":null}".to_owned(), ""),
        (500, "[1, 2]".to_owned(), "[1, 2]"),
    ] {
        player.push(ScriptedAnswer {
            status,
            body: Some(text.clone()),
            ..ScriptedAnswer::default()
        });
        let error = proxy.post(&body()).await.error(status);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
        assert!(message.len() < 2500 && !message.contains('<'), "{message}");
    }
    // An HTML page instead of a stream.
    player.push(ScriptedAnswer {
        body: Some(page.to_owned()),
        ..ScriptedAnswer::default()
    });
    proxy.post(&streaming(&body())).await.error(502);
    let after = proxy.memory();
    let anonymous = after.peak - after.file;
    assert!(anonymous < 16 * 1024, "{after:?}");
}

#[kit::test(on_each_wire)]
async fn an_upstream_that_cannot_be_reached(wire: PlayerWire) {
    let address = ReservedAddress::new().unwrap();
    let setup = Setup::new().wire(wire.name()).provider("max_retries = 0");
    let proxy = Proxy::start_for_url(&format!("http://{address}/v1"), setup).await;
    for headers in [&[], CODEX] {
        let error = proxy.post_with(&body(), headers).await.error(502);
        assert_eq!(error["code"], "upstream_unreachable");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(&address.to_string()), "{message}");
    }
    proxy.wait_for_log("[client error").await;
}
