//! Secrets do not leak: a key is sent to its own provider only, and no reply, log, metric,
//! command or bundle contains a secret.
mod bundles;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use kit::player::{Player, PlayerWire, ScriptedAnswer};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::faults::{answer, body, player, repeating_player};
use crate::proxy::{CODEX, Proxy, Reply, Setup, streaming};

/// The names of the headers of a recorded request, sorted.
fn header_names(player: &Player, request: usize) -> Vec<String> {
    let head = player.requests()[request].head.clone();
    let lines = head.lines().skip(1);
    let mut names: Vec<String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.to_ascii_lowercase())
        .collect();
    names.sort();
    names
}

/// Promise: No header of the client is forwarded upstream, an API key is sent only to its own
/// provider, and redirects are not followed.
#[kit::test]
async fn no_client_header_is_forwarded_upstream() {
    /// The headers that the proxy itself sends.
    const PROXY_HEADERS: [&str; 6] = [
        "accept",
        "accept-encoding",
        "content-length",
        "content-type",
        "host",
        "user-agent",
    ];
    let player = repeating_player(PlayerWire::Chat, answer(json!([{"text": "a"}]))).await;
    let setup = Setup::new()
        .server("token_env = \"GATE\"")
        .env("GATE", "token-of-the-gate");
    let proxy = Proxy::start_with(&player, setup).await;
    let sent = [
        ("authorization", "Bearer token-of-the-gate"),
        ("cookie", "session=of-the-client"),
        ("x-api-key", "key-of-the-client"),
        ("openai-organization", "org-of-the-client"),
        ("chatgpt-account-id", "account-of-the-client"),
        ("forwarded", "for=client"),
        ("te", "trailers"),
        (
            "x-codex-turn-metadata",
            "{\"thread_id\":\"thread-of-the-client\"}",
        ),
    ];
    let reply = proxy.post_with(&streaming(&body()), &sent).await;
    assert_eq!(reply.stream().text(), "a");
    assert_eq!(header_names(&player, 0), PROXY_HEADERS);
    let request = &player.requests()[0];
    assert!(!request.head.contains("of-the-") && !request.body.contains("of-the-"));
    assert_eq!(
        proxy.post(&body()).await.error(401)["code"],
        "invalid_api_key"
    );
    assert_eq!(player.requests().len(), 1);
}

#[kit::test]
async fn each_provider_gets_its_own_key() {
    let (first, second) = (
        player(PlayerWire::Chat).await,
        player(PlayerWire::Chat).await,
    );
    let setup = Setup::new()
        .provider("api_key = \"key-of-the-first\"\nmax_retries = 1")
        .tables(&format!(
            "[providers.other]\nbase_url = \"{}\"\napi_key_env = \"OTHER\"\nmax_retries = 1\n\
             headers = {{ X-Secret = \"header-of-the-second\" }}",
            second.base_url()
        ))
        .env("OTHER", "key-of-the-second");
    let proxy = Proxy::start_with(&first, setup).await;
    for player in [&first, &second] {
        for fault in [
            ScriptedAnswer::error(401, "no"),
            ScriptedAnswer::error(503, "no"),
        ] {
            player.push(fault);
        }
    }
    for model in ["up/a", "other/a"] {
        for _ in 0..2 {
            let reply = proxy.post(&json!({"model": model, "input": "go"})).await;
            assert!(reply.status >= 400);
        }
    }
    for (player, own_key, other) in [
        (&first, "key-of-the-first", "of-the-second"),
        (&second, "key-of-the-second", "of-the-first"),
    ] {
        let requests = player.requests();
        assert!(requests.len() > 1);
        for request in requests {
            assert!(
                request
                    .head
                    .contains(&format!("authorization: Bearer {own_key}\r\n"))
            );
            assert!(!request.head.contains(other), "{}", request.head);
        }
    }
}

#[kit::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = repeating_player(PlayerWire::Chat, answer(json!([{"text": "caught"}]))).await;
    for status in [301, 302, 303, 307, 308] {
        let mut redirect = ScriptedAnswer {
            status,
            body: Some(String::new()),
            ..ScriptedAnswer::default()
        };
        let target = format!("{}/chat/completions", elsewhere.base_url());
        redirect.headers.insert("location".into(), target);
        let player = repeating_player(PlayerWire::Chat, redirect).await;
        let setup = Setup::new().provider("api_key = \"key-of-the-first\"\nmax_retries = 0");
        let proxy = Proxy::start_with(&player, setup).await;
        let error = proxy.post(&body()).await.error(502);
        assert!(error["message"].as_str().unwrap().contains("redirect"));
        assert_eq!(player.requests().len(), 1);
    }
    assert!(elsewhere.requests().is_empty());
}

const KEYS: [&str; 4] = [
    "sk-canary/One+7f3e9a1b2c4d5e6f",
    "sk-canary-two-0a1b2c3d4e5f6071",
    "hdr-canary-three-9f8e7d6c5b4a39",
    "gate-canary-four-1122334455667",
];

/// The forms in which a secret could leak: plain, in part, and encoded.
fn forms(secret: &str) -> Vec<String> {
    let mut forms = vec![
        secret.to_owned(),
        secret[..16].to_owned(),
        secret[12..].to_owned(),
        utf8_percent_encode(secret, NON_ALPHANUMERIC).to_string(),
        STANDARD.encode(secret),
        URL_SAFE_NO_PAD.encode(secret),
        STANDARD.encode(format!("user:{secret}")),
        STANDARD.encode(format!("Bearer {secret}")),
    ];
    for form in &mut forms[4..] {
        // The last characters depend on the bytes that follow.
        form.truncate(form.len() - 4);
    }
    forms
}

/// A text that quotes every secret in every form that a provider could send back.
fn echo() -> String {
    let forms = KEYS.iter().flat_map(|key| {
        [
            (*key).to_owned(),
            utf8_percent_encode(key, NON_ALPHANUMERIC).to_string(),
            STANDARD.encode(key),
            URL_SAFE_NO_PAD.encode(key),
            STANDARD.encode(format!("user:{key}")),
            STANDARD.encode(format!("Bearer {key}")),
        ]
    });
    let forms: Vec<String> = forms.collect();
    format!("You sent {}.", forms.join(" and "))
}

/// Asserts that a text contains no secret in any form. `what` names the text.
fn assert_clean(what: &str, text: &str) {
    for key in KEYS {
        for form in forms(key) {
            let line = text.lines().find(|line| line.contains(&form));
            assert_eq!(line, None, "{what} shows {form}");
        }
    }
}

/// All of a reply as text.
fn reply_text(reply: &Reply) -> String {
    format!("{} {:?} {}", reply.status, reply.headers, reply.body)
}

/// Promise: No API key and no token appears in any output, in plain or encoded form.
#[kit::test]
async fn canaries_stay_inside() {
    let player = player(PlayerWire::Chat).await;
    let [one, two, three, four] = KEYS;
    let setup = Setup::new()
        .server("token_file = \"gate.key\"\nlog = \"trace\"")
        .provider(&format!(
            "api_key = [\"{one}\", \"{two}\"]\nmax_retries = 1\n\
             headers = {{ X-Team-Token = \"{three}\" }}\nquery = {{ api-key = \"{three}\" }}"
        ))
        .file("gate.key", four);
    let proxy = Proxy::start_with(&player, setup.clone()).await;
    let gate = format!("Bearer {four}");
    let with_token = |more: &[(&'static str, &'static str)]| {
        let mut headers = vec![("authorization", gate.as_str())];
        headers.extend(more);
        headers
    };
    let echo = echo();
    let all = json!({"message": echo, "type": echo, "code": echo, "param": echo});
    let numbered = |code: u16| json!({"message": echo, "code": code, "param": echo});
    let faults: Vec<ScriptedAnswer> = [400, 401, 403, 404, 422, 429, 500, 503]
        .into_iter()
        .flat_map(|status| {
            let json = ScriptedAnswer {
                status,
                json: Some(json!({"error": all})),
                ..ScriptedAnswer::default()
            };
            let text = ScriptedAnswer {
                status,
                body: Some(format!("<p>{echo}</p>")),
                ..ScriptedAnswer::default()
            };
            [json, text]
        })
        .chain([
            answer(json!([{"text": "a"}, {"error": all}])),
            answer(json!([{"text": "a"}, {"error": numbered(401)}])),
            answer(json!([{"text": "a"}, {"raw": format!("data: {echo}\n\n")}, {"stall": true}])),
            answer(json!([{"error": numbered(400)}])),
            answer(json!([{"text": "a"}, {"finish": one}, {"done": true}])),
            answer(json!([{"raw": format!("{echo}\r\n")}])),
        ])
        .collect();
    let mut seen = Vec::new();
    for fault in faults {
        for (headers, stream) in [(with_token(&[]), false), (with_token(CODEX), true)] {
            // One for each attempt.
            for _ in 0..2 {
                player.push(fault.clone());
            }
            let body = if stream { streaming(&body()) } else { body() };
            let reply = proxy.post_with(&body, &headers).await;
            assert_clean("a reply", &reply_text(&reply));
            if stream && reply.status == 200 {
                reply.stream_for_codex();
            }
            seen.push(reply.status);
            // An answer that was not used must not reach the next turn.
            while player.requests().len() % 2 > 0 {
                let reply = proxy.post_with(&body, &headers).await;
                assert_clean("a reply", &reply_text(&reply));
            }
        }
    }
    assert!(seen.contains(&200) && seen.contains(&400), "{seen:?}");
    // Wrong tokens, and tokens in the wrong place.
    for headers in [
        vec![("authorization", format!("Bearer {one}"))],
        vec![("authorization", format!("Basic {}", STANDARD.encode(four)))],
        vec![("x-token", four.to_owned())],
        vec![
            ("authorization", gate.clone()),
            ("origin", format!("http://{one}")),
        ],
    ] {
        let headers: Vec<(&str, &str)> = headers.iter().map(|(a, b)| (*a, b.as_str())).collect();
        let reply = proxy.post_with(&body(), &headers).await;
        assert!([401, 403].contains(&reply.status));
        assert_clean("a refusal", &reply_text(&reply));
    }
    // Secrets instead of names.
    for body in [
        json!({"model": "m", "input": "go", "tool_choice": {"type": "function", "name": one}}),
        json!({"model": "m", "input": "go", "previous_response_id": four}),
        json!({"model": "m", "input": [{"type": one}], "include": [two]}),
    ] {
        let reply = proxy.post_with(&body, &with_token(&[])).await;
        assert_clean("a refusal", &reply_text(&reply));
    }
    // Secrets as names that the proxy repeats: of the session, the model and the client.
    let echoed = |reply: &Reply| {
        let headers = reply.headers.iter();
        let headers = headers.map(|(name, value)| format!("{name}: {value:?}\n"));
        headers.collect::<String>()
    };
    for key in KEYS {
        // What is left of a secret without its beginning is not recognized.
        for form in forms(key)
            .into_iter()
            .filter(|form| !key.ends_with(form) || form == key)
        {
            player.push(answer(json!([{"text": "a"}])));
            let body =
                json!({"model": format!("up/{form}"), "input": "go", "prompt_cache_key": form});
            let reply = proxy.post_with(&body, &with_token(&[])).await;
            assert_eq!(reply.status, 200, "{reply:?}");
            assert!(echoed(&reply).contains("x-respondent-route: "));
            assert_clean("the headers of a reply", &echoed(&reply));
            player.push(answer(json!([{"text": "a"}])));
            let headers = [
                ("thread-id", form.as_str()),
                ("originator", "codex"),
                ("x-request-id", &form),
            ];
            let headers: Vec<(&str, &str)> = with_token(&[]).into_iter().chain(headers).collect();
            let reply = proxy.post_with(&crate::faults::body(), &headers).await;
            assert_clean("the headers of a reply", &echoed(&reply));
        }
    }
    let shown = proxy.get_with("/metrics", &with_token(&[])).await;
    assert!(
        shown.body.contains("model=\"[redacted]\""),
        "{}",
        shown.body
    );
    assert_clean("the metrics", &shown.body);
    for path in [
        "/diagnostics/turns",
        "/diagnostics/status",
        "/diagnostics/models",
        "/diagnostics/jobs",
    ] {
        let shown = proxy.get_with(path, &with_token(&[])).await;
        assert_eq!(shown.status, 200, "{path}");
        assert_clean(path, &shown.body);
    }
    assert_clean("the log", &proxy.wait_for_log("[redacted]").await);
    assert!(
        player
            .requests()
            .iter()
            .all(|request| request.head.contains(three))
    );

    let open = Setup::new().provider(&format!("api_key = \"{one}\""));
    let other = Proxy::start_with(&player, open).await;
    player.push(ScriptedAnswer {
        status: 401,
        body: Some(echo.clone()),
        ..ScriptedAnswer::default()
    });
    other.post(&body()).await;
    for path in ["/metrics", "/v1/models", "/healthz"] {
        assert_clean(
            path,
            &other
                .get(path)
                .await
                .body
                .replace(two, "")
                .replace(three, ""),
        );
    }
    for args in [
        &["check"][..],
        &["codex", "setup", "--dry-run", "--model", "up/m"],
    ] {
        let mut setup = setup.clone();
        for arg in args {
            setup = setup.arg(arg);
        }
        let folder = setup.folder(&player.base_url());
        let (code, out, err) = setup.run(folder.path()).await;
        assert_eq!(code, 0, "{err}");
        assert!(!out.is_empty());
        assert_clean("a command", &(out + &err));
    }
}

#[kit::test]
async fn a_broken_configuration_does_not_show_its_keys() {
    let [one, two, three, _] = KEYS;
    for (name, provider) in [
        ("an unterminated string", format!("api_key = \"{one}")),
        ("a wrong type", format!("api_key = {{ a = \"{one}\" }}")),
        ("an unknown key", format!("api_kex = \"{one}\"")),
        (
            "a duplicate key",
            format!("api_key = \"{one}\"\napi_key = \"{two}\""),
        ),
        (
            "an invalid header name",
            format!("api_key = \"{one}\"\nheaders = {{ \"a b\" = \"{three}\" }}"),
        ),
        (
            "a line break in a header",
            format!("headers = {{ X = \"{three}\\n\" }}\napi_key = \"{one}\""),
        ),
        (
            "a string instead of a number",
            format!("api_key = \"{one}\"\nmax_retries = \"{two}\""),
        ),
        (
            "two sources of the key",
            format!("api_key = \"{one}\"\napi_key_command = \"echo {two}\""),
        ),
        (
            "a command that fails",
            format!("api_key_command = \"echo {two}; echo {one} >&2; exit 3\" # api_key"),
        ),
        (
            "a key with a line break",
            format!("api_key = \"{one}\\n{two}\""),
        ),
        (
            "a proxy",
            format!("api_key = \"{one}\"\nproxy = \"no url {two}\""),
        ),
        (
            "an address",
            format!("api_key = \"{one}\"\nquery = \"{three}\""),
        ),
    ] {
        let setup = Setup::new().provider(&provider).arg("check");
        let folder = setup.folder("http://127.0.0.1:9/v1");
        let (code, out, err) = setup.run(folder.path()).await;
        assert_clean(name, &(out.clone() + &err));
        assert!(
            code == 2 || (code == 0 && err.is_empty()),
            "{name}: {code} {err}"
        );
        if code == 2 {
            assert!(err.starts_with("respondent: "), "{name}: {err}");
        }
    }
}

#[kit::test]
async fn one_record_is_one_line() {
    const FORGED: &str = "\r\n2026-01-01T00:00:00Z  INFO respondent::turn: outcome=\"forged\" \u{1b}[31m\u{9b}\u{2028}\u{202e}end";
    for format in ["human", "json"] {
        let player = player(PlayerWire::Chat).await;
        let setup = Setup::new()
            .server(&format!("log_format = \"{format}\"\nlog = \"debug\""))
            .provider("max_retries = 0");
        let proxy = Proxy::start_with(&player, setup).await;
        let tool = |name: &str| json!({"type": "function", "name": name, "parameters": {}});
        let forged = |key: &str| {
            let mut body = body();
            body[key] = FORGED.into();
            body
        };
        let space = json!([{"type": "namespace", "name": FORGED, "tools": [tool("x")]}]);
        let mut bodies: Vec<Value> = ["model", "prompt_cache_key", "input", "instructions"]
            .map(forged)
            .to_vec();
        bodies.push(json!({"model": "m", "input": "go", "tools": [tool(FORGED)]}));
        bodies.push(json!({"model": "m", "input": "go", "tools": space}));
        bodies.push(json!({"model": "m", "input": "go", "include": [FORGED]}));
        bodies.push(json!({"model": "m", "input": "go", "tools": [{"type": FORGED}]}));
        bodies.push(
            json!({"model": "m", "input": [{"type": FORGED}, {"role": FORGED, "content": "x"}]}),
        );
        bodies.push(json!({"model": "m", "input": "go", "tool_choice": FORGED}));
        bodies.push(json!({"model": "m", "input": "go", "previous_response_id": FORGED}));
        let answers = [
            answer(json!([{"call": {"id": FORGED, "name": "x", "arguments": FORGED}}])),
            answer(
                json!([{"call": {"id": "c", "name": FORGED, "arguments": "{}"}}, {"finish": FORGED}, {"done": true}]),
            ),
            answer(json!([{"text": "a"}, {"error": {"message": FORGED, "code": FORGED}}])),
            answer(
                json!([{"raw": format!("data: {}\n\n", FORGED.replace(['\r', '\n'], "\u{b}"))}]),
            ),
            ScriptedAnswer::error(500, FORGED),
        ];
        let mut turns = 0;
        for body in &bodies {
            for answer in &answers {
                let before = player.requests().len();
                player.push(answer.clone());
                let headers = [("thread-id", "a\tb"), ("originator", "codex\u{e9}\t")];
                proxy.post_with(body, &headers).await;
                turns += 1;
                if player.requests().len() == before {
                    // The request was refused before it was sent, so another turn must use the
                    // answer.
                    proxy.post(&crate::faults::body()).await;
                    turns += 1;
                }
            }
        }
        proxy
            .wait_for_metric("respondent_open_streams", "", 0.0)
            .await;
        let metrics = proxy.metrics().await;
        assert!(!metrics.contains('\u{1b}'), "{metrics}");
        assert!(
            metrics
                .lines()
                .all(|line| line.starts_with("respondent_") || line.starts_with('#'))
        );
        let ended = |log: &str| -> usize {
            log.lines()
                .filter(|line| match format {
                    "human" => {
                        line.contains(['\u{2713}', '\u{2717}', '\u{2026}']) && line.contains("req_")
                    }
                    _ => line.contains("\"target\":\"respondent::turn\""),
                })
                .count()
        };
        // The log lags behind the replies.
        while ended(&proxy.log()) < turns {
            tokio::task::yield_now().await;
        }
        let log = proxy.log();
        for line in log.lines() {
            assert!(
                !line.contains(['\u{1b}', '\u{9b}', '\r', '\u{2028}', '\u{202e}', '\u{b}']),
                "{line:?}"
            );
            assert!(!line.starts_with("2026-01-01T00:00:00Z"), "{line:?}");
            if format == "json" && line.starts_with('{') {
                serde_json::from_str::<Value>(line).unwrap();
            }
        }
        let greeting_lines = log.lines().filter(|line| line.starts_with("  ")).count();
        let records = log.lines().filter(|line| !line.is_empty()).count() - greeting_lines;
        assert!(
            records >= turns && ended(&log) == turns,
            "{records} {turns}\n{log}"
        );
    }
}
