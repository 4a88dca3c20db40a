//! The setup of the Codex CLI for this server: a block for its config.toml
//! ([`print`](mod@print)), and a local model catalog with Codex's own prompt
//! ([`catalog`]).

pub mod catalog;
pub mod print;
