//! The Chat Completions wire.
//!
//! [`encode`] writes the request, [`decode`] reads the stream, [`refusal`]
//! reads an error reply.

mod content;
pub mod decode;
pub mod encode;
mod group;
mod history;
pub mod refusal;

/// The path of the endpoint under a provider's base URL.
pub const PATH: &str = "/chat/completions";
