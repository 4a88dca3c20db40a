//! What the Codex CLI needs beside the API: its view of the models
//! ([`models`]), a base prompt ([`prompt`]), a block for its config.toml
//! ([`print`]) and a local catalog with its own prompt ([`catalog`]).

pub mod catalog;
pub mod models;
pub mod print;
pub mod prompt;
