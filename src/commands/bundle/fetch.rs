//! Turns from the running server, or from the folder where it keeps them when it
//! does not run.

use anyhow::Context;
use bytes::Bytes;
use http::StatusCode;

use crate::app::diagnostics::NOT_FOUND;
use crate::config::Config;
use crate::control::{Control, ControlError, Refusal};
use crate::diagnostics::capture::TurnCapture;
use crate::diagnostics::listing::TurnListing;
use crate::diagnostics::selection::BundleQuery;
use crate::log::SafeText;

const TURNS: &str = "/diagnostics/turns";

/// The bytes of a bundle.
pub(super) struct Fetched {
    pub(super) bytes: Bytes,
    /// What should be known about where they are from.
    pub(super) remarks: Vec<String>,
}

/// The wanted turns.
pub(super) async fn fetch(config: &Config, wanted: &BundleQuery) -> anyhow::Result<Fetched> {
    let control = Control::of(config);
    let path = format!("/diagnostics/bundle?{}", wanted.to_query());
    let (status, body) = match control.get(&path).await {
        Ok(answer) => answer,
        Err(ControlError::NotRunning(_)) => return from_folder(config, &control, wanted),
        Err(error) => return Err(error.into()),
    };
    if status == StatusCode::OK {
        return Ok(Fetched {
            bytes: body,
            remarks: Vec::new(),
        });
    }
    if status == StatusCode::NOT_FOUND
        && Refusal::of(&body)
            .and_then(|refusal| refusal.code)
            .as_deref()
            == Some(NOT_FOUND)
    {
        let (listing, _) = listing(config).await?;
        anyhow::bail!("{}", listing.explain_no_match(&wanted.selection));
    }
    Err(refused(status, &body))
}

/// The turns that are kept, and what should be known about where this is from.
pub async fn listing(config: &Config) -> anyhow::Result<(TurnListing, Option<String>)> {
    let control = Control::of(config);
    let (status, body) = match control.get(TURNS).await {
        Ok(answer) => answer,
        Err(ControlError::NotRunning(_)) => {
            return Ok((of_folder(config), Some(nobody(config, &control))));
        }
        Err(error) => return Err(error.into()),
    };
    if status != StatusCode::OK {
        return Err(refused(status, &body));
    }
    let listing = serde_json::from_slice(&body).context("the server's list cannot be read")?;
    Ok((listing, None))
}

fn refused(status: StatusCode, body: &[u8]) -> anyhow::Error {
    let why = Refusal::of(body).map_or_else(String::new, |refusal| refusal.message);
    anyhow::anyhow!(
        "the server answered {}: {}",
        status.as_u16(),
        SafeText::new(&why)
    )
}

fn nobody(config: &Config, control: &Control) -> String {
    format!(
        "No server runs on {}; this is from {}.",
        control.address(),
        config.server.bundles().display()
    )
}

/// What is kept on disk, without what a server would have in memory.
fn of_folder(config: &Config) -> TurnListing {
    TurnListing {
        started_ms: None,
        turns: TurnCapture::default().list(config),
    }
}

fn from_folder(
    config: &Config,
    control: &Control,
    wanted: &BundleQuery,
) -> anyhow::Result<Fetched> {
    let remark = nobody(config, control);
    let Some(bytes) = TurnCapture::default().bundle(config, wanted)? else {
        let none = of_folder(config).explain_no_match(&wanted.selection);
        anyhow::bail!("{none}\n{remark}");
    };
    Ok(Fetched {
        bytes: bytes.into(),
        remarks: vec![remark],
    })
}
