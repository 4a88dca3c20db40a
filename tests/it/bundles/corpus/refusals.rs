//! Refusals: by providers, with every status and wording, and by the proxy itself.
use adapters::fault::Kind;
use kit::player::{PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};

use super::bundle_files::BundleFiles;
use super::recording::RecordingProxy;
use super::{assert_kinds, bundle_name};
use crate::faults::{body, player};
use crate::proxy::{CODEX, Setup};

pub const REFUSED: &[Kind] = &[
    Kind::Refused,
    Kind::ContextLength,
    Kind::ContentFilter,
    Kind::Authentication,
    Kind::Quota,
    Kind::Permission,
    Kind::ModelNotFound,
    Kind::Timeout,
    Kind::RateLimit,
    Kind::Unavailable,
    Kind::Overloaded,
    Kind::BadReply,
];

#[kit::test(on_each_wire)]
async fn refusals_by_status_and_words(wire: PlayerWire) {
    assert_kinds(&refused(wire).await, REFUSED);
}

pub const SENSELESS: &[Kind] = &[Kind::InvalidRequest, Kind::ModelNotFound];

#[kit::test(on_each_wire)]
async fn requests_that_make_no_sense(wire: PlayerWire) {
    assert_kinds(&senseless(wire).await, SENSELESS);
}

pub const LARGE: &[Kind] = &[Kind::Refused];

/// Promise: A request of 854,476 bytes is captured completely and can be replayed; a turn that does
/// not fit into the capture records how large it was and how much of it was kept.
#[kit::test(on_each_wire)]
async fn a_large_request_is_kept_whole(wire: PlayerWire) {
    assert_kinds(&large(wire).await, LARGE);
}

fn says(status: u16, message: &str, code: &str) -> ScriptedAnswer {
    let code = if code.is_empty() {
        Value::Null
    } else {
        code.into()
    };
    let error = json!({"message": message, "type": "some_error", "param": null, "code": code});
    ScriptedAnswer {
        status,
        json: Some(json!({ "error": error })),
        ..ScriptedAnswer::default()
    }
}

fn with(header: &str, value: &str, answer: ScriptedAnswer) -> ScriptedAnswer {
    let headers = [(header.to_owned(), value.to_owned())].into();
    ScriptedAnswer { headers, ..answer }
}

fn page(status: u16, body: &str) -> ScriptedAnswer {
    ScriptedAnswer {
        status,
        body: Some(body.to_owned()),
        ..ScriptedAnswer::default()
    }
}

fn answers() -> Vec<ScriptedAnswer> {
    let html =
        "<html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>";
    let flood = format!(r#"{{"error":{{"message":"{}"}}}}"#, "long ".repeat(1 << 20));
    let slow = || says(429, "slow down", "");
    vec![
        says(400, "bad", ""),
        says(400, "too long", "context_length_exceeded"),
        says(
            400,
            "This model's maximum context length is 4096 tokens.",
            "",
        ),
        says(400, "considered high risk", "content_filter"),
        says(401, "bad key", ""),
        says(402, "pay", ""),
        says(403, "not you", ""),
        says(404, "The model 'm' does not exist", "model_not_found"),
        says(404, "Not Found", ""),
        says(408, "too slow", ""),
        says(413, "too large", ""),
        says(422, "strange", ""),
        slow(),
        with("retry-after", "7", slow()),
        with("retry-after", "3000", slow()),
        with("retry-after-ms", "3500", slow()),
        says(429, "money", "insufficient_quota"),
        says(500, "oops", ""),
        says(502, "gateway", ""),
        says(503, "full", ""),
        says(529, "full", ""),
        with("location", "https://elsewhere.example/v1", page(302, "")),
        page(502, html),
        page(500, ""),
        page(500, "just words"),
        page(500, &flood),
    ]
}

async fn refused(wire: PlayerWire) -> BundleFiles {
    let player = player(wire).await;
    let setup = Setup::new().provider("max_retries = 0\napi_key = \"key-of-the-corpus\"");
    let recording = RecordingProxy::start(&player, setup).await;
    for answer in answers() {
        recording
            .each_caller(&body(), || player.push(answer.clone()))
            .await;
    }
    recording
        .assert_replays(&bundle_name(wire, "refusals"))
        .await
}

async fn senseless(wire: PlayerWire) -> BundleFiles {
    let player = player(wire).await;
    // A second provider, so that a model name without a provider is ambiguous.
    let setup = Setup::new().provider("models = [{ id = \"m\" }]").other(
        "other",
        &player,
        "models = [{ id = \"known\" }]",
    );
    let recording = RecordingProxy::start(&player, setup).await;
    for more in [
        json!({"model": "nobody/knows"}),
        json!({"model": "knwon"}),
        json!({"model": 7}),
        json!({"input": {"role": "user"}}),
        json!({"temperature": "warm"}),
        json!({"tools": [{"type": "function"}]}),
        json!({"previous_response_id": "resp_gone"}),
        json!({"input": [{"type": "item_reference", "id": "msg_gone"}]}),
    ] {
        let mut body = body();
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        recording.each_caller(&body, || ()).await;
        assert!(player.requests().is_empty(), "{more}");
    }
    for bytes in ["", "[]", "{\"model\": \"m\"", "what?"] {
        for headers in [CODEX, &[]] {
            recording.raw_turn(bytes.to_owned(), headers).await;
        }
    }
    recording
        .assert_replays(&bundle_name(wire, "requests"))
        .await
}

/// A request of the largest size that was observed in practice.
async fn large(wire: PlayerWire) -> BundleFiles {
    const SIZE: usize = 854_476;
    let player = player(wire).await;
    player.push(says(400, "no", ""));
    let recording = RecordingProxy::start(&player, Setup::new()).await;
    let mut ask = json!({"model": "m", "input": "", "stream": true});
    let words = "a word ".repeat(SIZE / 7 + 1);
    let room = SIZE - ask.to_string().len();
    ask["input"] = words[..room].into();
    recording.turn(&ask, CODEX).await;
    let turns = recording.assert_replays(&bundle_name(wire, "large")).await;
    assert_eq!(turns.file("turns/1/request.json").len(), SIZE);
    turns
}
