//! Hostile input: what a client, a provider, a page, a tool or a bundle of somebody else may send.
//!
//! - [`targets`]: one function for each kind of input, which takes any bytes and checks what must
//!   hold whatever they are. `tests/fuzz.sh` runs them with a fuzzer; the tests of this crate run
//!   them with the inputs in `fixtures/fuzz`.
//! - [`linear`]: inputs whose cost must follow their size. The program `respondent-linear` counts
//!   the instructions.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a panic is how a target reports what it found"
)]

pub mod linear;
pub mod targets;
