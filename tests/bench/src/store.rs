//! What keeping tool outputs on the disk costs: the proxy with it against the proxy
//! without it, round by round.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context;
use tokio::time::timeout;

use crate::{
    limits, load,
    measure::{self, Cpu, float},
    report::{Arm, spread},
    run, say, say_progress,
    script::Script,
    server::{Rig, Server, free_addr},
    texts::Texts,
};

/// Options of `store`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The proxy's binary [default: release/respondent in this program's target folder]
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
const PATIENCE: Duration = Duration::from_mins(2);

/// CPU an event may grow so much.
const AIM: f64 = 1.1;

/// Runs it and prints a table; false when anything was lost or refused.
pub(crate) async fn run(options: &Options) -> anyhow::Result<bool> {
    limits::ensure_files(400)?;
    let rig = Rig::new(Some(run::proxy(options.proxy.as_ref())?))?;
    let upstream = rig.start(Arm::Direct, free_addr()?).await?;
    let upstream = upstream.target.addr;
    let disk = rig.start(Arm::Ours, upstream).await?;
    let off = rig.start(Arm::Unkept, upstream).await?;
    let size = usize::try_from(options.kilobytes)? * 1_000;
    let machine = measure::machine();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let mut exact = true;
    // The first round fills pools and makes the store; it is not counted.
    for round in 0..=options.rounds {
        say_progress(&format!("round {round} of {}", options.rounds));
        let mut arms = [(&disk, &mut with), (&off, &mut without)];
        if round % 2 == 1 {
            arms.reverse();
        }
        for (server, figures) in arms {
            let (cpu, fine) = one(server, round, size).await?;
            exact &= fine;
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
    say(&machine);
    say(&format!(
        "{STREAMS} turns at once, each with a new output of {} KB and {EVENTS} events, one each {} ms\n",
        options.kilobytes,
        GAP.as_millis()
    ));
    say("| CPU an event, us | kept on disk | not kept | ratio | aim | |");
    say("|---|---|---|---|---|---|");
    say(&format!(
        "| all work of a turn | {} | {} | {} | at most {AIM} | {} |",
        spread(&with),
        spread(&without),
        spread(&ratios),
        if median <= AIM { "met" } else { "missed" }
    ));
    for server in [disk, off] {
        server.stop().await?;
    }
    Ok(exact)
}

/// CPU of the server for one event, us, until it has come to rest.
async fn one(server: &Server, round: u32, size: usize) -> anyhow::Result<(f64, bool)> {
    let script = Script::paced(EVENTS, GAP);
    let target = server.target;
    let requests = (0..STREAMS).map(|stream| {
        let place = usize::try_from(round * STREAMS + stream).unwrap_or_default();
        // No two outputs are alike: what is kept already costs nothing.
        let output = format!("{place}\n{}", Texts::mixed(place).text(size));
        Arc::from(target.turn_with(script, &output))
    });
    let requests: Vec<Arc<[u8]>> = requests.collect();
    let before = Cpu::of(server.pid)?;
    let work = load::turns(target, requests, EVENTS, GAP);
    let tally = timeout(PATIENCE, work).await.context("streams hang")?;
    let spent = measure::at_rest(server.pid).await?.since(&before);
    if let Some(reason) = &tally.reason {
        say(&format!("FAULT {reason}"));
    }
    let cpu = float(spent) / float(tally.events.max(1)) / 1e3;
    Ok((cpu, tally.faults == 0))
}
