//! `GET /diagnostics/status`: what the server is doing and has done.

pub mod report;
mod text;

use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::extract::State;
use http::Response;

use super::diagnostics::no_result;
use super::{AppState, respond_with_json};
use crate::clock::{Clock, System, local_day};
use crate::config::Config;
use crate::diagnostics::bundle::BundleFolder;
use crate::log;
use crate::metrics::usage::UsageLog;
use crate::net::Owner;
use crate::store::DataDir;
use report::{DiskReport, ServerReport, StatusReport, UsageReport, WEEK};
pub use text::StatusLength;

/// The most turns that have ended and are listed.
const RECENT_TURNS: usize = 5;

/// `GET /diagnostics/status`: a [`StatusReport`].
pub(super) async fn status(State(app): State<AppState>) -> Response<Body> {
    let config = app.service.config.load_full();
    let providers = app.service.provider_reports(&config);
    let learned = app.service.learned_report(&config);
    let running = app.service.running.list();
    let files = config.source_files.iter();
    let config_files = files.map(|file| whole_path(file)).collect();
    let usage = usage(&app.usage).await;
    let jobs = app.jobs.as_ref().map(|jobs| jobs.counts());
    let jobs = jobs.unwrap_or_default();
    let read = app.capture.run_work(&app.memory, move |capture, work| {
        let mut recent = capture.list(&config, &Owner::local(), work);
        recent.truncate(RECENT_TURNS);
        (recent, disk(&config))
    });
    let (recent, disk) = match read.await {
        Ok(read) => read,
        Err(error) => return no_result(&error),
    };
    respond_with_json(&StatusReport {
        server: Some(ServerReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_ms: app.started_ms,
            config_files,
            log_file: log::current_file().map(whole_path),
            running,
            recent,
            providers,
            queued_jobs: jobs.queued,
            running_jobs: jobs.running,
            whole_sessions: app.service.whole_sessions(),
            web: app.service.metrics.web().activity(),
            learned,
        }),
        usage,
        disk,
    })
}

/// The path as it is from any working directory.
fn whole_path(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// What was used today and this week; `None` if it cannot be read.
pub async fn usage(log: &UsageLog) -> Option<UsageReport> {
    let today = local_day(System.unix());
    let sums = log.since(today - WEEK + 1).await;
    match sums {
        Ok(sums) => Some(UsageReport::new(&sums, today, log.is_stored())),
        Err(error) => {
            tracing::warn!("the usage of turns cannot be read: {error}");
            None
        }
    }
}

/// What the files of a server take. Blocks.
pub fn disk(config: &Config) -> DiskReport {
    let bundles = BundleFolder::from_config(config).list().unwrap_or_default();
    DiskReport {
        data_dir: config.server.data_dir.display().to_string(),
        database_bytes: DataDir::new(&config.server.data_dir).database_bytes(),
        recorded_turns: bundles.len(),
        recorded_bytes: bundles.iter().map(|bundle| bundle.bytes).sum(),
    }
}
