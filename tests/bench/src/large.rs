//! The effect of a huge request on the latency of concurrent streams and on the memory of the
//! server.

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
    measure::{self, quantile, to_f64},
    print_line,
    report::Arm,
    run,
    script::Script,
    server::{Launcher, Server, free_addr},
};

/// Options of `large`.
#[derive(Debug, clap::Args)]
pub(crate) struct LargeOptions {
    /// The proxy's binary [default: respondent beside this program]
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
const TIMEOUT: Duration = Duration::from_mins(2);
const SETTLE_TIME: Duration = Duration::from_millis(1500);

/// Measures all servers and prints a table. Returns false if an event was lost or a request
/// refused.
pub(crate) async fn run(options: &LargeOptions) -> anyhow::Result<bool> {
    limits::ensure_open_files(400)?;
    let launcher = Launcher::new(Some(run::proxy(options.proxy.as_ref())?))?;
    let upstream = launcher.start(Arm::Direct, free_addr()?).await?;
    let size = usize::try_from(options.megabytes)? * 1_000_000;
    print_line(&measure::machine());
    print_line(&format!(
        "{STREAMS} streams, an event each {} ms, alone and beside requests with an output of {} MB, one after the other\n",
        GAP.as_millis(),
        options.megabytes
    ));
    print_line(
        "| server | p99 alone, ms | p99 beside, ms | longest beside, ms | huge requests | first event of these, ms | idle RSS, MB | peak above idle, in bodies |",
    );
    print_line("|---|---|---|---|---|---|---|---|");
    let mut exact = true;
    for _ in 0..options.rounds {
        for arm in [Arm::Pass, Arm::Off, Arm::Ours] {
            let server = launcher.start(arm, upstream.target.addr).await?;
            exact &= measure_server(arm, &server, size).await?;
            server.stop().await?;
        }
    }
    Ok(exact)
}

async fn measure_server(arm: Arm, server: &Server, size: usize) -> anyhow::Result<bool> {
    let script = Script::paced(EVENTS, GAP);
    let streams = || load::run_streams(server.target, script, STREAMS, GAP);
    let mut alone = timeout(TIMEOUT, streams()).await?;
    sleep(SETTLE_TIME).await;
    let idle = measure::rss_kb(server.pid)?;
    let request = server.target.output_request(size);
    let done = AtomicBool::new(false);
    let huge = async {
        let mut huge = Tally::default();
        while !done.load(Ordering::Relaxed) {
            huge.append(load::run_in_sequence(server.target, &request, 1, Duration::ZERO).await);
        }
        huge
    };
    let beside = async {
        let tally = streams().await;
        done.store(true, Ordering::Relaxed);
        tally
    };
    let both = async { tokio::join!(huge, beside) };
    let both = timeout(TIMEOUT, measure::with_peak_rss(server.pid, both));
    let ((mut huge, mut beside), peak) = both.await?;
    ensure!(!beside.latency_ns.is_empty(), "{:?}", beside.reason);
    let p99 = |tally: &mut Tally| to_f64(quantile(&mut tally.latency_ns, 990)) / 1e6;
    let longest = to_f64(beside.latency_ns.iter().copied().max().unwrap_or(0)) / 1e6;
    let above = to_f64(peak.saturating_sub(idle)) * 1024.0 / to_f64(request.len() as u64);
    print_line(&format!(
        "| {arm:?} | {:.2} | {:.2} | {longest:.2} | {} | {:.0} | {:.1} | {above:.2} |",
        p99(&mut alone),
        p99(&mut beside),
        huge.events,
        to_f64(quantile(&mut huge.first_ns, 500)) / 1e6,
        to_f64(idle) / 1024.0,
    ));
    for tally in [&alone, &beside, &huge] {
        if tally.faults > 0 {
            print_line(&format!("FAULT {arm:?}: {:?}", tally.reason));
        }
    }
    Ok([alone, beside, huge].iter().all(|tally| tally.faults == 0))
}
