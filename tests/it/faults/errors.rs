//! What an upstream's refusal becomes, as data.
use kit::player::ScriptedAnswer;
use libtest_mimic::Trial;
use serde_json::{Value, json};

use super::{body, player};
use crate::proxy::{CODEX, Proxy, Setup, streaming};
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    vec![
        case("refusals of the upstream, for Codex and for others", table),
        case("S45 pages and floods become short errors", pages_and_floods),
        case("an upstream that is not there", unreachable),
    ]
}

/// A refusal and what becomes of it.
struct Row {
    status: u16,
    error: Value,
    /// Our status for Codex and for others.
    codex: u16,
    other: u16,
    kind: &'static str,
    code: Value,
}

fn row(
    status: u16,
    error: Value,
    (codex, other): (u16, u16),
    kind: &'static str,
    code: impl Into<Value>,
) -> Row {
    Row {
        status,
        error,
        codex,
        other,
        kind,
        code: code.into(),
    }
}

fn rows() -> Vec<Row> {
    const REQUEST: &str = "invalid_request_error";
    let plain = |message: &str| json!({"message": message});
    let openai = |message: &str, kind: &str, code: &str| json!({"message": message, "type": kind, "param": "messages", "code": code});
    vec![
        row(400, plain("bad"), (400, 400), REQUEST, Value::Null),
        row(
            400,
            openai("bad", REQUEST, "invalid_value"),
            (400, 400),
            REQUEST,
            "invalid_value",
        ),
        row(
            400,
            openai("too long", REQUEST, "context_length_exceeded"),
            (400, 400),
            REQUEST,
            "context_length_exceeded",
        ),
        row(
            400,
            json!({"code": 400, "type": "exceed_context_size_error", "n_ctx": 4096, "n_prompt_tokens": 5000,
                "message": "the request exceeds the available context size, try increasing it"}),
            (400, 400),
            REQUEST,
            "context_length_exceeded",
        ),
        row(
            400,
            plain("This model's maximum context length is 4096 tokens."),
            (400, 400),
            REQUEST,
            "context_length_exceeded",
        ),
        row(
            401,
            plain("bad key"),
            (400, 401),
            "authentication_error",
            "invalid_api_key",
        ),
        row(
            402,
            plain("pay"),
            (429, 429),
            "insufficient_quota",
            "insufficient_quota",
        ),
        row(
            403,
            plain("not you"),
            (400, 403),
            "permission_error",
            "permission_denied",
        ),
        row(
            404,
            openai("The model 'm' does not exist", REQUEST, "model_not_found"),
            (404, 404),
            REQUEST,
            "model_not_found",
        ),
        row(404, plain("Not Found"), (400, 404), REQUEST, Value::Null),
        row(413, plain("too large"), (400, 413), REQUEST, Value::Null),
        row(422, plain("strange"), (400, 422), REQUEST, Value::Null),
        row(
            429,
            plain("slow down"),
            (429, 429),
            "rate_limit_error",
            "rate_limit_exceeded",
        ),
        row(
            429,
            openai("money", "insufficient_quota", "insufficient_quota"),
            (429, 429),
            "insufficient_quota",
            "insufficient_quota",
        ),
        row(
            500,
            plain("oops"),
            (502, 500),
            "server_error",
            "upstream_error",
        ),
        row(
            502,
            plain("gateway"),
            (502, 502),
            "server_error",
            "upstream_error",
        ),
        row(
            503,
            plain("full"),
            (503, 503),
            "server_error",
            "server_is_overloaded",
        ),
        row(
            529,
            plain("full"),
            (503, 503),
            "server_error",
            "server_is_overloaded",
        ),
    ]
}

async fn table() {
    let player = player().await;
    let proxy = Proxy::with(&player, Setup::new().provider("max_retries = 0")).await;
    for row in rows() {
        for (headers, status) in [(CODEX, row.codex), (&[], row.other)] {
            for body in [body(), streaming(&body())] {
                player.push(ScriptedAnswer {
                    status: row.status,
                    json: Some(json!({"error": row.error})),
                    ..ScriptedAnswer::default()
                });
                let reply = proxy.post_with(&body, headers).await;
                let streams = body["stream"] == true && !headers.is_empty();
                if streams && row.code == "upstream_error" {
                    let stream = reply.stream_for_codex();
                    assert_eq!(stream.error_code(), Some("server_error"));
                    continue;
                }
                // Codex repeats a 502 too often: it is told in a stream.
                if status == 502 && body["stream"] == true && headers == CODEX {
                    let stream = reply.stream_for_codex();
                    assert_eq!(stream.error_code(), Some("server_error"));
                    continue;
                }
                let error = reply.error(status);
                let shown = format!("{} {}: {error}", row.status, row.error);
                let (message, said) = (error["message"].as_str(), row.error["message"].as_str());
                assert!(message.unwrap().ends_with(said.unwrap()), "{shown}");
                assert_eq!(error["type"], row.kind, "{shown}");
                assert_eq!(error["code"], row.code, "{shown}");
                // Codex gives up on a 429 that does not say when to come back.
                let pause = (row.code == "rate_limit_exceeded").then_some("10");
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

async fn pages_and_floods() {
    let player = player().await;
    let proxy = Proxy::with(&player, Setup::new().provider("max_retries = 0")).await;
    let page = "<html><head><title>502 Bad Gateway</title></head>\n<body><h1>Bad Gateway</h1><hr>nginx</body></html>";
    let flood = format!(
        "{{\"error\":{{\"message\":\"{}\"}}}}",
        "long ".repeat(1 << 20)
    );
    for (status, text, told) in [
        (502, page.to_owned(), "Bad Gateway"),
        (500, String::new(), "500"),
        (500, flood, "long long"),
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
        assert!(message.contains(told), "{message}");
        assert!(message.len() < 2500 && !message.contains('<'), "{message}");
    }
    // A page where a stream should be.
    player.push(ScriptedAnswer {
        body: Some(page.to_owned()),
        ..ScriptedAnswer::default()
    });
    proxy.post(&streaming(&body())).await.error(502);
    let after = proxy.memory();
    assert!(after.peak < 64 * 1024, "{after:?}");
}

async fn unreachable() {
    // A port that was free a moment ago.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let setup = Setup::new().provider("max_retries = 0");
    let proxy = Proxy::at(&format!("http://{address}/v1"), setup).await;
    for headers in [&[], CODEX] {
        let error = proxy.post_with(&body(), headers).await.error(502);
        assert_eq!(error["code"], "upstream_unreachable");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(&address.to_string()), "{message}");
    }
    let lines = proxy.log();
    assert!(lines.contains("[client error"), "{lines}");
}
