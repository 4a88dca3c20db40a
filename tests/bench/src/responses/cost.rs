//! Streams that are stored beside streams that are not, of the same server.

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
    script::Script,
    server::{Launcher, Server, free_addr},
};

const STREAMS: usize = 50;
const GAP: Duration = Duration::from_millis(5);
const EVENTS: u64 = 800;
/// The single streams of a round come in blocks, stored and unstored by turns.
const BLOCKS: u32 = 5;
const BLOCK: u32 = 40;
/// The pause before each single stream, in which the server finishes writing what belongs to the
/// stream before.
const PAUSE: Duration = Duration::from_millis(8);
const TIMEOUT: Duration = Duration::from_mins(2);
/// The maximum ratio of the CPU time for each event.
const MAX_RATIO: f64 = 1.1;

/// The figures of one kind of streams, round by round.
#[derive(Default)]
struct CostFigures {
    /// CPU time for each event of many paced streams, us.
    paced: Vec<f64>,
    /// Time to the first event of a single stream, ms.
    first: Vec<f64>,
    /// CPU time of a turn with one event, us.
    turn: Vec<f64>,
}

pub(super) async fn measure(proxy: PathBuf, rounds: u32) -> anyhow::Result<PartResult> {
    let mut result = PartResult::default();
    let launcher = Launcher::new(Some(proxy))?;
    let upstream = launcher.start(Arm::Direct, free_addr()?).await?;
    let server = launcher.start(Arm::Ours, upstream.target.addr).await?;
    let mut kinds = [false, true].map(|is_stored| (is_stored, CostFigures::default()));
    // The first round fills pools and creates the store, so it is not counted.
    for round in 0..=rounds {
        print_progress(&format!("round {round} of {rounds}"));
        for (is_stored, figures) in &mut kinds {
            paced(&server, *is_stored, figures, &mut result).await?;
        }
        singles(&server, &mut kinds, &mut result).await?;
        if round == 0 {
            for (_, figures) in &mut kinds {
                *figures = CostFigures::default();
            }
        }
        kinds.reverse();
    }
    kinds.sort_by_key(|(is_stored, _)| *is_stored);
    let [(_, without), (_, with)] = kinds;
    for (title, measured, baseline, comparison, goal) in [
        (
            "CPU per event, stored, 50 streams x 5 ms (us)",
            with.paced,
            without.paced,
            Comparison::Ratio,
            Goal::AtMost(MAX_RATIO),
        ),
        (
            "first event p50, stored, 1 stream (ms)",
            with.first,
            without.first,
            Comparison::Difference,
            Goal::WithinSpread,
        ),
        (
            "CPU a turn of one event, stored (us)",
            with.turn,
            without.turn,
            Comparison::Difference,
            Goal::None,
        ),
    ] {
        result.rows.push(ResponseRow {
            title: title.to_owned(),
            baseline_name: "not stored",
            baseline,
            measured,
            comparison,
            goal,
        });
    }
    server.stop().await?;
    Ok(result)
}

async fn paced(
    server: &Server,
    is_stored: bool,
    figures: &mut CostFigures,
    result: &mut PartResult,
) -> anyhow::Result<()> {
    let more = json!({"store": is_stored});
    let request = server
        .target
        .response_request(Script::paced(EVENTS, GAP), &more);
    let request: Arc<[u8]> = request.into();
    let before = Cpu::of(server.pid)?;
    let work = load::run_requests(server.target, vec![request; STREAMS], EVENTS, GAP);
    let tally = timeout(TIMEOUT, work).await.context("paced streams hang")?;
    let spent = measure::when_idle(server.pid).await?.since(&before);
    figures
        .paced
        .push(to_f64(spent) / to_f64(tally.events.max(1)) / 1e3);
    result.check("paced streams", &tally);
    Ok(())
}

async fn singles(
    server: &Server,
    kinds: &mut [(bool, CostFigures); 2],
    result: &mut PartResult,
) -> anyhow::Result<()> {
    let mut sums = [const { (Vec::new(), 0) }; 2];
    for block in 0..BLOCKS {
        let mut order = [0, 1];
        if block % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let (Some((is_stored, _)), Some((first, cpu))) = (kinds.get(at), sums.get_mut(at))
            else {
                continue;
            };
            let more = json!({"store": is_stored});
            let request = server.target.response_request(Script::flood(1), &more);
            let before = Cpu::of(server.pid)?;
            let work = load::run_in_sequence(server.target, &request, BLOCK, PAUSE);
            let tally = timeout(TIMEOUT, work)
                .await
                .context("single streams hang")?;
            *cpu += measure::when_idle(server.pid).await?.since(&before);
            result.check("single streams", &tally);
            first.extend(tally.first_ns);
        }
    }
    for ((_, figures), (mut first, cpu)) in kinds.iter_mut().zip(sums) {
        figures.first.push(to_f64(quantile(&mut first, 500)) / 1e6);
        figures
            .turn
            .push(to_f64(cpu) / f64::from(BLOCKS * BLOCK) / 1e3);
    }
    Ok(())
}
