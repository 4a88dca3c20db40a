//! Setup of the Codex CLI: the block for its config.toml ([`mod@print`]), and a local model
//! catalog with Codex's own prompt ([`catalog`]).

pub mod catalog;
pub mod print;
