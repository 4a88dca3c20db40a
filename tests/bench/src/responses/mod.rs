//! The cost of stored and background responses and of WebSockets: their figures beside those of the
//! same work without a store and over HTTP, round by round.
//!
//! | module | what it measures |
//! |---|---|
//! | [`chain`] | loading the history of a long chain, beside reading a file (in this process) |
//! | [`lookup`] | finding one background response among many |
//! | [`cost`] | streams that are stored beside streams that are not |
//! | [`viewers`] | the memory of clients that read a background response |
//! | [`background`] | many background responses at once, beside streams in the foreground |
//! | [`websocket`] | events over WebSockets beside server-sent events, and idle WebSockets |
//! | [`table`] | the rows of the table |

mod background;
mod chain;
mod cost;
mod lookup;
mod table;
mod viewers;
mod websocket;

use std::path::PathBuf;

use clap::ValueEnum;

use self::table::ResponseRow;
use crate::{limits, measure, print_line, print_progress, run::proxy};

/// Options of `responses`.
#[derive(Debug, clap::Args)]
pub(crate) struct ResponsesOptions {
    /// The proxy's binary [default: release/respondent in this program's target folder]
    #[arg(long, value_name = "FILE")]
    proxy: Option<PathBuf>,
    /// Rounds; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// What is measured [default: everything]
    #[arg(long, value_delimiter = ',', value_enum)]
    parts: Vec<ResponsePart>,
}

/// A part of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ResponsePart {
    Chain,
    Lookup,
    Cost,
    Viewers,
    Background,
    #[value(name = "websocket")]
    WebSocket,
}

/// What a part has measured.
#[derive(Default)]
struct PartResult {
    rows: Vec<ResponseRow>,
    /// What was wrong with the responses; empty if every event arrived and every item was there.
    faults: Vec<String>,
}

impl PartResult {
    /// Notes what was wrong with some streams, if anything was.
    fn check(&mut self, what: &str, tally: &crate::load::Tally) {
        if tally.faults > 0 {
            let (faults, reason) = (tally.faults, tally.reason.as_deref().unwrap_or_default());
            self.faults
                .push(format!("{what}: {faults} of them, first: {reason}"));
        }
    }
}

/// Measures the parts and prints a table. Returns false if an event or an item was lost or a
/// request refused.
pub(crate) async fn run(options: &ResponsesOptions) -> anyhow::Result<bool> {
    // Each viewer and each WebSocket has one socket here.
    limits::ensure_open_files(u64::from(viewers::VIEWERS.max(websocket::IDLE)) + 400)?;
    let proxy = proxy(options.proxy.as_ref())?;
    let rounds = options.rounds;
    let machine = measure::machine();
    let mut all = PartResult::default();
    for part in ResponsePart::value_variants() {
        if !options.parts.is_empty() && !options.parts.contains(part) {
            continue;
        }
        print_progress(&format!("{part:?}"));
        let proxy = proxy.clone();
        let result = match part {
            ResponsePart::Chain => chain::measure(rounds).await,
            ResponsePart::Lookup => lookup::measure(proxy, rounds).await,
            ResponsePart::Cost => cost::measure(proxy, rounds).await,
            ResponsePart::Viewers => viewers::measure(proxy, rounds).await,
            ResponsePart::Background => background::measure(proxy, rounds).await,
            ResponsePart::WebSocket => websocket::measure(proxy, rounds).await,
        }?;
        all.rows.extend(result.rows);
        all.faults.extend(result.faults);
    }
    print_line(&format!("{machine}\nat the end: {}\n", measure::machine()));
    print_line(&table::table(&all.rows));
    for fault in &all.faults {
        print_line(&format!("FAULT {fault}"));
    }
    Ok(all.faults.is_empty())
}
