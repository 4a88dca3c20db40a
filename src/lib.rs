//! The service: everything that does I/O around the pure [`adapters`].
//!
//! [`serve`] is the HTTP edge, [`turn`] the one engine behind it, [`upstream`]
//! the way to the provider. [`config`] and [`secrets`] say with whom and how,
//! [`codex`] and [`sandbox`] are what a user meets first, [`control`] is how the
//! commands reach the running server.

pub mod app;
pub mod artifacts;
pub mod clock;
pub mod codex;
pub mod commands;
pub mod config;
pub mod control;
pub mod diagnostics;
pub mod log;
pub mod mcp;
pub mod metrics;
pub mod net;
pub mod sandbox;
pub mod secrets;
pub mod serve;
pub mod store;
pub mod turn;
pub mod upstream;
