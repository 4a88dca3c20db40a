//! Integration tests, most of them over real sockets. Each module lists its trials. A trial that
//! needs data that is absent is reported as ignored, with the reason.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "clippy does not recognise a program without the standard harness as a test"
)]

mod adapting;
mod artifacts;
mod bills;
mod bundles;
mod captures;
mod codex_setup;
mod compaction;
mod config;
mod counted;
mod dialects;
mod discovery;
mod doctor;
mod edge;
mod faults;
mod kept;
mod layers;
mod literals;
mod openapi;
mod prefix;
mod prompts;
mod proxy;
mod recordings;
mod relay;
mod requests;
mod requirements;
mod rounds;
mod run;
mod secrets;
mod status;
mod store;
mod stored;
mod supply;
mod terminal;
mod texts;
mod trial;
mod trust;
mod turns;
mod websocket;
mod wires;

use std::num::NonZero;
use std::process::ExitCode;
use std::thread::available_parallelism;

use libtest_mimic::{Arguments, run};

fn main() -> ExitCode {
    if let Some(code) = store::run_child().or_else(counted::run_child) {
        return code;
    }
    let trials = [
        artifacts::trials(),
        bills::trials(),
        bundles::trials(),
        captures::trials(),
        codex_setup::trials(),
        compaction::trials(),
        config::trials(),
        dialects::trials(),
        discovery::trials(),
        doctor::trials(),
        edge::trials(),
        faults::trials(),
        adapting::trials(),
        kept::trials(),
        layers::trials(),
        literals::trials(),
        openapi::trials(),
        prefix::trials(),
        prompts::trials(),
        recordings::trials(),
        relay::trials(),
        trust::trials(),
        requests::trials(),
        requirements::trials(),
        rounds::trials(),
        run::trials(),
        secrets::trials(),
        status::trials(),
        store::trials(),
        stored::trials(),
        supply::trials(),
        terminal::trials(),
        texts::trials(),
        turns::trials(),
        websocket::trials(),
        wires::trials(),
    ];
    let trials = trials.into_iter().flatten().collect();
    let mut arguments = Arguments::from_args();
    // A trial waits for a third of its time, for timers and for other processes.
    let processors = available_parallelism().map_or(1, NonZero::get);
    arguments.test_threads.get_or_insert(processors * 2);
    run(&arguments, trials).exit_code()
}
