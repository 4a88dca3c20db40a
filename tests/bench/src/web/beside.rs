//! The latency of streams beside turns that search and read pages, and beside background responses
//! that also call a tool with effects.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::Context;
use futures_util::future::try_join_all;
use tokio::time::{sleep, timeout};

use super::{
    fixture::{Asked, FixtureWeb, PAGES_A_TURN},
    verdict,
};
use crate::{
    load::{self, Tally},
    measure::{self, quantile, to_f64},
    print_line, print_progress,
    report::{Comparison, spread, summary},
    request::Target,
    script::Script,
    server::Server,
};

const STREAMS: u32 = 20;
const GAP: Duration = Duration::from_millis(5);
const EVENTS: u64 = 800;
/// Turns that search at once, for as long as the streams run, and background responses: more than
/// run at the same time, so that some of them wait.
const TURNS: u32 = 20;
const BACKGROUND: u32 = 25;
const TIMEOUT: Duration = Duration::from_mins(2);
const SETTLE_TIME: Duration = Duration::from_millis(1500);

/// The most that the latency of an event may grow.
const MAX_RATIO: f64 = 2.0;

/// The p99 of the latency of an event in ms, a value for each round.
#[derive(Default)]
struct Latencies {
    alone: Vec<f64>,
    beside: Vec<f64>,
}

/// What the turns took meanwhile.
#[derive(Default)]
struct Turns {
    seconds: Vec<f64>,
    /// The memory of the proxy before and at most, in KB.
    idle: u64,
    peak: u64,
}

impl Asked {
    fn turns(self) -> u32 {
        match self {
            Self::Waiting => TURNS,
            Self::Background => BACKGROUND,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Waiting => "turns at once, each of which",
            Self::Background => {
                "background responses, each of which has a viewer, calls a tool with effects twice,"
            }
        }
    }
}

/// Measures streams of the pass-through and of the proxy, alone and while the proxy runs tools for
/// turns that are asked for in this way. Returns false if an event was lost.
pub(super) async fn measure(
    asked: Asked,
    rounds: u32,
    kilobytes: u32,
    web: &FixtureWeb,
    pass: &Server,
    ours: &Server,
) -> anyhow::Result<bool> {
    let (mut of_pass, mut of_ours) = (Latencies::default(), Latencies::default());
    let mut turns = Turns::default();
    let mut exact = true;
    // The first round fills pools, so it is not counted.
    for round in 0..=rounds {
        print_progress(&format!("round {round} of {rounds}"));
        if round == 1 {
            (of_pass, of_ours, turns) = Default::default();
        }
        for (server, latencies) in [(pass, &mut of_pass), (ours, &mut of_ours)] {
            exact &= measure_round((server, latencies), ours, (asked, web), &mut turns).await?;
        }
    }
    print(asked, (&of_pass, &of_ours), &turns, kilobytes);
    print_line(&format!("{} pages were served in all.", web.served()));
    Ok(exact)
}

/// Measures the streams of a server, while it is the proxy that searches.
async fn measure_round(
    (server, latencies): (&Server, &mut Latencies),
    proxy: &Server,
    (asked, web): (Asked, &FixtureWeb),
    turns: &mut Turns,
) -> anyhow::Result<bool> {
    let mut alone = streams(server.target).await?;
    sleep(SETTLE_TIME).await;
    turns.idle = measure::rss_kb(proxy.pid)?;
    let done = AtomicBool::new(false);
    let searching = (0..asked.turns()).map(|_| search_until(&done, (asked, web), proxy.target));
    let searching = try_join_all(searching);
    let streaming = async {
        let tally = streams(server.target).await;
        done.store(true, Ordering::Relaxed);
        tally
    };
    let both = async { tokio::join!(streaming, searching) };
    let both = measure::with_peak_rss(proxy.pid, both);
    let ((beside, searched), peak) = timeout(TIMEOUT, both).await.context("turns hang")?;
    let mut beside = beside?;
    turns.peak = turns.peak.max(peak);
    let times = searched?.into_iter().flatten();
    turns.seconds.extend(times.map(|time| time.as_secs_f64()));
    latencies.alone.push(p99(&mut alone));
    latencies.beside.push(p99(&mut beside));
    for reason in [&alone, &beside]
        .into_iter()
        .filter_map(|it| it.reason.as_ref())
    {
        print_line(&format!("FAULT {reason}"));
    }
    sleep(SETTLE_TIME).await;
    Ok(alone.faults + beside.faults == 0)
}

/// Runs one turn after the other until the streams have ended. Returns the time of each.
async fn search_until(
    done: &AtomicBool,
    (asked, web): (Asked, &FixtureWeb),
    proxy: Target,
) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    while !done.load(Ordering::Relaxed) {
        times.push(web.turn(asked, proxy).await?);
    }
    Ok(times)
}

async fn streams(target: Target) -> anyhow::Result<Tally> {
    let script = Script::paced(EVENTS, GAP);
    let streams = load::run_streams(target, script, STREAMS, GAP);
    timeout(TIMEOUT, streams).await.context("streams hang")
}

fn p99(tally: &mut Tally) -> f64 {
    to_f64(quantile(&mut tally.latency_ns, 990)) / 1e6
}

fn print(
    asked: Asked,
    (of_pass, of_ours): (&Latencies, &Latencies),
    turns: &Turns,
    kilobytes: u32,
) {
    let (gap, count, name) = (GAP.as_millis(), asked.turns(), asked.name());
    print_line(&format!(
        "\n{STREAMS} streams, an event each {gap} ms, alone and beside {count} {name} searches and reads {PAGES_A_TURN} pages of {kilobytes} KB; p99 of an event in ms\n"
    ));
    print_line("| pass-through alone | beside | proxy alone | beside | beside / alone | aim | |");
    print_line("|---|---|---|---|---|---|---|");
    let ratios = Comparison::Ratio.of(&of_ours.beside, &of_ours.alone);
    let ratio = summary(&ratios).map_or(f64::NAN, |(median, _, _)| median);
    print_line(&format!(
        "| {} | {} | {} | {} | {} | at most {MAX_RATIO} | {} |",
        spread(&of_pass.alone),
        spread(&of_pass.beside),
        spread(&of_ours.alone),
        spread(&of_ours.beside),
        spread(&ratios),
        verdict(ratio <= MAX_RATIO)
    ));
    print_line(&format!(
        "\n{} turns took {} s. RSS {:.0} MB before, and {:.0} MB at most meanwhile.",
        turns.seconds.len(),
        spread(&turns.seconds),
        to_f64(turns.idle) / 1024.0,
        to_f64(turns.peak) / 1024.0
    ));
}
