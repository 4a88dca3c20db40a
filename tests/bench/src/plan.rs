//! The cost of planning and encoding a history, measured in this process without sockets.

use std::{fs, hint::black_box};

use adapters::{
    compact::extract,
    plan::{Bounds, OutputPolicy, Retention, plan},
    purpose::{Purpose, SummaryMode},
    responses::request::TurnSource,
    wire::{EncodeOptions, encode},
};
use anyhow::Context;
use registry::{Dialect, Model};
use serde_json::{Value, json};

use crate::{
    measure::{self, to_f64},
    print_line,
    texts::SampleKind,
};

/// Options of `plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanOptions {
    /// Rounds; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The size of one huge output, MB
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=60))]
    megabytes: u32,
    /// The window of the model, tokens
    #[arg(long, default_value_t = 262_144)]
    window: u64,
    /// Measure one output of 8 MB of each kind that respondent-needles makes instead, with words
    /// and places that this number chooses
    #[arg(long, value_name = "SEED", conflicts_with = "megabytes")]
    needles: Option<u64>,
}

/// The number of bytes to process in one measurement, so that it is long enough.
const WORK_BYTES: usize = 100_000_000;

const HISTORY_BYTES: usize = 10_000_000;

/// The head of the table that [`PlanBench::measure`] prints rows of.
const HEAD: &str = "| history | body, MB | reading, ms | plan, ms | encode, ms | plan + encode, MB/s |\n|---|---|---|---|---|---|";

/// Measures each kind of history and prints a table. The result is always true.
pub(crate) fn run(options: &PlanOptions) -> anyhow::Result<bool> {
    let bench = PlanBench::new(options.rounds, options.window);
    print_line(&measure::machine());
    print_line(&format!(
        "median CPU of {} rounds, one thread; window of {} tokens\n",
        options.rounds, options.window
    ));
    print_line(HEAD);
    if let Some(seed) = options.needles {
        return bench.measure_needles(seed);
    }
    let huge = usize::try_from(options.megabytes)? * 1_000_000;
    // These outputs together stay below half of the window.
    let whole: Vec<String> = (0..70)
        .map(|round| SampleKind::for_round(round).sample(4_000))
        .collect();
    bench.measure("70 outputs of 4 KB, all whole", &whole)?;
    let long: Vec<String> = (0..100)
        .map(|round| SampleKind::for_round(round).sample(40_000))
        .chain((0..5).map(|round| SampleKind::for_round(round).sample(1_000_000)))
        .collect();
    bench.measure("100 outputs of 40 KB, 5 of 1 MB", &long)?;
    for kind in SampleKind::ALL {
        let name = format!("one output of {} MB: {}", options.megabytes, kind.name());
        bench.measure(&name, &[kind.sample(huge)])?;
    }
    let outputs: Vec<String> = (0..250)
        .map(|round| SampleKind::for_round(round).sample(HISTORY_BYTES / 250))
        .collect();
    bench.compaction(&body(&outputs))?;
    Ok(true)
}

/// Measures how long planning and encoding take for a model.
struct PlanBench {
    rounds: u32,
    model: Model,
    dialect: Dialect,
    bounds: Bounds,
}

impl PlanBench {
    fn new(rounds: u32, window: u64) -> Self {
        let model = Model {
            window: Some(window),
            ..Model::unlisted("m")
        };
        let dialect = Dialect::default();
        let bounds = Bounds::for_model(&model, OutputPolicy::Adaptive, Retention::Disk)
            .for_dialect(&dialect);
        Self {
            rounds,
            model,
            dialect,
            bounds,
        }
    }

    /// Measures an output of each kind of respondent-needles, and many of them in one session.
    fn measure_needles(&self, seed: u64) -> anyhow::Result<bool> {
        let mixed: Vec<String> = (0..)
            .flat_map(|run| respondent_needles::samples(40_000, seed + run))
            .map(|(_, output)| output)
            .take(100)
            .collect();
        self.measure("100 outputs of 40 KB", &mixed)?;
        for (kind, output) in respondent_needles::samples(8_000_000, seed) {
            self.measure(&format!("8 MB: {kind}"), &[output])?;
        }
        Ok(true)
    }

    /// Measures a session with these outputs, and prints a row.
    fn measure(&self, name: &str, outputs: &[String]) -> anyhow::Result<()> {
        let source = TurnSource::new(body(outputs));
        let turn = source.turn()?;
        let planned = plan(&turn, &self.bounds);
        let options = EncodeOptions::new(&self.dialect, &self.model, "m");
        let read = || source.turn().map(drop);
        let reading = self.median_ms(source.size(), || Ok(read()?))?;
        let planning = self.median_ms(source.size(), || {
            black_box(plan(&turn, &self.bounds));
            Ok(())
        })?;
        let encoding = self.median_ms(source.size(), || {
            black_box(encode(&turn, &planned, &options)?);
            Ok(())
        })?;
        let megabytes = to_f64(source.size() as u64) / 1e6;
        let rate = megabytes * 1e3 / (planning + encoding);
        print_line(&format!(
            "| {name} | {megabytes:.1} | {reading:.2} | {planning:.2} | {encoding:.2} | {rate:.0} |"
        ));
        Ok(())
    }

    /// Measures the request for a summary of a history that is larger than the window.
    fn compaction(&self, body: &str) -> anyhow::Result<()> {
        let source = TurnSource::new(body.to_owned());
        let cut = source.with_purpose(Purpose::Summary {
            mode: SummaryMode::FitWindow,
            prompted: false,
            tools: None,
        });
        let options = EncodeOptions::new(&self.dialect, &self.model, "m");
        let cutting = self.median_ms(source.size(), || {
            let turn = cut.turn()?;
            black_box(encode(&turn, &plan(&turn, &self.bounds), &options)?);
            Ok(())
        })?;
        let extracting = self.median_ms(source.size(), || {
            let turn = source.turn()?;
            let plan = plan(&turn, &self.bounds);
            black_box(extract(&turn, &plan, 16_000));
            Ok(())
        })?;
        print_line(&format!(
            "\ncompaction of {:.1} MB: {cutting:.0} ms read, plan and encode, {extracting:.0} ms read, plan and extract (aim: 100)",
            to_f64(source.size() as u64) / 1e6
        ));
        Ok(())
    }
}

impl PlanBench {
    /// The median CPU time of work on a body of this many bytes. The work is repeated, because the
    /// system counts CPU time in steps of some milliseconds.
    fn median_ms(
        &self,
        bytes: usize,
        mut work: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<f64> {
        let repeats = (WORK_BYTES / bytes.max(1)).clamp(1, 1_000);
        let mut times = Vec::new();
        for _ in 0..self.rounds {
            let start = thread_cpu_ns()?;
            for _ in 0..repeats {
                work()?;
            }
            times.push((thread_cpu_ns()? - start) / repeats as u64);
        }
        Ok(to_f64(measure::quantile(&mut times, 500)) / 1e6)
    }
}

/// The Responses request of a session with these outputs, one for each call.
fn body(outputs: &[String]) -> String {
    let mut input = vec![json!({"type": "message", "role": "user", "content": "Mend the parser."})];
    for (round, output) in outputs.iter().enumerate() {
        let id = format!("call_{round}");
        let arguments = json!({"cmd": format!("sed -n '{round},+40p' src/reader.rs")});
        let call: Value = json!({"type": "function_call", "name": "exec_command",
            "call_id": id, "arguments": arguments.to_string()});
        input.push(call);
        input.push(json!({"type": "function_call_output", "call_id": id,
            "output": format!("{round}\n{output}")}));
    }
    json!({"model": "m", "input": input}).to_string()
}

/// The CPU time of this thread, ns.
fn thread_cpu_ns() -> anyhow::Result<u64> {
    let stat = fs::read_to_string("/proc/thread-self/schedstat")?;
    let spent = stat.split_whitespace().next();
    Ok(spent.context("schedstat is empty")?.parse()?)
}
