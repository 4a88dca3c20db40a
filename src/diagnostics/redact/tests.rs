use std::path::Path;
use std::sync::LazyLock;

use adapters::cited_source::{CitedSource, PageArtifact};
use adapters::responses::assembler::{HostedItem, McpCallError};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use regex::bytes::Regex;

use super::*;
use crate::diagnostics::bundle::BundleTurn;
use crate::secrets::Secret;
use crate::turn::{RecordedToolCall, ToolResult};

const KEY: &str = "sk-canary/7f3e+9a1b2c4d-0Zq";

fn scrubber() -> &'static Scrubber {
    static SCRUBBER: LazyLock<Scrubber> = LazyLock::new(|| {
        let redactor = Redactor::new([&Secret::new(KEY).unwrap()]);
        Scrubber::new(redactor, Keep::default())
    });
    &SCRUBBER
}

fn scrub(text: &str) -> String {
    let clean = scrubber().text(text).into_owned();
    assert_eq!(scrubber().text(&clean), clean);
    clean
}

fn scrub_bytes(body: &str) -> String {
    let mut clean = body.as_bytes().to_vec();
    let mut chunks: Vec<BodyChunk> = body
        .as_bytes()
        .chunks(7)
        .map(|chunk| BodyChunk {
            at_us: 0,
            length: chunk.len(),
        })
        .collect();
    scrubber().body(&mut clean, &mut chunks);
    let total: usize = chunks.iter().map(|chunk| chunk.length).sum();
    assert_eq!(total, clean.len());
    String::from_utf8(clean).unwrap()
}

/// A turn can be redacted twice, the second time with the secrets of another configuration.
#[test]
fn a_second_redaction_takes_marks_that_the_first_has_not() {
    let [first, second] = ["first-canary-0123", "second-canary-0123"].map(|secret| {
        let redactor = Redactor::new([&Secret::new(secret).unwrap()]);
        Scrubber::new(redactor, Keep::default())
    });
    let mut turn = BundleTurn::default();
    turn.request.path = "/v1/responses".to_owned();
    turn.notes = vec![("kept".to_owned(), "hunter2 is password=hunter22".to_owned())];
    turn.request.body = b"{\"a\":\"first-canary-0123 second-canary-0123\"}".to_vec();
    turn.answer.body = b"second-canary-0123 first-canary-0123".to_vec();
    let once = first.turn(&turn);
    let twice = second.turn(&once);
    let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
    assert_eq!(
        text(&twice.request.body),
        r#"{"a":"[redacted-1] [redacted-3]"}"#
    );
    assert_eq!(text(&twice.answer.body), "[redacted-3] [redacted-1]");
    assert_eq!(twice.notes[0].1, "hunter2 is password=[redacted-2]");
    assert!(second.turn(&twice) == twice && first.turn(&twice) == twice);
}

#[test]
fn secrets_are_recognised_by_their_shape() {
    for (text, secret) in [
        (
            "use sk-ant-api03-AbCdEf0123456789_x now",
            "sk-ant-api03-AbCdEf0123456789_x",
        ),
        ("gsk_0123456789abcdefABCDEF", "gsk_0123456789abcdefABCDEF"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        (
            "x=github_pat_11ABCDEFG0123456789_abc",
            "github_pat_11ABCDEFG0123456789_abc",
        ),
        ("xoxb-123456789012-abcdefXYZ", "xoxb-123456789012-abcdefXYZ"),
        (
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
        ),
        (
            "Authorization: Bearer abcdefgh12345678.x",
            "abcdefgh12345678.x",
        ),
        ("Basic dXNlcjpodW50ZXIy0000", "dXNlcjpodW50ZXIy0000"),
        (r#"{"api_key":"hunter2"}"#, "hunter2"),
        (r#"{"arguments":"{\"password\":\"hunter22\"}"}"#, "hunter22"),
        (
            r#"{"a":"{\"b\":\"{\\\"client_secret\\\": \\\"hunter22\\\"}\"}"}"#,
            "hunter22",
        ),
        ("HOME=/root\nMY_SECRET=correcthorse\nB=1", "correcthorse"),
        (
            r#"{"output":"A=1\nDB_PASSWORD=correcthorse\nB=1"}"#,
            "correcthorse",
        ),
        ("https://x.example/v1?key=abc123def456&b=1", "abc123def456"),
        ("postgres://admin:hunter2@db.example/x", "hunter2"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
            "MIIEow",
        ),
        (
            r#"{"t":"-----BEGIN PRIVATE KEY-----\nMIIEow\n-----END PRIVATE KEY-----"}"#,
            "MIIEow",
        ),
    ] {
        let clean = scrub(text);
        assert!(!clean.contains(secret), "{clean}");
        let (before, after) = text.split_once(secret).unwrap();
        assert!(clean.ends_with(after), "{clean}");
        assert!(
            clean.starts_with(before) || text.contains("admin"),
            "{clean}"
        );
    }
}

#[test]
fn ordinary_text_is_unchanged() {
    for text in [
        r#"{"max_tokens":100,"prompt_cache_key":"0199b2f4-8f5c-7d11-9c7e-2f3b1a4d5e6f","total_tokens":12}"#,
        r#"{"logprobs":{"content":[{"token":" configuration","logprob":-0.1}]}}"#,
        r#"{"call_id":"call_0123456789abcdefABCDEF","id":"resp_0123456789abcdef0123456789abcdef"}"#,
        "commit 85eb61a0c4f1e9d2b3a4958676fedcba01234567",
        "keys begin with sk- or sk-proj-, see task-0123456789abcdef01 and sk-fading-circle-animation",
        "let token = self.next_token(); fn secret(token: &str) -> String",
        "password: String, the Basic internationalization of a bearer acknowledgements",
        "{\"required\":[\"password\"],\"properties\":{\"password\":{\"type\":\"string\"}}}",
        "git@github.com ssh://git@github.com/a/b.git https://a.example/@x?q=1&page=2",
        "export API_KEY=$OTHER",
    ] {
        assert_eq!(scrub(text), text);
    }
}

#[test]
fn a_secret_has_the_same_mark_in_every_encoding() {
    assert_eq!(scrub(&format!("a {KEY} b")), "a [redacted-1] b");
    let encoded = scrub(&STANDARD.encode(format!("user:{KEY}!")));
    assert!(encoded.starts_with("dXNlcj"), "{encoded}");
    assert!(encoded.contains("[redacted-1]"), "{encoded}");
    let escaped = KEY.replace('/', r"\/").replace('k', r"\u006b");
    assert_eq!(
        scrub(&format!(r#"{{"a":"\n{escaped}"}}"#)),
        r#"{"a":"\n[redacted-1]"}"#
    );
    let percent = KEY
        .replace('/', "%2F")
        .replace('+', "%2b")
        .replace('-', "%2D");
    assert_eq!(scrub(&format!("a={percent}%20b")), "a=[redacted-1]%20b");
    assert_eq!(scrub(KEY.get(..20).unwrap()), "[redacted-1]");
}

#[test]
fn secrets_that_are_not_known_are_numbered() {
    let scrubber = Scrubber::new(Redactor::new([&Secret::new(KEY).unwrap()]), Keep::default());
    let [one, other] = ["ghp_0123456789abcdefghij", "hf_0123456789abcdefghij"];
    for (text, clean) in [
        (
            format!("{one} {KEY} {other} {one}"),
            "[redacted-2] [redacted-1] [redacted-3] [redacted-2]",
        ),
        (
            format!(r#"{{"token":"{one}","b":"{{\"{other}\":1}}"}}"#),
            r#"{"token":"[redacted-2]","b":"{\"[redacted-3]\":1}"}"#,
        ),
        (
            format!("?key={other}&x=1 Bearer {one} https://{one}:{other}@b.example"),
            "?key=[redacted-3]&x=1 Bearer [redacted-2] https://[redacted-2]:[redacted-3]@b.example",
        ),
    ] {
        assert_eq!(scrubber.text(&text), clean);
        assert_eq!(scrubber.text(clean), clean);
    }
}

#[test]
fn images_are_replaced_by_their_hash() {
    let image = |data: &str| format!(r#"{{"image_url":"data:image/png;base64,{data}"}}"#);
    let (one, other) = (STANDARD.encode([7; 100]), STANDARD.encode([8; 100]));
    let clean = scrub(&image(&one));
    assert!(clean.contains(";base64,sha256/"), "{clean}");
    assert_ne!(clean, scrub(&image(&other)));
    let keep = Keep {
        images: true,
        encrypted: false,
    };
    let kept = Scrubber::new(Redactor::default(), keep);
    assert_eq!(kept.text(&image(&one)), image(&one));
}

#[test]
fn sealed_blobs_are_opened_and_redacted() {
    use adapters::baggage::Baggage;
    use adapters::event::ReasoningStateForm;
    let blob = |reasoning: &str, signature: &str| {
        let details = format!(r#"[{{"type":"reasoning.encrypted","data":"{signature}"}}]"#);
        Baggage {
            reasoning: reasoning.into(),
            states: vec![(ReasoningStateForm::new('s'), details)],
            ..Baggage::default()
        }
        .seal()
    };
    let text = |blob: &str| format!(r#"{{"encrypted_content":"{blob}","call_id":"call_1"}}"#);
    let signature = STANDARD.encode([9; 60]);
    let ours = scrub(&text(&blob(&format!("the key is {KEY}"), &signature)));
    let sealed = ours.split('"').nth(3).unwrap();
    let opened = Baggage::open(sealed).unwrap();
    assert_eq!(opened.reasoning, format!("the key is {}", scrub(KEY)));
    // The same as in the request to the provider.
    let upstream = format!(r#"[{{"type":"reasoning.encrypted","data":"{signature}"}}]"#);
    assert_eq!(opened.states[0].1, scrub(&upstream));
    assert_ne!(opened.states[0].1, upstream);
    let foreign = text("gAAAAABodlongenough");
    assert!(scrub(&foreign).starts_with(r#"{"encrypted_content":"sha256/"#));
    let keep = Keep {
        images: false,
        encrypted: true,
    };
    let kept = Scrubber::new(Redactor::default(), keep);
    assert_eq!(kept.text(&foreign), foreign);
}

#[test]
fn all_of_a_turn_is_scrubbed() {
    use crate::diagnostics::bundle::{
        BundleAttempt, BundleRequest, BundleResponse, BundleResponseHead,
    };
    let headers = || {
        vec![
            ("authorization".to_owned(), format!("Bearer {KEY}")),
            ("x-unknown".to_owned(), "anything".to_owned()),
            ("thread-id".to_owned(), "0199b2f4-8f5c".to_owned()),
            (
                "x-codex-turn-metadata".to_owned(),
                r#"{"request_kind":"turn"}"#.to_owned(),
            ),
        ]
    };
    let body = || format!(r#"{{"a":"{KEY}"}}"#).into_bytes();
    let fault = || {
        let fault = adapters::fault::Fault::invalid(format!("p {KEY}"), format!("m {KEY}"));
        Some(
            fault
                .with_code(format!("c {KEY}"))
                .caused_by(format!("d {KEY}")),
        )
    };
    let mut turn = BundleTurn {
        request_id: "req_1".into(),
        fault: fault(),
        notes: vec![("code".into(), format!("said {KEY}"))],
        request: BundleRequest {
            path: format!("/v1/responses?key={KEY}"),
            headers: headers(),
            body: body(),
        },
        answer: BundleResponse {
            headers: headers(),
            body: body(),
            ..BundleResponse::default()
        },
        attempts: vec![BundleAttempt {
            route: format!("acme/{KEY}"),
            url: format!(
                "https://u:{}@acme.example/v1/{KEY}/chat?key=short&api-version=2",
                KEY.replace('/', "%2F")
            ),
            headers: headers(),
            head: Some(BundleResponseHead {
                headers: headers(),
                ..BundleResponseHead::default()
            }),
            fault: fault(),
            body: body(),
            answer: body(),
            ..BundleAttempt::default()
        }],
        plan: body(),
        ..BundleTurn::default()
    };
    turn.settings.asked = KEY.into();
    turn.state_before.moved_to = Some(KEY.into());
    turn.state_before.tools = Some(format!(r#"[{{"name":"{KEY}"}}]"#));
    turn.state_before
        .items
        .insert("msg_1".into(), format!(r#"{{"a":"{KEY}"}}"#));
    turn.state_before.baggage.insert(
        "call_1".into(),
        format!(
            "{} foreign-blob",
            adapters::baggage::Baggage {
                reasoning: KEY.into(),
                ..Default::default()
            }
            .seal()
        ),
    );
    let clean = scrubber().turn(&turn);
    for text in [
        &serde_json::to_vec(&clean).unwrap(),
        &clean.plan,
        &clean.request.body,
        &clean.answer.body,
        &clean.attempts[0].body,
        &clean.attempts[0].answer,
    ] {
        assert_unreadable(text);
    }
    assert_eq!(clean.request.path, "/v1/responses?key=[redacted]");
    assert_eq!(
        clean.attempts[0].url,
        "https://[redacted]@acme.example/v1/[redacted-1]/chat?key=[redacted]&api-version=2"
    );
    let values: Vec<&str> = clean
        .request
        .headers
        .iter()
        .map(|(_, value)| &**value)
        .collect();
    assert_eq!(
        values,
        [
            "[redacted]",
            "[redacted]",
            "0199b2f4-8f5c",
            r#"{"request_kind":"turn"}"#
        ]
    );
    assert!(scrubber().turn(&clean) == clean);
}

/// A field that is new must not be forgotten.
#[test]
fn every_text_of_a_turn_is_scrubbed() {
    let mut turn = crate::diagnostics::bundle::sample::turn(1);
    fill_state(&mut turn);
    assert_no_text_keeps_a_secret(&turn);
}

/// Puts a text into each field of the state of a turn.
fn fill_state(turn: &mut BundleTurn) {
    let state = serde_json::json!({
        "model_patches": [{"provider": "p", "model": "m", "patches": []}],
        "items": {"msg_1": "x"},
        "baggage": {"call_1": "x"},
        "moved_to": "x",
        "bytes_per_token": {"p/m": 2.5},
        "providers": [{"provider": "p"}],
        "tools": "x",
        "image_texts": {"key": "x"},
        "hidden_rounds": [[{"message": ["x"]}, {"call": "x"}, {"hidden": "x"}, {"source": {"url": "x", "title": "x",
            "kept": {"url": "x", "published": "x", "artifact_id": "x", "read": 1}}}]],
        "proxy_tools": [{"name": "x", "description": "x", "parameters": "x"}],
        "mcp": {
            "servers": [{"label": "x", "tools": "x", "error": "x"}],
            "notice": "x", "left_out": ["x"],
        },
    });
    turn.state_before = serde_json::from_value(state).unwrap();
    let hosted = [
        HostedItem::WebSearchCall {
            action: "x".into(),
            results: Some("x".into()),
        },
        HostedItem::McpCall {
            server_label: "x".into(),
            name: "x".into(),
            arguments: "x".into(),
            output: Some("x".into()),
            error: Some(McpCallError::of_time("x".into())),
            approval_request_id: None,
        },
        HostedItem::McpListTools {
            server_label: "x".into(),
            tools: "x".into(),
            error: Some("x".into()),
        },
        HostedItem::ToolSearchCall {
            paths: vec!["x".into()],
            tools: "x".into(),
        },
    ];
    let calls = hosted.map(|item| RecordedToolCall {
        call_id: "x".into(),
        shown: Some(item.clone()),
        took_us: 1,
        result: Some(ToolResult {
            text: "x".into(),
            failed: false,
            unusable: false,
            item: Some(item),
            sources: vec![CitedSource {
                url: "x".into(),
                title: "x".into(),
                kept: Some(Box::new(PageArtifact {
                    url: "x".into(),
                    published: Some("x".into()),
                    artifact_id: "x".into(),
                    read: 1,
                })),
            }],
        }),
    });
    turn.state_before.tool_calls = calls.into();
    for route in &mut turn.settings.routes {
        route.headers = vec![("x-title".into(), "x".into())];
        route.query = vec![("version".into(), "x".into())];
        route.dialect.body = vec![("x".into(), "x".into())];
    }
}

/// Puts the key into each string of the turn in turn, as far as it can be any text.
fn assert_no_text_keeps_a_secret(turn: &BundleTurn) {
    let json = serde_json::to_value(turn).unwrap();
    let mut places = Vec::new();
    string_places(&json, String::new(), &mut places);
    assert!(places.len() > 60, "{places:?}");
    let mut kept = Vec::new();
    for place in places {
        let mut json = json.clone();
        *json.pointer_mut(&place).unwrap() = KEY.into();
        let Ok(turn) = serde_json::from_value::<BundleTurn>(json) else {
            continue;
        };
        let clean = serde_json::to_string(&scrubber().turn(&turn)).unwrap();
        if clean.contains(KEY) {
            kept.push(place);
        }
    }
    // Names that are in no conversation: of headers, of providers, and what the proxy names.
    let named = kept.iter().filter(|place| {
        let name = place.rsplit('/').find(|part| part.parse::<u32>().is_err());
        let is_name = place.ends_with("/0/0") && !place.ends_with("/notes/0/0");
        !is_name && !["provider", "name", "random"].contains(&name.unwrap_or_default())
    });
    let named: Vec<&str> = named.map(String::as_str).collect();
    assert_eq!(
        named,
        ["/request_id", "/version", "/config_digest", "/notes/0/0"]
    );
}

fn string_places(json: &serde_json::Value, place: String, places: &mut Vec<String>) {
    match json {
        serde_json::Value::String(_) => places.push(place),
        serde_json::Value::Array(list) => {
            for (index, json) in list.iter().enumerate() {
                string_places(json, format!("{place}/{index}"), places);
            }
        }
        serde_json::Value::Object(members) => {
            for (name, json) in members {
                string_places(json, format!("{place}/{}", name.replace('/', "~1")), places);
            }
        }
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {}
    }
}

#[test]
fn configured_patterns_are_redacted() {
    let patterns = [
        Regex::new(r"customer-\d+").unwrap(),
        Regex::new(r#""name":\s*"([^"]+)""#).unwrap(),
        Regex::new("(?s)from.*to").unwrap(),
    ];
    let scrubber = Scrubber::new(
        Redactor::default().with_patterns(&patterns),
        Keep::default(),
    );
    let text = r#"{"name":"Anna K","n":1,"t":"of customer-77","a":"from","b":[true,null,1.5e3],"c":"\n to \u00e9"}"#;
    let clean = scrubber.text(text).into_owned();
    assert!(
        !clean.contains("Anna") && !clean.contains("customer-77"),
        "{clean}"
    );
    assert!(
        clean.contains(r#","n":1,"#) && clean.contains("[true,null,1.5e3]"),
        "{clean}"
    );
    serde_json::from_str::<serde_json::Value>(&clean).unwrap();
    assert_eq!(scrubber.text(&clean), clean);
}

#[test]
fn a_secret_spread_over_fragments_is_redacted_in_all_of_them() {
    for event in [
        r#"data: {"type":"response.output_text.delta","delta":"@","item_id":"msg_1","output_index":0}"#,
        r#"data: {"choices":[{"index":0,"delta":{"content":"@"}}]}"#,
        r#"data: {"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":"@"}},{"index":2,"function":{"arguments":"other"}}]}}]}"#,
    ] {
        let text = format!("My key is {KEY}, and that is it.");
        for size in 1..9 {
            let parts = text.as_bytes().chunks(size);
            let events =
                parts.map(|part| event.replace('@', std::str::from_utf8(part).unwrap()) + "\n\n");
            let clean = scrub_bytes(&events.collect::<Vec<_>>().concat());
            let (before, after) = event.split_once('@').unwrap();
            let events = clean.split_terminator("\n\n");
            let left = events.map(|event| {
                let event = event.strip_prefix(before).unwrap();
                event.strip_suffix(after).unwrap()
            });
            assert_eq!(
                left.collect::<Vec<_>>().concat(),
                "My key is [redacted-1], and that is it."
            );
        }
    }
}

/// The name in front of a fragment tells as well as in any other JSON.
#[test]
fn a_named_secret_in_a_fragment_is_redacted() {
    let event = format!("data: {{\"delta\":{{\"api_key\":\"hunter2\",\"text\":\"a {KEY}\"}}}}\n\n");
    let clean = scrub_bytes(&event.repeat(2));
    assert!(!clean.contains("hunter2"), "{clean}");
    assert_eq!(clean.matches("\"a [redacted-1]\"").count(), 2, "{clean}");
    assert_eq!(scrub_bytes(&clean), clean);
}

#[test]
fn ordinary_traffic_is_unchanged() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/chat");
    let keep = Keep {
        images: true,
        encrypted: true,
    };
    let scrubber = Scrubber::new(Redactor::default(), keep);
    let mut seen = 0;
    for folder in std::fs::read_dir(fixtures).unwrap() {
        for name in [
            "request.json",
            "upstream.sse",
            "expect.sse",
            "expect.request.json",
        ] {
            let path = folder.as_ref().unwrap().path().join(name);
            let Ok(text) = std::fs::read(&path) else {
                continue;
            };
            seen += 1;
            let mut clean = text.clone();
            scrubber.body(&mut clean, &mut Vec::new());
            if clean != text {
                let at = clean.iter().zip(&text).position(|(a, b)| a != b).unwrap();
                let from = at.saturating_sub(60);
                let show = |text: &[u8]| {
                    String::from_utf8_lossy(&text[from..(at + 60).min(text.len())]).into_owned()
                };
                panic!("{}: {} -> {}", path.display(), show(&text), show(&clean));
            }
        }
    }
    assert!(seen > 100, "{seen}");
}

/// Texts that would take hours if the work were quadratic.
#[test]
fn hostile_texts_are_scrubbed() {
    let base64 = STANDARD.encode(format!("{KEY}~").repeat(10));
    let nested = (0..4).fold(format!("\"{KEY}\""), |text, _| {
        serde_json::to_string(&text).unwrap()
    });
    let event = r#"data: {"choices":[{"delta":{"content":"sk-canary"}}]}"#;
    for part in [
        "A",
        "\"",
        "\\",
        "\\\"",
        "{",
        "[{\"a\":",
        "{\"delta\":",
        "sk-",
        "eyJ",
        "password=",
        "-----BEGIN PRIVATE KEY-----",
        "%41",
        "%25",
        "a://",
        "eyJaaaaaaaaaa-hf_0123456789abcdef-",
        "a:",
        "data: {\"a\":\"b\"}\n",
        "data: {\"delta\":\"b\"}\n",
        &format!("{event}\n"),
        ";base64,",
        "[redacted-1]",
        KEY,
        &base64,
        &nested,
    ] {
        let text = part.repeat(60_000 / part.len());
        for text in [
            &text,
            &format!("data: {text}"),
            &format!("data: {{\"delta\":\"{text}"),
        ] {
            let clean = scrub_bytes(text);
            assert_unreadable(clean.as_bytes());
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

/// The secret in one of several encodings.
fn written(way: u8, mask: u64, lead: usize) -> String {
    let picked = |place: usize| mask >> (place % 60) & 1 == 1;
    let each = |encode: fn(u8) -> String| {
        let bytes = KEY.bytes().enumerate();
        bytes
            .map(|(place, byte)| {
                if picked(place) {
                    encode(byte)
                } else {
                    char::from(byte).to_string()
                }
            })
            .collect::<String>()
    };
    let around = format!("{}{KEY}{}", "~".repeat(lead), "~".repeat(lead % 3));
    match way % 7 {
        0 => KEY.to_owned(),
        1 => each(|byte| format!("%{byte:02X}")),
        2 => each(|byte| format!("%{byte:02x}")),
        3 => STANDARD.encode(around),
        4 => URL_SAFE_NO_PAD.encode(around),
        5 => hex(around.as_bytes()),
        _ => KEY.get(..20).unwrap().to_owned(),
    }
}

/// The contents of a JSON string, with escapes where the mask has a bit set.
fn escaped(text: &str, mask: u64) -> String {
    text.bytes()
        .enumerate()
        .map(|(place, byte)| match byte {
            _ if mask >> (place % 59) & 1 == 1 && place % 3 == 0 => format!("\\u{byte:04x}"),
            b'/' if mask & 1 == 1 => "\\/".to_owned(),
            b'"' => "\\\"".to_owned(),
            b'\\' => "\\\\".to_owned(),
            _ => char::from(byte).to_string(),
        })
        .collect()
}

/// Asserts that a body does not contain the key in any encoding, its fragments joined.
#[track_caller]
fn assert_unreadable(body: &[u8]) {
    let fragments = BodyStrings::of(body);
    let fragments = fragments.fragments().into_iter().map(|values| {
        let parts = values.iter().map(|value| &body[value.part.clone()]);
        parts.collect::<Vec<_>>().concat()
    });
    let key = Redactor::new([&Secret::new(KEY).unwrap()]);
    for text in fragments.chain([body.to_vec()]) {
        let found = key.find(&text);
        assert!(found.is_empty(), "{}", String::from_utf8_lossy(&text));
    }
}

proptest! {
    #[test]
    fn no_canary_survives(
        way in 0..7_u8,
        mask in any::<u64>(),
        lead in 0..6_usize,
        nested in any::<bool>(),
        size in 1..40_usize,
        sort in 0..3_u8,
    ) {
        let secret = format!("before {} after", written(way, mask, lead));
        let secret = if nested { format!(r#"{{"a":"{}"}}"#, escaped(&secret, mask >> 7)) } else { secret };
        let body = match sort {
            0 => secret.clone(),
            1 => format!(r#"{{"input":[{{"content":"{}","n":1}}]}}"#, escaped(&secret, mask >> 3)),
            _ => secret.as_bytes().chunks(size).map(|part| {
                let part = std::str::from_utf8(part).unwrap();
                format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n", escaped(part, mask >> 5))
            }).collect::<Vec<_>>().concat(),
        };
        let clean = scrub_bytes(&body);
        prop_assert_eq!(&scrub_bytes(&clean), &clean);
        assert_unreadable(clean.as_bytes());
        let text = clean.as_str();
        for line in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
            prop_assert!(serde_json::from_str::<serde_json::Value>(line).is_ok());
        }
        if sort == 1 {
            prop_assert!(serde_json::from_str::<serde_json::Value>(text).is_ok(), "{}", text);
        }
    }

    #[test]
    fn redaction_keeps_json_syntax(text in any::<String>(), names in prop::collection::vec("[a-z_=:;,&?\"\\\\/%0-9]{0,12}|password|token=|api_key|sk-|Bearer |://", 0..30)) {
        let text = serde_json::json!({"a": text, "b": names.concat()}).to_string();
        let clean = scrubber().text(&text).into_owned();
        prop_assert_eq!(scrubber().text(&clean), clean.as_str());
        prop_assert!(serde_json::from_str::<serde_json::Value>(&clean).is_ok(), "{}", clean);
    }
}
