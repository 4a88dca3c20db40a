//! What planning and encoding a history costs, in this process and without sockets.

use std::{fs, hint::black_box};

use adapters::{
    chat::encode::{Options as Words, encode},
    compact::{Form, Purpose, extract},
    plan::{Bounds, Keeping, Outputs, plan},
    responses::request::Source,
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
    let whole: Vec<String> = (0..200)
        .map(|round| Texts::mixed(round).text(4_000))
        .collect();
    bench.measure("200 outputs of 4 KB, all whole", &whole)?;
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
        let bounds = Bounds::of(&model, Outputs::Adaptive, Keeping::Disk).spoken(&dialect);
        Self {
            rounds: options.rounds,
            model,
            dialect,
            bounds,
        }
    }

    fn measure(&self, name: &str, outputs: &[String]) -> anyhow::Result<()> {
        let source = Source::new(body(outputs));
        let (mut reading, mut planning, mut encoding) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            let begun = cpu()?;
            let turn = source.turn()?;
            let read = cpu()?;
            let plan = plan(&turn, &self.bounds);
            let planned = cpu()?;
            let words = Words::new(&self.dialect, &self.model, "m");
            black_box(encode(&turn, &plan, &words)?);
            let encoded = cpu()?;
            reading.push(read - begun);
            planning.push(planned - read);
            encoding.push(encoded - planned);
        }
        let [reading, planning, encoding] =
            [&mut reading, &mut planning, &mut encoding].map(|times| median_ms(times));
        let megabytes = float(source.bytes() as u64) / 1e6;
        let rate = megabytes * 1e3 / (planning + encoding);
        say(&format!(
            "| {name} | {megabytes:.1} | {reading:.1} | {planning:.1} | {encoding:.1} | {rate:.0} |"
        ));
        Ok(())
    }

    /// A summary of a history that is larger than the window.
    fn compaction(&self, body: &str) -> anyhow::Result<()> {
        let source = Source::new(body.to_owned());
        let cut = source.with_purpose(Purpose::Summary {
            form: Form::Cut,
            prompted: false,
            tools: None,
        });
        let (mut cutting, mut extracting) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            let begun = cpu()?;
            let turn = cut.turn()?;
            let words = Words::new(&self.dialect, &self.model, "m");
            black_box(encode(&turn, &plan(&turn, &self.bounds), &words)?);
            let cut = cpu()?;
            let turn = source.turn()?;
            let plan = plan(&turn, &self.bounds);
            black_box(extract(&turn, &plan, 16_000));
            cutting.push(cut - begun);
            extracting.push(cpu()? - cut);
        }
        let [cutting, extracting] = [&mut cutting, &mut extracting].map(|times| median_ms(times));
        say(&format!(
            "\ncompaction of {:.1} MB: {cutting:.0} ms read, plan and encode, {extracting:.0} ms read, plan and extract (aim: 100)",
            float(source.bytes() as u64) / 1e6
        ));
        Ok(())
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

fn median_ms(times: &mut [u64]) -> f64 {
    float(measure::quantile(times, 500)) / 1e6
}
