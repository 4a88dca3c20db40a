//! What the tests share. Nothing of it is part of the proxy.
//!
//! - [`test`](macro@test) and [`harness`]: async tests, tables, and tests that cannot run
//! - [`player`]: a scripted upstream on loopback
//! - [`strict`]: judges the event streams and response objects that a client receives
//! - [`golden`]: one turn as a folder of files, and what must come out of it
//! - [`drive`]: a whole answer through the adapters, without a network
//! - [`session`]: a long session of a coding agent as data
//! - [`request_docs`]: what the documentation says of each part of a request
//! - [`tools`]: scripted tools that run in the proxy
//! - [`web`]: servers of the web on loopback
//! - [`mcp`]: an MCP server on loopback
//! - [`address`]: addresses on which nothing listens

pub mod address;
pub mod drive;
pub mod golden;
pub mod harness;
pub mod mcp;
pub mod player;
pub mod request_docs;
pub mod session;
pub mod strict;
pub mod tools;
pub mod web;

pub use kit_attribute::test;
