//! The command line ([`cli`]) and what each command does.
//!
//! Commands about recorded turns and artifacts ask the running server through
//! [`control`](crate::control), and read its files if no server runs.

pub mod artifacts;
pub mod bundle;
pub mod cli;
pub mod codex;
mod ids;
pub mod jobs;
pub mod manual;
pub mod mcp;
pub mod models;
mod progress;
pub mod replay;
pub mod run;
pub mod serve;
pub mod status;
pub mod store;

use std::io::{self, IsTerminal, Write};

use crate::log::escape_lines;

/// Sets when the program uses colours; `auto` means on a terminal, unless the environment says no.
pub fn set_color(choice: clap::ColorChoice) {
    let choice = match choice {
        clap::ColorChoice::Auto => anstream::ColorChoice::Auto,
        clap::ColorChoice::Always => anstream::ColorChoice::Always,
        clap::ColorChoice::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

/// Writes text to standard output. A closed pipe is not an error: the reader has what it
/// wanted.
pub fn print_text(text: &str) -> anyhow::Result<()> {
    print_bytes(text.as_bytes())
}

fn print_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let is_terminal = out.is_terminal();
    match write_output(&mut out, is_terminal, bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Writes text to standard error.
pub fn print_error(text: &str) {
    let mut out = io::stderr().lock();
    let is_terminal = out.is_terminal();
    // There is nowhere else to report this.
    write_output(&mut out, is_terminal, text.as_bytes()).ok();
}

/// Writes bytes as they are, but not to a terminal, which would obey the escape sequences in
/// outputs of tools and answers of providers: there they are escaped.
fn write_output(out: &mut impl Write, is_terminal: bool, bytes: &[u8]) -> io::Result<()> {
    if is_terminal {
        let text = String::from_utf8_lossy(bytes);
        out.write_all(escape_lines(&text).as_bytes())
    } else {
        out.write_all(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pipe_gets_escape_sequences() {
        let output = "a\tb\r\n\x1b]52;c;aGk=\x07 \u{9b}31m \u{202e}\rz\n".as_bytes();
        let written = |is_terminal| {
            let mut out = Vec::new();
            write_output(&mut out, is_terminal, output).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(false).as_bytes(), output);
        assert_eq!(
            written(true),
            "a\tb\r\n\\u001b]52;c;aGk=\\u0007 \\u009b31m \\u202e\\rz\n"
        );
    }
}
