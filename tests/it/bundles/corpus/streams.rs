//! Responses that start successfully, and how they end.
use adapters::fault::Kind;
use kit::player::{PlayerWire, ScriptStep, ScriptedAnswer};
use serde_json::{Value, json};

use super::bundle_files::BundleFiles;
use super::recording::RecordingProxy;
use super::{assert_kinds, bundle_name};
use crate::faults::{answer, body, player};
use crate::proxy::{Setup, streaming};
use crate::turns::parse_steps;

pub const BROKEN: &[Kind] = &[Kind::Cut];

#[kit::test(on_each_wire)]
async fn answers_that_break_off(wire: PlayerWire) {
    assert_kinds(&broken(wire).await, BROKEN);
}

pub const GARBAGE: &[Kind] = &[Kind::BadReply];

#[kit::test(on_each_wire)]
async fn answers_that_are_no_answers(wire: PlayerWire) {
    assert_kinds(&garbage(wire).await, GARBAGE);
}

pub const IN_STREAM: &[Kind] = &[
    Kind::Unavailable,
    Kind::RateLimit,
    Kind::Overloaded,
    Kind::Refused,
    Kind::Authentication,
    Kind::Quota,
    Kind::ContextLength,
    Kind::ContentFilter,
];

#[kit::test(on_each_wire)]
async fn errors_inside_the_stream(wire: PlayerWire) {
    assert_kinds(&in_stream(wire).await, IN_STREAM);
}

/// Nothing was said for a reason that nobody knows, or a call in a whole answer is cut.
pub const ENDED: &[Kind] = &[Kind::ContentFilter, Kind::BadReply];

#[kit::test(on_each_wire)]
async fn answers_that_end_early_or_well(wire: PlayerWire) {
    assert_kinds(&ended(wire).await, ENDED);
}

/// Plays each response to each caller.
async fn play(wire: PlayerWire, name: &str, answers: Vec<ScriptedAnswer>) -> BundleFiles {
    let player = player(wire).await;
    let recording = RecordingProxy::start(&player, Setup::new().provider("max_retries = 0")).await;
    let mut body = body();
    body["tools"] = json!([{"type": "function", "name": "look", "parameters": {"type": "object"}}]);
    for answer in answers {
        recording
            .each_caller(&body, || player.push(answer.clone()))
            .await;
    }
    recording.assert_replays(&bundle_name(wire, name)).await
}

/// What the provider sends before the response ends.
fn beginnings() -> Vec<Vec<ScriptStep>> {
    let call =
        json!({"call": {"index": 0, "id": "c1", "name": "look", "arguments": "{\"at\": [1, "}});
    [
        json!([]),
        json!([{"reasoning": "I think"}]),
        json!([{"reasoning": "I think"}, {"text": "one \u{6f22} "}, {"text": "two"}]),
        json!([{"text": "I look."}, call]),
    ]
    .map(parse_steps)
    .into()
}

fn each(end: &Value) -> Vec<ScriptedAnswer> {
    let end = parse_steps(end.clone());
    let answers = beginnings().into_iter();
    answers
        .map(|said| ScriptedAnswer::steps([said, end.clone()].concat()))
        .collect()
}

async fn broken(wire: PlayerWire) -> BundleFiles {
    let ends = [
        json!([{"cut": "fin"}]),
        json!([{"cut": "rst"}]),
        // The body ends properly, but without a finish reason.
        json!([{"raw": ""}]),
        json!([{"raw": "data: [DONE]\n\n"}]),
    ];
    play(wire, "broken", ends.iter().flat_map(each).collect()).await
}

async fn garbage(wire: PlayerWire) -> BundleFiles {
    let page = "<html><head><title>Welcome</title></head><body>Log in.</body></html>";
    let mut answers = each(&json!([{"raw": "data: {\"a\": [}\n\n"}, {"stall": true}]));
    answers.push(ScriptedAnswer {
        body: Some(page.to_owned()),
        ..ScriptedAnswer::default()
    });
    let player = player(wire).await;
    let recording = RecordingProxy::start(&player, Setup::new().provider("max_retries = 0")).await;
    for answer in answers {
        recording
            .each_caller(&body(), || player.push(answer.clone()))
            .await;
    }
    // A line without an end. Only once: searching it for secrets takes a while.
    player.push(answer(json!([
        {"text": "a"}, {"raw": "data: {\"a\":\""},
        {"repeat": {"times": 9, "steps": [{"raw": ". ".repeat(1 << 19)}]}}, {"stall": true}
    ])));
    recording.turn(&streaming(&body()), &[]).await;
    recording
        .assert_replays(&bundle_name(wire, "garbage"))
        .await
}

async fn in_stream(wire: PlayerWire) -> BundleFiles {
    let errors = [
        json!({"message": "upstream fell over", "code": 500}),
        json!({"message": "slow", "code": 429}),
        json!({"message": "slow, try again in 2.5s", "code": 429}),
        json!({"message": "full", "code": 503}),
        json!({"message": "no", "code": 400}),
        json!({"message": "key", "code": 401}),
        json!({"message": "money", "code": 429, "type": "insufficient_quota"}),
        json!({"message": "long", "code": "context_length_exceeded"}),
        json!({"message": "considered high risk", "type": "content_filter", "code": 400}),
        json!("only text"),
        json!({"message": null}),
    ];
    let mut answers = Vec::new();
    for error in errors {
        answers.push(answer(json!([{"error": error}])));
        answers.push(answer(
            json!([{"text": "a"}, {"error": error}, {"stall": true}]),
        ));
    }
    play(wire, "errors", answers).await
}

async fn ended(wire: PlayerWire) -> BundleFiles {
    let mut answers = Vec::new();
    for finish in ["length", "content_filter", "stop", "strange"] {
        answers.extend(each(&json!([{"finish": finish}])));
    }
    answers.extend(each(&json!([])));
    answers.push(answer(json!([{"refusal": "I will "}, {"refusal": "not."}])));
    // The bytes arrive in small chunks.
    answers.push(ScriptedAnswer {
        split: 7,
        ..answer(json!([{"text": "one \u{1F600} two"}, {"finish": "stop"}]))
    });
    play(wire, "ends", answers).await
}
