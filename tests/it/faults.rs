//! What goes wrong, and what the client is told.
mod breaks;
mod errors;
mod failover;
mod healing;
mod leaving;
mod memory;
mod retries;
mod silence;
mod stopping;

use kit::player::{Player, PlayerScript, ScriptedAnswer};
use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::turns::steps;

/// All of them.
pub fn trials() -> Vec<Trial> {
    [
        breaks::trials(),
        errors::trials(),
        failover::trials(),
        healing::trials(),
        leaving::trials(),
        memory::trials(),
        retries::trials(),
        silence::trials(),
        stopping::trials(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A player without answers; tests push them.
pub async fn player() -> Player {
    Player::start(PlayerScript::default()).await.unwrap()
}

/// A player with one answer for all.
pub async fn always(answer: ScriptedAnswer) -> Player {
    let answers = vec![ScriptedAnswer {
        repeat: true,
        ..answer
    }];
    Player::start(PlayerScript {
        answers,
        ..PlayerScript::default()
    })
    .await
    .unwrap()
}

/// A streamed answer of these steps.
pub fn answer(json: Value) -> ScriptedAnswer {
    ScriptedAnswer::steps(steps(json))
}

/// A plain turn.
pub fn body() -> Value {
    json!({"model": "m", "input": "go"})
}
