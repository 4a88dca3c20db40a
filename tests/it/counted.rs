//! A server whose allocator counts the bytes that live: a child process that is this program.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use clap::Parser;
use peak_alloc::PeakAlloc;
use respondent::commands;
use respondent::commands::cli::Cli;
use respondent::config::{self, Inputs, LoadPurpose};
use respondent::log;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The socket in the working directory that tells the bytes.
const SOCKET: &str = "counted";

/// Bytes of the Rust allocator. Those of SQLite and zstd are not among them.
#[derive(Clone, Copy, Debug)]
pub struct LiveBytes {
    /// The bytes that live now.
    pub now: usize,
    /// The most that lived at once since they were last asked for.
    pub peak: usize,
}

/// The bytes of the server that was started in this folder.
pub fn live_bytes(folder: &Path) -> LiveBytes {
    let mut text = String::new();
    let mut stream = UnixStream::connect(folder.join(SOCKET)).unwrap();
    stream.read_to_string(&mut text).unwrap();
    let (now, peak) = text.split_once(' ').unwrap();
    LiveBytes {
        now: now.parse().unwrap(),
        peak: peak.parse().unwrap(),
    }
}

/// Runs the server until it is asked to end.
pub fn serve() {
    let listener = UnixListener::bind(SOCKET).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (now, peak) = (ALLOCATOR.current_usage(), ALLOCATOR.peak_usage());
            ALLOCATOR.reset_peak_usage();
            let _ = write!(stream.unwrap(), "{now} {peak}");
        }
    });
    let inputs = Inputs::from_process(Cli::parse_from(["respondent"]).flags).unwrap();
    let config = config::load(&inputs, LoadPurpose::Serve).unwrap();
    log::init(&config.server.log, config.server.log_format).unwrap();
    tokio_rustls::rustls::crypto::ring::default_provider()
        .install_default()
        .unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime
        .block_on(commands::serve::run_server(
            inputs,
            LoadPurpose::Serve,
            config,
        ))
        .unwrap();
}
