//! Loading the history of a chain of many turns, as a turn that continues it does, beside reading
//! as many bytes from one file.

use std::{fs, path::Path, sync::Arc, time::Instant};

use adapters::turn::Continuation;
use anyhow::Context;
use respondent::{
    config::HistoryConfig,
    net::LOCAL_OWNER,
    responses::ResponseStore,
    store::{DataDir, NewItem, NewResponse, ResponseText, Store, StoredOrigin, ToolChanges},
};
use serde_json::json;
use tempfile::TempDir;

use super::{PartResult, table::ResponseRow};
use crate::{
    measure::{quantile, to_f64},
    report::{Comparison, Goal},
    texts::SampleKind,
};

const TURNS: usize = 1000;
/// The items of a turn have this many bytes.
const TURN_BYTES: usize = 10_000;
/// How often the chain and the file are read in a round.
const READS: usize = 60;
/// The most times that loading may take in relation to reading the file.
const MAX_RATIO: f64 = 2.5;
/// Seconds since 1970. Nothing expires here.
const NOW: u64 = 1_760_000_000;

/// How the bytes are spread over the turns.
#[derive(Debug, Clone, Copy)]
enum ChainKind {
    /// Every turn has the same size, so that no item is large.
    Even,
    /// One turn in ten has an output that is stored as a content of its own, the others are small.
    Large,
}

impl ChainKind {
    /// The bytes of the output of a tool in a turn.
    fn output(self, turn: usize) -> usize {
        const REST: usize = 2_000;
        match self {
            Self::Even => TURN_BYTES - REST,
            Self::Large if turn % 10 == 9 => 10 * (TURN_BYTES - REST),
            Self::Large => 0,
        }
    }
}

pub(super) async fn measure(rounds: u32) -> anyhow::Result<PartResult> {
    let mut result = PartResult::default();
    for (kind, name) in [
        (ChainKind::Even, "outputs of 8 KB"),
        (ChainKind::Large, "100 outputs of 80 KB"),
    ] {
        measure_kind(kind, name, rounds, &mut result).await?;
    }
    Ok(result)
}

async fn measure_kind(
    kind: ChainKind,
    name: &str,
    rounds: u32,
    result: &mut PartResult,
) -> anyhow::Result<()> {
    let folder = TempDir::with_prefix("respondent-bench")?;
    let store = Arc::new(Store::open(&DataDir::new(folder.path()), NOW)?);
    let expected = fill(&store, kind).await?;
    let file = folder.path().join("history.json");
    fs::write(&file, &expected)?;
    let responses = ResponseStore::new(Some(store));
    let last = Continuation::Response(id(TURNS - 1));
    let mut figures = [const { Vec::new() }; 4];
    for _ in 0..rounds {
        let (mut loads, mut reads) = (Vec::new(), Vec::new());
        for _ in 0..READS {
            reads.push(read(&file, expected.len())?);
            let start = Instant::now();
            let loaded = responses.load(LOCAL_OWNER, &last, HistoryConfig::default(), NOW);
            let (loaded, _share) = loaded.await.map_err(|fault| {
                anyhow::anyhow!("the chain cannot be loaded: {}", fault.message)
            })?;
            loads.push(nanoseconds(start));
            if *loaded.items != *expected {
                result
                    .faults
                    .push(format!("the chain with {name} is not whole"));
            }
        }
        let [load, read, load_p95, read_p95] = &mut figures;
        for (times, p50, p95) in [(&mut loads, load, load_p95), (&mut reads, read, read_p95)] {
            p50.push(to_f64(quantile(times, 500)) / 1e6);
            p95.push(to_f64(quantile(times, 950)) / 1e6);
        }
    }
    let [load, read, load_p95, read_p95] = figures;
    let size = to_f64(expected.len() as u64) / 1e6;
    for (rank, measured, baseline, goal) in [
        ("p50", load, read, Goal::None),
        ("p95", load_p95, read_p95, Goal::AtMost(MAX_RATIO)),
    ] {
        result.rows.push(ResponseRow {
            title: format!("loading {TURNS} turns, {size:.1} MB, {name}, {rank} (ms)"),
            baseline_name: "reading one file",
            baseline,
            measured,
            comparison: Comparison::Ratio,
            goal,
        });
    }
    Ok(())
}

/// The time of reading the file, ns.
fn read(file: &Path, size: usize) -> anyhow::Result<u64> {
    let start = Instant::now();
    let bytes = fs::read(file)?;
    let time = nanoseconds(start);
    anyhow::ensure!(bytes.len() == size, "the file is not whole");
    Ok(time)
}

fn nanoseconds(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn id(turn: usize) -> String {
    format!("resp_{turn:032x}")
}

/// Stores the chain. Returns its items as a JSON list.
async fn fill(store: &Store, kind: ChainKind) -> anyhow::Result<String> {
    let mut list = String::from("[");
    for turn in 0..TURNS {
        let (input, output) = items(kind, turn);
        for item in input.iter().chain(&output) {
            list.push_str(&item.json);
            list.push(',');
        }
        let response = NewResponse {
            id: id(turn),
            owner: LOCAL_OWNER.to_owned(),
            session: "bench".to_owned(),
            origin: match turn.checked_sub(1) {
                Some(before) => StoredOrigin::Response(id(before)),
                None => StoredOrigin::Nothing,
            },
            input,
            prefixes: Vec::new(),
            output,
            text: ResponseText {
                head: "{\"object\":\"response\",\"output\":[".to_owned(),
                tail: "],\"status\":\"completed\"".to_owned(),
                parameters: ",\"model\":\"bench\"".to_owned(),
            },
            status: "completed",
            created: NOW,
            now: NOW,
            spent: None,
            tools: ToolChanges::default(),
            paused: None,
        };
        store
            .put_response(response)
            .await
            .context("a turn cannot be stored")?;
    }
    list.pop();
    list.push(']');
    Ok(list)
}

/// The result of the last call, and what the model answers: a message and a call.
fn items(kind: ChainKind, turn: usize) -> (Vec<NewItem>, Vec<NewItem>) {
    let call = |turn: usize| format!("call_{turn:024}");
    let output = SampleKind::for_round(turn).sample(kind.output(turn));
    let message = SampleKind::Prose.sample(1_000);
    let result = json!({"id": format!("fco_{turn:032x}"), "type": "function_call_output",
        "call_id": call(turn), "output": format!("{turn}\n{output}")});
    let message = json!({"id": format!("msg_{turn:032x}"), "type": "message", "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": message, "annotations": []}]});
    let next = json!({"id": format!("fc_{turn:032x}"), "type": "function_call", "name": "shell",
        "call_id": call(turn + 1), "status": "completed",
        "arguments": json!({"command": ["sed", "-n", format!("{turn},+40p"), "src/reader.rs"]}).to_string()});
    let stored = |item: serde_json::Value| NewItem {
        id: item
            .get("id")
            .and_then(serde_json::Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        json: item.to_string(),
    };
    (
        vec![stored(result)],
        [message, next].into_iter().map(stored).collect(),
    )
}
