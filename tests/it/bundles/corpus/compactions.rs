//! Compactions by every trigger: one turn with several attempts.
use adapters::fault::Kind;
use kit::player::{PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};

use super::bundle_files::BundleFiles;
use super::recording::RecordingProxy;
use super::{assert_kinds, bundle_name};
use crate::faults::{answer, player};
use crate::proxy::{CODEX, Setup, streaming};

const SUMMARY: &str = "The user wants the parser fixed; the key sk-canary-0001-abcdef was found in .env, src/parse.rs is read, the tests are next.";

const COMPACTION: &[(&str, &str)] = &[
    ("originator", "codex_exec"),
    ("thread-id", "thread-1"),
    ("x-codex-turn-metadata", r#"{"request_kind":"compaction"}"#),
];

const TURN: &[(&str, &str)] = &[("originator", "codex_exec"), ("thread-id", "thread-1")];

pub const COMPACTIONS: &[Kind] = &[
    Kind::ContextLength,
    Kind::Refused,
    Kind::Unavailable,
    Kind::Authentication,
];

#[kit::test(on_each_wire)]
async fn compactions_by_every_trigger(wire: PlayerWire) {
    assert_kinds(&compactions(wire).await, COMPACTIONS);
}

#[kit::test(on_each_wire)]
async fn a_heartbeat_while_outputs_are_stored(wire: PlayerWire) {
    assert_kinds(&locked_store(wire).await, &[]);
}

fn items() -> Vec<Value> {
    vec![
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix the parser."}]}),
        json!({"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}),
        json!({"type": "function_call_output", "call_id": "c1", "output": "line\n".repeat(500)}),
    ]
}

fn body(last: Option<Value>) -> Value {
    let input: Vec<Value> = items().into_iter().chain(last).collect();
    let look = json!({"type": "function", "name": "look", "parameters": {"type": "object"}});
    json!({"model": "m", "input": input, "tools": [look]})
}

/// A request that is compacted after it was answered.
fn beyond_threshold() -> Value {
    let mut body = body(None);
    let long = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look. ".repeat(800)}]});
    body["input"].as_array_mut().unwrap().insert(1, long);
    body["context_management"] = json!([{"type": "compaction", "compact_threshold": 1000}]);
    body
}

async fn compactions(wire: PlayerWire) -> BundleFiles {
    let player = player(wire).await;
    let setup = Setup::new()
        .provider("max_retries = 0")
        .server("heartbeat = \"150ms\"");
    let recording = RecordingProxy::start(&player, setup).await;
    let good = answer(json!([{"text": SUMMARY}]));
    let call =
        answer(json!([{"call": {"index": 0, "id": "c9", "name": "look", "arguments": "{}"}}]));
    let slow = ScriptedAnswer {
        head_delay_ms: 400,
        ..good.clone()
    };
    let no = |status, message| ScriptedAnswer::error(status, message);
    let long = "This model's maximum context length is 100000 tokens. However, your messages resulted in 100010 tokens.";
    let stories = [
        vec![good.clone()],
        vec![slow],
        vec![call.clone(), good.clone()],
        vec![no(400, long), good.clone()],
        vec![no(400, "no"), call],
        vec![no(500, "no"), no(500, "no")],
        vec![no(401, "no")],
    ];
    for story in stories {
        let play = || story.iter().for_each(|answer| player.push(answer.clone()));
        let trigger = body(Some(json!({"type": "compaction_trigger"})));
        recording.each_caller(&trigger, play).await;

        play();
        recording.count_turns(1);
        let plain = body(None);
        let endpoint = recording
            .proxy
            .post_to("/v1/responses/compact", &plain, CODEX);
        assert_eq!(endpoint.await.status, 200);

        player.push(answer(json!([{"text": "a turn"}])));
        recording.turn(&streaming(&body(None)), TURN).await;
        play();
        let prompt = json!({"type": "message", "role": "user", "content": "Summarize."});
        let mut local = body(Some(prompt));
        local["tools"] = json!([]);
        recording.turn(&streaming(&local), COMPACTION).await;

        let threshold = beyond_threshold();
        recording
            .each_caller(&threshold, || {
                player.push(answer(json!([{"text": "on it"}])));
                play();
            })
            .await;
    }
    recording
        .assert_replays(&bundle_name(wire, "compactions"))
        .await
}

/// The outputs of a compaction wait for a database that somebody else writes to.
async fn locked_store(wire: PlayerWire) -> BundleFiles {
    let player = player(wire).await;
    let setup = Setup::new().server("heartbeat = \"20ms\"\ndata_dir = \"data\"");
    let recording = RecordingProxy::start(&player, setup).await;
    let folder = recording.proxy.folder.path();
    let writer = rusqlite::Connection::open(folder.join("data/artifacts/artifacts.db")).unwrap();
    let trigger = json!({"type": "compaction_trigger"});
    for mut asked in [body(Some(trigger.clone())), body(Some(trigger))] {
        player.push(answer(json!([{"text": SUMMARY}])));
        writer.execute_batch("BEGIN IMMEDIATE").unwrap();
        recording.count_turns(1);
        let output = player.requests().len().to_string().repeat(30_000);
        let first = [
            json!({"type": "function_call", "call_id": "c0", "name": "look", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": "c0", "output": output}),
        ];
        asked["input"].as_array_mut().unwrap().splice(0..0, first);
        let asked = streaming(&asked).to_string();
        let mut stream = recording.proxy.open(asked, TURN).await;
        stream.read_until("\"sequence_number\":4").await;
        writer.execute_batch("COMMIT").unwrap();
        let stream = stream.read_to_end().await.stream();
        assert!(stream.count("response.in_progress") > 3);
    }
    let name = bundle_name(wire, "locked-store");
    recording.assert_replays(&name).await
}
