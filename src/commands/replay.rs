//! `respondent replay`: a recorded turn once more.

use std::fmt::Write;
use std::path::Path;

use super::bundle::{UnusableFile, read, turn};
use super::print_text;
use crate::commands::cli::{EXIT_DIFFERENT, EXIT_OK};
use crate::config::Config;
use crate::diagnostics::bundle::{Difference, Scope, Turn, compare};
use crate::diagnostics::line::Line;
use crate::diagnostics::replay::{ReplayError, live, replay};

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct ReplayOptions<'a> {
    /// The bundle.
    pub file: &'a Path,
    /// The turn in it, from 1; all when left out.
    pub turn: Option<usize>,
    /// Print what the client would get.
    pub events: bool,
}

/// Runs recorded turns again, offline, and tells where they differ from what was
/// recorded: the exit code.
pub fn offline(asked: ReplayOptions<'_>) -> anyhow::Result<u8> {
    run(asked, Scope::Replay, replay)
}

/// Sends recorded requests to a model, named in full as `provider/model`, and
/// tells what is another: the exit code.
pub fn against_provider(
    asked: ReplayOptions<'_>,
    config: &Config,
    model: &str,
) -> anyhow::Result<u8> {
    // Another name could lead to a provider that takes any: what was said goes to
    // nobody who was not named.
    let provider = model.split_once('/').map(|(provider, _)| provider);
    if provider.is_none_or(|id| config.registry.provider(id).is_none()) {
        let why = format!(
            "'{model}' names no provider of this configuration: give it as PROVIDER/MODEL, as \
             `respondent models` lists them"
        );
        return Err(ReplayError::NoModel(why).into());
    }
    let turns = read(asked.file)?.turns.len();
    if turns > 1 && asked.turn.is_none() {
        let why = format!("it holds {turns} turns: name the one to send with --turn");
        return Err(UnusableFile::new(asked.file, &why).into());
    }
    run(asked, Scope::Diff, |turn| live(turn, config, model))
}

fn run(
    asked: ReplayOptions<'_>,
    scope: Scope,
    again: impl Fn(&Turn) -> Result<Turn, ReplayError>,
) -> anyhow::Result<u8> {
    let bundle = read(asked.file)?;
    let numbers = match asked.turn {
        Some(number) => number..=number,
        None => 1..=bundle.turns.len(),
    };
    let mut code = EXIT_OK;
    let mut failed = None;
    for number in numbers.clone() {
        let recorded = turn(asked.file, &bundle, number)?;
        let again = match again(recorded) {
            Ok(again) => again,
            Err(error) => {
                if numbers.clone().count() > 1 {
                    let id = Line::new(&recorded.request_id);
                    print_text(&format!("turn {number}, {id}: {error}\n"))?;
                }
                failed.get_or_insert(unusable(asked.file, number, error));
                continue;
            }
        };
        if asked.events {
            print_text(&printable(&again.answer.body))?;
        }
        let differences = compare(recorded, &again, scope);
        if !differences.is_empty() {
            code = EXIT_DIFFERENT;
        }
        print_text(&summary(number, recorded, &differences))?;
    }
    failed.map_or(Ok(code), Err)
}

/// An error that lies in the file, or one that does not.
fn unusable(file: &Path, number: usize, error: ReplayError) -> anyhow::Error {
    match error {
        ReplayError::NotWhole(_) | ReplayError::Damaged(_) => {
            UnusableFile::new(file, &format!("turn {number}: {error}")).into()
        }
        ReplayError::Io(_)
        | ReplayError::Stuck { .. }
        | ReplayError::Endless
        | ReplayError::NoModel(_)
        | ReplayError::Lost => anyhow::Error::from(error).context(format!("turn {number}")),
    }
}

fn summary(number: usize, recorded: &Turn, differences: &[Difference]) -> String {
    let id = Line::new(&recorded.request_id);
    let mut text = match differences.len() {
        0 => format!("turn {number}, {id}: equal\n"),
        1 => format!("turn {number}, {id}: 1 difference (recorded -> now)\n"),
        count => format!("turn {number}, {id}: {count} differences (recorded -> now)\n"),
    };
    for difference in differences {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {difference}");
    }
    text
}

/// A body line by line, none of which can drive the terminal.
fn printable(body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    let mut text = String::new();
    for line in body.lines() {
        let _ = writeln!(text, "{}", Line::up_to(line, usize::MAX));
    }
    text
}
