//! Turns from the running server, or from the folder where it keeps them when it
//! does not run.

use std::time::SystemTime;

use anyhow::Context;
use bytes::Bytes;
use http::StatusCode;

use crate::app::diagnostics::NOT_FOUND;
use crate::config::Config;
use crate::control::{Control, ControlError, Refusal};
use crate::diagnostics::bundle::{Bundle, Folder};
use crate::diagnostics::capture::{Selection, Wanted};
use crate::diagnostics::line::Line;
use crate::diagnostics::listing::{Listing, Row};

const TURNS: &str = "/diagnostics/turns";

/// The bytes of a bundle.
pub(super) struct Fetched {
    pub(super) bytes: Bytes,
    /// What should be known about where they are from.
    pub(super) remarks: Vec<String>,
}

/// The wanted turns.
pub(super) async fn fetch(config: &Config, wanted: &Wanted) -> anyhow::Result<Fetched> {
    let control = Control::of(config);
    let path = format!("/diagnostics/bundle?{}", wanted.query());
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
        anyhow::bail!("{}", listing.none_of(&wanted.select));
    }
    Err(refused(status, &body))
}

/// The turns that are kept, and what should be known about where this is from.
pub async fn listing(config: &Config) -> anyhow::Result<(Listing, Option<String>)> {
    let control = Control::of(config);
    let (status, body) = match control.get(TURNS).await {
        Ok(answer) => answer,
        Err(ControlError::NotRunning(_)) => {
            return Ok((of_folder(&folder(config)?), Some(nobody(config, &control))));
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
        Line::new(&why)
    )
}

fn nobody(config: &Config, control: &Control) -> String {
    format!(
        "No server runs on {}; these are turns of {}.",
        control.address(),
        config.server.bundles().display()
    )
}

fn folder(config: &Config) -> anyhow::Result<Vec<Bundle>> {
    let files = Folder::of(config).list()?;
    // A file that cannot be read is no reason to hide the others.
    Ok(files
        .iter()
        .filter_map(|kept| Bundle::read(&kept.path).ok())
        .collect())
}

fn of_folder(bundles: &[Bundle]) -> Listing {
    Listing {
        started_ms: None,
        turns: bundles
            .iter()
            .flat_map(|bundle| &bundle.turns)
            .map(Row::of_disk)
            .collect(),
    }
}

fn from_folder(config: &Config, control: &Control, wanted: &Wanted) -> anyhow::Result<Fetched> {
    let bundles = folder(config)?;
    let listing = of_folder(&bundles);
    let remark = nobody(config, control);
    let Some(bundle) = chosen(bundles, &wanted.select, SystemTime::now()) else {
        anyhow::bail!("{remark}\n{}", listing.none_of(&wanted.select));
    };
    Ok(Fetched {
        bytes: bundle.to_bytes()?.into(),
        remarks: vec![remark],
    })
}

/// The selected turns of these bundles, which come newest first, in one: the
/// oldest turn first.
fn chosen(bundles: Vec<Bundle>, select: &Selection, now: SystemTime) -> Option<Bundle> {
    let most = match select {
        Selection::Since(_) => usize::MAX,
        Selection::Failed | Selection::Last | Selection::Response(_) | Selection::Request(_) => 1,
    };
    let mut chosen = Bundle {
        images: true,
        encrypted: true,
        ..Bundle::default()
    };
    for bundle in bundles {
        let turns = bundle.turns.into_iter();
        let turns = turns.filter(|turn| Row::of_disk(turn).is(select, now));
        let room = most - chosen.turns.len();
        let before = chosen.turns.len();
        chosen.turns.extend(turns.take(room));
        if chosen.turns.len() > before {
            chosen.images &= bundle.images;
            chosen.encrypted &= bundle.encrypted;
            chosen.made_by = bundle.made_by;
        }
    }
    chosen.turns.reverse();
    (!chosen.turns.is_empty()).then_some(chosen)
}
