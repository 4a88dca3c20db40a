//! Measures the proxy against a bare pass-through. README.md says how to run it and how to read it.
//!
//! - processes: [`upstream`] (plays a [`script`] as [`events`]), [`pass`], both started by [`server`]
//! - loader: [`request`] and [`history`] (what is sent), [`conn`], [`dechunk`], [`scan`] and
//!   [`marker`] (what comes back), [`load`]
//! - figures: [`clock`], [`measure`], [`report`], [`capture`], [`large`], [`store`], [`plan`] (of [`texts`]), and [`run`], which does it all
//!   (after [`limits`] has made room for a thousand streams)

mod capture;
mod clock;
mod conn;
mod dechunk;
mod events;
mod history;
mod large;
mod limits;
mod load;
mod marker;
mod measure;
mod pass;
mod plan;
mod report;
mod request;
mod run;
mod scan;
mod script;
mod server;
mod store;
mod texts;
mod upstream;

use std::{
    io::{Write, stderr, stdout},
    net::SocketAddr,
    process::ExitCode,
    time::Duration,
};

use clap::{Parser, Subcommand};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use crate::{
    measure::{Cpu, float, quantile},
    request::Target,
    scan::Wire,
    script::Script,
};

/// Measures the proxy against a bare pass-through
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve Chat Completions; the model name says what a stream does (bench-e1000-d5000-b1-h0)
    Upstream {
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Pass every request on to the upstream, bytes untouched
    Pass {
        #[arg(long)]
        listen: SocketAddr,
        #[arg(long)]
        upstream: SocketAddr,
    },
    /// Open streams at one server and count every event
    Load(Load),
    /// Start everything, compare, print the table
    Run(run::Options),
    /// Measure paced streams beside huge requests
    Large(large::Options),
    /// Measure what keeping tool outputs costs a turn
    Store(store::Options),
    /// Measure what planning and encoding histories costs, in this process
    Plan(plan::Options),
}

#[derive(Debug, clap::Args)]
struct Load {
    #[arg(long)]
    addr: SocketAddr,
    #[arg(long, value_enum, default_value_t = Wire::Chat)]
    wire: Wire,
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    streams: u32,
    /// What each stream does
    #[arg(long, default_value = "bench-e1000-d5000")]
    model: Script,
    /// Time over which the streams start, ms
    #[arg(long, default_value_t = 5)]
    stagger: u64,
    /// The server's process, for CPU and memory
    #[arg(long)]
    pid: Option<u32>,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let exact = match Cli::parse().command {
        Command::Upstream { listen } => {
            let listener = TcpListener::bind(listen).await?;
            upstream::serve(listener).await.map(|()| true)?
        }
        Command::Pass { listen, upstream } => {
            let listener = TcpListener::bind(listen).await?;
            pass::serve(listener, upstream).await.map(|()| true)?
        }
        Command::Load(options) => load_once(options).await?,
        Command::Large(options) => until_signal(large::large(&options)).await?,
        Command::Plan(options) => plan::run(&options)?,
        Command::Store(options) => until_signal(store::run(&options)).await?,
        Command::Run(options) => until_signal(run::run(&options)).await?,
    };
    Ok(if exact {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn load_once(options: Load) -> anyhow::Result<bool> {
    let Load {
        addr,
        wire,
        streams,
        model,
        stagger,
        pid,
    } = options;
    let before = pid.map(Cpu::of).transpose()?;
    let target = Target { addr, wire };
    let work = load::streams(target, model, streams, Duration::from_millis(stagger));
    let (mut tally, peak) = measure::with_peak_rss(pid.unwrap_or(0), work).await;
    let line = |name: &str, times: &mut Vec<u64>| {
        let [p50, p99] = [500, 990].map(|rank| float(quantile(times, rank)) / 1e3);
        say(&format!("{name}: p50 {p50:.0} us, p99 {p99:.0} us"));
    };
    line("first event", &mut tally.first_ns);
    line("event latency", &mut tally.latency_ns);
    if let (Some(pid), Some(before)) = (pid, before) {
        let spent = Cpu::of(pid)?.since(&before);
        let cpu = float(spent) / float(tally.events.max(1)) / 1e3;
        say(&format!("CPU {cpu:.2} us an event, highest RSS {peak} KB"));
    }
    let (events, expected, faults) = (tally.events, tally.expected, tally.faults);
    let reason = tally.reason.unwrap_or_default();
    say(&format!(
        "{events} of {expected} events, {faults} faulty streams {reason}"
    ));
    Ok(faults == 0)
}

/// Servers are stopped when their handles are dropped, which a signal alone would not do.
async fn until_signal(work: impl Future<Output = anyhow::Result<bool>>) -> anyhow::Result<bool> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        result = work => result,
        _ = interrupt.recv() => anyhow::bail!("interrupted"),
        _ = terminate.recv() => anyhow::bail!("terminated"),
    }
}

/// A closed pipe is the reader's wish, not a fault.
fn say(text: &str) {
    let _ = writeln!(stdout(), "{text}");
}

fn say_progress(text: &str) {
    let _ = writeln!(stderr(), "{text}");
}
