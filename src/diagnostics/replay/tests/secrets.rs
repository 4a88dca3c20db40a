//! Redacted turns replay without a difference.

use super::*;

/// Promise: No secret remains in a bundle, in any form, and the redacted turn replays with the same
/// result.
///
/// Replaying a redacted turn gives the redacted turn.
#[test]
fn a_redacted_turn() {
    let secret = "sk-canary-0123456789abcdef0123456789abcdef";
    // The secret is recognised by its shape alone.
    let scrubber = Scrubber::new(Redactor::default(), Keep::default());
    let echo_text = format!("your key is {secret}, is it?");
    for answers in [
        json!([{"steps": [{"text": echo_text}, {"reasoning": echo_text}], "split": 17}]),
        json!([{"steps": [{"call": {"id": "c1", "name": "shell", "arguments": format!("{{\"k\":\"{secret}\"}}")}}]}]),
        json!([{"status": 400, "json": {"error": {"message": echo_text}}}]),
        json!([{"status": 401, "body": echo_text}]),
    ] {
        let recorded = Scene {
            requests: vec![json!({"model": "acme/m", "input": echo_text, "stream": true})],
            ..scene(answers)
        }
        .record();
        let redacted = redact(&recorded, &scrubber);
        assert!(!text(&redacted).contains(secret));
        let replayed = replay(&redacted).unwrap();
        same(&timeless(&redacted), &timeless(&replayed));
    }
}

/// The client got `[redacted]` where a provider echoed a secret; the bundle contains the mark of
/// that secret there.
#[test]
fn secrets_that_were_echoed() {
    const KEY: &str = "sk-canary/0123456789+abcdef0123456789abcdef";
    let patterns = [Regex::new("customer-([A-Za-z]+)").unwrap()];
    let percent = utf8_percent_encode(KEY, NON_ALPHANUMERIC).to_string();
    for (echo, secrets) in [
        (format!("bad key {KEY}."), vec![KEY]),
        (format!("bad key {}.", STANDARD.encode(format!("u:{KEY}"))), vec![]),
        (format!("bad key {percent}."), vec![percent.as_str()]),
        (
            "you said ghp_0123456789abcdefghij, Bearer abcdefgh12345678.x and \
             password=\"correct horse 1\" at https://me:pass9@db.example"
                .to_owned(),
            vec!["ghp_0123456789abcdefghij", "abcdefgh12345678.x", "correct horse 1", "pass9"],
        ),
        (
            "no -----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY----- here"
                .to_owned(),
            vec!["MIIEowIBAAKCAQEA"],
        ),
        ("no customer-Smith and no customer-Al".to_owned(), vec!["Smith", "-Al"]),
    ] {
        let error = json!({"message": echo, "code": echo, "param": echo});
        let line = echo.replace('\n', " ");
        for (answer, stream) in [
            (json!({"status": 401, "json": {"error": error}}), true),
            (json!({"status": 400, "json": {"error": error}}), false),
            (json!({"status": 400, "body": format!("<p>{line}</p>")}), true),
            (json!({"steps": [{"text": "a"}, {"error": error}]}), true),
            (json!({"steps": [{"text": "a"}, {"raw": format!("data: {line}\n\n")}]}), true),
            (json!({"steps": [{"error": error}]}), false),
        ] {
            let input = format!("I am customer-Smith, ghp_0123456789abcdefghij, {echo}");
            let scene = Scene {
                settings: "api_key = \"sk-canary/0123456789+abcdef0123456789abcdef\"\nmax_retries = 0",
                tables: "[capture]\npatterns = [\"customer-([A-Za-z]+)\"]",
                requests: vec![json!({"model": "acme/m", "input": input, "stream": stream})],
                ..scene(json!([answer]))
            };
            let recorded = scene.record();
            let response = String::from_utf8(recorded.answer.body.clone()).unwrap();
            let quoted = !response.contains("is not a chat completion chunk");
            assert_eq!(response.contains("[redacted]"), quoted, "{response}");
            assert!(!secrets.iter().any(|secret| response.contains(secret)), "{response}");
            let redactor = Redactor::new(&[Secret::new(KEY).unwrap()]).with_patterns(&patterns);
            let scrubber = Scrubber::new(redactor, Keep::default());
            let redacted = redact(&recorded, &scrubber);
            let all = text(&redacted);
            assert!(!secrets.iter().any(|secret| all.contains(secret)), "{all}");
            same(&timeless(&redacted), &timeless(&replay(&redacted).unwrap()));
            assert!(redact(&redacted, &scrubber) == redacted);
        }
    }
}

/// The error for an invalid request quotes the client's own text.
#[test]
fn secrets_in_a_refused_request() {
    let secret = "ghp_0123456789abcdefghij";
    let recorded = Scene {
        requests: vec![json!({"model": "acme/m", "input": "hi", "previous_response_id": secret})],
        ..scene(json!([]))
    }
    .record();
    assert!(String::from_utf8_lossy(&recorded.answer.body).contains("[redacted]"));
    let redacted = redact(
        &recorded,
        &Scrubber::new(Redactor::default(), Keep::default()),
    );
    assert!(!text(&redacted).contains(secret));
    same(&timeless(&redacted), &timeless(&replay(&redacted).unwrap()));
}

/// A dummy key, such as the name of a program, is no secret: redacting it would damage
/// every name that contains it.
#[test]
fn a_dummy_key() {
    for key in ["acme", "not-needed", "dummykey", "EMPTYKEY"] {
        let settings = format!("api_key = \"{key}\"\nmax_retries = 0");
        let echo_text = format!("no {key} here");
        let scene = Scene {
            settings: &settings,
            requests: vec![
                json!({"model": format!("acme/{key}"), "input": echo_text, "stream": true}),
            ],
            ..scene(json!([{"status": 400, "json": {"error": {"message": echo_text}}}]))
        };
        let recorded = scene.record();
        let scrubber = Scrubber::new(
            config(&settings_of(key)).redactor().clone(),
            Keep::default(),
        );
        let redacted = redact(&recorded, &scrubber);
        assert!(redacted == recorded);
        same(&timeless(&redacted), &timeless(&replay(&redacted).unwrap()));
    }
}

fn settings_of(key: &str) -> String {
    format!("[providers.acme]\nbase_url = \"http://127.0.0.1:9/v1\"\napi_key = \"{key}\"")
}
