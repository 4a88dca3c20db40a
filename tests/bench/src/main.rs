//! Measures the proxy and compares it with a bare pass-through. README.md describes how to run it
//! and how to read its tables.
//!
//! - Processes: [`upstream`], which plays a [`script`] as a response body of [`events`], and
//!   [`pass`]. [`server`] starts both, and the proxy.
//! - Loader: [`request`] and [`history`] build the requests; [`conn`], [`socket`], [`dechunk`],
//!   [`scan`] and [`marker`] read the responses; [`load`] runs many of them.
//! - Figures: [`clock`] and [`measure`] take them; [`report`] and [`capture`] print the tables.
//! - Commands: [`run`], [`large`], [`store`], [`responses`], [`web`] and [`plan`] (with the outputs
//!   of [`texts`]). [`limits`] first raises the limit of open files.

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
mod responses;
mod run;
mod scan;
mod script;
mod server;
mod socket;
mod store;
mod texts;
mod upstream;
mod web;

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
    measure::{Cpu, quantile, to_f64},
    request::Target,
    scan::ClientApi,
    script::Script,
};

/// The allocator of the proxy, parts of which are measured in this process.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measures the proxy against a bare pass-through
#[derive(Debug, Parser)]
struct BenchCli {
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
    Load(LoadOptions),
    /// Start everything, compare, print the table
    Run(run::RunOptions),
    /// Measure paced streams beside huge requests
    Large(large::LargeOptions),
    /// Measure what keeping tool outputs costs a turn
    Store(store::StoreOptions),
    /// Measure stored and background responses beside the same work without a store
    Responses(responses::ResponsesOptions),
    /// Measure what planning and encoding histories costs, in this process
    Plan(plan::PlanOptions),
    /// Measure searches and pages, alone and beside streams; tests/bench/web.sh runs it
    Web(web::WebOptions),
}

#[derive(Debug, clap::Args)]
struct LoadOptions {
    #[arg(long)]
    addr: SocketAddr,
    #[arg(long, value_enum, default_value_t = ClientApi::Chat)]
    wire: ClientApi,
    /// Ask for the streams over WebSockets, which only the proxy serves
    #[arg(long)]
    websocket: bool,
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
    let exact = match BenchCli::parse().command {
        Command::Upstream { listen } => {
            let listener = TcpListener::bind(listen).await?;
            upstream::serve(listener).await.map(|()| true)?
        }
        Command::Pass { listen, upstream } => {
            let listener = TcpListener::bind(listen).await?;
            pass::serve(listener, upstream).await.map(|()| true)?
        }
        Command::Load(options) => load_once(options).await?,
        Command::Large(options) => until_signal(large::run(&options)).await?,
        Command::Plan(options) => plan::run(&options)?,
        Command::Store(options) => until_signal(store::run(&options)).await?,
        Command::Responses(options) => until_signal(responses::run(&options)).await?,
        Command::Web(options) => until_signal(web::run(&options)).await?,
        Command::Run(options) => until_signal(run::run(&options)).await?,
    };
    Ok(if exact {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn load_once(options: LoadOptions) -> anyhow::Result<bool> {
    let LoadOptions {
        addr,
        wire,
        websocket,
        streams,
        model,
        stagger,
        pid,
    } = options;
    let before = pid.map(Cpu::of).transpose()?;
    let stagger = Duration::from_millis(stagger);
    let work = async {
        if websocket {
            let wire = ClientApi::Responses;
            load::run_sockets(Target { addr, wire }, model, streams, stagger).await
        } else {
            load::run_streams(Target { addr, wire }, model, streams, stagger).await
        }
    };
    let (mut tally, peak) = measure::with_peak_rss(pid.unwrap_or(0), work).await;
    let line = |name: &str, times: &mut Vec<u64>| {
        let [p50, p99] = [500, 990].map(|rank| to_f64(quantile(times, rank)) / 1e3);
        print_line(&format!("{name}: p50 {p50:.0} us, p99 {p99:.0} us"));
    };
    line("first event", &mut tally.first_ns);
    line("event latency", &mut tally.latency_ns);
    if let (Some(pid), Some(before)) = (pid, before) {
        let spent = Cpu::of(pid)?.since(&before);
        let cpu = to_f64(spent) / to_f64(tally.events.max(1)) / 1e3;
        print_line(&format!("CPU {cpu:.2} us per event, highest RSS {peak} KB"));
    }
    let (events, expected, faults) = (tally.events, tally.expected, tally.faults);
    let reason = tally.reason.unwrap_or_default();
    print_line(&format!(
        "{events} of {expected} events, {faults} faulty streams {reason}"
    ));
    Ok(faults == 0)
}

/// Ends the work at SIGINT and SIGTERM by returning an error, so that the handles of the servers
/// are dropped and the servers stop.
async fn until_signal(work: impl Future<Output = anyhow::Result<bool>>) -> anyhow::Result<bool> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        result = work => result,
        _ = interrupt.recv() => anyhow::bail!("interrupted"),
        _ = terminate.recv() => anyhow::bail!("terminated"),
    }
}

/// Prints a line to stdout. Errors are ignored, because the reader may close the pipe.
fn print_line(text: &str) {
    let _ = writeln!(stdout(), "{text}");
}

fn print_progress(text: &str) {
    let _ = writeln!(stderr(), "{text}");
}
