//! The test kit on the command line.
//!
//! - `respondent-kit player` plays a script to clients that are not written in Rust, such as
//!   those of `tests/clients`.
//! - `respondent-kit to-fixture` makes a golden case of `fixtures/chat` from a turn in a bundle.
//! - `respondent-kit check` judges answers that such clients have received.

mod fixture;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Parser;
use kit::player::{Player, PlayerScript};
use kit::strict;
use respondent::diagnostics::bundle::Bundle;

use fixture::to_fixture;

/// Test tools for Respondent
#[derive(Debug, Parser)]
#[command(version, about)]
enum KitCommand {
    /// Play a script as a Chat Completions upstream, until the process is killed
    ///
    /// The first line on standard output says where it listens.
    Player {
        /// The script, in JSON
        #[arg(long, value_name = "FILE")]
        script: PathBuf,
        /// The address to listen on; with port 0, any free port
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
        listen: SocketAddr,
    },
    /// Write a turn of a bundle as a golden case
    ToFixture {
        /// The bundle
        bundle: PathBuf,
        /// The folder to write, which must not exist or be empty
        folder: PathBuf,
        /// The turn in the bundle, counted from 1
        #[arg(long, value_name = "N", default_value = "1")]
        turn: usize,
        /// The attempt of that turn, counted from 1; without it, the last one that was answered
        #[arg(long, value_name = "N")]
        attempt: Option<usize>,
    },
    /// Judge answers as clients received them, each in a file, by every rule of the strict checker
    Check {
        /// Streams, or whole responses
        #[arg(required = true, value_name = "FILE")]
        answers: Vec<PathBuf>,
    },
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match KitCommand::parse() {
        KitCommand::Player { script, listen } => play(&script, listen).await,
        KitCommand::ToFixture {
            bundle,
            folder,
            turn,
            attempt,
        } => write_fixture(&bundle, &folder, turn, attempt),
        KitCommand::Check { answers } => answers.iter().try_for_each(|file| check_answer(file)),
    }
}

fn check_answer(file: &Path) -> anyhow::Result<()> {
    let name = file.display();
    let answer = std::fs::read_to_string(file).with_context(|| format!("{name}"))?;
    let ended = if answer.starts_with('{') {
        strict::check_response(&answer).map(|_| "response".to_owned())
    } else {
        strict::check(&answer).map(|checked| checked.terminal)
    };
    match ended {
        Ok(ended) => say(&format!("{name}: {ended}\n")),
        Err(violations) => {
            let rules: Vec<String> = violations.iter().map(ToString::to_string).collect();
            Err(anyhow!("{name} breaks rules:\n{}", rules.join("\n")))
        }
    }
}

async fn play(script: &Path, listen: SocketAddr) -> anyhow::Result<()> {
    let name = script.display();
    let text = std::fs::read(script).with_context(|| format!("{name}"))?;
    let script: PlayerScript =
        serde_json::from_slice(&text).with_context(|| format!("{name} is not a script"))?;
    let player = Player::start_on(listen, script)
        .await
        .with_context(|| format!("cannot listen on {listen}"))?;
    say(&format!("player listening on {}\n", player.base_url()))?;
    std::future::pending().await
}

fn write_fixture(
    file: &Path,
    folder: &Path,
    number: usize,
    attempt: Option<usize>,
) -> anyhow::Result<()> {
    let name = file.display();
    let bundle = Bundle::read(file).with_context(|| format!("{name}"))?;
    let turn = number
        .checked_sub(1)
        .and_then(|index| bundle.turns.get(index));
    let turn = turn.ok_or_else(|| {
        let count = bundle.turns.len();
        anyhow!("{name}: there is no turn {number}; it holds {count}")
    })?;
    let written = to_fixture(turn, attempt, folder).with_context(|| format!("{name}"))?;
    let what = match written.attempt {
        Some(attempt) => format!("attempt {attempt} of turn {number}"),
        None => format!("turn {number}, refused before any provider was asked"),
    };
    let files = written.files.join(", ");
    say(&format!("Wrote {what} to {}: {files}.\n", folder.display()))?;
    if !written.same_request {
        say("This version sends the provider another request than the recorded one.\n")?;
    }
    Ok(())
}

fn say(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
