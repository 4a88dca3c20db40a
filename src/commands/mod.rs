//! The command line ([`cli`]) and what each command does.
//!
//! Commands about recorded turns and artifacts ask the running server through
//! [`control`](crate::control), and read its files if no server runs. Commands about models ask it
//! too ([`served`]), because it may have other keys than they have.

pub mod artifacts;
pub mod background;
pub mod bundle;
pub mod check;
pub mod cli;
pub mod clients;
pub mod codex;
pub mod dispatch;
pub mod doctor;
mod ids;
mod invocation;
pub mod jobs;
pub mod learned;
pub mod manual;
pub mod mcp;
pub mod models;
mod progress;
pub mod replay;
mod response_stream;
pub mod run;
pub mod serve;
mod served;
pub mod service;
pub mod status;
pub mod store;
pub mod usage;
pub mod web;
pub mod workflows;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use anstyle::{AnsiColor, Effects};
use anyhow::Context;
use bytes::Bytes;
use clap::ColorChoice;
use http::StatusCode;
use registry::Provider;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::config::{self, Config, ConfigErrors, Inputs, LoadPurpose};
use crate::control::ApiError;
use crate::log::{SafeText, escape_lines, style_labels};
use crate::upstream::discovery::keeper;
use progress::Progress;

/// Loads the configuration of a server, and shows when that takes long, as a command that prints a
/// key may.
pub fn load_for_check(inputs: &Inputs) -> Result<Config, ConfigErrors> {
    let _progress = Progress::begin("Reading the configuration and the keys");
    config::load(inputs, LoadPurpose::Serve)
}

/// The configuration of a command that shows models, with those that the providers list themselves,
/// and why some list none, by the id of the provider. `config` was loaded without keys; they are
/// read if a provider that is asked has one.
async fn with_discovered_models(
    inputs: &Inputs,
    mut config: Config,
) -> Result<(Config, BTreeMap<String, String>), ConfigErrors> {
    let _progress = Progress::begin("Asking the providers for their models");
    let lacks_key = |provider: &Arc<Provider>| {
        let id = &provider.id;
        config.key_origins.contains_key(id) && !config.keys.contains_key(id)
    };
    if keeper::discoverable(&config).any(lacks_key) {
        let inputs = inputs.clone();
        let loaded =
            tokio::task::spawn_blocking(move || config::load(&inputs, LoadPurpose::AskProvider));
        if let Ok(loaded) = loaded.await {
            config = loaded?;
        }
    }
    let unknown = keeper::discover_once(&config, DISCOVERY_PATIENCE).await;
    Ok((config, unknown))
}

/// How long a command waits for the models of providers.
const DISCOVERY_PATIENCE: Duration = Duration::from_secs(5);

/// Sets when the program uses colours; `auto` means on a terminal, unless the environment says no.
pub fn set_color(choice: ColorChoice) {
    let choice = match choice {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

/// Writes text to standard output. A closed pipe is not an error: the reader has what it
/// wanted.
pub fn print_text(text: &str) -> anyhow::Result<()> {
    print_bytes(text.as_bytes())
}

/// Writes a value as JSON for people and programs to standard output.
pub fn print_json<T: Serialize + ?Sized>(value: &T) -> anyhow::Result<()> {
    print_text(&(serde_json::to_string_pretty(value)? + "\n"))
}

fn print_bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let is_terminal = out.is_terminal();
    ignore_closed_pipe(write_output(&mut out, is_terminal, bytes).and_then(|()| out.flush()))
}

fn ignore_closed_pipe(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Like [`print_text`], but the labels of [`labelled`](crate::log::labelled) are coloured where
/// colours are used.
pub fn print_labelled(text: &str) -> anyhow::Result<()> {
    if anstream::AutoStream::choice(&io::stdout()) == anstream::ColorChoice::Never {
        return print_text(text);
    }
    let style = AnsiColor::Cyan.on_default();
    let text = style_labels(&escape_lines(text), style);
    ignore_closed_pipe(io::stdout().lock().write_all(text.as_bytes()))
}

/// Writes text to standard error.
pub fn print_error(text: &str) {
    let mut out = io::stderr().lock();
    let is_terminal = out.is_terminal();
    // There is nowhere else to report this.
    write_output(&mut out, is_terminal, text.as_bytes()).ok();
}

/// Writes why the program fails to standard error, where colours are used with the name of the
/// program in red.
pub fn print_failure(why: &dyn std::fmt::Display) {
    let stderr = io::stderr();
    if anstream::AutoStream::choice(&stderr) == anstream::ColorChoice::Never {
        return print_error(&format!("respondent: {why}\n"));
    }
    let style = AnsiColor::Red.on_default().effects(Effects::BOLD);
    let mut out = stderr.lock();
    write!(out, "{style}respondent:{style:#} ").ok();
    drop(out);
    print_error(&format!("{why}\n"));
}

/// The value of `--color` in arguments that are not parsed yet, so that it applies to the help and
/// the errors of parsing.
pub fn color_of(arguments: impl Iterator<Item = OsString>) -> ColorChoice {
    let mut choice = ColorChoice::Auto;
    let mut arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    while let Some(argument) = arguments.next() {
        let value = match argument.strip_prefix("--color") {
            Some("") => arguments.next(),
            Some(value) => value.strip_prefix('=').map(str::to_owned),
            None if argument == "--" => break,
            None => None,
        };
        if let Some(value) = value.and_then(|value| value.parse().ok()) {
            choice = value;
        }
    }
    choice
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

/// The body of an answer of the server with status 200; else its message is the error.
fn ok_body((status, body): (StatusCode, Bytes)) -> anyhow::Result<Bytes> {
    if status == StatusCode::OK {
        return Ok(body);
    }
    anyhow::bail!("{}", SafeText::new(&ApiError::message_in(&body)))
}

/// Reads the JSON of an answer of the server.
fn parse_answer<T: DeserializeOwned>(body: &[u8]) -> anyhow::Result<T> {
    serde_json::from_slice(body).context("the server's answer cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_colour_is_known_before_the_arguments_are_parsed() {
        for (line, choice) in [
            ("check", ColorChoice::Auto),
            ("--color never chek", ColorChoice::Never),
            ("chek --color=always", ColorChoice::Always),
            ("--color", ColorChoice::Auto),
            ("--color sometimes", ColorChoice::Auto),
            ("run codex -- --color never", ColorChoice::Auto),
        ] {
            let arguments = line.split(' ').map(OsString::from);
            assert_eq!(color_of(arguments), choice, "{line}");
        }
    }

    /// Promise: No command sends an escape sequence of an output, an answer or a file to a
    /// terminal; a pipe gets the bytes as they are.
    ///
    /// A terminal obeys no escape sequence of an output.
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
