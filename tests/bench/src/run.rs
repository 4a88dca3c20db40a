//! The main comparison: measures every arm in each round.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use anyhow::Context;
use tokio::time::{sleep, timeout};

use crate::{
    capture, limits,
    load::{self, Tally},
    measure::{self, Cpu, quantile, to_f64},
    print_line, print_progress,
    report::{Arm, Figures, Measure},
    script::Script,
    server::{Launcher, Server, free_addr},
};

/// Options of `run`.
#[derive(Debug, clap::Args)]
pub(crate) struct RunOptions {
    /// The proxy's binary [default: respondent beside this program]
    #[arg(long, value_name = "FILE")]
    proxy: Option<PathBuf>,
    /// Measure the pass-through alone, to check the rig
    #[arg(long, conflicts_with = "proxy")]
    without_proxy: bool,
    /// Rounds; the table shows the median of them
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// One short round that only checks that no event is lost
    #[arg(long, conflicts_with = "rounds")]
    quick: bool,
}

/// The number of rounds, streams, events and requests.
struct BenchSizes {
    rounds: u32,
    paced_events: u64,
    flood_events: u64,
    small: Duration,
    first_events: u32,
    histories: u32,
    held: u32,
}

const PACED_STREAMS: u32 = 50;
const GAP: Duration = Duration::from_millis(5);
const FLOOD_STREAMS: u32 = 32;
const SMALL_CONNECTIONS: u32 = 32;
const HISTORY_BYTES: usize = 2_000_000;
const HELD_BYTES: usize = 1024;
/// The number of blocks of single streams that each arm gets in a round. The differences are small,
/// so the arms alternate.
const BLOCKS: u32 = 5;
/// A measurement that takes longer is considered to hang.
const TIMEOUT: Duration = Duration::from_mins(2);
/// The time for a process to free its temporary memory.
const SETTLE_TIME: Duration = Duration::from_millis(500);

impl RunOptions {
    fn sizes(&self) -> BenchSizes {
        if self.quick {
            BenchSizes {
                rounds: 1,
                paced_events: 200,
                flood_events: 1000,
                small: Duration::from_millis(500),
                first_events: 20,
                histories: 2,
                held: 100,
            }
        } else {
            BenchSizes {
                rounds: self.rounds,
                paced_events: 800,
                flood_events: 10_000,
                small: Duration::from_secs(2),
                first_events: 200,
                histories: 20,
                held: 1000,
            }
        }
    }

    fn proxy_path(&self) -> anyhow::Result<Option<PathBuf>> {
        if self.without_proxy {
            return Ok(None);
        }
        proxy(self.proxy.as_ref()).map(Some)
    }
}

/// The path of the proxy's binary: the given one, or that in the folder of this program.
pub(crate) fn proxy(named: Option<&PathBuf>) -> anyhow::Result<PathBuf> {
    let path = match named {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("respondent"),
    };
    path.canonicalize().with_context(|| {
        let path = path.display();
        format!(
            "no proxy at {path}; build it (`cargo build --profile dist`) or name it (`--proxy`)"
        )
    })
}

/// Measures everything and prints the report. Returns false if an event was lost or a request
/// refused.
pub(crate) async fn run(options: &RunOptions) -> anyhow::Result<bool> {
    let proxy = options.proxy_path()?;
    let sizes = options.sizes();
    // Each open stream has one socket here and two in a proxy. The 400 are for everything else.
    limits::ensure_open_files(u64::from(sizes.held) * 2 + 400)?;
    let mut arms = vec![Arm::Direct, Arm::Pass];
    if proxy.is_some() {
        arms.extend(Arm::OURS);
    }
    let launcher = Launcher::new(proxy)?;
    let before = measure::machine();
    let mut bench = BenchRun::start(launcher, &arms, sizes).await?;
    for round in 0..bench.sizes.rounds {
        print_progress(&format!("round {} of {}", round + 1, bench.sizes.rounds));
        bench.round().await?;
        bench.servers.reverse();
    }
    print_line(&format!("{before}\nat the end: {}\n", measure::machine()));
    if options.quick {
        print_line("A quick run counts events; its times mean nothing and get no table.");
    } else {
        print_line(&bench.figures.table());
        print_line(&capture::report(&bench.figures));
    }
    for fault in &bench.faults {
        print_line(&format!("FAULT {fault}"));
    }
    let (events, faults) = (bench.events, bench.faults.len());
    print_line(&format!(
        "{events} events counted, {faults} measurements with faults"
    ));
    Ok(bench.faults.is_empty())
}

struct BenchRun {
    launcher: Launcher,
    sizes: BenchSizes,
    /// In the order of the next round. The order is reversed after each round.
    servers: Vec<(Arm, Server)>,
    upstream: std::net::SocketAddr,
    figures: Figures,
    events: u64,
    faults: Vec<String>,
}

impl BenchRun {
    async fn start(launcher: Launcher, arms: &[Arm], sizes: BenchSizes) -> anyhow::Result<Self> {
        let mut upstream = free_addr()?;
        let mut servers: Vec<(Arm, Server)> = Vec::new();
        for arm in arms {
            let server = launcher.start(*arm, upstream).await?;
            if *arm == Arm::Direct {
                upstream = server.target.addr;
            }
            // The first requests fill pools and caches, so they are not counted.
            let script = Script::flood(200);
            load::run_streams(server.target, script, FLOOD_STREAMS, Duration::ZERO).await;
            servers.push((*arm, server));
        }
        Ok(Self {
            launcher,
            sizes,
            servers,
            upstream,
            figures: Figures::default(),
            events: 0,
            faults: Vec::new(),
        })
    }

    /// Takes each measurement for all arms before the next one.
    async fn round(&mut self) -> anyhow::Result<()> {
        let servers = std::mem::take(&mut self.servers);
        let proxies = || servers.iter().filter(|(arm, _)| *arm != Arm::Direct);
        for (arm, server) in proxies() {
            self.paced(*arm, server).await?;
        }
        for (arm, server) in &servers {
            self.flood(*arm, server).await?;
        }
        for (arm, server) in &servers {
            self.small(*arm, server).await?;
        }
        self.first_events(&servers).await?;
        self.histories(&servers).await?;
        for (arm, _) in proxies() {
            self.fresh_process(*arm).await?;
        }
        self.servers = servers;
        Ok(())
    }

    async fn paced(&mut self, arm: Arm, server: &Server) -> anyhow::Result<()> {
        let script = Script::paced(self.sizes.paced_events, GAP);
        let before = Cpu::of(server.pid)?;
        let work = load::run_streams(server.target, script, PACED_STREAMS, GAP);
        let mut tally = timeout(TIMEOUT, work).await.context("paced streams hang")?;
        let spent = measure::when_idle(server.pid).await?.since(&before);
        let cpu = to_f64(spent) / to_f64(tally.events.max(1)) / 1e3;
        let p50 = to_f64(quantile(&mut tally.latency_ns, 500)) / 1e3;
        let p99 = to_f64(quantile(&mut tally.latency_ns, 990)) / 1e3;
        self.figures.record(Measure::PacedCpu, arm, cpu);
        self.figures.record(Measure::PacedP50, arm, p50);
        self.figures.record(Measure::PacedP99, arm, p99);
        self.count("paced streams", arm, &tally);
        Ok(())
    }

    async fn flood(&mut self, arm: Arm, server: &Server) -> anyhow::Result<()> {
        let script = Script::flood(self.sizes.flood_events);
        let before = Cpu::of(server.pid)?;
        let start = tokio::time::Instant::now();
        let work = load::run_streams(server.target, script, FLOOD_STREAMS, Duration::ZERO);
        let work = timeout(TIMEOUT, measure::with_peak_rss(server.pid, work));
        let (tally, peak) = work.await.context("flooding streams hang")?;
        let rate = to_f64(tally.events) / start.elapsed().as_secs_f64();
        let spent = measure::when_idle(server.pid).await?.since(&before);
        let cpu = to_f64(spent) / to_f64(tally.events.max(1)) / 1e3;
        self.figures.record(Measure::FloodCpu, arm, cpu);
        self.figures.record(Measure::FloodRate, arm, rate);
        self.figures
            .record(Measure::FloodRss, arm, to_f64(peak) / 1024.0);
        self.count("flood", arm, &tally);
        Ok(())
    }

    async fn small(&mut self, arm: Arm, server: &Server) -> anyhow::Result<()> {
        let before = Cpu::of(server.pid)?;
        let work = load::run_small_requests(server.target, SMALL_CONNECTIONS, self.sizes.small);
        let result = timeout(TIMEOUT, work)
            .await
            .context("small requests hang")?;
        let spent = measure::when_idle(server.pid).await?.since(&before);
        let (rate, cpu) = match result {
            Ok((answered, seconds)) => (
                to_f64(answered) / seconds,
                to_f64(spent) / to_f64(answered.max(1)) / 1e3,
            ),
            Err(error) => {
                let fault = format!("small requests, {arm:?}: {error:#}");
                self.faults.push(fault);
                // A figure is recorded nevertheless, because rounds are compared by their index.
                (0.0, 0.0)
            }
        };
        self.figures.record(Measure::SmallRate, arm, rate);
        self.figures.record(Measure::SmallCpu, arm, cpu);
        Ok(())
    }

    async fn first_events(&mut self, servers: &[(Arm, Server)]) -> anyhow::Result<()> {
        let request = |server: &Server| server.target.stream_request(Script::flood(1), 0);
        let turns = run_sequential(servers, request, self.sizes.first_events).await?;
        for (arm, mut single) in turns {
            let first = to_f64(quantile(&mut single.tally.first_ns, 500)) / 1e6;
            self.figures.record(Measure::FirstEvent, arm, first);
            self.count("single streams", arm, &single.tally);
        }
        Ok(())
    }

    async fn histories(&mut self, servers: &[(Arm, Server)]) -> anyhow::Result<()> {
        let request = |server: &Server| server.target.history_request(HISTORY_BYTES);
        // Capture allocates memory for the first requests until it reaches its limit, and reuses
        // that memory afterwards. So the first requests are not measured.
        let filling = run_sequential(servers, request, self.sizes.histories).await?;
        for (arm, single) in filling {
            self.count("first long histories", arm, &single.tally);
        }
        let turns = run_sequential(servers, request, self.sizes.histories).await?;
        for (arm, mut single) in turns {
            let first = to_f64(quantile(&mut single.tally.first_ns, 500)) / 1e6;
            let cpu = to_f64(single.cpu) / to_f64(single.tally.expected.max(1)) / 1e6;
            self.figures.record(Measure::History, arm, first);
            self.figures.record(Measure::HistoryCpu, arm, cpu);
            self.count("long histories", arm, &single.tally);
        }
        Ok(())
    }

    /// Measures a fresh process. In a used one, memory that was allocated earlier would hide the
    /// cost of a stream.
    async fn fresh_process(&mut self, arm: Arm) -> anyhow::Result<()> {
        let server = self.launcher.start(arm, self.upstream).await?;
        let cold = server.cold_start.as_secs_f64() * 1e3;
        self.figures.record(Measure::ColdStart, arm, cold);
        sleep(SETTLE_TIME).await;
        let idle = to_f64(measure::rss_kb(server.pid)?);
        self.figures.record(Measure::IdleRss, arm, idle / 1024.0);
        let work = load::hold_streams(server.target, self.sizes.held, HELD_BYTES);
        let held = timeout(TIMEOUT, work)
            .await
            .context("opening streams hangs")?;
        sleep(SETTLE_TIME).await;
        let full = to_f64(measure::rss_kb(server.pid)?);
        let streams = to_f64(held.connections.len().max(1) as u64);
        self.figures
            .record(Measure::StreamRss, arm, (full - idle) / streams);
        self.events += held.connections.len() as u64;
        self.fault("open streams", arm, held.faults, held.reason.as_deref());
        drop(held);
        server.stop().await
    }

    fn count(&mut self, what: &str, arm: Arm, tally: &Tally) {
        self.events += tally.events;
        self.fault(what, arm, tally.faults, tally.reason.as_deref());
    }

    fn fault(&mut self, what: &str, arm: Arm, faults: u64, reason: Option<&str>) {
        if faults > 0 {
            let reason = reason.unwrap_or("no reason");
            self.faults.push(format!(
                "{what}, {arm:?}: {faults} of them, first: {reason}"
            ));
        }
    }
}

/// The results of streams with one event each, run in sequence.
#[derive(Default)]
struct SequentialResult {
    tally: Tally,
    /// The CPU time of the server, ns.
    cpu: u64,
}

/// Runs `count` requests in sequence for every arm except the upstream alone. The arms alternate in
/// blocks, and their order is reversed after each block.
async fn run_sequential(
    servers: &[(Arm, Server)],
    request: impl Fn(&Server) -> Vec<u8>,
    count: u32,
) -> anyhow::Result<BTreeMap<Arm, SequentialResult>> {
    let arms = servers.iter().filter(|(arm, _)| *arm != Arm::Direct);
    let mut arms: Vec<_> = arms
        .map(|(arm, server)| (*arm, server, request(server)))
        .collect();
    let mut singles = BTreeMap::<Arm, SequentialResult>::new();
    for _ in 0..BLOCKS {
        for (arm, server, request) in &arms {
            let before = Cpu::of(server.pid)?;
            let work = load::run_in_sequence(
                server.target,
                request,
                count.div_ceil(BLOCKS),
                Duration::ZERO,
            );
            let tally = timeout(TIMEOUT, work)
                .await
                .context("single streams hang")?;
            let single = singles.entry(*arm).or_default();
            single.cpu += measure::when_idle(server.pid).await?.since(&before);
            single.tally.append(tally);
        }
        arms.reverse();
    }
    Ok(singles)
}
