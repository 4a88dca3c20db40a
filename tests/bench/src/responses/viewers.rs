//! The memory of clients that read one background response, beside connections on which nothing is
//! going on.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{PartResult, table::ResponseRow};
use crate::{
    conn::Conn,
    load, measure,
    measure::to_f64,
    print_progress,
    report::{Arm, Comparison, Goal},
    request::Target,
    script::Script,
    server::{Launcher, Server, free_addr},
};

/// The clients of a server.
pub(crate) const VIEWERS: u32 = 1000;
/// The most memory of a viewer beyond its connection, KB.
const MAX_KB: f64 = 10.0;
const TIMEOUT: Duration = Duration::from_mins(2);
/// The time for a process to free its temporary memory.
const SETTLE_TIME: Duration = Duration::from_millis(1500);

pub(super) async fn measure(proxy: PathBuf, rounds: u32) -> anyhow::Result<PartResult> {
    let launcher = Launcher::new(Some(proxy))?;
    let upstream = launcher.start(Arm::Direct, free_addr()?).await?;
    let (mut viewers, mut idle) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        print_progress(&format!("round {round} of {rounds}"));
        for (is_viewer, figures) in [(true, &mut viewers), (false, &mut idle)] {
            // A fresh process: memory that was allocated earlier would hide the cost.
            let server = launcher.start(Arm::Ours, upstream.target.addr).await?;
            figures.push(memory(&server, is_viewer).await?);
            server.stop().await?;
        }
    }
    let mut result = PartResult::default();
    result.rows.push(ResponseRow {
        title: format!("RSS a viewer, {VIEWERS} viewers of one background response (KB)"),
        baseline_name: "an idle connection",
        baseline: idle,
        measured: viewers,
        comparison: Comparison::Difference,
        goal: Goal::AtMost(MAX_KB),
    });
    Ok(result)
}

/// The memory of one connection, KB.
async fn memory(server: &Server, is_viewer: bool) -> anyhow::Result<f64> {
    let target = server.target;
    let response = begin(target).await?;
    let events = target.get(&format!("/v1/responses/{response}?stream=true"));
    // The first one reads what is read once.
    let _first = load::first_event(target, &events).await?;
    sleep(SETTLE_TIME).await;
    let before = measure::rss_kb(server.pid)?;
    let open = async {
        let mut open = Vec::new();
        for _ in 0..VIEWERS {
            open.push(if is_viewer {
                load::first_event(target, &events).await?
            } else {
                load::idle_connection(target, false).await?
            });
        }
        anyhow::Ok(open)
    };
    let open = timeout(TIMEOUT, open).await.context("opening hangs")??;
    sleep(SETTLE_TIME).await;
    let after = measure::rss_kb(server.pid)?;
    drop(open);
    Ok((to_f64(after) - to_f64(before)) / f64::from(VIEWERS))
}

/// Begins a background response that goes on after its first event. Returns its id.
async fn begin(target: Target) -> anyhow::Result<String> {
    let script = Script::held(Duration::from_mins(4));
    let more = json!({"background": true, "stream": false});
    let mut conn = Conn::open(target.addr).await?;
    let reply = conn.send(&target.response_request(script, &more)).await?;
    let status = reply.status;
    let body = conn.read_to_end(reply).await?;
    ensure!(
        status == 200,
        "status {status}: {}",
        String::from_utf8_lossy(&body)
    );
    let response: Value = serde_json::from_slice(&body)?;
    let id = response.get("id").and_then(Value::as_str);
    let id = id.context("a response without id")?;
    Ok(id.to_owned())
}
