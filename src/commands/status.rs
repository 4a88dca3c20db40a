//! `respondent status`: what the running server is doing and what turns have used; without a
//! server, what its files say.

use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use http::StatusCode;

use super::{print_json, print_text};
use crate::app::status::report::{StatusReport, UsageReport};
use crate::app::status::{StatusLength, disk, usage};
use crate::config::Config;
use crate::control::{ApiError, ControlClient, ControlError};
use crate::log::SafeText;
use crate::metrics::spent::SpentToday;
use crate::metrics::usage::{DailyUsage, UsageLog};
use crate::store::{DataDir, OpenError, Store};

const STATUS_PATH: &str = "/diagnostics/status";

/// Prints the status as text of this length, or all of it as JSON.
pub async fn run(config: &Config, length: StatusLength, json: bool) -> anyhow::Result<()> {
    let control = ControlClient::new(config);
    let report = match of_server(&control).await? {
        Some(report) => report,
        None => offline(config).await?,
    };
    if json {
        return print_json(&report);
    }
    let address = control.address().to_string();
    print_text(&report.text(&address, SystemTime::now(), length))
}

/// The status of the running server; `None` if none runs.
pub(super) async fn of_server(control: &ControlClient) -> anyhow::Result<Option<StatusReport>> {
    match control.get(STATUS_PATH).await {
        Ok((StatusCode::OK, body)) => {
            let report = serde_json::from_slice(&body);
            report.context("the server's status cannot be read")
        }
        Ok((status, body)) => {
            let why = ApiError::message_in(&body);
            anyhow::bail!(
                "the server answered {}: {}",
                status.as_u16(),
                SafeText::new(&why)
            );
        }
        Err(ControlError::NotRunning(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The status while no server runs, from the files alone.
async fn offline(config: &Config) -> anyhow::Result<StatusReport> {
    let data_dir = DataDir::new(&config.server.data_dir);
    let store = match Store::open_existing(&data_dir) {
        Ok(store) => store.map(Arc::new),
        Err(OpenError::InUse(in_use)) => anyhow::bail!(
            "no server runs on {}, but {in_use}; name its address with --listen",
            ControlClient::new(config).address()
        ),
        Err(OpenError::Unusable(error)) => return Err(error.into()),
    };
    let log = UsageLog::new(DailyUsage::default(), SpentToday::default(), store);
    Ok(StatusReport {
        server: None,
        usage: usage(&log).await.map(|usage| UsageReport {
            stored: true,
            ..usage
        }),
        disk: disk(config),
    })
}
