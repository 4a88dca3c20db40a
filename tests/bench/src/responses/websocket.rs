//! Streams over WebSockets beside the same streams as server-sent events, and the memory of idle
//! WebSockets beside that of idle connections.

use std::{path::PathBuf, time::Duration};

use anyhow::Context;
use tokio::time::{sleep, timeout};

use super::{PartResult, table::ResponseRow};
use crate::{
    load,
    measure::{self, Cpu, to_f64},
    print_progress,
    report::{Arm, Comparison, Goal},
    script::Script,
    server::{Launcher, Server, free_addr},
};

/// The idle connections of a server.
pub(super) const IDLE: u32 = 1000;
/// The most memory of an idle WebSocket beyond that of an idle connection, KB.
const MAX_KB: f64 = 20.0;
/// The most CPU time for each event in relation to server-sent events.
const MAX_RATIO: f64 = 1.0;
const TIMEOUT: Duration = Duration::from_mins(2);
/// The time for a process to free its temporary memory.
const SETTLE_TIME: Duration = Duration::from_millis(1500);

/// The streams that run at once.
struct Streams {
    title: &'static str,
    count: u32,
    script: Script,
}

const STREAMS: [Streams; 2] = [
    Streams {
        title: "50 streams x 5 ms",
        count: 50,
        script: Script::paced(800, Duration::from_millis(5)),
    },
    Streams {
        title: "32 streams in flood",
        count: 32,
        script: Script::flood(10_000),
    },
];

/// Whether a transport is a WebSocket.
const TRANSPORTS: [bool; 2] = [false, true];
/// The order of the transports in a round.
const ORDER: [bool; 4] = [false, true, true, false];

pub(super) async fn measure(proxy: PathBuf, rounds: u32) -> anyhow::Result<PartResult> {
    let mut result = PartResult::default();
    let launcher = Launcher::new(Some(proxy))?;
    let upstream = launcher.start(Arm::Direct, free_addr()?).await?;
    events(&launcher, &upstream, rounds, &mut result).await?;
    for is_used in [false, true] {
        let row = memory(&launcher, &upstream, rounds, is_used).await?;
        result.rows.push(row);
    }
    Ok(result)
}

async fn events(
    launcher: &Launcher,
    upstream: &Server,
    rounds: u32,
    result: &mut PartResult,
) -> anyhow::Result<()> {
    let server = launcher.start(Arm::Ours, upstream.target.addr).await?;
    let mut figures = STREAMS.map(|streams| (streams, TRANSPORTS.map(|_| Vec::new())));
    // The first round fills pools, so it is not counted.
    for round in 0..=rounds {
        print_progress(&format!("round {round} of {rounds}"));
        for (streams, [sse, websocket]) in &mut figures {
            let mut spent = TRANSPORTS.map(|_| Spent::default());
            let [over_sse, over_websocket] = &mut spent;
            for is_websocket in ORDER {
                let spent = if is_websocket {
                    &mut *over_websocket
                } else {
                    &mut *over_sse
                };
                run_streams(&server, streams, is_websocket, spent, result).await?;
            }
            if round > 0 {
                sse.push(over_sse.an_event());
                websocket.push(over_websocket.an_event());
            }
        }
    }
    for (streams, [sse, websocket]) in figures {
        result.rows.push(ResponseRow {
            title: format!("CPU per event over WebSockets, {} (us)", streams.title),
            baseline_name: "server-sent events",
            baseline: sse,
            measured: websocket,
            comparison: Comparison::Ratio,
            goal: Goal::AtMost(MAX_RATIO),
        });
    }
    server.stop().await
}

/// The CPU time of a server, ns, and the events that it has sent for it.
#[derive(Default)]
struct Spent {
    cpu: u64,
    events: u64,
}

impl Spent {
    /// The CPU time for each event, us.
    fn an_event(&self) -> f64 {
        to_f64(self.cpu) / to_f64(self.events.max(1)) / 1e3
    }
}

async fn run_streams(
    server: &Server,
    streams: &Streams,
    is_websocket: bool,
    spent: &mut Spent,
    result: &mut PartResult,
) -> anyhow::Result<()> {
    let Streams { count, script, .. } = *streams;
    let (target, gap) = (server.target, script.gap);
    let before = Cpu::of(server.pid)?;
    let work = async {
        if is_websocket {
            load::run_sockets(target, script, count, gap).await
        } else {
            load::run_streams(target, script, count, gap).await
        }
    };
    let tally = timeout(TIMEOUT, work).await.context("streams hang")?;
    spent.cpu += measure::when_idle(server.pid).await?.since(&before);
    spent.events += tally.events;
    result.check(streams.title, &tally);
    Ok(())
}

/// The memory of idle WebSockets, each after a turn of one event if `is_used`, beside that of idle
/// connections.
async fn memory(
    launcher: &Launcher,
    upstream: &Server,
    rounds: u32,
    is_used: bool,
) -> anyhow::Result<ResponseRow> {
    let mut figures = TRANSPORTS.map(|_| Vec::new());
    for round in 1..=rounds {
        print_progress(&format!("idle, round {round} of {rounds}"));
        for (is_websocket, figures) in TRANSPORTS.into_iter().zip(&mut figures) {
            // A fresh process: memory that was allocated earlier would hide the cost.
            let server = launcher.start(Arm::Ours, upstream.target.addr).await?;
            figures.push(idle_memory(&server, is_websocket, is_used).await?);
            server.stop().await?;
        }
    }
    let [baseline, measured] = figures;
    let state = if is_used { "after a turn" } else { "unused" };
    Ok(ResponseRow {
        title: format!("RSS an idle WebSocket, {IDLE} of them, {state} (KB)"),
        baseline_name: "an idle connection",
        baseline,
        measured,
        comparison: Comparison::Difference,
        goal: Goal::AtMost(MAX_KB),
    })
}

/// The memory of one idle connection, KB.
async fn idle_memory(server: &Server, is_websocket: bool, is_used: bool) -> anyhow::Result<f64> {
    let target = server.target;
    // The first turns load what is loaded once.
    let _first = load::idle_connection(target, true).await?;
    let _second = load::idle_socket(target, true).await?;
    sleep(SETTLE_TIME).await;
    let before = measure::rss_kb(server.pid)?;
    let (mut sockets, mut connections) = (Vec::new(), Vec::new());
    let open = async {
        for _ in 0..IDLE {
            if is_websocket {
                sockets.push(load::idle_socket(target, is_used).await?);
            } else {
                connections.push(load::idle_connection(target, is_used).await?);
            }
        }
        anyhow::Ok(())
    };
    timeout(TIMEOUT, open).await.context("opening hangs")??;
    sleep(SETTLE_TIME).await;
    let after = measure::rss_kb(server.pid)?;
    Ok((to_f64(after) - to_f64(before)) / f64::from(IDLE))
}
