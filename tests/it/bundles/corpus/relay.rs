//! Turns at an upstream that speaks the Responses API itself, whose items go back to it.
use adapters::fault::Kind;
use kit::player::{PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};

use super::assert_kinds;
use super::bundle_files::BundleFiles;
use super::recording::RecordingProxy;
use crate::faults::{answer, player};
use crate::proxy::{CODEX, Setup, streaming};
use crate::relay::{extend, tools};

pub const SESSION: &[Kind] = &[
    Kind::Cut,
    Kind::Unavailable,
    Kind::Overloaded,
    Kind::Refused,
];

#[kit::test]
async fn a_session_of_a_responses_upstream() {
    assert_kinds(&session(PlayerWire::Responses).await, SESSION);
}

/// The bundles are redacted: the client's and the upstream's copy of the encrypted reasoning
/// must still belong together in the replay.
async fn session(wire: PlayerWire) -> BundleFiles {
    let player = player(wire).await;
    let setup = Setup::new().provider("max_retries = 0");
    let recording = RecordingProxy::start(&player, setup).await;
    let mut items = vec![json!({"role": "user", "content": "go"})];
    for turn in 0..4 {
        let call = json!({"id": format!("call_{turn}"), "name": "exec_command", "arguments": "{\"cmd\":\"cat .env\"}", "pieces": 3});
        player.push(answer(json!([
            {"reasoning": "The key is sk-canary-0001-abcdef."}, {"text": "I look."}, {"call": call}
        ])));
        let reply = recording.turn(&streaming(&body(&items)), CODEX).await;
        extend(&mut items, &reply.stream_for_codex().response);
    }
    for end in [
        answer(json!([{"reasoning": "hm"}, {"text": "well"}])),
        answer(json!([{"text": "a"}, {"cut": "fin"}])),
        answer(
            json!([{"reasoning": "hm"}, {"error": {"code": "server_error", "message": "broke"}}]),
        ),
        ScriptedAnswer::error(503, "down"),
        ScriptedAnswer::error(400, "no"),
    ] {
        recording
            .each_caller(&body(&items), || player.push(end.clone()))
            .await;
    }
    recording.assert_replays("relay").await
}

fn body(items: &[Value]) -> Value {
    json!({"model": "m", "input": items, "tools": tools()})
}
