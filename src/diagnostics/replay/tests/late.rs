//! Turns of a machine that was so busy that heartbeats, chunks or answers were late.

use std::time::Duration;

use serde_json::json;

use super::{Scene, replay, same, scene, steps, timeless};
use crate::turn::Outcome;

/// Heartbeats are sent when they were recorded, not when they were due: while recording,
/// the machine was busy or the client slow.
#[test]
fn late_and_early_heartbeats() {
    let recorded = Scene {
        tables: "[server]\nheartbeat = \"15s\"",
        ..steps(json!([{"text": "one"}, {"delay_ms": 5}, {"text": "two"}, {"delay_ms": 5}, {"text": "three"}]))
    }
    .record();
    // The client took a minute to read everything before the last chunk.
    let mut slow = recorded.clone();
    let attempt = &mut slow.attempts[0];
    let last = attempt.pieces.last().unwrap().at_us;
    let shift = |at: &mut u64| {
        if *at >= last {
            *at += 60_000_000;
        }
    };
    shift(&mut attempt.end_us);
    attempt
        .pieces
        .iter_mut()
        .for_each(|piece| shift(&mut piece.at_us));
    slow.answer
        .pieces
        .iter_mut()
        .for_each(|piece| shift(&mut piece.at_us));
    slow.took_us += 60_000_000;
    same(&timeless(&slow), &timeless(&replay(&slow).unwrap()));
}

/// While recording, the machine was too busy to send heartbeats, or to record a chunk in
/// time: the silence ends as recorded, without additional heartbeats.
#[test]
fn a_silence_without_heartbeats() {
    for (script, outcome) in [
        (json!([{"text": "ho"}, {"stall": true}]), Outcome::Failed),
        (
            json!([{"text": "ho"}, {"finish": "stop"}, {"stall": true}]),
            Outcome::Completed,
        ),
    ] {
        let recorded = Scene {
            settings: "max_retries = 0",
            tables: "[providers.acme.timeouts]\nidle = \"200ms\"",
            ..steps(script)
        }
        .record();
        assert_eq!(recorded.outcome, Some(outcome));
        for (heartbeat, late_us) in [(50, 0), (100, 0), (200, 0), (190, 30_000)] {
            let mut busy = recorded.clone();
            busy.heartbeat_ms = heartbeat;
            for piece in &mut busy.attempts[0].pieces {
                piece.at_us += late_us;
            }
            same(&timeless(&busy), &timeless(&replay(&busy).unwrap()));
        }
    }
}

/// While recording, the machine was so busy that timers were late. That is not the provider's
/// silence, so it lasted for longer than the idle timeout, with a heartbeat more.
#[test]
fn a_silence_of_late_timers() {
    for script in [
        json!([{"text": "ho"}, {"stall": true}]),
        json!([{"text": "ho"}, {"delay_ms": 900}, {"text": "hum"}]),
    ] {
        let recorded = Scene {
            settings: "max_retries = 0",
            tables: "[providers.acme.timeouts]\nidle = \"950ms\"\n[server]\nheartbeat = \"60ms\"",
            ..steps(script.clone())
        }
        .record();
        let mut busy = recorded.clone();
        let heartbeats = String::from_utf8_lossy(&busy.answer.body)
            .matches("event: response.in_progress")
            .count();
        assert!(heartbeats > 3, "{script}");
        busy.settings.routes[0].timeouts.idle = Duration::from_millis(100);
        let replayed = replay(&busy).unwrap();
        same(&timeless(&busy), &timeless(&replayed));
        same(&timeless(&busy), &timeless(&replay(&replayed).unwrap()));
    }
}

/// While recording, the machine was so busy that an answer came after the time that it has to
/// begin, before the timer of that had fired.
#[test]
fn an_answer_that_began_late() {
    for stream in [true, false] {
        let recorded = Scene {
            requests: vec![json!({"model": "acme/m", "input": "hi", "stream": stream})],
            ..scene(json!([{"head_delay_ms": 200, "steps": [{"text": "Hello"}]}]))
        }
        .record();
        let mut busy = recorded.clone();
        let timeouts = &mut busy.settings.routes[0].timeouts;
        timeouts.connect = Duration::from_millis(30);
        timeouts.first_byte = Duration::from_millis(70);
        same(&timeless(&busy), &timeless(&replay(&busy).unwrap()));
    }
}
