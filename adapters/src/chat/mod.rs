//! The Chat Completions wire.
//!
//! [`encode`] writes the request, [`reader`] reads the answer.

mod content;
mod decode;
pub mod encode;
mod group;
mod history;
pub mod reader;

/// The path of the endpoint under a provider's base URL.
pub const PATH: &str = "/chat/completions";
