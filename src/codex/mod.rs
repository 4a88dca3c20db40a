//! Setup of the Codex CLI.
//!
//! | module | contents |
//! |---|---|
//! | [`home`] | the folder in which Codex keeps its files |
//! | [`agents`] | the roles of sub-agents that have a model of their own |
//! | [`settings`] | the settings that point Codex at this server |
//! | [`profile`] | a profile of Codex's with these settings |
//! | [`default_config`] | these settings in Codex's own `config.toml`, and how they are taken out |
//! | [`change`] | a file to write or delete, decided before anything is changed |
//! | [`sessions`] | the session that has just ended |
//! | [`catalog`] | a local model catalog with Codex's own prompt |
//! | `file` | how a file is replaced |

pub mod agents;
pub mod catalog;
pub mod change;
pub mod default_config;
mod file;
pub mod home;
pub mod profile;
pub mod sessions;
pub mod settings;

pub use file::FileError;
