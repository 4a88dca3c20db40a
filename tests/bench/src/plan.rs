//! What planning and encoding a history costs, in this process and without sockets.

use std::{fs, hint::black_box};

use adapters::{
    chat::encode::{EncodeOptions, encode},
    compact::extract,
    plan::{Bounds, OutputPolicy, Retention, plan},
    purpose::{Purpose, SummaryMode},
    responses::request::TurnSource,
};
use anyhow::Context;
use registry::{Dialect, Model};
use serde_json::{Value, json};

use crate::{
    measure::{self, float},
    say,
    texts::Texts,
};

/// Options of `plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Rounds; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The size of one huge output, MB
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=60))]
    megabytes: u32,
    /// The window of the model, tokens
    #[arg(long, default_value_t = 262_144)]
    window: u64,
}

/// Bytes whose work is long enough to be measured.
const LONG: usize = 100_000_000;

const HISTORY: usize = 10_000_000;

/// Measures each kind of history and prints a table.
pub(crate) fn run(options: &Options) -> anyhow::Result<bool> {
    let bench = Bench::new(options);
    say(&measure::machine());
    say(&format!(
        "median CPU of {} rounds, one thread; window of {} tokens\n",
        options.rounds, options.window
    ));
    say("| history | body, MB | reading, ms | plan, ms | encode, ms | plan + encode, MB/s |");
    say("|---|---|---|---|---|---|");
    let huge = usize::try_from(options.megabytes)? * 1_000_000;
    // So many stay under half of the window.
    let whole: Vec<String> = (0..70)
        .map(|round| Texts::mixed(round).text(4_000))
        .collect();
    bench.measure("70 outputs of 4 KB, all whole", &whole)?;
    let long: Vec<String> = (0..100)
        .map(|round| Texts::mixed(round).text(40_000))
        .chain((0..5).map(|round| Texts::mixed(round).text(1_000_000)))
        .collect();
    bench.measure("100 outputs of 40 KB, 5 of 1 MB", &long)?;
    for texts in Texts::ALL {
        let name = format!("one output of {} MB: {}", options.megabytes, texts.name());
        bench.measure(&name, &[texts.text(huge)])?;
    }
    let outputs: Vec<String> = (0..250)
        .map(|round| Texts::mixed(round).text(HISTORY / 250))
        .collect();
    bench.compaction(&body(&outputs))?;
    Ok(true)
}

struct Bench {
    rounds: u32,
    model: Model,
    dialect: Dialect,
    bounds: Bounds,
}

impl Bench {
    fn new(options: &Options) -> Self {
        let model = Model {
            window: Some(options.window),
            ..Model::unlisted("m")
        };
        let dialect = Dialect::default();
        let bounds = Bounds::for_model(&model, OutputPolicy::Adaptive, Retention::Disk)
            .for_dialect(&dialect);
        Self {
            rounds: options.rounds,
            model,
            dialect,
            bounds,
        }
    }

    fn measure(&self, name: &str, outputs: &[String]) -> anyhow::Result<()> {
        let source = TurnSource::new(body(outputs));
        let turn = source.turn()?;
        let planned = plan(&turn, &self.bounds);
        let words = EncodeOptions::new(&self.dialect, &self.model, "m");
        let read = || source.turn().map(drop);
        let reading = self.median_ms(source.body_len(), || Ok(read()?))?;
        let planning = self.median_ms(source.body_len(), || {
            black_box(plan(&turn, &self.bounds));
            Ok(())
        })?;
        let encoding = self.median_ms(source.body_len(), || {
            black_box(encode(&turn, &planned, &words)?);
            Ok(())
        })?;
        let megabytes = float(source.body_len() as u64) / 1e6;
        let rate = megabytes * 1e3 / (planning + encoding);
        say(&format!(
            "| {name} | {megabytes:.1} | {reading:.2} | {planning:.2} | {encoding:.2} | {rate:.0} |"
        ));
        Ok(())
    }

    /// A summary of a history that is larger than the window.
    fn compaction(&self, body: &str) -> anyhow::Result<()> {
        let source = TurnSource::new(body.to_owned());
        let cut = source.with_purpose(Purpose::Summary {
            mode: SummaryMode::FitWindow,
            prompted: false,
            tools: None,
        });
        let words = EncodeOptions::new(&self.dialect, &self.model, "m");
        let cutting = self.median_ms(source.body_len(), || {
            let turn = cut.turn()?;
            black_box(encode(&turn, &plan(&turn, &self.bounds), &words)?);
            Ok(())
        })?;
        let extracting = self.median_ms(source.body_len(), || {
            let turn = source.turn()?;
            let plan = plan(&turn, &self.bounds);
            black_box(extract(&turn, &plan, 16_000));
            Ok(())
        })?;
        say(&format!(
            "\ncompaction of {:.1} MB: {cutting:.0} ms read, plan and encode, {extracting:.0} ms read, plan and extract (aim: 100)",
            float(source.body_len() as u64) / 1e6
        ));
        Ok(())
    }
}

impl Bench {
    /// The CPU time of some work on so many bytes. It is done until it is long: the
    /// system counts in steps of some milliseconds.
    fn median_ms(
        &self,
        bytes: usize,
        mut work: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<f64> {
        let repeats = (LONG / bytes.max(1)).clamp(1, 1_000);
        let mut times = Vec::new();
        for _ in 0..self.rounds {
            let begun = cpu()?;
            for _ in 0..repeats {
                work()?;
            }
            times.push((cpu()? - begun) / repeats as u64);
        }
        Ok(float(measure::quantile(&mut times, 500)) / 1e6)
    }
}

/// A session that made these outputs, one a call.
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
fn cpu() -> anyhow::Result<u64> {
    let stat = fs::read_to_string("/proc/thread-self/schedstat")?;
    let spent = stat.split_whitespace().next();
    Ok(spent.context("schedstat is empty")?.parse()?)
}
