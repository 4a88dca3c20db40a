//! Integration tests, most of them over real sockets. `kit::test` makes an async function a test,
//! `kit::harness::rows` runs a table, and a test that needs data that is absent says
//! `kit::harness::skip`.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "clippy does not take the helpers of tests for tests"
)]

mod adapting;
mod agents;
mod artifacts;
mod background;
mod bills;
mod bundles;
mod captures;
mod child;
mod codex_setup;
mod compaction;
mod config;
mod counted;
mod dialects;
mod discovery;
mod doctor;
mod edge;
mod faults;
mod images;
mod kept;
mod layers;
mod literals;
mod mcp_servers;
mod openapi;
#[cfg(feature = "pdf")]
mod pdf;
mod prefix;
mod prompts;
mod proxy;
mod recordings;
mod refusals;
mod relay;
mod requests;
mod requirements;
mod rounds;
mod run;
mod search;
mod secrets;
mod standalone_search;
mod status;
mod store;
mod stored;
mod supply;
mod terminal;
mod texts;
mod trust;
mod turns;
mod two_shells;
mod web_search;
mod websocket;
mod wires;
mod workflows;
