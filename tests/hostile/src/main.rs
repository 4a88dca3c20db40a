//! Checks that cost follows the size of a hostile text: for each case of [`hostile::linear`], four
//! times the size may take at most five times the instructions. callgrind counts them, so that no
//! clock and no other process decides.
#![allow(
    clippy::print_stdout,
    reason = "the result of this program is what it prints"
)]

use std::collections::HashMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::available_parallelism;

use anyhow::{Context, bail, ensure};
use clap::Parser;
use hostile::linear::{Case, MEASURED, PLANTED_QUADRATIC, cases, planted};

/// How many times as large the second input is.
const GROWTH: usize = 4;
/// How many times as many instructions that may take, in percent: in proportion, and a quarter for
/// what comes in steps, such as memory.
const MAX_PERCENT: u64 = 500;

/// Counts the instructions of hostile inputs of growing sizes.
#[derive(Parser)]
struct Options {
    /// Only the cases whose name contains this text
    #[arg(default_value = "")]
    only: String,
    /// Give each form of input one of N parts of all pairs of fragments
    #[arg(long, value_name = "N", default_value = "16")]
    parts: NonZeroUsize,
    /// Print every case with its instructions for each byte or element
    #[arg(long)]
    verbose: bool,
    /// Only check that a quadratic scanner is noticed
    #[arg(long)]
    self_test: bool,
    /// Run the work of this list of cases; for the program itself, under callgrind
    #[arg(long, hide = true)]
    plan: Option<std::path::PathBuf>,
}

/// A case at one size.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Measurement {
    /// The index of the case.
    case: usize,
    size: usize,
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let cases = if options.self_test {
        planted()
    } else {
        cases(options.parts.get())
    };
    if let Some(plan) = &options.plan {
        run_plan(&cases, plan)?;
        return Ok(ExitCode::SUCCESS);
    }
    let chosen: Vec<usize> = (0..cases.len())
        .filter(|case| {
            let case = cases.get(*case);
            case.is_some_and(|case| case.name.contains(&options.only))
        })
        .collect();
    let has_valgrind = Command::new("valgrind").arg("--version").output().is_ok();
    if !has_valgrind {
        println!("SKIPPED: valgrind is not installed, so no instruction was counted");
        println!("0 passed, 0 failed, {} skipped", chosen.len());
        return Ok(ExitCode::SUCCESS);
    }
    let failed = check(&cases, &chosen, &options)?;
    if options.self_test {
        ensure!(
            failed == [PLANTED_QUADRATIC],
            "of the planted cases only the quadratic one must fail, but {failed:?} did"
        );
        println!("a quadratic scanner is noticed");
        return Ok(ExitCode::SUCCESS);
    }
    let failed = failed.len();
    println!("{} passed, {failed} failed", chosen.len() - failed);
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Promise: What a text costs follows its size, whoever sent it: four times the bytes, or four
/// times the tools, calls, items or deltas, take at most five times the instructions. Counted with
/// valgrind in CI, and skipped loudly without it.
///
/// Checks these cases, prints those that are not linear, and returns their names.
fn check<'c>(
    cases: &'c [Case],
    chosen: &[usize],
    options: &Options,
) -> anyhow::Result<Vec<&'c str>> {
    let at = |case: &usize, factor: usize| Measurement {
        case: *case,
        size: cases.get(*case).map_or(0, |case| case.size * factor),
    };
    let plan: Vec<Measurement> = chosen
        .iter()
        .flat_map(|case| [at(case, 1), at(case, GROWTH)])
        .collect();
    let mut counts = count(&plan, options)?;
    let cost = |counts: &HashMap<_, u64>, case: &usize, factor: usize| {
        counts.get(&at(case, factor)).copied().unwrap_or_default()
    };
    let is_linear = |counts: &HashMap<_, u64>, case: &usize, factor: usize| {
        let (first, second) = (
            cost(counts, case, factor),
            cost(counts, case, factor * GROWTH),
        );
        second * 100 <= first * MAX_PERCENT
    };
    // A limit between the two sizes, beyond which more is done, is no growth: that ends with the
    // next size.
    let doubtful: Vec<usize> = chosen
        .iter()
        .copied()
        .filter(|case| !is_linear(&counts, case, 1))
        .collect();
    let plan: Vec<Measurement> = doubtful
        .iter()
        .map(|case| at(case, GROWTH * GROWTH))
        .collect();
    counts.extend(count(&plan, options)?);
    let mut failed = Vec::new();
    for case in chosen {
        let fails = doubtful.contains(case) && !is_linear(&counts, case, GROWTH);
        let Some(Case { name, size, .. }) = cases.get(*case) else {
            continue;
        };
        if fails {
            failed.push(name.as_str());
        }
        if fails || options.verbose {
            let word = if fails { "FAILED" } else { "ok" };
            let of = [1, GROWTH, GROWTH * GROWTH].map(|factor| cost(&counts, case, factor));
            println!("{word} {name} ({size} and {GROWTH} times as much): {of:?} instructions");
        }
    }
    Ok(failed)
}

/// Runs the measured work, in this order. Each case runs once before, so that nothing is counted
/// that is done only once.
fn run_plan(cases: &[Case], plan: &Path) -> anyhow::Result<()> {
    let mut warm = None;
    for line in fs::read_to_string(plan)?.lines() {
        let (case, size) = line.split_once(' ').context("two numbers in a line")?;
        let case: usize = case.parse()?;
        let size = size.parse()?;
        let known = cases.get(case).context("no such case")?;
        if warm != Some(case) {
            known.warm_up();
            warm = Some(case);
        }
        known.measure(size);
    }
    Ok(())
}

/// Counts the instructions of each measurement, in as many processes as there are cores. Cases of
/// one form follow each other and take about as long, so each process gets some of every form.
fn count(plan: &[Measurement], options: &Options) -> anyhow::Result<HashMap<Measurement, u64>> {
    let folder = tempfile::tempdir()?;
    let cores = available_parallelism()?.get();
    let mut running = Vec::new();
    for number in 0..cores {
        let of_this = |measurement: &&Measurement| measurement.case % cores == number;
        let part: Vec<Measurement> = plan.iter().filter(of_this).copied().collect();
        let folder = folder.path().join(number.to_string());
        fs::create_dir(&folder)?;
        running.push((start(&part, &folder, options)?, part, folder));
    }
    let mut counts = HashMap::new();
    for (process, part, folder) in running {
        let output = process.wait_with_output()?;
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "valgrind failed: {log}");
        for (measurement, number) in part.iter().zip(1..) {
            let dump = folder.join(format!("counts.{number}"));
            counts.insert(*measurement, total(&dump)?);
        }
    }
    Ok(counts)
}

/// Starts this program under callgrind. It counts within the measured function alone, and writes a
/// file whenever that ends.
fn start(plan: &[Measurement], folder: &Path, options: &Options) -> anyhow::Result<Child> {
    let lines = plan
        .iter()
        .map(|Measurement { case, size }| format!("{case} {size}\n"));
    let list = folder.join("plan");
    fs::write(&list, lines.collect::<String>())?;
    let child = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--toggle-collect={MEASURED}"))
        .arg(format!("--dump-after={MEASURED}"))
        .arg("--dump-line=no")
        .arg(format!(
            "--callgrind-out-file={}",
            folder.join("counts").display()
        ))
        .arg(std::env::current_exe()?)
        .args(options.self_test.then_some("--self-test"))
        .arg(format!("--parts={}", options.parts))
        .arg("--plan")
        .arg(list)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    Ok(child)
}

/// The instructions that callgrind counted in this file.
fn total(dump: &Path) -> anyhow::Result<u64> {
    let text =
        fs::read_to_string(dump).with_context(|| format!("no counts in {}", dump.display()))?;
    let total = text.lines().find_map(|line| {
        let rest = line
            .strip_prefix("totals: ")
            .or_else(|| line.strip_prefix("summary: "))?;
        rest.trim().parse().ok()
    });
    match total {
        Some(0) | None => bail!("{} counts no instruction", dump.display()),
        Some(total) => Ok(total),
    }
}
