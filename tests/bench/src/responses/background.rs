//! Many background responses at once, each with a client that reads its events, beside as many
//! streams in the foreground and through the pass-through.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context;
use serde_json::json;
use tokio::time::timeout;

use super::{PartResult, table::ResponseRow};
use crate::{
    load,
    measure::{self, Cpu, quantile, to_f64},
    print_progress,
    report::{Arm, Comparison, Goal},
    request::Target,
    script::Script,
    server::{Launcher, Server, free_addr},
};

const STREAMS: usize = 50;
const GAP: Duration = Duration::from_millis(5);
const EVENTS: u64 = 800;
const TIMEOUT: Duration = Duration::from_mins(2);
/// The goal of paced streams: the most CPU time for each event, in relation to the pass-through.
const MAX_PASS_RATIO: f64 = 1.5;
/// The most CPU time for each event in relation to the foreground, as in `cost.rs`.
const MAX_FOREGROUND_RATIO: f64 = 1.1;

/// How the events reach the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Pass,
    Foreground,
    Background,
}

#[derive(Default)]
struct WayFigures {
    /// CPU time for each event, us.
    cpu: Vec<f64>,
    /// Latency of the newest event of each delta, p50 and p99, us.
    newest: [Vec<f64>; 2],
    /// Latency of all events, p99, us.
    all_p99: Vec<f64>,
}

pub(super) async fn measure(proxy: PathBuf, rounds: u32) -> anyhow::Result<PartResult> {
    let mut result = PartResult::default();
    let launcher = Launcher::new(Some(proxy))?;
    let upstream = launcher.start(Arm::Direct, free_addr()?).await?;
    let through = launcher.start(Arm::Pass, upstream.target.addr).await?;
    let ours = launcher.start(Arm::Jobs, upstream.target.addr).await?;
    let mut ways = [
        (Way::Pass, &through),
        (Way::Foreground, &ours),
        (Way::Background, &ours),
    ]
    .map(|(way, server)| (way, server, WayFigures::default()));
    // The first round fills pools and creates the store, so it is not counted.
    for round in 0..=rounds {
        print_progress(&format!("round {round} of {rounds}"));
        for (way, server, figures) in &mut ways {
            paced(*way, server, figures, &mut result).await?;
            if round == 0 {
                *figures = WayFigures::default();
            }
        }
        ways.reverse();
    }
    ways.sort_by_key(|(way, ..)| *way as u8);
    let [(.., pass), (.., foreground), (.., background)] = ways;
    let row = |title: &str, baseline_name, measured: &[f64], baseline: &[f64], comparison, goal| {
        ResponseRow {
            title: format!("{title}, {STREAMS} x 5 ms (us)"),
            baseline_name,
            baseline: baseline.to_vec(),
            measured: measured.to_vec(),
            comparison,
            goal,
        }
    };
    let [pass_name, foreground_name] = ["pass-through", "stored streams in the foreground"];
    let [p50, p99] = &background.newest;
    let [foreground_p50, foreground_p99] = &foreground.newest;
    result.rows.extend([
        row(
            "CPU per event, background responses with a viewer each",
            pass_name,
            &background.cpu,
            &pass.cpu,
            Comparison::Ratio,
            Goal::AtMost(MAX_PASS_RATIO),
        ),
        row(
            "CPU per event, stored streams in the foreground",
            pass_name,
            &foreground.cpu,
            &pass.cpu,
            Comparison::Ratio,
            Goal::None,
        ),
        row(
            "CPU per event, background responses with a viewer each",
            foreground_name,
            &background.cpu,
            &foreground.cpu,
            Comparison::Ratio,
            Goal::AtMost(MAX_FOREGROUND_RATIO),
        ),
        row(
            "latency p50 of the newest event of a delta, background",
            foreground_name,
            p50,
            foreground_p50,
            Comparison::Difference,
            Goal::None,
        ),
        row(
            "latency p99 of the newest event of a delta, background",
            foreground_name,
            p99,
            foreground_p99,
            Comparison::Difference,
            Goal::WithinSpread,
        ),
        row(
            "latency p99 of all events, background, which wait for their delta",
            foreground_name,
            &background.all_p99,
            &foreground.all_p99,
            Comparison::Difference,
            Goal::None,
        ),
    ]);
    for server in [ours, through] {
        server.stop().await?;
    }
    Ok(result)
}

fn request(way: Way, target: Target) -> Vec<u8> {
    let script = Script::paced(EVENTS, GAP);
    match way {
        Way::Pass => target.stream_request(script, 0),
        Way::Foreground => target.response_request(script, &json!({"store": true})),
        Way::Background => target.response_request(script, &json!({"background": true})),
    }
}

async fn paced(
    way: Way,
    server: &Server,
    figures: &mut WayFigures,
    result: &mut PartResult,
) -> anyhow::Result<()> {
    let request: Arc<[u8]> = request(way, server.target).into();
    let before = Cpu::of(server.pid)?;
    let work = load::run_requests(server.target, vec![request; STREAMS], EVENTS, GAP);
    let mut tally = timeout(TIMEOUT, work).await.context("paced streams hang")?;
    let spent = measure::when_idle(server.pid).await?.since(&before);
    let us = |times: &mut Vec<u64>, rank| to_f64(quantile(times, rank)) / 1e3;
    figures
        .cpu
        .push(to_f64(spent) / to_f64(tally.events.max(1)) / 1e3);
    for (figures, rank) in figures.newest.iter_mut().zip([500, 990]) {
        figures.push(us(&mut tally.newest_latency_ns, rank));
    }
    figures.all_p99.push(us(&mut tally.latency_ns, 990));
    result.check(&format!("{way:?}"), &tally);
    Ok(())
}
