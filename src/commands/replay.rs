//! `respondent replay`: runs recorded turns again and prints the differences.

use std::fmt::Write;
use std::path::Path;

use super::bundle::{UnusableFile, read, turn};
use super::print_text;
use super::progress::Progress;
use crate::commands::cli::{EXIT_DIFFERENT, EXIT_OK};
use crate::config::Config;
use crate::diagnostics::bundle::{BundleTurn, Difference, Scope, compare};
use crate::diagnostics::replay::{ReplayError, live, replay};
use crate::log::SafeText;

/// The options of `respondent replay`.
#[derive(Clone, Copy, Debug)]
pub struct ReplayOptions<'a> {
    /// The bundle file.
    pub file: &'a Path,
    /// The number of the turn in the bundle, from 1; `None` for all turns.
    pub turn: Option<usize>,
    /// Whether to print the response that the client would receive.
    pub events: bool,
}

/// Replays recorded turns offline and prints where they differ from the recording. Returns
/// the exit code.
pub fn offline(options: ReplayOptions<'_>) -> anyhow::Result<u8> {
    run(options, Scope::Replay, replay)
}

/// Sends recorded requests to a model, given as `provider/model`, and prints where the
/// responses differ from the recording. Returns the exit code.
pub fn against_provider(
    options: ReplayOptions<'_>,
    config: &Config,
    model: &str,
) -> anyhow::Result<u8> {
    // A name without a provider could resolve to one that accepts any model name. The
    // conversation must go only to a provider that the user named.
    let provider = model.split_once('/').map(|(provider, _)| provider);
    if provider.is_none_or(|id| config.registry.provider(id).is_none()) {
        let why = format!(
            "'{model}' names no provider of this configuration: give it as PROVIDER/MODEL, as \
             `respondent models` lists them"
        );
        return Err(ReplayError::NoModel(why).into());
    }
    let turns = read(options.file)?.turns.len();
    if turns > 1 && options.turn.is_none() {
        let why = format!("it holds {turns} turns: name the one to send with --turn");
        return Err(UnusableFile::new(options.file, &why).into());
    }
    run(options, Scope::Diff, |turn| live(turn, config, model))
}

fn run(
    options: ReplayOptions<'_>,
    scope: Scope,
    replay: impl Fn(&BundleTurn) -> Result<BundleTurn, ReplayError>,
) -> anyhow::Result<u8> {
    let bundle = read(options.file)?;
    let numbers = match options.turn {
        Some(number) => number..=number,
        None => 1..=bundle.turns.len(),
    };
    let mut code = EXIT_OK;
    let mut failed = None;
    let progress = Progress::with_steps("Replaying turns", numbers.clone().count());
    for number in numbers.clone() {
        let recorded = turn(options.file, &bundle, number)?;
        let replayed = match replay(recorded) {
            Ok(replayed) => replayed,
            Err(error) => {
                if numbers.clone().count() > 1 {
                    let id = SafeText::new(&recorded.request_id);
                    let text = format!("turn {number}, {id}: {error}\n");
                    progress.suspend(|| print_text(&text))?;
                }
                failed.get_or_insert(turn_error(options.file, number, error));
                progress.step();
                continue;
            }
        };
        if options.events {
            progress.suspend(|| print_text(&printable(&replayed.answer.body)))?;
        }
        let differences = compare(recorded, &replayed, scope);
        if !differences.is_empty() {
            code = EXIT_DIFFERENT;
        }
        progress.suspend(|| print_text(&summary(number, recorded, &differences)))?;
        progress.step();
    }
    failed.map_or(Ok(code), Err)
}

/// The error for a turn whose replay failed: [`UnusableFile`] if the file is at fault.
fn turn_error(file: &Path, number: usize, error: ReplayError) -> anyhow::Error {
    match error {
        ReplayError::Incomplete(_) | ReplayError::Damaged(_) => {
            UnusableFile::new(file, &format!("turn {number}: {error}")).into()
        }
        ReplayError::Io(_)
        | ReplayError::Stuck { .. }
        | ReplayError::Endless
        | ReplayError::Stopped
        | ReplayError::NoModel(_)
        | ReplayError::NoTurn => anyhow::Error::from(error).context(format!("turn {number}")),
    }
}

fn summary(number: usize, recorded: &BundleTurn, differences: &[Difference]) -> String {
    let id = SafeText::new(&recorded.request_id);
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

/// A response body with the control characters of each line escaped, so that it cannot
/// control the terminal.
fn printable(body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    let mut text = String::new();
    for line in body.lines() {
        let _ = writeln!(text, "{}", SafeText::up_to(line, usize::MAX));
    }
    text
}
