//! Finding one background response among many: in this process, and over HTTP.

use std::{path::PathBuf, time::Instant};

use anyhow::{Context, ensure};
use respondent::{
    clock::{Clock, System},
    net::LOCAL_OWNER,
    store::{
        DataDir, EndedJob, EventBatch, NewItem, NewJob, NewResponse, ResponseText, Store,
        StoredOrigin, ToolChanges,
    },
};
use serde_json::json;
use tempfile::TempDir;

use super::{PartResult, table::ResponseRow};
use crate::{
    conn::Conn,
    measure::{quantile, to_f64},
    report::{Arm, Comparison, Goal},
    server::{Launcher, free_addr},
};

const JOBS: usize = 10_000;
/// How many are looked up in a round.
const LOOKUPS: usize = 1000;
/// The longest time for 95 of 100, ms.
const MAX_MS: f64 = 2.0;

pub(super) async fn measure(proxy: PathBuf, rounds: u32) -> anyhow::Result<PartResult> {
    let mut result = PartResult::default();
    let folder = TempDir::with_prefix("respondent-bench")?;
    let store = Store::open(&DataDir::new(folder.path()), System.unix())?;
    fill(&store).await?;
    let (mut found, mut read) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let (mut jobs, mut responses) = (Vec::new(), Vec::new());
        for id in ids(round) {
            let start = Instant::now();
            let job = store.job(LOCAL_OWNER, &id).await?;
            jobs.push(nanoseconds(start));
            let start = Instant::now();
            let response = store.response(LOCAL_OWNER, &id).await?;
            responses.push(nanoseconds(start));
            let is_right = job.is_some_and(|job| job.id == id)
                && response.is_some_and(|response| response.json.contains(&id));
            if !is_right {
                result.faults.push(format!("{id} is not found"));
            }
        }
        found.push(p95(jobs));
        read.push(p95(responses));
    }
    drop(store);
    let launcher = Launcher::new(Some(proxy))?.with_data_dir(folder.path().to_owned());
    // No request goes to the upstream.
    let server = launcher.start(Arm::Ours, free_addr()?).await?;
    let mut retrieved = Vec::new();
    let mut conn = Conn::open(server.target.addr).await?;
    for round in 0..rounds {
        let mut times = Vec::new();
        for id in ids(round) {
            let request = server.target.get(&format!("/v1/responses/{id}"));
            let start = Instant::now();
            let reply = conn.send(&request).await?;
            let status = reply.status;
            let body = conn.read_to_end(reply).await?;
            times.push(nanoseconds(start));
            ensure!(status == 200, "status {status} for {id}");
            if !String::from_utf8_lossy(&body).contains(&id) {
                result
                    .faults
                    .push(format!("{id} is not what was asked for"));
            }
        }
        retrieved.push(p95(times));
    }
    server.stop().await?;
    for (what, measured) in [
        ("its run", found),
        ("its response", read),
        ("its response over HTTP", retrieved),
    ] {
        result.rows.push(ResponseRow {
            title: format!("one of {JOBS} background responses, {what}, p95 (ms)"),
            baseline_name: "",
            baseline: Vec::new(),
            measured,
            comparison: Comparison::Absolute,
            goal: Goal::AtMost(MAX_MS),
        });
    }
    Ok(result)
}

/// The ids to look up in a round, spread over all.
fn ids(round: u32) -> impl Iterator<Item = String> {
    // A step that shares no factor with the number of jobs reaches every one of them.
    const STEP: usize = 7919;
    (0..LOOKUPS).map(move |at| id((at + round as usize * LOOKUPS) * STEP % JOBS))
}

fn id(job: usize) -> String {
    // Random ids lie anywhere in the index.
    let scattered = (job as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    format!("resp_{scattered:032x}")
}

fn p95(mut times: Vec<u64>) -> f64 {
    to_f64(quantile(&mut times, 950)) / 1e6
}

fn nanoseconds(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Stores background responses that have ended, each with an answer and a log of 4 KB.
async fn fill(store: &Store) -> anyhow::Result<()> {
    let now = System.unix();
    for job in 0..JOBS {
        let id = id(job);
        let text = |status: &str| ResponseText {
            head: format!(
                "{{\"id\":\"{id}\",\"object\":\"response\",\"status\":\"{status}\",\"background\":true,\"output\":["
            ),
            tail: "],\"error\":null".to_owned(),
            parameters: ",\"model\":\"bench\",\"tools\":[]".to_owned(),
        };
        let event = json!({"type": "response.output_text.delta", "delta": "a ".repeat(100)});
        let event = event.to_string();
        let events = |count: usize, first| {
            EventBatch::new(first, std::iter::repeat_n(event.as_bytes(), count))
        };
        let new = NewJob {
            id: id.clone(),
            owner: LOCAL_OWNER.to_owned(),
            text: text("queued"),
            created: now,
            request: json!({"model": "bench", "input": "a".repeat(1_000)}).to_string(),
            headers: "{}".to_owned(),
            events: events(1, 0),
            now_ms: now * 1_000,
        };
        let message = format!("msg_{job:032x}");
        let answer = json!({"id": message, "type": "message", "role": "assistant",
            "content": [{"type": "output_text", "text": "a ".repeat(1_000)}]});
        let ended = NewResponse {
            id: id.clone(),
            owner: LOCAL_OWNER.to_owned(),
            session: id.clone(),
            origin: StoredOrigin::Nothing,
            input: Vec::new(),
            prefixes: Vec::new(),
            output: vec![NewItem {
                id: message,
                json: answer.to_string(),
            }],
            text: text("completed"),
            status: "completed",
            created: now,
            now,
            spent: None,
            tools: ToolChanges::default(),
            paused: None,
        };
        store.create_job(new).await?;
        let end = EndedJob {
            response: ended.into(),
            events: events(16, 1),
            was_interrupted: false,
            deliveries: Vec::new(),
            now_ms: now * 1_000,
        };
        store
            .finish_job(end)
            .await
            .context("a run cannot be stored")?;
    }
    Ok(())
}
