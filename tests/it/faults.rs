//! Faults of the upstream and the client, and what the client receives.
mod adapting;
mod breaks;
mod errors;
mod failover;
mod leaving;
mod memory;
mod retries;
mod silence;
mod stopping;

use kit::player::{Player, PlayerScript, ScriptedAnswer};
use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::turns::parse_steps;

pub fn trials() -> Vec<Trial> {
    [
        breaks::trials(),
        errors::trials(),
        failover::trials(),
        adapting::trials(),
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

/// A player without answers; tests push the answers that they need.
pub async fn player() -> Player {
    Player::start(PlayerScript::default()).await.unwrap()
}

/// A player that gives the same answer to every request.
pub async fn repeating_player(answer: ScriptedAnswer) -> Player {
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
    ScriptedAnswer::steps(parse_steps(json))
}

/// A minimal request.
pub fn body() -> Value {
    json!({"model": "m", "input": "go"})
}
