//! Faults of the upstream and the client, and what the client receives. Most tests run on every
//! wire of an upstream.
mod adapting;
mod breaks;
mod codings;
mod connections;
mod errors;
mod failover;
mod leaving;
mod limits;
mod memory;
mod messages;
mod patience;
mod prompts;
mod retries;
mod silence;
mod stopping;

use kit::player::{Player, PlayerScript, PlayerWire, ScriptedAnswer};
use serde_json::{Value, json};

pub use messages::provider_messages;

use crate::turns::parse_steps;

/// A player without answers; tests push the answers that they need.
pub async fn player(wire: PlayerWire) -> Player {
    player_with(wire, Vec::new()).await
}

/// A player with these answers.
pub async fn player_with(wire: PlayerWire, answers: Vec<ScriptedAnswer>) -> Player {
    let script = PlayerScript {
        wire: Some(wire),
        answers,
        ..PlayerScript::default()
    };
    Player::start(script).await.unwrap()
}

/// A player that gives the same answer to every request.
pub async fn repeating_player(wire: PlayerWire, answer: ScriptedAnswer) -> Player {
    let answer = ScriptedAnswer {
        repeat: true,
        ..answer
    };
    player_with(wire, vec![answer]).await
}

/// A streamed answer of these steps.
pub fn answer(json: Value) -> ScriptedAnswer {
    ScriptedAnswer::steps(parse_steps(json))
}

/// A minimal request.
pub fn body() -> Value {
    json!({"model": "m", "input": "go"})
}
