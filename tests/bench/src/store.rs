//! The cost of storing tool outputs on disk: the proxy with a store compared with the proxy without
//! it, round by round.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context;
use tokio::time::timeout;

use crate::{
    limits, load,
    measure::{self, Cpu, to_f64},
    print_line, print_progress,
    report::{Arm, spread},
    run,
    script::Script,
    server::{Launcher, Server, free_addr},
    texts::SampleKind,
};

/// Options of `store`.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreOptions {
    /// The proxy's binary [default: respondent beside this program]
    #[arg(long, value_name = "FILE")]
    proxy: Option<PathBuf>,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The new output of each turn, KB
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    kilobytes: u32,
}

const STREAMS: u32 = 50;
const GAP: Duration = Duration::from_millis(5);
const EVENTS: u64 = 800;
const TIMEOUT: Duration = Duration::from_mins(2);

/// The maximum ratio of the CPU time for each event, with the store divided by without it.
const MAX_RATIO: f64 = 1.1;

/// Measures both proxies and prints a table. Returns false if an event was lost or a request
/// refused.
pub(crate) async fn run(options: &StoreOptions) -> anyhow::Result<bool> {
    limits::ensure_open_files(400)?;
    let launcher = Launcher::new(Some(run::proxy(options.proxy.as_ref())?))?;
    let upstream = launcher.start(Arm::Direct, free_addr()?).await?;
    let upstream = upstream.target.addr;
    let disk = launcher.start(Arm::Ours, upstream).await?;
    let off = launcher.start(Arm::Unkept, upstream).await?;
    let size = usize::try_from(options.kilobytes)? * 1_000;
    let machine = measure::machine();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let mut exact = true;
    // The first round fills pools and creates the store, so it is not counted.
    for round in 0..=options.rounds {
        print_progress(&format!("round {round} of {}", options.rounds));
        let mut arms = [(&disk, &mut with), (&off, &mut without)];
        if round % 2 == 1 {
            arms.reverse();
        }
        for (server, figures) in arms {
            let (cpu, is_exact) = measure_round(server, round, size).await?;
            exact &= is_exact;
            if round > 0 {
                figures.push(cpu);
            }
        }
    }
    let ratios: Vec<f64> = with
        .iter()
        .zip(&without)
        .map(|(with, without)| with / without)
        .collect();
    let mut sorted = ratios.clone();
    sorted.sort_by(f64::total_cmp);
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN);
    print_line(&machine);
    print_line(&format!(
        "{STREAMS} turns at once, each with a new output of {} KB and {EVENTS} events, one each {} ms\n",
        options.kilobytes,
        GAP.as_millis()
    ));
    print_line("| CPU per event, us | kept on disk | not kept | ratio | aim | |");
    print_line("|---|---|---|---|---|---|");
    print_line(&format!(
        "| all work of a turn | {} | {} | {} | at most {MAX_RATIO} | {} |",
        spread(&with),
        spread(&without),
        spread(&ratios),
        if median <= MAX_RATIO { "met" } else { "missed" }
    ));
    for server in [disk, off] {
        server.stop().await?;
    }
    Ok(exact)
}

/// The CPU time of the server for each event in us, until it is idle, and whether every event
/// arrived.
async fn measure_round(server: &Server, round: u32, size: usize) -> anyhow::Result<(f64, bool)> {
    let script = Script::paced(EVENTS, GAP);
    let target = server.target;
    let requests = (0..STREAMS).map(|stream| {
        let index = usize::try_from(round * STREAMS + stream).unwrap_or_default();
        // Every output is different, because an output that is stored already costs nothing.
        let output = format!("{index}\n{}", SampleKind::for_round(index).sample(size));
        Arc::from(target.request_after_output(script, &output))
    });
    let requests: Vec<Arc<[u8]>> = requests.collect();
    let before = Cpu::of(server.pid)?;
    let work = load::run_requests(target, requests, EVENTS, GAP);
    let tally = timeout(TIMEOUT, work).await.context("streams hang")?;
    let spent = measure::when_idle(server.pid).await?.since(&before);
    if let Some(reason) = &tally.reason {
        print_line(&format!("FAULT {reason}"));
    }
    let cpu = to_f64(spent) / to_f64(tally.events.max(1)) / 1e3;
    Ok((cpu, tally.faults == 0))
}
