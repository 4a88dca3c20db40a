//! The tool outputs that a summary lists.

use super::Line;
use crate::plan::{Artifact, Plan};
use crate::turn::Turn;

/// An output of the history that is to be kept whole and named in the summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The item.
    pub index: usize,
    /// What is kept: [`crate::plan::output::text`] of the item.
    pub artifact: Artifact,
    /// What the summary says of it.
    pub line: Line,
}

/// The outputs of the history that stay readable, newest first, at most 40: those
/// that were shortened, and whole ones of 2,000 characters and more.
pub fn artifacts(turn: &Turn<'_>, plan: &Plan) -> Vec<Listed> {
    let _ = (turn, plan);
    Vec::new()
}

/// The lines of a new blob: these outputs, and those that the summaries in the
/// history list already, each once, at most 40.
pub fn list(turn: &Turn<'_>, new: &[Listed]) -> Vec<Line> {
    let _ = turn;
    new.iter().map(|listed| listed.line.clone()).collect()
}
