//! The whole comparison: every arm, round by round, in one run.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use anyhow::Context;
use tokio::time::{sleep, timeout};

use crate::{
    capture, limits,
    load::{self, Tally},
    measure::{self, Cpu, float, quantile},
    report::{Arm, Figures, Measure},
    say, say_progress,
    script::Script,
    server::{Rig, Server, free_addr},
};

/// Options of `run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The proxy's binary [default: release/respondent in this program's target folder]
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

/// How much of everything.
struct Sizes {
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
/// Single streams go to the arms in turn so often a round: their differences are small.
const BLOCKS: u32 = 5;
/// A measurement that takes longer has hung.
const PATIENCE: Duration = Duration::from_mins(2);
/// Time for a process to give back what it needed only for a moment.
const REST: Duration = Duration::from_millis(500);

impl Options {
    fn sizes(&self) -> Sizes {
        if self.quick {
            Sizes {
                rounds: 1,
                paced_events: 200,
                flood_events: 1000,
                small: Duration::from_millis(500),
                first_events: 20,
                histories: 2,
                held: 100,
            }
        } else {
            Sizes {
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

    fn proxy(&self) -> anyhow::Result<Option<PathBuf>> {
        if self.without_proxy {
            return Ok(None);
        }
        proxy(self.proxy.as_ref()).map(Some)
    }
}

/// The proxy's binary: the one that is named, or the one beside this program.
pub(crate) fn proxy(named: Option<&PathBuf>) -> anyhow::Result<PathBuf> {
    let path = match named {
        Some(path) => path.clone(),
        None => std::env::current_exe()?
            .ancestors()
            .nth(2)
            .context("this program lies in no target folder")?
            .join("release/respondent"),
    };
    path.canonicalize().with_context(|| {
        let path = path.display();
        format!("no proxy at {path}; build it (`cargo build --release`) or name it (`--proxy`)")
    })
}

/// Runs everything and prints the report; false when anything was lost or refused.
pub(crate) async fn run(options: &Options) -> anyhow::Result<bool> {
    let proxy = options.proxy()?;
    let sizes = options.sizes();
    // Each open stream has one socket here and two in a proxy; the rest is for everything else.
    limits::ensure_files(u64::from(sizes.held) * 2 + 400)?;
    let mut arms = vec![Arm::Direct, Arm::Pass];
    if proxy.is_some() {
        arms.extend(Arm::OURS);
    }
    let rig = Rig::new(proxy)?;
    let before = measure::machine();
    let mut bench = Bench::start(rig, &arms, sizes).await?;
    for round in 0..bench.sizes.rounds {
        say_progress(&format!("round {} of {}", round + 1, bench.sizes.rounds));
        bench.round().await?;
        bench.servers.reverse();
    }
    say(&format!("{before}\nat the end: {}\n", measure::machine()));
    if options.quick {
        say("A quick run counts events; its times mean nothing and get no table.");
    } else {
        say(&bench.figures.table());
        say(&capture::report(&bench.figures));
    }
    for fault in &bench.faults {
        say(&format!("FAULT {fault}"));
    }
    let (events, faults) = (bench.events, bench.faults.len());
    say(&format!(
        "{events} events counted, {faults} measurements with faults"
    ));
    Ok(bench.faults.is_empty())
}

struct Bench {
    rig: Rig,
    sizes: Sizes,
    /// In the order of the next round, which is turned around after each.
    servers: Vec<(Arm, Server)>,
    upstream: std::net::SocketAddr,
    figures: Figures,
    events: u64,
    faults: Vec<String>,
}

impl Bench {
    async fn start(rig: Rig, arms: &[Arm], sizes: Sizes) -> anyhow::Result<Self> {
        let mut upstream = free_addr()?;
        let mut servers: Vec<(Arm, Server)> = Vec::new();
        for arm in arms {
            let server = rig.start(*arm, upstream).await?;
            if *arm == Arm::Direct {
                upstream = server.target.addr;
            }
            // The first requests fill pools and caches; they are not counted.
            let script = Script::flood(200);
            load::streams(server.target, script, FLOOD_STREAMS, Duration::ZERO).await;
            servers.push((*arm, server));
        }
        Ok(Self {
            rig,
            sizes,
            servers,
            upstream,
            figures: Figures::default(),
            events: 0,
            faults: Vec::new(),
        })
    }

    /// Each measurement goes through all arms before the next one begins.
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
            self.fresh(*arm).await?;
        }
        self.servers = servers;
        Ok(())
    }

    async fn paced(&mut self, arm: Arm, server: &Server) -> anyhow::Result<()> {
        let script = Script::paced(self.sizes.paced_events, GAP);
        let before = Cpu::of(server.pid)?;
        let work = load::streams(server.target, script, PACED_STREAMS, GAP);
        let mut tally = timeout(PATIENCE, work)
            .await
            .context("paced streams hang")?;
        let spent = measure::at_rest(server.pid).await?.since(&before);
        let cpu = float(spent) / float(tally.events.max(1)) / 1e3;
        let p50 = float(quantile(&mut tally.latency_ns, 500)) / 1e3;
        let p99 = float(quantile(&mut tally.latency_ns, 990)) / 1e3;
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
        let work = load::streams(server.target, script, FLOOD_STREAMS, Duration::ZERO);
        let work = timeout(PATIENCE, measure::with_peak_rss(server.pid, work));
        let (tally, peak) = work.await.context("flooding streams hang")?;
        let rate = float(tally.events) / start.elapsed().as_secs_f64();
        let spent = measure::at_rest(server.pid).await?.since(&before);
        let cpu = float(spent) / float(tally.events.max(1)) / 1e3;
        self.figures.record(Measure::FloodCpu, arm, cpu);
        self.figures.record(Measure::FloodRate, arm, rate);
        self.figures
            .record(Measure::FloodRss, arm, float(peak) / 1024.0);
        self.count("flood", arm, &tally);
        Ok(())
    }

    async fn small(&mut self, arm: Arm, server: &Server) -> anyhow::Result<()> {
        let before = Cpu::of(server.pid)?;
        let work = load::small(server.target, SMALL_CONNECTIONS, self.sizes.small);
        let result = timeout(PATIENCE, work)
            .await
            .context("small requests hang")?;
        let spent = measure::at_rest(server.pid).await?.since(&before);
        let (rate, cpu) = match result {
            Ok((answered, seconds)) => (
                float(answered) / seconds,
                float(spent) / float(answered.max(1)) / 1e3,
            ),
            Err(error) => {
                let fault = format!("small requests, {arm:?}: {error:#}");
                self.faults.push(fault);
                // A figure all the same: rounds are compared by their place.
                (0.0, 0.0)
            }
        };
        self.figures.record(Measure::SmallRate, arm, rate);
        self.figures.record(Measure::SmallCpu, arm, cpu);
        Ok(())
    }

    async fn first_events(&mut self, servers: &[(Arm, Server)]) -> anyhow::Result<()> {
        let request = |server: &Server| server.target.stream(Script::flood(1), 0);
        let turns = singles(servers, request, self.sizes.first_events).await?;
        for (arm, mut single) in turns {
            let first = float(quantile(&mut single.tally.first_ns, 500)) / 1e6;
            self.figures.record(Measure::FirstEvent, arm, first);
            self.count("single streams", arm, &single.tally);
        }
        Ok(())
    }

    async fn histories(&mut self, servers: &[(Arm, Server)]) -> anyhow::Result<()> {
        let request = |server: &Server| server.target.history(HISTORY_BYTES);
        // What capture keeps of the first ones is new memory to the process; once
        // its room is full it is used again.
        let filling = singles(servers, request, self.sizes.histories).await?;
        for (arm, single) in filling {
            self.count("first long histories", arm, &single.tally);
        }
        let turns = singles(servers, request, self.sizes.histories).await?;
        for (arm, mut single) in turns {
            let first = float(quantile(&mut single.tally.first_ns, 500)) / 1e6;
            let cpu = float(single.cpu) / float(single.tally.expected.max(1)) / 1e6;
            self.figures.record(Measure::History, arm, first);
            self.figures.record(Measure::HistoryCpu, arm, cpu);
            self.count("long histories", arm, &single.tally);
        }
        Ok(())
    }

    /// A process of its own: memory that earlier work has touched would hide the cost of a stream.
    async fn fresh(&mut self, arm: Arm) -> anyhow::Result<()> {
        let server = self.rig.start(arm, self.upstream).await?;
        let cold = server.cold.as_secs_f64() * 1e3;
        self.figures.record(Measure::ColdStart, arm, cold);
        sleep(REST).await;
        let idle = float(measure::rss_kb(server.pid)?);
        self.figures.record(Measure::IdleRss, arm, idle / 1024.0);
        let work = load::hold(server.target, self.sizes.held, HELD_BYTES);
        let held = timeout(PATIENCE, work)
            .await
            .context("opening streams hangs")?;
        sleep(REST).await;
        let full = float(measure::rss_kb(server.pid)?);
        let streams = float(held.open.len().max(1) as u64);
        self.figures
            .record(Measure::StreamRss, arm, (full - idle) / streams);
        self.events += held.open.len() as u64;
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

/// Streams of one event, one after the other.
#[derive(Default)]
struct Single {
    tally: Tally,
    /// CPU time of the server, ns.
    cpu: u64,
}

/// `count` single streams for every arm but the upstream alone, in blocks, the order turned around
/// after each.
async fn singles(
    servers: &[(Arm, Server)],
    request: impl Fn(&Server) -> Vec<u8>,
    count: u32,
) -> anyhow::Result<BTreeMap<Arm, Single>> {
    let arms = servers.iter().filter(|(arm, _)| *arm != Arm::Direct);
    let mut arms: Vec<_> = arms
        .map(|(arm, server)| (*arm, server, request(server)))
        .collect();
    let mut singles = BTreeMap::<Arm, Single>::new();
    for _ in 0..BLOCKS {
        for (arm, server, request) in &arms {
            let before = Cpu::of(server.pid)?;
            let work = load::in_turn(server.target, request, count.div_ceil(BLOCKS));
            let tally = timeout(PATIENCE, work)
                .await
                .context("single streams hang")?;
            let single = singles.entry(*arm).or_default();
            single.cpu += measure::at_rest(server.pid).await?.since(&before);
            single.tally.append(tally);
        }
        arms.reverse();
    }
    Ok(singles)
}
