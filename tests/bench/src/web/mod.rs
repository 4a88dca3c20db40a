//! The cost of searches and pages.
//!
//! | file | what it measures |
//! |---|---|
//! | [`extraction`] | how fast the content of a page is found |
//! | this one | searches that are answered from memory |
//! | [`beside`] | streams beside turns and background responses that search and read in the [`fixture`] |

mod beside;
mod extraction;
mod fixture;

use std::{path::PathBuf, time::Instant};

use anyhow::ensure;
use serde_json::{Value, json};

use self::fixture::{Asked, FixtureWeb};
use crate::{
    conn::Conn,
    limits,
    measure::{self, quantile, to_f64},
    print_line,
    report::Arm,
    run,
    server::{Launcher, Server, free_addr},
};

/// Options of `web`.
#[derive(Debug, clap::Args)]
pub(crate) struct WebOptions {
    /// The proxy's binary [default: respondent beside this program]
    #[arg(long, value_name = "FILE")]
    proxy: Option<PathBuf>,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The size of a page that is read beside the streams, KB
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    kilobytes: u32,
    /// Measure extraction alone, which needs no network
    #[arg(long)]
    extraction: bool,
    /// Leave extraction out
    #[arg(long, conflicts_with = "extraction")]
    streams: bool,
}

/// Searches that are answered from memory, and the most that one may take, in ms.
const CACHED: usize = 500;
const MAX_CACHED_MS: f64 = 5.0;

/// Measures and prints tables. Returns false if an event or a page was lost.
pub(crate) async fn run(options: &WebOptions) -> anyhow::Result<bool> {
    print_line(&measure::machine());
    if !options.streams {
        extraction::measure()?;
    }
    if options.extraction {
        return Ok(true);
    }
    limits::ensure_open_files(1_000)?;
    let page = extraction::page(usize::try_from(options.kilobytes)? * 1_000);
    let web = FixtureWeb::start(page).await?;
    let launcher = Launcher::new(Some(run::proxy(options.proxy.as_ref())?))?;
    let launcher = launcher.with_tables(web.config());
    let upstream = launcher.start(Arm::Direct, free_addr()?).await?;
    let pass = launcher.start(Arm::Pass, upstream.target.addr).await?;
    let ours = launcher.start(Arm::Ours, upstream.target.addr).await?;
    measure_cached(&ours).await?;
    let (rounds, kilobytes) = (options.rounds, options.kilobytes);
    let mut exact = true;
    for asked in [Asked::Waiting, Asked::Background] {
        exact &= beside::measure(asked, rounds, kilobytes, &web, &pass, &ours).await?;
    }
    for server in [pass, ours] {
        server.stop().await?;
    }
    Ok(exact)
}

/// The time of a search that is answered from memory.
async fn measure_cached(server: &Server) -> anyhow::Result<()> {
    let addr = server.target.addr;
    let body = json!({"query": "green tea"}).to_string();
    let request = format!(
        "POST /v1/search HTTP/1.1\r\nhost: {addr}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut conn = Conn::open(addr).await?;
    let mut times = Vec::with_capacity(CACHED);
    for nth in 0..=CACHED {
        let start = Instant::now();
        let reply = conn.send(request.as_bytes()).await?;
        let answer = conn.read_to_end(reply).await?;
        let time = start.elapsed();
        let answer: Value = serde_json::from_slice(&answer)?;
        let is_cached = answer.get("cached") == Some(&json!(nth > 0));
        ensure!(is_cached, "{answer}");
        if nth > 0 {
            times.push(u64::try_from(time.as_nanos())?);
        }
    }
    let [p50, p99] = [500, 990].map(|rank| to_f64(quantile(&mut times, rank)) / 1e6);
    print_line(&format!(
        "\nA search that is answered from memory: p50 {p50:.2} ms, p99 {p99:.2} ms; aim: at most {MAX_CACHED_MS} ms: {}",
        verdict(p99 <= MAX_CACHED_MS)
    ));
    Ok(())
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "missed" }
}
