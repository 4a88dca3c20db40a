//! Setup of the Codex CLI: the model list in Codex's format ([`models`]), the base prompt for
//! it ([`prompt`]), the block for its config.toml ([`mod@print`]), and a local model catalog with
//! Codex's own prompt ([`catalog`]).

pub mod catalog;
pub mod models;
pub mod print;
pub mod prompt;
