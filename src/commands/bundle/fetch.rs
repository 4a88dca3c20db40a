//! Gets recorded turns from the running server, or from its bundle directory if it does not
//! run.

use anyhow::Context;
use bytes::Bytes;
use http::StatusCode;

use crate::app::diagnostics::NOT_FOUND;
use crate::commands::ids::complete_id;
use crate::config::Config;
use crate::control::{ApiError, ControlClient, ControlError};
use crate::diagnostics::capture::{CaptureWork, TurnCapture};
use crate::diagnostics::listing::TurnListing;
use crate::diagnostics::selection::{BundleQuery, Selection};
use crate::log::SafeText;
use crate::net::Owner;

const TURNS_PATH: &str = "/diagnostics/turns";

/// The bytes of a bundle file that is not written yet.
pub(super) struct FetchedBundle {
    pub(super) bytes: Bytes,
    /// Lines for the user, such as that the turns come from disk.
    pub(super) notes: Vec<String>,
}

/// A bundle of the wanted turns. The error for a selection without turns says which turns
/// there are.
pub(super) async fn fetch(config: &Config, wanted: &BundleQuery) -> anyhow::Result<FetchedBundle> {
    let wanted = &with_whole_id(config, wanted).await?;
    let control = ControlClient::new(config);
    let path = format!("/diagnostics/bundle?{}", wanted.to_query());
    let (status, body) = match control.get(&path).await {
        Ok(response) => response,
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
            .and_then(|error| error.code)
            .as_deref()
            == Some(NOT_FOUND)
    {
        let (listing, _) = listing(config).await?;
        anyhow::bail!("{}", listing.explain_no_match(&wanted.selection));
    }
    Err(server_error(status, &body))
}

/// Replaces the beginning of an id in a selection with the only id that it fits. A text that fits
/// none stays as it is.
async fn with_whole_id(config: &Config, wanted: &BundleQuery) -> anyhow::Result<BundleQuery> {
    let (typed, is_request) = match &wanted.selection {
        Selection::Request(typed) => (typed, true),
        Selection::Response(typed) => (typed, false),
        Selection::Failed | Selection::Last | Selection::Since(_) => return Ok(wanted.clone()),
    };
    let (listing, _) = listing(config).await?;
    let ids = listing.turns.into_iter().filter_map(|turn| {
        if is_request {
            Some(turn.request_id)
        } else {
            turn.response_id
        }
    });
    let id = complete_id(typed, ids)?.unwrap_or_else(|| typed.clone());
    let selection = if is_request {
        Selection::Request(id)
    } else {
        Selection::Response(id)
    };
    Ok(BundleQuery {
        selection,
        ..wanted.clone()
    })
}

/// The recorded turns, and a note for the user if they come from disk.
pub async fn listing(config: &Config) -> anyhow::Result<(TurnListing, Option<String>)> {
    let control = ControlClient::new(config);
    let (status, body) = match control.get(TURNS_PATH).await {
        Ok(response) => response,
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
    let why = ApiError::message_in(body);
    let (status, why) = (status.as_u16(), SafeText::new(&why));
    anyhow::anyhow!("the server answered {status}: {why}")
}

fn offline_note(config: &Config, control: &ControlClient) -> String {
    format!(
        "No server runs on {}; this is from {}.",
        control.address(),
        config.server.bundles_dir().display()
    )
}

/// The turns on disk; those in the memory of a server are missing.
fn listing_on_disk(config: &Config) -> TurnListing {
    TurnListing {
        started_ms: None,
        turns: TurnCapture::default().list(config, &Owner::local(), &mut CaptureWork::default()),
    }
}

fn bundle_on_disk(
    config: &Config,
    control: &ControlClient,
    wanted: &BundleQuery,
) -> anyhow::Result<FetchedBundle> {
    let note = offline_note(config, control);
    let Some(bytes) = TurnCapture::default().bundle(
        config,
        &Owner::local(),
        wanted,
        &mut CaptureWork::default(),
    )?
    else {
        let none = listing_on_disk(config).explain_no_match(&wanted.selection);
        anyhow::bail!("{none}\n{note}");
    };
    Ok(FetchedBundle {
        bytes: bytes.into(),
        notes: vec![note],
    })
}
