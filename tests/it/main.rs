//! Tests through real sockets. Each module lists its trials; what needs a program
//! or data that is absent reports itself as ignored, with the reason.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy does not see that a test without the standard harness is one"
)]
#![expect(
    unreachable_pub,
    reason = "a test program exports nothing, so pub says enough"
)]

mod edge;
mod trial;

use std::process::ExitCode;

use libtest_mimic::{Arguments, run};

fn main() -> ExitCode {
    let trials = [edge::trials()].into_iter().flatten().collect();
    run(&Arguments::from_args(), trials).exit_code()
}
