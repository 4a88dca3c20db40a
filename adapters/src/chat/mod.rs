//! The Chat Completions wire.
//!
//! [`encode`] writes the request, [`decode`] reads the answer.

pub(crate) mod decode;
pub mod encode;
mod group;
mod history;
mod media;
pub mod options;

/// The path of the endpoint under a provider's base URL.
pub const PATH: &str = "/chat/completions";
