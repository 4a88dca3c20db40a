//! The Chat Completions wire: [`encode`] writes a request, `decode` reads the
//! answer.
//!
//! | module | contents |
//! |---|---|
//! | `options` | for which provider and model to encode |
//! | `media` | images and files: what a provider accepts, and their tokens |
//! | `group` | the plan as a sequence of messages |
//! | `history` | writes the messages |
//! | `encode` | writes the rest of the request around them |
//! | `decode` | reads chunks and whole answers |

pub(crate) mod decode;
pub mod encode;
mod group;
mod history;
mod media;
pub mod options;

/// The path of the endpoint below a provider's base URL.
pub const PATH: &str = "/chat/completions";
