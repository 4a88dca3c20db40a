//! How often the line that matters is still visible in an output that was shortened.
//!
//! [`case`] makes the outputs: [`kind`] names the kinds, and the modules beside it generate them
//! from the [`words`] of a [`scene`] by the choices of [`dice`]. [`real`] takes them from commands.
//! [`planner`] makes the upstream request of each as the proxy does, and [`peer`] sends it through
//! another proxy; [`summary`] prints what was visible.

mod builds;
mod case;
mod code;
mod dice;
mod foreign_logs;
mod kind;
mod logs;
mod more_formats;
mod pages;
mod peer;
mod planner;
mod real;
mod records;
mod rows;
mod scene;
mod scripts;
mod summary;
mod tables;
mod traces;
mod trees;
mod words;

use std::{
    fs,
    io::{Write, stderr, stdout},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context;
use clap::Parser;
use serde_json::json;

use self::{
    case::{Case, Recipe},
    kind::NeedleKind,
    planner::Planner,
    summary::{Outcome, Summary},
};

/// Measures how often the line that matters is still visible in a long output
#[derive(Debug, Parser)]
pub struct NeedlesOptions {
    /// Chooses the words and places [default: by the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// The kinds of generated outputs, or `real` for those of commands [default: all]
    #[arg(long, value_delimiter = ',', value_name = "KIND")]
    kinds: Vec<String>,
    /// The sizes of the generated outputs, KB
    #[arg(long, value_delimiter = ',', value_name = "KB", default_values_t = [60, 150, 320, 700],
          value_parser = clap::value_parser!(u32).range(30..=5_000))]
    sizes: Vec<u32>,
    /// How many outputs of each kind, size and sort
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// The window of the model, tokens
    #[arg(long, default_value_t = 262_144)]
    window: u64,
    /// Print the figures as JSON, with every case
    #[arg(long)]
    json: bool,
    /// Write each case into this folder, with what was shown of it
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
    /// Headroom, to print beside it what that shows, or `none` [default: headroom on the search
    /// path]
    #[arg(long, value_name = "FILE")]
    peer: Option<PathBuf>,
}

/// The word in `--kinds` for the outputs of commands.
const REAL: &str = "real";

/// Measures and prints the tables.
pub fn run(options: &NeedlesOptions) -> anyhow::Result<()> {
    let seed = options.seed.unwrap_or_else(clock_seed);
    let (cases, skipped) = options.cases(seed)?;
    let wants_peer = options.peer.as_deref() != Some(Path::new("none"));
    let peer = if wants_peer {
        peer::program(options.peer.as_ref())?
    } else {
        None
    };
    let planner = Planner::new(options.window);
    let mut outcomes = Vec::new();
    for (place, case) in cases.iter().enumerate() {
        if place.is_multiple_of(50) {
            let _ = writeln!(stderr(), "{place} of {}", cases.len());
        }
        let shown = planner.shown(case)?;
        if let Some(folder) = &options.write {
            write(folder, case, &shown)?;
        }
        outcomes.push(Outcome::of(case, &shown));
    }
    if let Some(program) = &peer {
        let shown = peer::outcomes(program, &cases)?;
        for outcome in &mut outcomes {
            outcome.add_peer(&shown);
        }
    }
    let summary = Summary::new(outcomes, skipped);
    if options.json {
        let figures = json!({"seed": seed, "window": options.window, "summary": summary});
        print_line(&serde_json::to_string_pretty(&figures)?);
    } else {
        print_line(&format!(
            "seed {seed}, window of {} tokens\n",
            options.window
        ));
        print_line(&summary.tables());
        if peer.is_none() && wants_peer {
            print_line(peer::SKIPPED);
        }
    }
    Ok(())
}

/// An output of each kind, of about this many bytes, with the name of its kind.
pub fn samples(bytes: usize, seed: u64) -> impl Iterator<Item = (&'static str, String)> {
    let kinds = NeedleKind::ALL.into_iter();
    kinds.map(move |kind| (kind.name(), case::output_of(kind, bytes, seed)))
}

impl NeedlesOptions {
    /// The cases, and the real ones that this machine cannot make, each with the reason.
    fn cases(&self, seed: u64) -> anyhow::Result<(Vec<Case>, Vec<real::Skipped>)> {
        let sizes: Result<Vec<usize>, _> =
            self.sizes.iter().map(|size| (*size).try_into()).collect();
        let recipes = Recipe::all(&self.generated_kinds()?, &sizes?, self.runs);
        let cases: Result<Vec<Case>, _> = recipes.iter().map(|recipe| recipe.case(seed)).collect();
        let mut cases = cases?;
        let mut skipped = Vec::new();
        if self.kinds.is_empty() || self.kinds.iter().any(|kind| kind == REAL) {
            let (real, missing) = real::cases()?;
            cases.extend(real);
            skipped = missing;
        }
        Ok((cases, skipped))
    }

    fn generated_kinds(&self) -> anyhow::Result<Vec<NeedleKind>> {
        if self.kinds.is_empty() {
            return Ok(NeedleKind::ALL.to_vec());
        }
        let generated = self.kinds.iter().filter(|kind| *kind != REAL);
        generated
            .map(|kind| {
                let parsed: Result<NeedleKind, String> = kind.parse();
                parsed.map_err(|error| anyhow::anyhow!("{kind}: {error}, {REAL}"))
            })
            .collect()
    }
}

/// Writes a case as a JSON file, which the script of the peer reads.
fn write(folder: &Path, case: &Case, shown: &str) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    let path = folder.join(format!("{}.json", case.id));
    let text = serde_json::to_string_pretty(&json!({"case": case, "shown": shown}))?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn clock_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

/// Prints a line to stdout. Errors are ignored, because the reader may close the pipe.
fn print_line(text: &str) {
    let _ = writeln!(stdout(), "{text}");
}
