//! A changed bundle does not replay, and the report names the difference.
//!
//! Changing the recording has the same effect as changing the program.
use kit::harness::rows;
use kit::player::PlayerWire;
use serde_json::{Value, json};

use super::recording::{Bundle, RecordingProxy, replay};
use crate::faults::{answer, repeating_player};
use crate::proxy::{CODEX, Setup, streaming};

/// A text that is replaced in one file, and the difference that the replay reports.
struct Change {
    what: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
    /// The only difference that is reported.
    difference: &'static str,
}

const CHANGES: &[Change] = &[
    Change {
        what: "field of the upstream request",
        file: "turns/1/attempts/1/request.json",
        from: "\"max_tokens\":99",
        to: "\"max_tokens\":98",
        difference: "attempt 1 request: max_tokens: 98 -> 99",
    },
    Change {
        what: "event",
        file: "turns/1/answer",
        from: "\"delta\":\"begun\"",
        to: "\"delta\":\"began\"",
        difference: "event 4 response.output_text.delta: delta: \"began\" -> \"begun\"",
    },
    Change {
        what: "plan",
        file: "turns/1/plan.json",
        from: "keep",
        to: "drop",
        difference: "plan: action 0: \"drop\" -> \"keep\"",
    },
];

fn body() -> Value {
    json!({"model": "m", "input": "go", "max_output_tokens": 99})
}

async fn bundle() -> Bundle {
    let cut = answer(json!([{"text": "begun"}, {"cut": "fin"}]));
    let player = repeating_player(PlayerWire::Chat, cut).await;
    let recording = RecordingProxy::start(&player, Setup::new().provider("max_retries = 0")).await;
    recording.turn(&streaming(&body()), CODEX).await;
    recording.bundle("changed").await
}

#[test]
fn a_changed_bundle_is_named() {
    rows(CHANGES.iter().map(|change| (change.what, change)), check);
}

async fn check(change: &'static Change) {
    let mut bundle = bundle().await;
    let (code, out, err) = replay(&bundle.path).await;
    assert_eq!(code, 0, "{out}{err}");
    bundle
        .turns
        .replace_text(change.file, change.from, change.to);
    bundle.turns.write(&bundle.path);
    let (code, out, err) = replay(&bundle.path).await;
    assert_eq!(code, 1, "{out}{err}");
    let shown: Vec<&str> = out
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .collect();
    assert_eq!(shown, [change.difference], "{out}{err}");
}
