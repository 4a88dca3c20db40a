//! The sandbox: the provider that answers when no other one is configured, so that a new user can
//! try the proxy without a key and without a network.
//!
//! - `server`: a minimal Chat Completions server on a loopback port
//! - `request`: the chat request that it reads
//! - `model`: the offline model, a pure function from a chat request to a reply
//! - `reply`: the reply as server-sent events

mod model;
mod reply;
mod request;
mod server;
#[cfg(test)]
mod tests;

pub use server::Sandbox;
