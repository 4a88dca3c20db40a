//! Answers of several rounds: the model calls tools that run in the proxy, and answers to their
//! results within the same response. Each trial runs on every wire of an upstream.
//!
//! | module | contents |
//! |---|---|
//! | `server` | a server in this process with scripted tools, and its requests |
//! | `table` | rounds and their outcome, streamed and whole, for Codex and others, and replayed |
//! | `history` | what the provider gets: the same prefix in each round, and hidden rounds |
//! | `failures` | a failure in each place |
mod failures;
mod history;
mod server;
mod table;

use libtest_mimic::Trial;

use crate::trial::on_each_wire;

pub fn trials() -> Vec<Trial> {
    on_each_wire(|wire| {
        let rooms = [
            table::trials(wire),
            history::trials(wire),
            failures::trials(wire),
        ];
        rooms.into_iter().flatten().collect()
    })
}
