//! `respondent jobs`: background responses, through the running server.

use std::time::SystemTime;

use anyhow::Context;
use bytes::Bytes;
use comfy_table::CellAlignment::Left;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::Value;

use super::cli::{EXIT_DIFFERENT, EXIT_OK, JobsCommand};
use super::ids::complete_id;
use super::response_stream::ResponseStream;
use super::{ok_body, parse_answer, print_json, print_text};
use crate::app::jobs::JobList;
use crate::config::Config;
use crate::control::ControlClient;
use crate::diagnostics::listing::{age, short_duration};
use crate::log::{ClientColumn, SafeText, short_id, table};
use crate::net::LOCAL_OWNER;
use crate::store::JobEntry;

const JOBS_PATH: &str = "/diagnostics/jobs";

/// Runs a `respondent jobs` command and returns its exit code.
pub async fn run(config: &Config, command: JobsCommand) -> anyhow::Result<u8> {
    let control = ControlClient::new(config);
    match command {
        JobsCommand::List { limit, json } => list(&control, limit, json).await?,
        JobsCommand::Show { id } => {
            let path = path(&control, &id).await?;
            let body = ok_body(control.get(&path).await?)?;
            let response: Value = parse_answer(&body)?;
            print_json(&response)?;
        }
        JobsCommand::Cancel { id } => {
            let path = path(&control, &id).await? + "/cancel";
            let sent = control.send(&Method::POST, &path, Bytes::new()).await?;
            let response: CancelledResponse = parse_answer(&ok_body(sent)?)?;
            let status = SafeText::new(&response.status).to_string();
            print_text(&format!("{}: {status}\n", short_id(&response.id)))?;
        }
        JobsCommand::Tail { id } => return tail(&control, &id).await,
    }
    Ok(EXIT_OK)
}

#[derive(Deserialize)]
struct CancelledResponse {
    id: String,
    status: String,
}

async fn list(control: &ControlClient, limit: usize, json: bool) -> anyhow::Result<()> {
    let mut jobs = jobs(control).await?;
    jobs.data.truncate(limit);
    if json {
        return print_json(&jobs);
    }
    if jobs.data.is_empty() {
        return print_text("No background response is stored.\n");
    }
    print_text(&job_table(&jobs.data, SystemTime::now()))
}

fn job_table(jobs: &[JobEntry], now: SystemTime) -> String {
    let columns = [
        ("id", Left, 8),
        ("state", Left, 7),
        ("response", Left, 11),
        ("age", Left, 4),
        ("took", Left, 5),
        ("client", Left, 6),
    ];
    let clients = ClientColumn::of(jobs.iter().map(|job| job.owner.as_str()));
    let rows = jobs.iter().map(|job| {
        let took = job.started_ms.zip(job.ended_ms).map(|(started, ended)| {
            let ms = ended.saturating_sub(started);
            short_duration(ms.saturating_mul(1000))
        });
        [
            SafeText::new(&short_id(&job.id)).to_string(),
            <&str>::from(job.state).to_owned(),
            SafeText::new(&job.status).to_string(),
            age(job.queued_ms, now),
            took.unwrap_or_else(|| "-".to_owned()),
            clients.cell(&job.owner),
        ]
    });
    table(columns, rows)
}

async fn jobs(control: &ControlClient) -> anyhow::Result<JobList> {
    parse_answer(&ok_body(control.get(JOBS_PATH).await?)?)
}

/// The path of the response that a person means by the beginning of its id.
async fn path(control: &ControlClient, typed: &str) -> anyhow::Result<String> {
    let jobs = jobs(control).await?.data;
    let ids = jobs.iter().map(|job| job.id.clone());
    let id = complete_id(typed, ids)?.with_context(|| {
        format!(
            "no background response has an id that begins with {}; `respondent jobs list` shows the ids",
            SafeText::new(typed)
        )
    })?;
    let owner = jobs.iter().find(|job| job.id == id).map(|job| &job.owner);
    if let Some(client) = owner.filter(|owner| *owner != LOCAL_OWNER) {
        anyhow::bail!(
            "{} is a background response of the client {}, who alone can read and cancel it",
            short_id(&id),
            SafeText::new(client)
        );
    }
    Ok(format!("/v1/responses/{id}"))
}

async fn tail(control: &ControlClient, typed: &str) -> anyhow::Result<u8> {
    let path = path(control, typed).await? + "?stream=true";
    let mut events = ResponseStream::<TailResponse>::new();
    let mut failed = Ok(());
    let status = control
        .stream(&path, |bytes| {
            let text = events.read(bytes, |_, _| {});
            if !text.is_empty() {
                failed = print_text(&text);
            }
            failed.is_ok()
        })
        .await?;
    failed?;
    if status != StatusCode::OK {
        anyhow::bail!("the server answered {}", status.as_u16());
    }
    let ended = events.ended.map(|response| response.status);
    let ended = ended.as_deref().unwrap_or("cut off");
    if ended == "completed" {
        print_text("\n")?;
        return Ok(EXIT_OK);
    }
    print_text(&format!("\n[{}]\n", SafeText::new(ended)))?;
    Ok(EXIT_DIFFERENT)
}

/// What is read of the final response.
#[derive(Deserialize)]
struct TailResponse {
    status: String,
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::store::JobState;

    #[test]
    fn jobs_are_listed_in_a_table() {
        let job = JobEntry {
            id: "resp_0f5a19f7c3aa".into(),
            owner: "local".into(),
            state: JobState::Ended,
            status: "in_progress".into(),
            queued_ms: 1_000,
            started_ms: Some(2_000),
            ended_ms: Some(3_500),
        };
        let waiting = JobEntry {
            state: JobState::Queued,
            status: "queued".into(),
            started_ms: None,
            ended_ms: None,
            ..job.clone()
        };
        assert_eq!(
            job_table(&[job, waiting], UNIX_EPOCH + Duration::from_secs(61)),
            "\
id        state    response     age   took
0f5a19f7  ended    in_progress  60s   1.5s
0f5a19f7  queued   queued       60s   -
"
        );
    }
}
