//! The command line ([`cli`]) and what each command does.
//!
//! Commands about recorded turns and artifacts ask the running server through
//! [`control`](crate::control), and read its files if no server runs.

pub mod artifacts;
pub mod bundle;
pub mod cli;
pub mod codex;
pub mod mcp;
pub mod models;
pub mod replay;
pub mod serve;

use std::io::Write;

/// Writes text to standard output. A closed pipe is not an error: the reader has what it
/// wanted.
pub fn print_text(text: &str) -> anyhow::Result<()> {
    print_bytes(text.as_bytes())
}

fn print_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}
