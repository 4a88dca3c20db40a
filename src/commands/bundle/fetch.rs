//! Turns from the running server, or from the folder where it keeps them when it
//! does not run.

use anyhow::Context;
use bytes::Bytes;
use http::StatusCode;

use crate::app::diagnostics::NOT_FOUND;
use crate::config::Config;
use crate::control::{ApiError, ControlClient, ControlError};
use crate::diagnostics::capture::{Capture, Wanted};
use crate::diagnostics::line::Line;
use crate::diagnostics::listing::Listing;

const TURNS_PATH: &str = "/diagnostics/turns";

/// The bytes of a bundle.
pub(super) struct FetchedBundle {
    pub(super) bytes: Bytes,
    /// What should be known about where they are from.
    pub(super) notes: Vec<String>,
}

/// The wanted turns.
pub(super) async fn fetch(config: &Config, wanted: &Wanted) -> anyhow::Result<FetchedBundle> {
    let control = ControlClient::new(config);
    let path = format!("/diagnostics/bundle?{}", wanted.query());
    let (status, body) = match control.get(&path).await {
        Ok(answer) => answer,
        Err(ControlError::NotRunning(_)) => return bundle_on_disk(config, &control, wanted),
        Err(error) => return Err(error.into()),
    };
    if status == StatusCode::OK {
        return Ok(FetchedBundle {
            bytes: body,
            notes: Vec::new(),
        });
    }
    if status == StatusCode::NOT_FOUND
        && ApiError::from_body(&body)
            .and_then(|refusal| refusal.code)
            .as_deref()
            == Some(NOT_FOUND)
    {
        let (listing, _) = listing(config).await?;
        anyhow::bail!("{}", listing.none_of(&wanted.select));
    }
    Err(server_error(status, &body))
}

/// The turns that are kept, and what should be known about where this is from.
pub async fn listing(config: &Config) -> anyhow::Result<(Listing, Option<String>)> {
    let control = ControlClient::new(config);
    let (status, body) = match control.get(TURNS_PATH).await {
        Ok(answer) => answer,
        Err(ControlError::NotRunning(_)) => {
            return Ok((
                listing_on_disk(config),
                Some(offline_note(config, &control)),
            ));
        }
        Err(error) => return Err(error.into()),
    };
    if status != StatusCode::OK {
        return Err(server_error(status, &body));
    }
    let listing = serde_json::from_slice(&body).context("the server's list cannot be read")?;
    Ok((listing, None))
}

fn server_error(status: StatusCode, body: &[u8]) -> anyhow::Error {
    let why = ApiError::from_body(body).map_or_else(String::new, |refusal| refusal.message);
    anyhow::anyhow!(
        "the server answered {}: {}",
        status.as_u16(),
        Line::new(&why)
    )
}

fn offline_note(config: &Config, control: &ControlClient) -> String {
    format!(
        "No server runs on {}; this is from {}.",
        control.address(),
        config.server.bundles_dir().display()
    )
}

/// What is kept on disk, without what a server would have in memory.
fn listing_on_disk(config: &Config) -> Listing {
    Listing {
        started_ms: None,
        turns: Capture::default().rows(config),
    }
}

fn bundle_on_disk(
    config: &Config,
    control: &ControlClient,
    wanted: &Wanted,
) -> anyhow::Result<FetchedBundle> {
    let remark = offline_note(config, control);
    let Some(bytes) = Capture::default().bundle(config, wanted)? else {
        let none = listing_on_disk(config).none_of(&wanted.select);
        anyhow::bail!("{none}\n{remark}");
    };
    Ok(FetchedBundle {
        bytes: bytes.into(),
        notes: vec![remark],
    })
}
