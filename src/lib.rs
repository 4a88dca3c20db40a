//! Service.

pub mod codex;
