//! Answers of several rounds: the model calls tools that run in the proxy, and answers to their
//! results within the same response. Most tests run on every wire of an upstream.
//!
//! | module | contents |
//! |---|---|
//! | `server` | a server in this process with scripted tools, and its requests |
//! | `table` | rounds and their outcome, streamed and whole, for Codex and others, and replayed |
//! | `history` | what the provider gets: the same prefix in each round, and hidden rounds |
//! | `failures` | a failure in each place |
mod failures;
pub mod history;
pub mod server;
pub mod table;
