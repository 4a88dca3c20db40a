//! Turns from the running server, or from the folder where it keeps them when it
//! does not run.

use std::time::SystemTime;

use anyhow::Context;
use bytes::Bytes;
use http::StatusCode;

use crate::app::diagnostics::NOT_FOUND;
use crate::config::Config;
use crate::control::{Control, ControlError, Refusal};
use crate::diagnostics::bundle::{Bundle, Folder, Kept};
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
        "No server runs on {}; this is from {}.",
        control.address(),
        config.server.bundles().display()
    )
}

fn folder(config: &Config) -> anyhow::Result<Vec<Kept>> {
    Folder::of(config)
        .list()
        .with_context(|| format!("{} cannot be read", config.server.bundles().display()))
}

/// A file that cannot be read is no reason to hide the others.
fn read(kept: &Kept) -> Option<Bundle> {
    Bundle::read(&kept.path).ok()
}

fn of_folder(files: &[Kept]) -> Listing {
    let bundles = files.iter().filter_map(read);
    let rows = bundles.flat_map(|bundle| bundle.turns.iter().map(Row::of_disk).collect::<Vec<_>>());
    Listing {
        started_ms: None,
        turns: rows.collect(),
    }
}

fn from_folder(config: &Config, control: &Control, wanted: &Wanted) -> anyhow::Result<Fetched> {
    let files = folder(config)?;
    let remark = nobody(config, control);
    let bundles = files.iter().filter_map(read);
    let Some(bundle) = chosen(bundles, &wanted.select, SystemTime::now()) else {
        let none = of_folder(&files).none_of(&wanted.select);
        anyhow::bail!("{none}\n{remark}");
    };
    Ok(Fetched {
        bytes: bundle.to_bytes()?.into(),
        remarks: vec![remark],
    })
}

/// The selected turns of these bundles, which come newest first, in one: the
/// oldest turn first.
fn chosen(
    bundles: impl Iterator<Item = Bundle>,
    select: &Selection,
    now: SystemTime,
) -> Option<Bundle> {
    let all = match select {
        Selection::Since(_) => true,
        Selection::Failed | Selection::Last | Selection::Response(_) | Selection::Request(_) => {
            false
        }
    };
    let selected = bundles.filter_map(|mut bundle| {
        bundle
            .turns
            .retain(|turn| Row::of_disk(turn).is(select, now));
        (!bundle.turns.is_empty()).then_some(bundle)
    });
    let mut selected: Vec<Bundle> = selected.take(if all { usize::MAX } else { 1 }).collect();
    selected.reverse();
    Some(Bundle {
        made_by: selected.last()?.made_by.clone(),
        images: selected.iter().all(|bundle| bundle.images),
        encrypted: selected.iter().all(|bundle| bundle.encrypted),
        turns: selected
            .into_iter()
            .flat_map(|bundle| bundle.turns)
            .collect(),
    })
}
