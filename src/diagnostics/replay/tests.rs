//! Turns are recorded as they really run, in real time, and replayed.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::replay;
use crate::config::{Config, Flags, Inputs, Places, load};
use crate::diagnostics::bundle::{Piece, Turn};
use crate::diagnostics::capture::Capture;
use crate::metrics::{Metrics, Outcome};
use crate::sandbox::Player;
use crate::turn::{Service, respond};

/// What is run and recorded.
struct Scene {
    /// What the providers play; the first of them is `acme`, then `brand`.
    scripts: Vec<Value>,
    /// More settings of `acme`'s table.
    settings: &'static str,
    /// Further tables.
    tables: &'static str,
    /// The client's requests. All but the last only prepare the ground.
    requests: Vec<Value>,
    headers: Vec<(&'static str, &'static str)>,
    /// The client leaves after this many pieces.
    leaves_after: Option<usize>,
    /// The program is about to end when so many requests came to `acme`.
    ends_after: Option<usize>,
}

impl Default for Scene {
    fn default() -> Self {
        Self {
            scripts: Vec::new(),
            settings: "",
            tables: "",
            requests: vec![json!({"model": "acme/m", "input": "hi", "stream": true})],
            headers: Vec::new(),
            leaves_after: None,
            ends_after: None,
        }
    }
}

fn scene(answers: Value) -> Scene {
    Scene {
        scripts: vec![json!({"answers": answers})],
        ..Scene::default()
    }
}

fn steps(steps: Value) -> Scene {
    scene(json!([{"steps": steps}]))
}

impl Scene {
    /// Runs it and takes it down.
    fn record(&self) -> Turn {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(self.run())
    }

    async fn run(&self) -> Turn {
        // Another test may have done it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut players = Vec::new();
        let mut text = String::new();
        for (script, id) in self.scripts.iter().zip(["acme", "brand"]) {
            let script = serde_json::from_value(script.clone()).unwrap();
            let player = Player::start(script).await.unwrap();
            let settings = if id == "acme" { self.settings } else { "" };
            let base = player.base_url();
            text.push_str(&format!(
                "[providers.{id}]\nbase_url = \"{base}\"\n{settings}\n"
            ));
            players.push(player);
        }
        text.push_str(self.tables);
        let capture = Capture::default();
        let ending = CancellationToken::new();
        let service = Arc::new(Service::new(
            Arc::new(ArcSwap::from_pointee(config(&text))),
            Arc::new(Metrics::new()),
            ending.clone(),
            Arc::new(capture.clone()),
        ));
        for (place, request) in self.requests.iter().enumerate() {
            let mut head = http::Request::post("/v1/responses");
            for (name, value) in &self.headers {
                head = head.header(*name, *value);
            }
            let head = head.body(()).unwrap().into_parts().0;
            let last = place + 1 == self.requests.len();
            let client = async {
                let response = respond(&service, &head, request.to_string()).await;
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
        capture.recent()[0].turn()
    }
}

fn config(text: &str) -> Config {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("proxy-config.toml"), text).unwrap();
    load(&Inputs {
        flags: Flags::default(),
        environment: Box::new(HashMap::<String, String>::new()),
        places: Places::under(folder.path()),
    })
    .unwrap()
}

/// A turn without its times, which belong to the clock that it ran on.
fn timeless(turn: &Turn) -> Turn {
    let mut turn = turn.clone();
    let still = |pieces: &mut Vec<Piece>| pieces.iter_mut().for_each(|piece| piece.at_us = 0);
    turn.took_us = 0;
    turn.ending_us = turn.ending_us.map(|_| 0);
    still(&mut turn.answer.pieces);
    for attempt in &mut turn.attempts {
        (attempt.at_us, attempt.end_us) = (0, 0);
        if let Some(head) = &mut attempt.head {
            head.at_us = 0;
        }
        still(&mut attempt.pieces);
    }
    turn
}

/// Everything of a turn as text.
fn text(turn: &Turn) -> String {
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

/// The replay of the scene is the scene, each time.
fn check(scene: &Scene) -> Turn {
    let recorded = scene.record();
    let first = replay(&recorded).unwrap();
    same(&timeless(&recorded), &timeless(&first));
    let second = replay(&recorded).unwrap();
    same(&first, &second);
    // And a replay is as good as what it replays.
    let third = replay(&first).unwrap();
    same(&timeless(&first), &timeless(&third));
    recorded
}

fn same(one: &Turn, other: &Turn) {
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
