//! Code that several tests of the adapters share.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "each test program uses a part, and clippy does not see that it is a test"
)]

pub mod dialects;
pub mod judge;
pub mod script;
pub mod wire;
