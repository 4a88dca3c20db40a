//! What one huge request does to the streams beside it, and to the memory.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::ensure;
use tokio::time::{sleep, timeout};

use crate::{
    limits,
    load::{self, Tally},
    measure::{self, float, quantile},
    report::Arm,
    run, say,
    script::Script,
    server::{Rig, Server, free_addr},
};

/// Options of `large`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The proxy's binary [default: release/respondent in this program's target folder]
    #[arg(long, value_name = "FILE")]
    proxy: Option<PathBuf>,
    /// The size of the tool output, MB
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=60))]
    megabytes: u32,
    /// Rounds
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

const STREAMS: u32 = 20;
const GAP: Duration = Duration::from_millis(5);
const EVENTS: u64 = 800;
const PATIENCE: Duration = Duration::from_mins(2);
const REST: Duration = Duration::from_millis(1500);

/// Runs it and prints a table; false when anything was lost or refused.
pub(crate) async fn large(options: &Options) -> anyhow::Result<bool> {
    limits::ensure_files(400)?;
    let rig = Rig::new(Some(run::proxy(options.proxy.as_ref())?))?;
    let upstream = rig.start(Arm::Direct, free_addr()?).await?;
    let size = usize::try_from(options.megabytes)? * 1_000_000;
    say(&measure::machine());
    say(&format!(
        "{STREAMS} streams, an event each {} ms, alone and beside requests with an output of {} MB, one after the other\n",
        GAP.as_millis(),
        options.megabytes
    ));
    say(
        "| server | p99 alone, ms | p99 beside, ms | longest beside, ms | huge requests | first event of these, ms | idle RSS, MB | peak above idle, in bodies |",
    );
    say("|---|---|---|---|---|---|---|---|");
    let mut exact = true;
    for _ in 0..options.rounds {
        for arm in [Arm::Pass, Arm::Off, Arm::Ours] {
            let server = rig.start(arm, upstream.target.addr).await?;
            exact &= measure_one(arm, &server, size).await?;
            server.stop().await?;
        }
    }
    Ok(exact)
}

async fn measure_one(arm: Arm, server: &Server, size: usize) -> anyhow::Result<bool> {
    let script = Script::paced(EVENTS, GAP);
    let streams = || load::streams(server.target, script, STREAMS, GAP);
    let mut alone = timeout(PATIENCE, streams()).await?;
    sleep(REST).await;
    let idle = measure::rss_kb(server.pid)?;
    let request = server.target.output(size);
    let over = AtomicBool::new(false);
    let huge = async {
        let mut huge = Tally::default();
        while !over.load(Ordering::Relaxed) {
            huge.append(load::in_turn(server.target, &request, 1).await);
        }
        huge
    };
    let beside = async {
        let tally = streams().await;
        over.store(true, Ordering::Relaxed);
        tally
    };
    let both = async { tokio::join!(huge, beside) };
    let both = timeout(PATIENCE, measure::with_peak_rss(server.pid, both));
    let ((mut huge, mut beside), peak) = both.await?;
    ensure!(!beside.latency_ns.is_empty(), "{:?}", beside.reason);
    let p99 = |tally: &mut Tally| float(quantile(&mut tally.latency_ns, 990)) / 1e6;
    let longest = float(beside.latency_ns.iter().copied().max().unwrap_or(0)) / 1e6;
    let above = float(peak.saturating_sub(idle)) * 1024.0 / float(request.len() as u64);
    say(&format!(
        "| {arm:?} | {:.2} | {:.2} | {longest:.2} | {} | {:.0} | {:.1} | {above:.2} |",
        p99(&mut alone),
        p99(&mut beside),
        huge.events,
        float(quantile(&mut huge.first_ns, 500)) / 1e6,
        float(idle) / 1024.0,
    ));
    for tally in [&alone, &beside, &huge] {
        if tally.faults > 0 {
            say(&format!("FAULT {arm:?}: {:?}", tally.reason));
        }
    }
    Ok([alone, beside, huge].iter().all(|tally| tally.faults == 0))
}
