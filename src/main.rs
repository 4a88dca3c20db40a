//! The program: its allocator and its entry point. Everything else is in the library, because a
//! future that this crate polled would be compiled in both.

use std::process::ExitCode;

/// The allocator returns freed memory to the system, whichever threads used it.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    respondent::commands::dispatch::run_program()
}
