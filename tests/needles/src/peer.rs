//! What another context proxy shows of the cases: Headroom, which `peer.py` runs.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use crate::case::Case;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peer.py");

/// Why the peer was not run, and how it is installed.
pub(crate) const SKIPPED: &str = "The peer is skipped: there is no program headroom. \
    `pip install 'headroom-ai[proxy]'` installs it; `--peer FILE` names it.";

/// What the peer showed of a case.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct PeerOutcome {
    pub(crate) shown_chars: usize,
    pub(crate) is_visible: bool,
}

/// A line of what the script prints.
#[derive(Deserialize)]
struct Row {
    id: String,
    #[serde(flatten)]
    outcome: PeerOutcome,
}

/// The program that was named, or the one on the search path. `None` if there is none.
pub(crate) fn program(named: Option<&PathBuf>) -> anyhow::Result<Option<PathBuf>> {
    if let Some(named) = named {
        ensure!(named.is_file(), "there is no peer {}", named.display());
        return Ok(Some(std::path::absolute(named)?));
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut programs = std::env::split_paths(&paths).map(|folder| folder.join("headroom"));
    Ok(programs.find(|program| program.is_file()))
}

/// Sends the cases through the peer. The result has what it showed of each, by the id of the case.
pub(crate) fn outcomes(
    program: &Path,
    cases: &[Case],
) -> anyhow::Result<BTreeMap<String, PeerOutcome>> {
    let folder = tempfile::tempdir()?;
    for case in cases {
        super::write(folder.path(), case, "")?;
    }
    let output = Command::new("python3")
        .arg(SCRIPT)
        .args([folder.path(), program])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run python3")?;
    ensure!(output.status.success(), "{SCRIPT}: {}", output.status);
    let rows: Vec<Row> = serde_json::from_slice(&output.stdout)?;
    let outcomes = rows.into_iter().map(|row| (row.id, row.outcome));
    Ok(outcomes.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_is_named_must_be_there() {
        assert!(program(Some(&SCRIPT.into())).unwrap().is_some());
        assert!(program(Some(&format!("{SCRIPT}.not").into())).is_err());
    }
}
