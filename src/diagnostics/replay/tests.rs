//! Turns are recorded in real time with the real engine, and replayed.

mod late;
mod secrets;
mod shortened;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use adapters::plan::Retention;
use adapters::stop_flag::{StopFlag, StopReason};
use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http_body_util::BodyExt as _;
use kit::player::Player;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use regex::bytes::Regex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::live::LiveRecorder;
use super::{ReplayError, live, remake, replay, replay_hiding};
use crate::artifacts::Artifacts;
use crate::config::{Config, Inputs, LoadPurpose, load};
use crate::diagnostics::bundle::{BodyChunk, BundleTurn, Scope, compare};
use crate::diagnostics::redact::{Keep, Scrubber};
use crate::metrics::Metrics;
use crate::responses::ResponseStore;
use crate::secrets::{Redactor, Secret};
use crate::turn::{Outcome, Service, TurnRequest, respond};

/// A turn to run and record, and the turns before it.
struct Scene<'s> {
    /// The scripts of the providers `acme` and `brand`, in this order.
    scripts: Vec<Value>,
    /// Further settings in the table of `acme`.
    settings: &'s str,
    /// Further tables of the configuration.
    tables: &'s str,
    /// The client's requests. The last one is recorded; the others come before it.
    requests: Vec<Value>,
    headers: Vec<(&'static str, &'static str)>,
    /// The client leaves after this many chunks.
    leaves_after: Option<usize>,
    /// The program shuts down after `acme` got this many requests.
    ends_after: Option<usize>,
    /// Where excerpts say that whole outputs are kept.
    retention: Retention,
}

impl Default for Scene<'_> {
    fn default() -> Self {
        Self {
            scripts: Vec::new(),
            settings: "",
            tables: "",
            requests: vec![json!({"model": "acme/m", "input": "hi", "stream": true})],
            headers: Vec::new(),
            leaves_after: None,
            ends_after: None,
            retention: Retention::Nothing,
        }
    }
}

fn scene(answers: Value) -> Scene<'static> {
    Scene {
        scripts: vec![Value::from_iter([("answers", answers)])],
        ..Scene::default()
    }
}

fn steps(steps: Value) -> Scene<'static> {
    scene(vec![Value::from_iter([("steps", steps)])].into())
}

impl Scene<'_> {
    /// Runs the turns and returns the recording of the last one.
    fn record(&self) -> BundleTurn {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(self.run())
    }

    async fn run(&self) -> BundleTurn {
        // Fails if another test has installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut players = Vec::new();
        let mut text = String::new();
        for (script, id) in self.scripts.iter().zip(["acme", "brand"]) {
            let script = serde_json::from_value(script.clone()).unwrap();
            let player = Player::start(script).await.unwrap();
            let settings = if id == "acme" { self.settings } else { "" };
            let base = player.base_url();
            writeln!(text, "[providers.{id}]\nbase_url = \"{base}\"\n{settings}").unwrap();
            players.push(player);
        }
        text.push_str(self.tables);
        let recorder = LiveRecorder::default();
        let ending = CancellationToken::new();
        let service = Arc::new(Service::new(
            Arc::new(ArcSwap::from_pointee(config(&text))),
            Arc::new(Metrics::new()),
            ending.clone(),
            Arc::new(recorder.clone()),
            Artifacts::without_store(self.retention, BTreeSet::new()),
            ResponseStore::default(),
        ));
        for (index, request) in self.requests.iter().enumerate() {
            let mut asked = TurnRequest::default();
            for (name, value) in &self.headers {
                let value = HeaderValue::from_static(value);
                asked.headers.insert(*name, value);
            }
            let last = index + 1 == self.requests.len();
            let client = async {
                let response = respond(&service, asked, request.to_string()).await;
                let mut body = response.into_body();
                let mut pieces = 0;
                while !(last && self.leaves_after.is_some_and(|most| pieces >= most))
                    && let Some(frame) = body.frame().await
                {
                    frame.unwrap();
                    pieces += 1;
                }
            };
            let end = async {
                if let Some(count) = self.ends_after {
                    players[0].wait_requests(count).await;
                    ending.cancel();
                }
            };
            tokio::join!(client, end);
        }
        recorder.finished_turn().unwrap()
    }
}

fn config(text: &str) -> Config {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("proxy-config.toml"), text).unwrap();
    let inputs = Inputs::under(folder.path());
    load(&inputs, LoadPurpose::Serve).unwrap()
}

/// A turn without times, addresses and headers of connections: those of a replay come from another
/// clock and from the loopback.
fn timeless(turn: &BundleTurn) -> BundleTurn {
    let mut turn = turn.clone();
    let still = |pieces: &mut Vec<BodyChunk>| pieces.iter_mut().for_each(|piece| piece.at_us = 0);
    turn.took_us = 0;
    turn.ending_us = turn.ending_us.map(|_| 0);
    still(&mut turn.answer.pieces);
    for attempt in &mut turn.attempts {
        (attempt.at_us, attempt.end_us) = (0, 0);
        attempt.url = crate::config::address::split_origin(&attempt.url)
            .1
            .to_owned();
        if let Some(head) = &mut attempt.head {
            head.at_us = 0;
            head.headers.clear();
        }
        still(&mut attempt.pieces);
    }
    turn
}

/// A turn and its bodies as text.
fn text(turn: &BundleTurn) -> String {
    let mut text = serde_json::to_string_pretty(turn).unwrap();
    let bodies = turn
        .attempts
        .iter()
        .flat_map(|attempt| [&attempt.body, &attempt.answer]);
    let bodies = [&turn.request.body, &turn.answer.body, &turn.plan]
        .into_iter()
        .chain(bodies);
    for body in bodies {
        text.push_str("\n---\n");
        text.push_str(&String::from_utf8_lossy(body));
    }
    text
}

/// The turn as a bundle holds it.
fn redact(recorded: &BundleTurn, scrubber: &Scrubber) -> BundleTurn {
    let redacted = remake(&scrubber.turn(recorded), recorded, &StopFlag::default());
    assert_eq!(redacted.rerun.failed, None);
    redacted
}

/// Records the scene and checks that replays equal the recording.
fn check(scene: &Scene<'_>) -> BundleTurn {
    let recorded = scene.record();
    let first = replay(&recorded).unwrap();
    same(&timeless(&recorded), &timeless(&first));
    assert!(compare(&recorded, &first, Scope::Replay).is_empty());
    let second = replay(&recorded).unwrap();
    same(&first, &second);
    // A replay can be replayed itself.
    let third = replay(&first).unwrap();
    same(&timeless(&first), &timeless(&third));
    recorded
}

fn same(one: &BundleTurn, other: &BundleTurn) {
    let (one, other) = (text(one), text(other));
    if one != other {
        let lines = one.lines().zip(other.lines());
        let first = lines
            .clone()
            .enumerate()
            .find(|(_, (one, other))| one != other);
        let at = first.map_or("the end".to_owned(), |(line, (one, other))| {
            format!("line {line}:\n{one}\n{other}")
        });
        panic!("the turns differ at {at}\n\n{one}\n\n=======\n\n{other}");
    }
}

#[test]
fn a_plain_turn() {
    let turn = check(&steps(json!([{"text": "Hello"}, {"text": " there"}])));
    assert_eq!(turn.outcome, Some(Outcome::Completed));
    assert!(turn.answer.pieces.len() > 2);
}

#[test]
fn calls_reasoning_and_unusual_chunks() {
    let script = json!([
        {"reasoning": "Let me think. Ünïcödé."},
        {"text": "I look."},
        {"call": {"id": "c1", "name": "shell", "arguments": "{\"command\":[\"ls\"]}", "pieces": 5}},
        {"call": {"id": "c2", "name": "shell", "arguments": "{}"}},
        {"usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}},
    ]);
    let request = json!({
        "model": "acme/m", "input": "look around", "stream": true,
        "tools": [{"type": "function", "name": "shell", "parameters": {"type": "object"}}],
    });
    for split in [0, 1, 7, 100_000] {
        let answers =
            json!([{"steps": script, "split": split, "gap_ms": if split == 7 { 3 } else { 0 }}]);
        let turn = check(&Scene {
            requests: vec![request.clone()],
            ..scene(answers)
        });
        assert_eq!(turn.outcome, Some(Outcome::Completed), "{split}");
        assert!(split != 1 || turn.attempts[0].pieces.len() > 10);
    }
}

#[test]
fn a_response_that_is_not_streamed() {
    for format in ["asked", "document"] {
        let turn = check(&Scene {
            scripts: vec![json!({
                "answers": [{"steps": [{"text": "Hello"}, {"delay_ms": 30}, {"text": " there"}]}],
                "dialect": {"form": format},
            })],
            requests: vec![json!({"model": "acme/m", "input": "hi"})],
            ..Scene::default()
        });
        assert_eq!(turn.outcome, Some(Outcome::Completed));
        assert_eq!(turn.answer.status, 200);
    }
}

#[test]
fn large_chunks() {
    let word = "0123456789abcdef".repeat(128 << 10);
    let turn = check(&steps(json!([{"text": word}, {"text": "end"}])));
    assert_eq!(turn.outcome, Some(Outcome::Completed));
    assert!(turn.answer.body.len() > 2 << 20);
}

#[test]
fn a_rate_limit_then_a_response() {
    let turn = check(&scene(json!([
        {"status": 429, "headers": {"retry-after": "1"}, "json": {"error": {"message": "slow down"}}},
        {"steps": [{"text": "Hello"}]},
    ])));
    assert_eq!(turn.attempts.len(), 2);
    assert_eq!(turn.outcome, Some(Outcome::Completed));
}

#[test]
fn failures_and_their_pauses() {
    let turn = check(&Scene {
        settings: "max_retries = 1",
        ..scene(json!([{"status": 503, "body": "<html>busy</html>", "repeat": true}]))
    });
    assert_eq!(turn.attempts.len(), 2);
    assert_eq!(turn.outcome, Some(Outcome::Failed));
}

#[test]
fn a_retry_after_date() {
    let turn = check(&scene(json!([
        {"status": 429, "headers": {"retry-after": "Fri, 01 Jan 2100 00:00:00 GMT"}, "body": "slow"},
    ])));
    assert_eq!(turn.attempts.len(), 1);
    assert!(
        turn.answer
            .headers
            .iter()
            .any(|(name, _)| name == "retry-after")
    );
}

#[test]
fn a_request_that_is_refused() {
    for answer in [
        json!({"status": 400, "json": {"error": {"message": "no such thing", "param": "x"}}}),
        json!({"status": 401, "body": "who are you?"}),
        json!({"status": 404, "json": {"error": {"message": "model not found", "code": "model_not_found"}}}),
        json!({"status": 400, "body": "x".repeat(300_000)}),
        json!({"status": 307, "headers": {"location": "http://127.0.0.1:9/"}, "body": ""}),
    ] {
        for headers in [
            vec![],
            vec![("originator", "codex_exec"), ("thread-id", "t")],
        ] {
            let turn = check(&Scene {
                headers,
                ..scene(json!([answer]))
            });
            assert!(turn.is_failure());
        }
    }
    // Requests that fail before an attempt.
    for request in [
        json!({"model": "nowhere/m", "input": "hi"}),
        json!({"model": "acme/m", "input": 5}),
        json!({"model": "acme/m", "input": [{"type": "item_reference", "id": "msg_1"}]}),
    ] {
        let turn = check(&Scene {
            settings: "models = [{ id = \"m\" }]\npassthrough = false",
            requests: vec![request],
            ..scene(json!([]))
        });
        assert!(turn.is_failure());
        assert!(turn.attempts.is_empty(), "{}", text(&turn));
    }
}

#[test]
fn a_learned_quirk() {
    let refusal = json!({
        "status": 400,
        "when": {"body_contains": "\"temperature\""},
        "repeat": true,
        "json": {"error": {"message": "Unsupported parameter: 'temperature' is not supported with this model.",
            "param": "temperature", "code": "unsupported_parameter"}},
    });
    let request = json!({"model": "acme/m", "input": "hi", "stream": true, "temperature": 0.5});
    let answers = json!([refusal, {"steps": [{"text": "Hello"}], "repeat": true}]);
    let turn = check(&Scene {
        requests: vec![request.clone()],
        ..scene(answers.clone())
    });
    assert_eq!(turn.attempts.len(), 2);
    // Learned in an earlier turn.
    let turn = check(&Scene {
        requests: vec![request.clone(), request],
        ..scene(answers)
    });
    assert_eq!(turn.attempts.len(), 1);
    assert_eq!(turn.state_before.model_patches.len(), 1);
}

#[test]
fn a_response_that_breaks_off() {
    for cut in ["fin", "rst"] {
        for text in ["Hello", ""] {
            let turn = check(&Scene {
                settings: "max_retries = 1",
                ..scene(
                    json!([{"steps": [{"text": text}, {"delay_ms": 20}, {"cut": cut}], "repeat": true}]),
                )
            });
            assert_eq!(turn.outcome, Some(Outcome::Failed));
            assert!(turn.fault.is_some());
        }
    }
    // After the finish reason the response is complete.
    let turn = check(&steps(json!([
        {"text": "ho"}, {"finish": "stop"}, {"delay_ms": 20}, {"cut": "rst"}
    ])));
    assert_eq!(turn.outcome, Some(Outcome::Completed));
}

#[test]
fn an_error_within_the_stream() {
    let turn = check(&Scene {
        settings: "max_retries = 0",
        ..steps(json!([{"text": "ho"}, {"error": {"message": "I broke", "code": 502}}]))
    });
    assert_eq!(turn.outcome, Some(Outcome::Failed));
    let turn = check(&Scene {
        settings: "max_retries = 0",
        ..steps(json!([{"raw": "<html>what?</html>"}]))
    });
    assert_eq!(turn.outcome, Some(Outcome::Failed));
}

/// The silence ends in a fault, or in a response that lacks only its token counts;
/// heartbeats are sent before that.
#[test]
fn silence() {
    let mut pieces = 0;
    for (idle, script, outcome) in [
        (
            "300ms",
            json!([{"text": "ho"}, {"stall": true}]),
            Outcome::Failed,
        ),
        (
            "270ms",
            json!([{"raw": ": nothing yet\n\n"}, {"stall": true}]),
            Outcome::Failed,
        ),
        (
            "300ms",
            json!([{"text": "ho"}, {"finish": "stop"}, {"stall": true}]),
            Outcome::Completed,
        ),
        (
            "30s",
            json!([{"text": "ho"}, {"delay_ms": 250}, {"text": "hum"}]),
            Outcome::Completed,
        ),
        (
            "30s",
            json!([
                {"raw": ": not yet\n\n"}, {"delay_ms": 130}, {"raw": ": not yet\n\n"},
                {"delay_ms": 130}, {"text": "hum"}, {"finish": "stop"},
            ]),
            Outcome::Completed,
        ),
    ] {
        for stream in [true, false] {
            let turn = check(&Scene {
                settings: "max_retries = 0",
                tables: &format!(
                    "[providers.acme.timeouts]\nidle = \"{idle}\"\n\
                     [server]\nheartbeat = \"90ms\"\ncommit_after = \"50ms\""
                ),
                requests: vec![json!({"model": "acme/m", "input": "hi", "stream": stream})],
                ..steps(script.clone())
            });
            assert_eq!(turn.outcome, Some(outcome), "{script}");
            pieces = pieces.max(turn.answer.pieces.len());
        }
    }
    // How many heartbeats fit into a silence depends on how busy the machine is.
    assert!(pieces > 3, "there are heartbeats");
}

/// No response came, or the connection was refused.
#[test]
fn connection_failures() {
    let turn = check(&Scene {
        settings: "max_retries = 1\n[providers.acme.timeouts]\nfirst_byte = \"100ms\"\nconnect = \"100ms\"",
        ..scene(json!([{"head_delay_ms": 10_000, "repeat": true}]))
    });
    assert_eq!(turn.attempts.len(), 1);
    assert_eq!(turn.outcome, Some(Outcome::Failed));
    let turn = check(&Scene {
        tables: "[providers.away]\nbase_url = \"http://127.0.0.1:9/v1\"\nmax_retries = 3\nkey_required = false",
        requests: vec![json!({"model": "away/m", "input": "hi", "stream": true})],
        ..scene(json!([]))
    });
    assert_eq!(turn.attempts.len(), 2);
}

#[test]
fn a_failover_to_another_provider() {
    let tables = "[routing.fallbacks]\n\"acme/m\" = [\"brand/n\"]";
    let there = json!({"answers": [{"steps": [{"text": "Hello"}], "repeat": true}]});
    for (settings, answers) in [
        ("", json!([{"status": 503, "body": "no", "repeat": true}])),
        (
            "",
            json!([{"status": 429, "headers": {"retry-after": "60"}, "body": "no"}]),
        ),
        (
            "api_key = [\"k-canary-1\", \"k-canary-2\"]",
            json!([{"status": 402, "body": "no", "repeat": true}]),
        ),
        (
            "api_key = [\"k-canary-1\", \"k-canary-2\", \"k-canary-3\"]\nkey_weights = [1, 5, 2]",
            json!([{"status": 401, "body": "no", "repeat": true}]),
        ),
    ] {
        let request = json!({"model": "acme/m", "input": "hi", "stream": true});
        for count in 1..=3 {
            let turn = check(&Scene {
                scripts: vec![json!({"answers": answers}), there.clone()],
                settings,
                tables,
                requests: vec![request.clone(); count],
                ..Scene::default()
            });
            assert_eq!(turn.outcome, Some(Outcome::Completed));
            assert_eq!(turn.attempts.last().unwrap().route, "brand/n");
        }
    }
}

#[test]
fn a_client_that_leaves() {
    for (pieces, script) in [
        (
            1,
            json!([{"text": "one"}, {"delay_ms": 50}, {"text": "two"}, {"stall": true}]),
        ),
        (
            3,
            json!([{"text": "one"}, {"delay_ms": 50}, {"text": "two"}, {"stall": true}]),
        ),
    ] {
        let turn = check(&Scene {
            leaves_after: Some(pieces),
            ..steps(script)
        });
        assert_eq!(turn.outcome, Some(Outcome::Disconnected));
    }
}

#[test]
fn a_program_that_shuts_down() {
    for script in [
        json!({"head_delay_ms": 60_000}),
        json!({"steps": [{"text": "one"}, {"stall": true}]}),
        json!({"status": 429, "headers": {"retry-after": "20"}, "body": "no"}),
    ] {
        let turn = check(&Scene {
            ends_after: Some(1),
            ..scene(json!([script]))
        });
        assert_eq!(turn.outcome, Some(Outcome::Failed));
        assert!(turn.ending_us.is_some());
    }
}

/// A turn that takes another course than recorded ends, and the difference shows.
#[test]
fn another_course() {
    let scene = scene(json!([
        {"status": 503, "body": "no"},
        {"steps": [{"text": "Hello"}]},
    ]));
    let recorded = scene.record();
    let mut shorter = recorded.clone();
    shorter.attempts.truncate(1);
    let replayed = replay(&shorter).unwrap();
    assert_eq!(replayed.attempts.len(), 4);
    assert_eq!(replayed.outcome, Some(Outcome::Failed));
    assert_eq!(
        replayed.attempts[3].answer,
        super::upstream::EXTRA_ATTEMPT_BODY.as_bytes()
    );
    same(&replayed, &replay(&shorter).unwrap());
    let mut longer = recorded.clone();
    longer.attempts.push(recorded.attempts[0].clone());
    same(&timeless(&recorded), &timeless(&replay(&longer).unwrap()));
    // With other settings the turn makes fewer attempts.
    let mut other = recorded.clone();
    other.settings.routes[0].max_retries = 0;
    assert_eq!(replay(&other).unwrap().attempts.len(), 1);
}

#[test]
fn a_turn_that_was_not_kept_whole() {
    let mut turn = steps(json!([{"text": "Hello"}])).record();
    turn.attempts[0].answer.pop();
    assert!(matches!(replay(&turn), Err(ReplayError::Damaged(_))));
    turn.omitted.push(crate::diagnostics::bundle::OmittedPart {
        what: "attempt 1 answer".to_owned(),
        total: 9,
        kept: 8,
    });
    let error = replay(&turn).err().unwrap().to_string();
    assert!(error.contains("attempt 1 answer"), "{error}");
}

/// Threads that compete for the processor make no difference.
#[test]
fn a_busy_machine() {
    let over = AtomicBool::new(false);
    let recorded = Scene {
        tables: "[server]\nheartbeat = \"40ms\"\ncommit_after = \"30ms\"",
        ..scene(json!([
            {"status": 503, "body": "no"},
            {"steps": [{"text": "one"}, {"delay_ms": 100}, {"text": "two"}, {"delay_ms": 60}, {"text": "three"}], "split": 50},
        ]))
    }
    .record();
    let quiet = replay(&recorded).unwrap();
    same(&timeless(&recorded), &timeless(&quiet));
    let replayed: Vec<_> = std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        // What may panic comes when the threads are over, for which the scope waits.
        let replayed = (0..5).map(|_| replay(&recorded)).collect();
        over.store(true, Ordering::Relaxed);
        replayed
    });
    for replayed in replayed {
        same(&quiet, &replayed.unwrap());
    }
}

/// Recorded pauses are skipped.
#[test]
fn hours_pass_at_once() {
    let mut turn = steps(json!([{"text": "one"}, {"delay_ms": 5}, {"text": "two"}])).record();
    turn.heartbeat_ms = 10_000_000;
    let pieces = [&mut turn.attempts[0].pieces, &mut turn.answer.pieces];
    for pieces in pieces {
        for (piece, at) in pieces.iter_mut().zip(1..) {
            piece.at_us = at * 50_000_000;
        }
    }
    let count = u64::try_from(turn.attempts[0].pieces.len()).unwrap();
    turn.attempts[0].end_us = (count + 1) * 50_000_000;
    let replayed = replay(&turn).unwrap();
    same(&timeless(&turn), &timeless(&replayed));
    assert!(replayed.took_us > 40_000_000);
}

#[tokio::test]
async fn a_recorded_request_goes_to_a_real_provider() {
    let answers = json!([{"steps": [{"text": "Hello"}]}]);
    let recorded = scene(answers).run().await;
    let player = Player::start(
        serde_json::from_value(json!({"answers": [{"status": 400, "body": "no"}]})).unwrap(),
    )
    .await
    .unwrap();
    let base = player.base_url();
    let config = config(&format!(
        "[providers.other]\nbase_url = \"{base}\"\nmodels = [{{ id = \"n\" }}]\npassthrough = false"
    ));
    let model = "other/n".to_owned();
    let (turn, unknown) = tokio::task::spawn_blocking(move || {
        (
            live(&recorded, &config, &model),
            live(&recorded, &config, "none/n"),
        )
    })
    .await
    .unwrap();
    let turn = turn.unwrap();
    assert_eq!(turn.settings.asked, "other/n");
    assert_eq!(turn.attempts[0].route, "other/n");
    assert_eq!(turn.outcome, Some(Outcome::Failed));
    assert_eq!(player.requests()[0].json()["model"], "n");
    assert!(matches!(unknown, Err(ReplayError::NoModel(_))));
}

/// A replay that nobody waits for ends before its first step.
#[test]
fn a_replay_that_was_stopped_ends() {
    let recorded = Scene {
        scripts: vec![json!({"answers": [{"steps": [{"text": "ho"}]}]})],
        ..Scene::default()
    }
    .record();
    let stop = StopFlag::new();
    let run = || replay_hiding(&recorded, &Redactor::default(), &stop);
    assert!(run().is_ok());
    stop.raise(StopReason::ClientLeft);
    assert!(matches!(run(), Err(ReplayError::Stopped)));
}
