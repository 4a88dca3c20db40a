//! The bundles in `fixtures/bundles`, each with the response that its client got. Every
//! later version must be able to read, show and replay them, with the same bytes on
//! every machine.
//!
//! `BLESS=1 cargo test --test it committed_bundles` records the turns again.
use std::path::{Path, PathBuf};

use kit::harness::rows;
use kit::player::{Player, PlayerWire, ScriptedAnswer};
use respondent::diagnostics::bundle::{Bundle, Scope, compare, show};
use respondent::diagnostics::replay::replay;
use serde_json::{Value, json};

use super::corpus::recording::RecordingProxy;
use crate::faults::{answer, player};
use crate::proxy::{CODEX, Setup, streaming};

/// A committed bundle with one turn, and what to expect of it.
struct CommittedBundle {
    name: &'static str,
    /// The responses of the first provider, and of its fallback if there is one.
    answers: fn() -> Vec<Vec<ScriptedAnswer>>,
    codex: bool,
    stream: bool,
    attempts: usize,
    shown: &'static str,
}

const COMMITTED: &[CommittedBundle] = &[
    CommittedBundle {
        name: "healed",
        answers: || {
            let no = "Unsupported parameter: 'temperature' is not supported with this model.";
            vec![vec![ScriptedAnswer::error(400, no), full_response()]]
        },
        codex: true,
        stream: true,
        attempts: 2,
        shown: "completed",
    },
    CommittedBundle {
        name: "cut",
        answers: || {
            vec![vec![answer(
                json!([{"reasoning": "I think"}, {"text": "begun"}, {"cut": "fin"}]),
            )]]
        },
        codex: true,
        stream: true,
        attempts: 1,
        shown: "cut",
    },
    CommittedBundle {
        name: "limited",
        answers: || {
            let mut busy = ScriptedAnswer::error(429, "slow down");
            busy.headers.insert("retry-after".into(), "1".into());
            vec![vec![busy, full_response()]]
        },
        codex: true,
        stream: true,
        attempts: 2,
        shown: "completed",
    },
    CommittedBundle {
        name: "refused",
        answers: || vec![vec![ScriptedAnswer::error(403, "not you")]],
        codex: false,
        stream: false,
        attempts: 1,
        shown: "permission",
    },
    CommittedBundle {
        name: "elsewhere",
        answers: || {
            let full = || ScriptedAnswer::error(503, "full");
            vec![vec![full(), full()], vec![full_response()]]
        },
        codex: false,
        stream: true,
        attempts: 3,
        shown: "completed",
    },
];

fn full_response() -> ScriptedAnswer {
    answer(json!([
        {"text": "Ünïcödé \u{1F600} is "}, {"text": "here."},
        {"call": {"index": 0, "id": "call_look", "name": "look", "arguments": "{\"at\": [1, 2]}"}},
        {"usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}}
    ]))
}

#[test]
fn committed_bundles_are_shown_and_replayed_as_ever() {
    rows(
        COMMITTED.iter().map(|bundle| (bundle.name, bundle)),
        CommittedBundle::check,
    );
}

impl CommittedBundle {
    async fn check(&self) {
        let (file, expected) = (path(self.name, "tar.zst"), path(self.name, "answer"));
        if std::env::var_os("BLESS").is_some() {
            self.bless(&file, &expected).await;
        }
        let bundle = Bundle::read(&file).unwrap();
        let shown = show(&bundle.turns, Path::new("a.tar.zst"));
        assert!(shown.contains(self.shown), "{shown}");
        let [turn] = bundle.turns.as_slice() else {
            panic!("{} turns", bundle.turns.len());
        };
        assert_eq!(turn.attempts.len(), self.attempts);
        let replayed = replay(turn).unwrap();
        let differences: Vec<String> = compare(turn, &replayed, Scope::Replay)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(differences.is_empty(), "{differences:#?}");
        let expected = std::fs::read(expected).unwrap();
        assert!(
            replayed.answer.body == expected,
            "{}",
            String::from_utf8_lossy(&replayed.answer.body)
        );
    }

    /// Records the turn and writes the fixture.
    async fn bless(&self, file: &Path, expected: &Path) {
        let mut players: Vec<Player> = Vec::new();
        let mut setup = Setup::new();
        for answers in (self.answers)() {
            let player = player(PlayerWire::Chat).await;
            for answer in answers {
                player.push(answer);
            }
            setup = setup.tables(&format!(
                "[providers.choice{}]\nwire = \"chat\"\nbase_url = \"{}\"\nkey_required = false\nmax_retries = 1\n",
                players.len(),
                player.base_url()
            ));
            players.push(player);
        }
        if players.len() > 1 {
            setup = setup.tables("[routing.fallbacks]\n\"choice0/m\" = [\"choice1/m\"]\n");
        }
        let recording = RecordingProxy::start_at("http://127.0.0.1:9/v1", setup).await;
        let headers = if self.codex { CODEX } else { &[] };
        recording.turn(&self.body(), headers).await;
        let bundle = recording.bundle(self.name).await;
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::copy(&bundle.path, file).unwrap();
        let turns = Bundle::read(file).unwrap().turns;
        std::fs::write(expected, &turns[0].answer.body).unwrap();
    }

    fn body(&self) -> Value {
        let body = json!({
            "model": "choice0/m", "input": "go", "temperature": 0.5, "instructions": "Be brief.",
            "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
        });
        if self.stream { streaming(&body) } else { body }
    }
}

fn path(name: &str, extension: &str) -> PathBuf {
    folder().join(format!("{name}.{extension}"))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/bundles")
}

#[test]
fn no_file_is_left_over() {
    let found = std::fs::read_dir(folder()).unwrap();
    let found = found.map(|entry| entry.unwrap().path());
    for file in found {
        let known = COMMITTED.iter().any(|bundle| {
            [path(bundle.name, "tar.zst"), path(bundle.name, "answer")].contains(&file)
        });
        assert!(known, "{}", file.display());
    }
}
