//! The Chat Completions wire.
//!
//! [`encode`] writes the request, [`reader`] reads the answer, [`refusal`]
//! reads an error reply.

mod content;
mod decode;
pub mod encode;
mod group;
mod history;
pub mod reader;
pub mod refusal;
mod schema;

/// The path of the endpoint under a provider's base URL.
pub const PATH: &str = "/chat/completions";
