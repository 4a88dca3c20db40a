//! A bundle that was changed does not replay, and the difference has a name.
//!
//! A record that differs from what the program does is a program that differs from
//! what was recorded: `tests/mutants.sh` changes the program instead.
use libtest_mimic::Trial;
use serde_json::{Value, json};

use super::keeper::{Bundle, Keeper, replay};
use crate::faults::{always, answer};
use crate::proxy::{CODEX, Setup, streaming};
use crate::trial::case;

pub fn trials() -> Vec<Trial> {
    let changes = CHANGES.iter().map(|change| {
        case(
            &format!("corpus: a changed {} is named", change.what),
            || named(change),
        )
    });
    changes.collect()
}

/// A text of one file that is replaced, and what the difference is called.
struct Change {
    what: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
    /// The one difference that is told.
    named: &'static str,
}

const CHANGES: &[Change] = &[
    Change {
        what: "field of the upstream request",
        file: "turns/1/attempts/1/request.json",
        from: "\"max_tokens\":99",
        to: "\"max_tokens\":98",
        named: "attempt 1 request: max_tokens: 98 -> 99",
    },
    Change {
        what: "event",
        file: "turns/1/answer",
        from: "\"delta\":\"begun\"",
        to: "\"delta\":\"began\"",
        named: "event 4 response.output_text.delta: delta: \"began\" -> \"begun\"",
    },
    Change {
        what: "plan",
        file: "turns/1/plan.json",
        from: "keep",
        to: "drop",
        named: "plan: step 0: \"drop\" -> \"keep\"",
    },
];

fn body() -> Value {
    json!({"model": "m", "input": "go", "max_output_tokens": 99})
}

async fn bundle() -> Bundle {
    let cut = answer(json!([{"text": "begun"}, {"cut": "fin"}]));
    let player = always(cut).await;
    let keeper = Keeper::of(&player, Setup::new().provider("max_retries = 0")).await;
    keeper.turn(&streaming(&body()), CODEX).await;
    keeper.bundle("changed").await
}

async fn named(change: &'static Change) {
    let mut bundle = bundle().await;
    let (code, out, err) = replay(&bundle.path).await;
    assert_eq!(code, 0, "{out}{err}");
    bundle.turns.change(change.file, change.from, change.to);
    bundle.turns.write(&bundle.path);
    let (code, out, err) = replay(&bundle.path).await;
    assert_eq!(code, 1, "{out}{err}");
    let told: Vec<&str> = out
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .collect();
    assert_eq!(told, [change.named], "{out}{err}");
}
